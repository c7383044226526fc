import { describe, expect, test } from 'vitest'
import { openSolanaHub, publishUpdate } from '../../../../../src/geyser/hub.ts'
import { EventSource } from '../../../../../src/products/indexer/feed/event-source.ts'
import { partBytesMax } from '../../../../../src/products/indexer/feed/slot-parcels.ts'
import { SlotSource } from '../../../../../src/products/indexer/feed/slot-source.ts'
import {
  type Parcel,
  QueueSource,
  queueMax,
} from '../../../../../src/products/indexer/feed/source.ts'
import { noTransaction, unpackAccounts } from '../../../../../src/products/indexer/parcels.ts'
import { Count } from '../../../../../src/products/tpu/meters.ts'
import { accountUpdate } from '../../../../../src/solana/update-build.ts'
import type { SolanaUpdate } from '../../../../../src/solana/updates.ts'
import { EventLog } from '../../../../../src/stream/log.ts'
import { HandClock, handOutSeqs } from '../../../../support/fake-execution.ts'
import { type SyntheticOptions, SyntheticSolana } from '../../../../support/synthetic-solana.ts'

const clock = new HandClock()

describe('EventSource', () => {
  const stage = (framesMax: number) => {
    const log = new EventLog({ reserve: handOutSeqs(1_000), clock, framesMax })
    const lost = new Count()
    return { log, lost, source: new EventSource(log, lost) }
  }
  const append = (log: EventLog, count: number) => {
    for (let left = count; left > 0; left--) log.append('TPS', Buffer.from('400'))
  }

  test('returns every frame once, from the oldest on', () => {
    const { log, source, lost } = stage(100)
    expect(source.next()).toBeNull()
    append(log, 3)
    expect(marksOf(all(source))).toEqual([1_001, 1_002, 1_003])
    expect(source.waitingSinceMs()).toBeNull()
    append(log, 1)
    expect(source.waitingSinceMs()).toBe(clock.monotonicMs())
    expect(marksOf(all(source))).toEqual([1_004])
    expect(lost.value).toBe(0)
    expect(marksOf(all(new EventSource(log, lost)))).toEqual([1_001, 1_002, 1_003, 1_004])
  })

  test('counts frames that the log evicted before they were read', () => {
    const { log, source, lost } = stage(10)
    append(log, 2)
    source.next()
    append(log, 30)
    expect(source.waitingSinceMs()).not.toBeNull()
    expect(marksOf(all(source))).toHaveLength(10)
    // Of 32 frames one was read before, ten were still in the log.
    expect(lost.value).toBe(21)
  })
})

