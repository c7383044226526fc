// The history on disk answers as one that is in memory as a whole, whatever part is still in memory.
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { Commitment } from '../../../src/base/commitment.ts'
import { Keypair } from '../../../src/chain/solana/keypair.ts'
import { TransactionLayout } from '../../../src/chain/solana/transaction.ts'
import { newestShapes } from '../../../src/chain/solana/version.ts'
import { buildTransaction, memoInstruction } from '../../../src/devnode/build.ts'
import { Archive, type ArchiveBounds } from '../../../src/devnode/ledger/archive.ts'
import {
  Block,
  epochScheduleOf,
  packEntries,
  packTransaction,
  StoredTransaction,
} from '../../../src/devnode/ledger/ledger.ts'
import { LedgerState } from '../../../src/devnode/ledger/state.ts'
import { messageContent, signaturesOf } from '../../../src/devnode/message-content.ts'
import { caseCount } from '../../testkit/case-count.ts'
import { until } from '../../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-archive-'))
const opened: Archive[] = []
afterEach(async () => {
  for (const archive of opened.splice(0)) await archive.close()
  rmSync(folder, { recursive: true, force: true })
})

const wallets = Array.from({ length: 5 }, (_, index) => new Keypair(new Uint8Array(32).fill(index)))
const unbounded = { slots: 1_000_000, bytes: 2 ** 40 }
const noFault = (fault: unknown) => {
  throw fault
}

function archiveIn(name: string, bounds: ArchiveBounds = unbounded): Archive {
  const archive = new Archive(join(folder, name), bounds, noFault)
  opened.push(archive)
  return archive
}

test('its folder is open to its owner alone, also one of an earlier version', async () => {
  mkdirSync(join(folder, 'earlier'), { recursive: true, mode: 0o755 })
  for (const name of ['new', 'earlier']) {
    archiveIn(name)
    expect(statSync(join(folder, name)).mode & 0o777).toBe(0o700)
  }
})

function ledgerOf(blocks: number, archive: Archive | null): LedgerState {
  const epochSchedule = epochScheduleOf(432_000)
  const identity = { genesisHash: 'g', identity: 'i', faucet: 'f', epochSchedule }
  return new LedgerState(identity, { blocks, bytes: 2 ** 40 }, archive)
}

/** The same numbers in every run. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

const layout = new TransactionLayout()
let serial = 0

function transactionAt(slot: number, index: number, signer: Keypair, memo = ''): StoredTransaction {
  const instructions = [memoInstruction(`memo ${serial++}${memo}`)]
  const bytes = buildTransaction({ signers: [signer], blockhash: new Uint8Array(32), instructions })
  layout.decode(bytes)
  const meta = {
    err: null,
    fee: 5_000n,
    preBalances: [1n],
    postBalances: [2n],
    innerInstructions: [],
    logMessages: [`log ${serial}`],
    preTokenBalances: [],
    postTokenBalances: [],
    rewards: [],
    loadedWritableAddresses: [],
    loadedReadonlyAddresses: [],
    returnData: null,
    computeUnitsConsumed: 7n,
    costUnits: 8n,
  }
  const message = messageContent(layout, bytes)
  const signatures = signaturesOf(layout, bytes)
  const record = packTransaction(bytes, { signatures, isVote: false, index, message, meta })
  return new StoredTransaction(record, { slot, index, blockTime: 1_000 + slot })
}

function blockAfter(parent: Block | null, slot: number, random: (below: number) => number): Block {
  const stored = Array.from({ length: random(4) }, (_, index) =>
    transactionAt(slot, index, wallets[random(wallets.length)]!),
  )
  const hash = new Uint8Array(32).fill(slot % 251)
  const facts = {
    slot,
    parentSlot: parent?.slot ?? 0,
    hash,
    parentHash: hash,
    blockHeight: (parent?.blockHeight ?? -1) + 1,
    blockTime: 1_000 + slot,
    transactionsTotal: (parent?.facts.transactionsTotal ?? 0) + stored.length,
    supply: 9n,
  }
  return new Block(facts, stored, packEntries([]))
}

function chainOf(count: number, random: (below: number) => number): Block[] {
  const blocks: Block[] = []
  let slot = 0
  for (let made = 0; made < count; made++) {
    blocks.push(blockAfter(blocks.at(-1) ?? null, slot, random))
    // Some slots are skipped.
    slot += random(5) === 0 ? 1 + random(4) : 1
  }
  return blocks
}

/** Bytes of any kind as hexadecimal digits. */
function shown(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shown(one)]))
}

/** Everything that RPC reads of the history. */
function answersOf(ledger: LedgerState, blocks: readonly Block[], seed: number): string[] {
  const random = randomOf(seed)
  const last = blocks.at(-1)!.slot
  const signatures = blocks.flatMap((block) => block.signatures())
  const some = () => (random(3) === 0 ? null : signatures[random(signatures.length)]!)
  const answers: unknown[] = [ledger.firstAvailableSlot]
  for (let slot = 0; slot <= last; slot++) {
    const block = ledger.block(slot)
    answers.push(block?.facts, block?.transactions(), ledger.blockCommitment(slot))
  }
  for (const signature of signatures)
    answers.push(ledger.transaction(signature), ledger.signatureStatus(signature))
  for (let round = 0; round < caseCount(100, 300); round++) {
    const from = random(last)
    const range = { from, to: from + random(last), limit: 1 + random(200) }
    answers.push(ledger.blockSlots(range, Commitment.finalized))
    const address = wallets[random(wallets.length)]!.publicKey
    const page = { limit: 1 + random(50), before: some(), until: some(), commitment: 2 as const }
    answers.push(ledger.signaturesForAddress(address, { ...page, shapes: newestShapes }))
  }
  return answers.map((answer) => JSON.stringify(shown(answer)) ?? 'nothing')
}

