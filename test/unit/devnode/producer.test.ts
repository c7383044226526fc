// What the producer reports: keys that a transaction may write, and the statuses of a slot.
import { expect, test } from 'vitest'
import { Commitment } from '../../../src/base/commitment.ts'
import { keyText } from '../../../src/chain/solana/base58.ts'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { programs, sysvars } from '../../../src/chain/solana/programs.ts'
import { slotStatus } from '../../../src/chain/solana/updates.ts'
import { buildTransaction, type Instruction } from '../../../src/devnode/build.ts'
import { Block, epochScheduleOf, packEntries } from '../../../src/devnode/ledger/ledger.ts'
import { LedgerState } from '../../../src/devnode/ledger/state.ts'
import { Producer } from '../../../src/devnode/producer.ts'
import type { Executed } from '../../../src/devnode/svm.ts'

const key = (value: number) => new Uint8Array(32).fill(value)
const executed: Executed = {
  err: null,
  isCharged: true,
  logs: [],
  units: 1n,
  inner: [],
  returnData: null,
  loadedWritable: [],
  loadedReadonly: [],
  loadedBytes: 0,
  accounts: [],
}

function open(seen = 0) {
  const ledger = new LedgerState(
    { genesisHash: 'g', identity: 'i', faucet: 'f', epochSchedule: epochScheduleOf(432_000) },
    { blocks: 320, bytes: 1 << 20 },
  )
  const facts = {
    slot: 0,
    parentSlot: 0,
    hash: key(7),
    parentHash: key(0),
    blockHeight: 0,
    blockTime: 1,
    transactionsTotal: 0,
    supply: 0n,
  }
  ledger.close(new Block(facts, [], packEntries([])))
  const entries: number[] = []
  const statuses: [slot: number, status: number][] = []
  const reported: string[] = []
  const kept: [slot: number, statuses: number, isReported: boolean][] = []
  const producer = new Producer({
    ledger,
    sink: {
      status: ({ slot, status }) => void statuses.push([slot, status]),
      account: (slot, { pubkey }) => void reported.push(`${slot} ${keyText(pubkey)}`),
      transaction: (slot) => void reported.push(`${slot} transaction`),
      entry: (_, { executedTransactionCount: count }) => void (count > 0 && entries.push(count)),
      block: (slot) => void reported.push(`${slot} block`),
    },
    clock: { nowMs: () => 1000, monotonicMs: () => 0 },
    vote: key(9),
    seen,
    keep: ({ slot }) => void kept.push([slot, statuses.length, reported.includes(`${slot} block`)]),
    writeVm: () => {},
  })
  return { ledger, producer, entries, statuses, reported, kept }
}

/** Pays `price` for a call of `program` that asks to write all of `keys` and the program itself. */
function transaction(payer: number, price: number, program: Uint8Array, keys: Uint8Array[]) {
  const bid = Buffer.alloc(9)
  bid[0] = 3
  bid.writeBigUInt64LE(BigInt(price), 1)
  const accounts = [...keys, program].map((pubkey) => ({
    pubkey,
    isSigner: false,
    isWritable: true,
  }))
  const instructions: Instruction[] = [
    { program: programs.computeBudget, accounts: [], data: bid },
    { program, accounts, data: new Uint8Array(0) },
  ]
  const signers = [new Keypair(key(payer))]
  return buildTransaction({ signers, blockhash: key(7), instructions })
}

test('reserved keys and called programs are not written, whatever the message requests', () => {
  const { ledger, producer } = open()
  const [program, account] = [key(40), key(50)]
  producer.land(transaction(1, 500, program, [sysvars.clock, programs.system, account]), executed)
  producer.land(transaction(2, 20, key(41), []), executed)
  producer.endSlot()
  const feeOf = (...keys: Uint8Array[]) => ledger.prioritizationFees(keys, false).at(-1)!.rate
  expect(feeOf(account)).toBe(500)
  for (const demoted of [sysvars.clock, programs.system, program]) expect(feeOf(demoted)).toBe(20)
})

test('a called program counts as written while the upgradeable loader is among the keys', () => {
  const { ledger, producer } = open()
  const program = key(40)
  producer.land(transaction(1, 500, program, [programs.upgradeableLoader]), executed)
  producer.land(transaction(2, 20, key(41), []), executed)
  producer.endSlot()
  const feeOf = (address: Uint8Array) => ledger.prioritizationFees([address], false).at(-1)!.rate
  expect(feeOf(program)).toBe(500)
  expect(feeOf(programs.upgradeableLoader)).toBe(20)
})