describe('SlotSource', () => {
  const stage = (options: { isEmbedded?: boolean; mark?: number; replaySlots?: number } = {}) => {
    const { isEmbedded = true, mark, replaySlots = 150 } = options
    const hub = openSolanaHub({ replaySlots, replayBytesMax: 64 << 20 })
    const lost = new Count()
    const source = new SlotSource({ hub, isEmbedded, lost, clock })
    source.resume(mark)
    hub.listen((commitment) => {
      if (commitment === 1) source.onUpdate()
    })
    const tell = (solana: SyntheticSolana, slots: number) => {
      const told: SolanaUpdate[] = []
      for (let left = slots; left > 0; left--) told.push(...solana.next())
      for (const update of told) publishUpdate(hub, update)
      return told
    }
    return { hub, lost, source, tell }
  }
  const solanaAt = (firstSlot: number, more: SyntheticOptions = {}) =>
    new SyntheticSolana({ firstSlot, ...more })

  test('returns each confirmed slot complete: its transactions, every write, the block', () => {
    const { source, tell } = stage()
    const told = tell(solanaAt(10), 5)
    const slots = all(source)
    expect(marksOf(slots)).toEqual([10, 11, 12, 13])
    for (const { content } of slots) {
      const transactions = told.filter(
        (one) => one.kind === 'transaction' && one.slot === content.slot,
      )
      expect(content.transactions).toEqual(transactions.map((one) => 'info' in one && one.info))
      const writes = told.flatMap((one) =>
        one.kind === 'account' && one.slot === content.slot ? [one] : [],
      )
      const found = [...unpackAccounts(content.accounts)]
      expect(found.map(({ writeVersion }) => writeVersion)).toEqual(
        writes.map((one) => one.writeVersion),
      )
      const places = writes.map((one) => {
        const by = transactions.find(
          (other) => other.kind === 'transaction' && one.txnSignature === other.signature,
        )
        return by?.kind === 'transaction' ? by.index : noTransaction
      })
      expect(found.map(({ index }) => index)).toEqual(places)
      expect(content.block).toMatchObject({ parentSlot: content.slot - 1, txCount: 6 })
      expect(content.blockTime).toBeGreaterThan(0)
    }
  })

  test('splits a large slot into parts and loses nothing of it', () => {
    const { source, tell } = stage()
    const told = tell(solanaAt(10, { transactionsPerSlot: 3_000, accounts: 400 }), 2)
    const parts = all(source)
    expect(parts.length).toBeGreaterThan(3)
    for (const { bytes } of parts) expect(bytes).toBeLessThan(partBytesMax + 4_096)
    const count = (kind: string) =>
      told.filter((one) => one.kind === kind && one.slot === 10).length
    expect(parts.flatMap(({ content }) => content.transactions)).toHaveLength(count('transaction'))
    const accounts = parts.flatMap(({ content }) => [...unpackAccounts(content.accounts)])
    expect(accounts).toHaveLength(count('account'))
    expect(parts.filter(({ content }) => content.block !== null)).toHaveLength(1)
    expect(parts.map(({ mark }) => mark).filter((mark) => mark !== null)).toEqual([10])
  })

  test('returns late content of a slot when it is finalized, with its block time', () => {
    const { hub, source, tell } = stage()
    const solana = solanaAt(10)
    tell(solana, 2)
    const [first] = all(source)
    const moment = { slot: 10, createdAtMs: 0 }
    publishUpdate(hub, accountUpdate(moment, solana.account(solana.keys[0]!, null)))
    expect(all(source)).toEqual([])
    tell(solana, 4)
    const late = all(source).filter(({ content }) => content.slot === 10)
    expect(late).toHaveLength(1)
    expect(late[0]!.content).toMatchObject({ block: null, blockTime: first!.content.blockTime })
    expect([...unpackAccounts(late[0]!.content.accounts)]).toHaveLength(1)
  })

  test('counts the slots that the hub evicted, and continues after them', () => {
    const { lost, source, tell } = stage({ replaySlots: 5 })
    const solana = solanaAt(10)
    tell(solana, 3)
    expect(marksOf(all(source))).toEqual([10, 11])
    tell(solana, 40)
    const rest = marksOf(all(source))
    expect(rest.at(-1)).toBe(51)
    expect(lost.value).toBe(rest[0]! - 11 - 1)
    expect(rest).toEqual(Array.from({ length: rest.length }, (_, index) => rest[0]! + index))
  })

  test('returns the slots to cut when an embedded chain restarted', () => {
    const { lost, source, tell } = stage({ mark: 500 })
    tell(solanaAt(3), 4)
    const slots = all(source)
    expect(slots.map(({ cut }) => cut)).toEqual([{ from: 3, to: 500 }, null, null])
    expect(marksOf(slots)).toEqual([3, 4, 5])
    expect(lost.value).toBe(0)
  })

  test('counts the slots lost between two runs of an embedded chain', () => {
    const { lost, source, tell } = stage({ mark: 500 })
    tell(solanaAt(503), 3)
    const slots = all(source)
    expect(slots.map(({ cut }) => cut)).toEqual([null, null])
    expect(lost.value).toBe(2)
  })

  test('returns the processed blocks of an embedded chain at shutdown, without the open slot', () => {
    const { hub, source, tell } = stage()
    const solana = solanaAt(10, { confirmedAfter: 3 })
    tell(solana, 5)
    for (const update of solana.next().slice(0, 8)) publishUpdate(hub, update)
    expect(marksOf(all(source))).toEqual([10, 11])
    source.finish()
    const rest = all(source)
    expect(marksOf(rest)).toEqual([12, 13, 14])
    for (const { content } of rest) expect(content.block).toMatchObject({ txCount: 6 })
    expect(source.waitingSinceMs()).toBeNull()
  })

  test('waits for confirmation on a real chain until the end', () => {
    const { source, tell } = stage({ isEmbedded: false })
    tell(solanaAt(10, { confirmedAfter: 3 }), 5)
    all(source)
    source.finish()
    expect(all(source)).toEqual([])
  })

  test('never cuts slots of a real chain', () => {
    const { lost, source, tell } = stage({ mark: 500, isEmbedded: false })
    tell(solanaAt(490), 4)
    const slots = all(source)
    expect(slots.map(({ cut }) => cut)).toEqual([null, null, null])
    // The mark never decreases.
    expect(marksOf(slots)).toEqual([500, 500, 500])
    expect(lost.value).toBe(0)
  })
})

test('a queue keeps the oldest facts and counts those beyond its bound', () => {
  const lost = new Count()
  const queue = new QueueSource<number>(
    (fact, about) => ({ ...about, feed: 'tips', content: fact as never }),
    lost,
  )
  for (let fact = 0; fact < queueMax + 5; fact++) queue.push(fact, fact)
  expect(lost.value).toBe(5)
  expect(queue.waitingSinceMs()).toBe(0)
  const facts = []
  for (let parcel = queue.next(); parcel !== null; parcel = queue.next()) facts.push(parcel.content)
  expect(facts).toEqual(Array.from({ length: queueMax }, (_, index) => index))
  expect(queue.waitingSinceMs()).toBeNull()
})

type SlotOrEvent = Extract<Parcel, { feed: 'slots' }>

function all(source: { next(): Parcel | null }): SlotOrEvent[] {
  const found: SlotOrEvent[] = []
  for (let parcel = source.next(); parcel !== null; parcel = source.next())
    found.push(parcel as SlotOrEvent)
  return found
}

function marksOf(parcels: readonly Parcel[]): number[] {
  return parcels.flatMap(({ mark }) => (mark === null ? [] : [mark]))
}