test('answers are the same across the border between memory and disk', async () => {
  const blocks = chainOf(900, randomOf(1))
  const whole = ledgerOf(1_000_000, null)
  const archive = archiveIn('border')
  const small = ledgerOf(320, archive)
  for (const block of blocks) {
    whole.restore(block)
    small.restore(block)
    if (block.slot % 50 === 0) await until(() => archive.readableSlot > block.slot - 200, 'disk')
  }
  await until(() => archive.readableSlot === blocks.at(-1)!.slot, 'everything on disk')
  for (const ledger of [whole, small]) ledger.settle()
  expect(small.recentSlot).toBeGreaterThan(blocks[300]!.slot)
  expect(whole.recentSlot).toBe(0)
  expect(answersOf(small, blocks, 7)).toEqual(answersOf(whole, blocks, 7))
  await opened.splice(0)[0]!.close()
  // After a restart the last blocks come from the journal, the others from disk alone.
  const again = ledgerOf(320, archiveIn('border'))
  for (const block of blocks.slice(-400)) again.restore(block)
  again.settle()
  expect(answersOf(again, blocks, 8)).toEqual(answersOf(whole, blocks, 8))
})

test('the oldest blocks go first, with all their rows', async () => {
  const blocks = chainOf(700, randomOf(2))
  const archive = archiveIn('slots', { slots: 350, bytes: 2 ** 40 })
  for (const [index, block] of blocks.entries()) {
    archive.append(block)
    if (index % 50 === 0) await until(() => archive.readableSlot === block.slot, 'the disk')
  }
  const [first, last] = [blocks[350]!, blocks.at(-1)!]
  await until(() => archive.readableSlot === last.slot && archive.firstSlot === first.slot, 'it')
  const gone = blocks.slice(0, 350).flatMap((block) => block.signatures())
  const kept = blocks.slice(350).flatMap((block) => block.signatures())
  expect(gone.some((signature) => archive.find(signature) !== null)).toBe(false)
  expect(kept.every((signature) => archive.find(signature) !== null)).toBe(true)
  const end = { slot: Number.MAX_SAFE_INTEGER, index: 0 }
  const count = wallets
    .map(({ publicKey }) => [...archive.backwards(publicKey, end)].length)
    .reduce((sum, each) => sum + each)
  expect(count).toBe(kept.length)
  expect(archive.slots({ from: 0, to: last.slot, limit: 1_000 })).toHaveLength(350)
})

test('the file stays within the bound of bytes', async () => {
  const bytes = 2 * 1024 * 1024
  const archive = archiveIn('bytes', { slots: 1_000_000, bytes })
  const random = randomOf(3)
  // To sign a transaction takes longer than to write one.
  const longMemo = '.'.repeat(700)
  for (let round = 0; round < 12; round++) {
    const blocks = Array.from({ length: 100 }, (_, index) => {
      const slot = round * 100 + index
      const stored = Array.from({ length: 5 }, (_, at) =>
        transactionAt(slot, at, wallets[random(wallets.length)]!, longMemo),
      )
      return blockAfter(null, slot, () => 0).with(stored)
    })
    for (const block of blocks) archive.append(block)
    await until(() => archive.readableSlot === blocks.at(-1)!.slot, 'the round')
  }
  expect(archive.firstSlot).toBeGreaterThan(300)
  expect(archive.bytes).toBeLessThanOrEqual(bytes * 1.01)
  expect(archive.bytes).toBeGreaterThan(bytes * 0.9)
  // What a commit frees can be used by the one after it.
  expect(statSync(join(folder, 'bytes', 'data.mdb')).size).toBeLessThan(bytes * 2)
})

test('blocks that the journal lost are removed, and others take their slots', async () => {
  const random = randomOf(4)
  const blocks = chainOf(60, random)
  const archive = archiveIn('lost')
  for (const block of blocks) archive.append(block)
  await until(() => archive.readableSlot === blocks.at(-1)!.slot, 'everything on disk')
  await opened.splice(0)[0]!.close()
  const again = archiveIn('lost')
  const kept = blocks[29]!
  await again.truncateAfter(kept.slot)
  expect(again.readableSlot).toBe(kept.slot)
  const other = blockAfter(kept, kept.slot + 1, () => 2)
  again.append(other)
  await until(() => again.readableSlot === other.slot, 'the other block')
  for (const block of blocks.slice(30))
    for (const signature of block.signatures()) expect(again.find(signature)).toBe(null)
  expect(again.block(other.slot)?.signatures()).toEqual(other.signatures())
  expect(again.slots({ from: kept.slot, to: 1_000, limit: 9 })).toEqual([kept.slot, other.slot])
})