test('transactions that only share demoted keys go into one entry', () => {
  const { producer, entries } = open()
  for (const payer of [1, 2, 3])
    producer.land(transaction(payer, 1, key(40), [sysvars.clock]), executed)
  producer.endSlot()
  expect(entries).toEqual([3])
})

test('SlotHistory is the last account of each slot, once, right before its block', () => {
  const { producer, reported } = open()
  producer.land(transaction(1, 1, key(40), [key(50)]), executed)
  producer.endSlot()
  producer.endSlot()
  for (const slot of [1, 2]) {
    const of = reported.filter((line) => line.startsWith(`${slot} `))
    const history = `${slot} ${keyText(sysvars.slotHistory)}`
    expect(of.filter((line) => line === history)).toHaveLength(1)
    expect(of.slice(-2)).toEqual([history, `${slot} block`])
  }
  expect(reported.indexOf('1 transaction')).toBeGreaterThan(0)
})

test('goes on after slots that were seen and lost, with the kept block as parent', () => {
  const { ledger, producer, statuses } = open(70)
  // What runs before the first block is complete is read at processed, too.
  expect(ledger.stateSlot(Commitment.processed)).toBe(71)
  const block = producer.endSlot()
  expect([block.slot, block.parentSlot, block.blockHeight]).toEqual([71, 0, 1])
  while (ledger.slot(Commitment.finalized) < 72) producer.endSlot()
  expect(Math.min(...statuses.map(([slot]) => slot))).toBe(71)
  expect(ledger.blockSlots({ from: 0, to: 200, limit: 9 }, Commitment.finalized)).toEqual([
    0, 71, 72,
  ])
})

test('a block is stored before anything is reported of it: kill -9 takes nothing back', () => {
  const { producer, statuses, kept } = open()
  producer.endSlot()
  producer.jump({ slot: 9, timeMs: 0 })
  expect(kept.map(([slot]) => slot)).toEqual([1, 2, 9])
  for (const [slot, before, isReported] of kept) {
    expect(isReported).toBe(false)
    const reported = statuses.slice(0, before).filter(([of]) => of === slot)
    expect(reported.map(([, status]) => status)).toEqual([
      slotStatus.firstShredReceived,
      slotStatus.createdBank,
    ])
  }
})

test('a slot is complete, processed and confirmed at once, and finalized 32 slots later', () => {
  const { ledger, producer, statuses } = open()
  expect(ledger.stateSlot(Commitment.processed)).toBe(1)
  const { slot } = producer.endSlot()
  expect(ledger.slot(Commitment.processed)).toBe(slot)
  expect(ledger.slot(Commitment.confirmed)).toBe(slot)
  expect(ledger.stateSlot(Commitment.processed)).toBe(slot + 1)
  while (ledger.slot(Commitment.finalized) < slot) producer.endSlot()
  expect(ledger.slot(Commitment.processed)).toBe(slot + 32)
  const { firstShredReceived, createdBank, completed, processed, confirmed, finalized } = slotStatus
  expect(statuses.filter(([of]) => of === slot).map(([, status]) => status)).toEqual([
    firstShredReceived,
    createdBank,
    completed,
    processed,
    confirmed,
    finalized,
  ])
})

test('the hashes of blocks that a slot opens with are not read from the ledger again', () => {
  const { ledger, producer } = open()
  const asked: number[] = []
  const read = ledger.block.bind(ledger)
  ledger.block = (slot) => {
    asked.push(slot)
    return read(slot)
  }
  for (let slot = 1; slot <= 20; slot++) producer.endSlot()
  // The parent of the newest one, which is in memory.
  expect(asked.length).toBeLessThanOrEqual(40)
  const data = Buffer.from(ledger.newestAccount(sysvars.slotHashes)!.data)
  expect(Number(data.readBigUInt64LE(0))).toBe(21)
  for (const [index, slot] of [20, 19, 1, 0].entries()) {
    const at = 8 + 40 * [0, 1, 19, 20][index]!
    expect(Number(data.readBigUInt64LE(at))).toBe(slot)
    expect(data.subarray(at + 8, at + 40)).toEqual(Buffer.from(read(slot)!.facts.hash))
  }
})
