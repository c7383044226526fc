// Fee, limits and costs of transactions, against cases computed by hand from agave's rules.
import { describe, expect, it } from 'vitest'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { programs } from '../../../src/chain/solana/programs.ts'
import { TransactionLayout } from '../../../src/chain/solana/transaction.ts'
import {
  buildTransaction,
  type Instruction,
  memoInstruction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from '../../../src/devnode/build.ts'
import { feeOf } from '../../../src/devnode/fee.ts'
import { costUnitsOf } from '../../../src/devnode/landing.ts'

const from = Keypair.derive(new Uint8Array(32), 'from')
const second = Keypair.derive(new Uint8Array(32), 'second')
const to = Keypair.derive(new Uint8Array(32), 'to').publicKey
const blockhash = new Uint8Array(32).fill(1)
const layout = new TransactionLayout()
const transfer = transferInstruction(from.publicKey, to, 1n)

function feeFor(instructions: Instruction[], signers = [from]) {
  const bytes = buildTransaction({ signers, blockhash, instructions })
  expect(layout.decode(bytes)).toBe('ok')
  return feeOf(layout, bytes)
}

const budget = (...data: number[]): Instruction => ({
  program: programs.computeBudget,
  accounts: [],
  data: Uint8Array.from(data),
})
const verifier = (program: Uint8Array, count: number): Instruction => ({
  program,
  accounts: [],
  data: Uint8Array.of(count),
})

describe('the cost of a landed transaction', () => {
  it('adds signatures, write locks, data, units and pages', () => {
    const cost = (
      instructions: Instruction[],
      ran: { units: bigint; loadedBytes: number },
      signers = [from],
    ) => costUnitsOf(layout, feeFor(instructions, signers), ran)
    // 720 + 2 x 300 + 12 / 4 + 150 + one page of 8.
    expect(cost([transfer], { units: 150n, loadedBytes: 149 })).toBe(1_481n)
    // A payer alone; a memo of 7 bytes; two pages from the first byte beyond 32 KiB.
    expect(cost([memoInstruction('7 bytes')], { units: 9n, loadedBytes: 32_768 })).toBe(1_038n)
    expect(cost([memoInstruction('7 bytes')], { units: 9n, loadedBytes: 32_769 })).toBe(1_046n)
    // One that only paid loads and runs nothing.
    expect(cost([memoInstruction('7 bytes')], { units: 0n, loadedBytes: 0 })).toBe(1_021n)
    // Two signers, both writable.
    expect(cost([transfer], { units: 150n, loadedBytes: 213 }, [from, second])).toBe(2_501n)
    const verifiers = [
      verifier(programs.ed25519, 1),
      verifier(programs.secp256k1, 2),
      verifier(programs.secp256r1, 3),
    ]
    expect(cost(verifiers, { units: 0n, loadedBytes: 0 })).toBe(
      720n + 300n + 2_400n + 2n * 6_690n + 3n * 4_800n,
    )
  })
})

describe('requested limits', () => {
  it('are read once each, and refused where a validator cannot read them', () => {
    expect(feeFor([transfer])).toMatchObject({ loadedBytes: 67_108_864, malformed: null })
    expect(feeFor([transfer, budget(4, 0, 1, 0, 0)])).toMatchObject({ loadedBytes: 256, err: null })
    expect(feeFor([budget(4, 255, 255, 255, 255)])).toMatchObject({ loadedBytes: 67_108_864 })
    expect(feeFor([budget(4, 0, 0, 0, 0)])).toMatchObject({
      err: 'InvalidLoadedAccountsDataSizeLimit',
    })
    expect(feeFor([transfer, budget(1, 0, 128, 0, 0)])).toMatchObject({ err: null })
    for (const bytes of [
      [1, 128, 0, 0],
      [0, 64, 0, 0],
      [0, 4, 4, 0],
    ])
      expect(feeFor([transfer, budget(1, ...bytes)])).toMatchObject({
        err: { InstructionError: [1, 'InvalidInstructionData'] },
        malformed: null,
      })
    for (const data of [[], [0], [5, 0, 0, 0, 0], [2, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0]])
      expect(feeFor([transfer, budget(...data)])).toMatchObject({
        malformed: { InstructionError: [1, 'InvalidInstructionData'] },
      })
    const twice = [unitLimitInstruction(1), unitPriceInstruction(1n), unitLimitInstruction(2)]
    expect(feeFor(twice)).toMatchObject({ malformed: { DuplicateInstruction: 2 } })
  })

  it('count signatures inside instructions in the fee', () => {
    const fee = feeFor([verifier(programs.ed25519, 2), verifier(programs.secp256r1, 1)])
    expect(fee).toMatchObject({ lamports: 20_000n, precompileSignatures: [2, 0, 1] })
  })
})
