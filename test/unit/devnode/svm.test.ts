// The VM by itself: what it writes, what it refuses, what it charges, what it loads.
import fc from 'fast-check'
import { Account, LiteSvm } from 'litesvm/dist/internal.js'
import { describe, expect, it } from 'vitest'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { programs } from '../../../src/chain/solana/programs.ts'
import { TransactionLayout } from '../../../src/chain/solana/transaction.ts'
import {
  buildTransaction,
  type Instruction,
  memoInstruction,
  transferInstruction,
  unitPriceInstruction,
} from '../../../src/devnode/build.ts'
import { feeOf } from '../../../src/devnode/fee.ts'
import { Svm, type VmAccount } from '../../../src/devnode/svm.ts'
import { type V1Parts, v1Transaction } from '../../testkit/transaction-v1.ts'

const seed = new Uint8Array(32).fill(2)
const payer = Keypair.derive(seed, 'payer')
const to = Keypair.derive(seed, 'to').publicKey
const nowhere = Keypair.derive(seed, 'nowhere').publicKey
const nonce = new Uint8Array(32)
const blockhash = new Uint8Array(32).fill(1)
const layout = new TransactionLayout({ v1: true })

const wallet: VmAccount = {
  pubkey: payer.publicKey,
  lamports: 1_000_000_000n,
  owner: programs.system,
  executable: false,
  rentEpoch: 0n,
  data: new Uint8Array(0),
}

const account = () => null

function opened(...accounts: VmAccount[]): Svm {
  const svm = new Svm()
  expect(svm.load([wallet, ...accounts])).toBe(0)
  return svm
}

function signed(...instructions: Instruction[]): Uint8Array {
  return buildTransaction({ signers: [payer], blockhash, instructions })
}

function optionsOf(bytes: Uint8Array) {
  layout.decode(bytes)
  return { nonce, nonceIndex: -1, mustVerify: true, fee: feeOf(layout, bytes), account }
}

function run(svm: Svm, ...instructions: Instruction[]) {
  const bytes = signed(...instructions)
  return svm.execute(bytes, optionsOf(bytes))
}

function simulate(svm: Svm, ...instructions: Instruction[]) {
  const bytes = signed(...instructions)
  return svm.simulate(bytes, { ...optionsOf(bytes), refused: null })
}

function limit(bytes: number): Instruction {
  const data = Buffer.alloc(5)
  data[0] = 4
  data.writeUInt32LE(bytes, 1)
  return { program: programs.computeBudget, accounts: [], data }
}

const call = (program: Uint8Array): Instruction => ({
  program,
  accounts: [],
  data: new Uint8Array(0),
})

