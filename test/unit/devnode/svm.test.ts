// The VM by itself: what it writes, what it refuses, what it loads.
import { describe, expect, it } from 'vitest'
import { buildTransaction, transferInstruction } from '../../../src/devnode/build.ts'
import type { VmAccount } from '../../../src/devnode/executed.ts'
import { Svm } from '../../../src/devnode/svm.ts'
import { Keypair } from '../../../src/solana/keypair.ts'
import { programs } from '../../../src/solana/programs.ts'

const seed = new Uint8Array(32).fill(2)
const payer = Keypair.derive(seed, 'payer')
const nonce = new Uint8Array(32)
const blockhash = new Uint8Array(32).fill(1)

const wallet: VmAccount = {
  pubkey: payer.publicKey,
  lamports: 1_000_000_000n,
  owner: programs.system,
  executable: false,
  rentEpoch: 0n,
  data: new Uint8Array(0),
}

function run(svm: Svm, instruction: Parameters<typeof buildTransaction>[0]['instructions'][0]) {
  const bytes = buildTransaction({ signers: [payer], blockhash, instructions: [instruction] })
  return svm.execute(bytes, { nonce, nonceIndex: -1, mustVerify: true })
}

describe('the VM', () => {
  it('returns the written accounts and whether the fee was charged', () => {
    const svm = new Svm()
    expect(svm.load([wallet])).toBe(0)
    const to = Keypair.derive(seed, 'to').publicKey
    const done = run(svm, transferInstruction(payer.publicKey, to, 1_000_000n))
    expect(done).toMatchObject({ err: null, isCharged: true, units: 150n })
    expect(done.accounts.map(({ lamports }) => lamports)).toEqual([998_995_000n, 1_000_000n])
    const failed = run(svm, transferInstruction(payer.publicKey, to, 10n ** 15n))
    expect(failed).toMatchObject({ err: { InstructionError: [0, { Custom: 1 }] }, isCharged: true })
    expect(failed.accounts).toHaveLength(1)
  })

  it('takes programs back from the ledger, their code first', () => {
    const svm = new Svm()
    const [program, code] = svm.genesis([programs.token])
    const codeKey = Keypair.derive(seed, 'code').publicKey
    const programKey = Keypair.derive(seed, 'program').publicKey
    const data = new Uint8Array(program!.data)
    data.set(codeKey, 4)
    const accounts = [
      wallet,
      { ...code!, pubkey: codeKey },
      { ...program!, pubkey: programKey, data },
    ]
    expect(svm.load(accounts)).toBe(0)
    const done = run(svm, { program: programKey, accounts: [], data: Uint8Array.of(12, 0) })
    expect(done.err).toEqual({ InstructionError: [0, { Custom: 12 }] })
    expect(done.logs[1]).toBe('Program log: Error: Invalid instruction')
  })

  it('reports a missing program, and refuses bytes that are no transaction', () => {
    const svm = new Svm()
    svm.load([wallet])
    const nowhere = Keypair.derive(seed, 'nowhere').publicKey
    const missing = run(svm, { program: nowhere, accounts: [], data: new Uint8Array(0) })
    expect(missing).toMatchObject({ err: 'ProgramAccountNotFound', isCharged: false })
    for (const bytes of [new Uint8Array(0), Uint8Array.of(1), new Uint8Array(200).fill(255)]) {
      const refused = { err: 'SanitizeFailure', isCharged: false }
      expect(svm.execute(bytes, { nonce, nonceIndex: -1, mustVerify: true })).toMatchObject(refused)
      expect(svm.simulate(bytes, { mustVerify: false })).toMatchObject(refused)
    }
  })
})