describe('the VM', () => {
  it('returns the written accounts and whether the fee was charged', () => {
    const svm = opened()
    const done = run(svm, transferInstruction(payer.publicKey, to, 1_000_000n))
    expect(done).toMatchObject({ err: null, isCharged: true, units: 150n, loadedBytes: 149 })
    expect(done.accounts.map(({ lamports }) => lamports)).toEqual([998_995_000n, 1_000_000n])
    const failed = run(svm, transferInstruction(payer.publicKey, to, 10n ** 15n))
    expect(failed).toMatchObject({ err: { InstructionError: [0, { Custom: 1 }] }, isCharged: true })
    expect(failed.accounts.map(({ lamports }) => lamports)).toEqual([998_990_000n])
    const tried = simulate(svm, transferInstruction(payer.publicKey, to, 10n ** 15n))
    expect(tried.accounts.map(({ lamports }) => lamports)).toEqual([998_985_000n])
  })

  it('charges the fee that the VM charges, whichever programs are called', () => {
    const bid = unitPriceInstruction(1_000_000n)
    for (const program of Object.values(programs)) {
      if (program === programs.computeBudget) continue
      const bytes = signed(bid, call(program))
      const { lamports } = optionsOf(bytes).fee
      const vm = new LiteSvm()
      vm.setBlockhashCheck(false)
      const none = new Uint8Array(0)
      vm.setAccount(payer.publicKey, new Account(10n ** 9n, none, programs.system, false, 0n))
      vm.sendVersionedTransaction(bytes)
      const paid = 10n ** 9n - vm.getBalance(payer.publicKey)!
      // The VM does not charge one that it cannot load.
      if (paid > 0n) expect(paid).toBe(lamports)
    }
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
    expect(done.logs![1]).toBe('Program log: Error: Invalid instruction')
  })

  it('charges a transaction that cannot be loaded, and does not run it', () => {
    const plain = { ...wallet, pubkey: to }
    const cases = [
      [call(nowhere), 'ProgramAccountNotFound'],
      [call(to), 'InvalidProgramForExecution'],
      [limit(10), 'MaxLoadedAccountsDataSizeExceeded'],
    ] as const
    for (const [instruction, err] of cases) {
      const svm = opened(plain)
      const charged = { err, isCharged: true, logs: null, inner: null, units: 0n, loadedBytes: 0 }
      const tried = simulate(svm, instruction)
      expect(tried).toMatchObject(charged)
      const done = run(svm, instruction)
      expect(done).toMatchObject(charged)
      expect(done.accounts).toEqual(tried.accounts)
      expect(done.accounts).toEqual([{ ...wallet, lamports: 999_995_000n }])
      // The next one finds what it paid.
      expect(run(svm, instruction).accounts[0]!.lamports).toBe(999_990_000n)
    }
  })

  it('does not charge a payer that may not pay, whatever the rest', () => {
    const payers = [
      [{ ...wallet, lamports: 4_999n }, 'InsufficientFundsForFee'],
      [{ ...wallet, lamports: 891_000n }, { InsufficientFundsForRent: { account_index: 0 } }],
      [{ ...wallet, owner: programs.token }, 'InvalidAccountForFee'],
      [{ ...wallet, data: new Uint8Array(80) }, 'InvalidAccountForFee'],
      [{ ...wallet, lamports: 0n }, 'AccountNotFound'],
    ] as const
    for (const [poor, err] of payers) {
      const svm = new Svm()
      svm.load([poor])
      for (const instruction of [call(nowhere), memoInstruction('x')]) {
        expect(simulate(svm, instruction)).toMatchObject({ err, isCharged: false, loadedBytes: 0 })
        expect(run(svm, instruction)).toMatchObject({ err, isCharged: false, accounts: [] })
      }
    }
    // All it has is enough, and one that is below the rent minimum already may go on.
    for (const lamports of [5_000n, 800_000n]) {
      const svm = new Svm()
      svm.load([{ ...wallet, lamports }])
      expect(run(svm, memoInstruction('x'))).toMatchObject({ err: null, isCharged: true })
    }
  })

  it('charges a nonce account that pays, and advances it', () => {
    const data = Buffer.alloc(80)
    data.writeUInt32LE(1, 0)
    data.writeUInt32LE(1, 4)
    const least = 6_960n * (128n + 80n)
    for (const [lamports, isCharged] of [
      [least + 5_000n, true],
      [least + 4_999n, false],
    ] as const) {
      const svm = opened({ ...wallet, lamports, data })
      const bytes = signed(call(nowhere))
      const options = { ...optionsOf(bytes), nonceIndex: 0, nonce: new Uint8Array(32).fill(9) }
      const done = svm.execute(bytes, options)
      const err = isCharged ? 'ProgramAccountNotFound' : 'InsufficientFundsForFee'
      expect(done).toMatchObject({ err, isCharged, loadedBytes: isCharged ? 80 : 0 })
      if (!isCharged) continue
      expect(done.accounts).toHaveLength(1)
      expect(done.accounts[0]!.lamports).toBe(least)
      expect(done.accounts[0]!.data.subarray(40, 72)).toEqual(new Uint8Array(32).fill(9))
    }
  })

  it('enforces the loaded bytes that it reports', () => {
    const choices = [
      memoInstruction('hello'),
      transferInstruction(payer.publicKey, to, 1_000_000n),
      call(programs.token),
      call(programs.token2022),
      call(programs.associatedToken),
      call(programs.stake),
    ]
    fc.assert(
      fc.property(fc.subarray(choices, { minLength: 1 }), (instructions) => {
        const svm = opened()
        const { loadedBytes } = simulate(svm, ...instructions, limit(1 << 26))
        const tooFew = simulate(svm, ...instructions, limit(loadedBytes - 1))
        expect(tooFew).toMatchObject({ err: 'MaxLoadedAccountsDataSizeExceeded', isCharged: true })
        const enough = run(svm, ...instructions, limit(loadedBytes))
        expect(enough.err).not.toBe('MaxLoadedAccountsDataSizeExceeded')
        expect(enough.loadedBytes).toBe(loadedBytes)
      }),
      { numRuns: 12 },
    )
  })

  it('counts 64 bytes for each account, and the code of a program once', () => {
    const svm = opened()
    const [program, code] = svm.genesis([programs.token])
    const codeKey = program!.data.subarray(4)
    const own = 64 + 64 + 36 + 64 + code!.data.length
    expect(simulate(svm, call(programs.token)).loadedBytes).toBe(own)
    expect(simulate(svm, call(programs.token), call(programs.token)).loadedBytes).toBe(own)
    const named = { pubkey: codeKey, isSigner: false, isWritable: false }
    const both = simulate(svm, { ...call(programs.token), accounts: [named] })
    expect(both.loadedBytes).toBe(own)
    // The payer, the budget program (22 bytes), the system program (21).
    const limited = simulate(
      svm,
      transferInstruction(payer.publicKey, to, 1_000_000n),
      limit(1 << 20),
    )
    expect(limited.loadedBytes).toBe(3 * 64 + 22 + 21)
  })

  it('reports a forged signature before anything else, and charges nothing', () => {
    for (const instruction of [call(nowhere), memoInstruction('x')]) {
      const svm = opened()
      const forged = Uint8Array.from(signed(instruction))
      forged[3]! ^= 1
      const options = optionsOf(forged)
      const refused = { err: 'SignatureFailure', isCharged: false }
      expect(svm.simulate(forged, { ...options, refused: 'BlockhashNotFound' })).toMatchObject(
        refused,
      )
      expect(svm.execute(forged, options)).toMatchObject(refused)
      expect(run(svm, memoInstruction('y')).accounts[0]!.lamports).toBe(999_995_000n)
    }
  })

  it('limits the logs of what lands, and not those of simulations', () => {
    const svm = opened()
    const memos = Array.from({ length: 60 }, () => memoInstruction('x'))
    const units = { program: programs.computeBudget, accounts: [], data: Buffer.alloc(5) }
    units.data[0] = 2
    units.data.writeUInt32LE(1_400_000, 1)
    const tried = simulate(svm, units, ...memos)
    expect(tried.err).toBeNull()
    expect(tried.logs!.join('').length).toBeGreaterThan(10_000)
    expect(tried.logs).not.toContain('Log truncated')
    expect(run(svm, units, ...memos).logs).toContain('Log truncated')
  })

  it('runs transactions of version 1 within the limits of their config', () => {
    const data = Buffer.alloc(12)
    data[0] = 2
    data.writeBigUInt64LE(1_000_000n, 4)
    const made = (config: V1Parts['config']) =>
      v1Transaction({
        signers: [payer],
        writable: [to],
        readonly: [programs.system],
        blockhash,
        instructions: [{ program: 2, accounts: [0, 1], data }],
        ...(config && { config }),
      })
    const outcome = (config?: V1Parts['config']) => {
      const svm = opened()
      const bytes = made(config)
      const tried = svm.simulate(bytes, { ...optionsOf(bytes), refused: null })
      const done = svm.execute(bytes, optionsOf(bytes))
      expect([tried.err, tried.loadedBytes]).toEqual([done.err, done.loadedBytes])
      return { ...done, paid: wallet.lamports - done.accounts[0]!.lamports }
    }
    const enough = { units: 150, loadedBytes: 149 }
    expect(outcome({ ...enough, priorityFee: 777n, heapBytes: 65_536 })).toMatchObject({
      err: null,
      units: 150n,
      loadedBytes: 149,
      paid: 1_005_777n,
    })
    // A limit that is not given is 0.
    const exceeded = { err: 'MaxLoadedAccountsDataSizeExceeded', isCharged: true, paid: 5_000n }
    expect(outcome()).toMatchObject(exceeded)
    expect(outcome({ ...enough, loadedBytes: 148 })).toMatchObject(exceeded)
    const spent = { err: { InstructionError: [0, 'ComputationalBudgetExceeded'] }, paid: 5_000n }
    expect(outcome({ loadedBytes: 149 })).toMatchObject(spent)
    const bent = made({ ...enough, heapBytes: 1_000 })
    expect(optionsOf(bent).fee.malformed).toBe('SanitizeFailure')
  })

  it('survives every change of a transaction of version 1 that the decoder takes', () => {
    const svm = opened()
    const bytes = v1Transaction({
      signers: [payer],
      writable: [to],
      readonly: [programs.system, programs.memo],
      blockhash,
      config: { priorityFee: 1n, units: 10_000, loadedBytes: 1 << 20, heapBytes: 32_768 },
      instructions: [
        { program: 2, accounts: [0, 1], data: Uint8Array.of(2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0) },
        { program: 3, accounts: [], data: Uint8Array.of(104, 105) },
      ],
    })
    const change = fc.record({ at: fc.nat(bytes.length - 1), value: fc.nat(255) })
    let taken = 0
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), (changes) => {
        const changed = Uint8Array.from(bytes)
        for (const { at, value } of changes) changed[at] = value
        if (layout.decode(changed) !== 'ok') return
        taken++
        const options = { ...optionsOf(changed), mustVerify: false }
        svm.simulate(changed, { ...options, refused: null })
        svm.execute(changed, options)
      }),
      { numRuns: 2_000 },
    )
    expect(taken).toBeGreaterThan(200)
  })

  it('refuses bytes that are no transaction', () => {
    const svm = opened()
    const options = optionsOf(signed(memoInstruction('x')))
    for (const bytes of [new Uint8Array(0), Uint8Array.of(1), new Uint8Array(200).fill(255)]) {
      const refused = { err: 'SanitizeFailure', isCharged: false }
      expect(svm.execute(bytes, options)).toMatchObject(refused)
      expect(svm.simulate(bytes, { ...options, refused: null })).toMatchObject(refused)
    }
  })
})
