import { describe, expect, test } from 'vitest'
import { accountUpdate, slotUpdate } from '../../../../src/chain/solana/update-build.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { parcelBytesMax, SlotSource } from '../../../../src/indexer/feed/slot-source.ts'
import { EventSource, QueueSource, queueMax } from '../../../../src/indexer/feed/source.ts'
import { noTransaction, type Parcel, unpackAccounts } from '../../../../src/indexer/parcels.ts'
import { Count } from '../../../../src/products/tpu/meters.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { EventLog } from '../../../../src/streams/log/log.ts'
import { HandClock, handOutSeqs } from '../../../testkit/fake-execution.ts'
import { type SyntheticOptions, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

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
  const stage = (options: { mark?: number; replaySlots?: number } = {}) => {
    const { mark, replaySlots = 150 } = options
    const hub = openSolanaHub({ replaySlots, replayBytesMax: 64 << 20 })
    const lost = new Count()
    const source = new SlotSource({ hub, lost, clock })
    source.resume(mark)
    hub.listen((commitment) => {
      if (commitment === 1) source.onUpdate()
    })
    const publish = (solana: SyntheticSolana, slots: number) => {
      const updates: SolanaUpdate[] = []
      for (let left = slots; left > 0; left--) updates.push(...solana.next())
      for (const update of updates) publishUpdate(hub, update)
      return updates
    }
    return { hub, lost, source, publish }
  }
  const solanaAt = (firstSlot: number, more: SyntheticOptions = {}) =>
    new SyntheticSolana({ firstSlot, ...more })

  test('returns each confirmed slot complete: its transactions, every write, the block', () => {
    const { source, publish } = stage()
    const updates = publish(solanaAt(10), 5)
    const slots = all(source)
    expect(marksOf(slots)).toEqual([10, 11, 12, 13])
    for (const { content } of slots) {
      const transactions = updates.filter(
        (one) => one.kind === 'transaction' && one.slot === content.slot,
      )
      expect(content.transactions).toEqual(transactions.map((one) => 'info' in one && one.info))
      const writes = updates.flatMap((one) =>
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

  test('splits a large slot into several parcels and loses nothing of it', () => {
    const { source, publish } = stage()
    const updates = publish(solanaAt(10, { transactionsPerSlot: 3_000, accounts: 400 }), 2)
    const parts = all(source)
    expect(parts.length).toBeGreaterThan(3)
    for (const { bytes } of parts) expect(bytes).toBeLessThan(parcelBytesMax + 4_096)
    const count = (kind: string) =>
      updates.filter((one) => one.kind === kind && one.slot === 10).length
    expect(parts.flatMap(({ content }) => content.transactions)).toHaveLength(count('transaction'))
    const accounts = parts.flatMap(({ content }) => [...unpackAccounts(content.accounts)])
    expect(accounts).toHaveLength(count('account'))
    expect(parts.filter(({ content }) => content.block !== null)).toHaveLength(1)
    expect(parts.map(({ mark }) => mark).filter((mark) => mark !== null)).toEqual([10])
  })

  test('returns late content of a slot when it is finalized, with its block time', () => {
    const { hub, source, publish } = stage()
    const solana = solanaAt(10)
    publish(solana, 2)
    const [first] = all(source)
    const moment = { slot: 10, createdAtMs: 0 }
    publishUpdate(hub, accountUpdate(moment, solana.account(solana.keys[0]!, null)))
    expect(all(source)).toEqual([])
    publish(solana, 4)
    const late = all(source).filter(({ content }) => content.slot === 10)
    expect(late).toHaveLength(1)
    expect(late[0]!.content).toMatchObject({ block: null, blockTime: first!.content.blockTime })
    expect([...unpackAccounts(late[0]!.content.accounts)]).toHaveLength(1)
  })

  test('counts the slots that the hub evicted, and continues after them', () => {
    const { lost, source, publish } = stage({ replaySlots: 5 })
    const solana = solanaAt(10)
    publish(solana, 3)
    expect(marksOf(all(source))).toEqual([10, 11])
    publish(solana, 40)
    const rest = marksOf(all(source))
    expect(rest.at(-1)).toBe(51)
    expect(lost.value).toBe(rest[0]! - 11 - 1)
    expect(rest).toEqual(Array.from({ length: rest.length }, (_, index) => rest[0]! + index))
  })

  test('returns the blockhash of each slot that the index has, in ascending order', () => {
    const { hub, lost, source, publish } = stage({ mark: 12 })
    for (const update of solanaAt(9).next()) publishUpdate(hub, update)
    const updates = publish(solanaAt(10), 6)
    const hashes = updates.flatMap((one) => (one.kind === 'blockMeta' ? [one.blockhash] : []))
    const slots = all(source)
    expect(slots.map(({ cut }) => cut)).toEqual([
      { from: 10, to: 12, blockhash: hashes[0] },
      { from: 11, to: 12, blockhash: hashes[1] },
      { from: 12, to: 12, blockhash: hashes[2] },
      null,
      null,
    ])
    expect(marksOf(slots)).toEqual([10, 11, 12, 13, 14])
    expect(lost.value).toBe(0)
    // An older slot that is confirmed late must not delete the rows of newer ones.
    publishUpdate(hub, slotUpdate({ slot: 9, createdAtMs: 0 }, { parent: 8, status: 1 }))
    const late = all(source)
    expect(late.map(({ content }) => content.slot)).toEqual([9])
    expect(late[0]!.cut).toBeNull()
    expect(marksOf(late)).toEqual([14])
  })

  test('goes on with a chain that begins anew, as in another run', () => {
    const { hub, source, publish } = stage()
    hub.onRestart(() => source.restart())
    publish(solanaAt(100), 5)
    expect(marksOf(all(source))).toEqual([100, 101, 102, 103])
    hub.restart()
    publish(solanaAt(101, { seed: 9 }), 5)
    const slots = all(source)
    expect(marksOf(slots)).toEqual([101, 102, 103, 104])
    const cuts = slots.map((parcel) => parcel.feed === 'slots' && parcel.cut)
    expect(cuts).toMatchObject([{ from: 101, to: 103 }, { from: 102 }, { from: 103 }, null])
  })

  test('counts the slots lost between two runs', () => {
    const { lost, source, publish } = stage({ mark: 500 })
    publish(solanaAt(503), 3)
    const slots = all(source)
    expect(slots.map(({ cut }) => cut)).toEqual([null, null])
    expect(lost.value).toBe(2)
  })

  test('waits for the confirmation of a slot', () => {
    const { source, publish } = stage()
    publish(solanaAt(10, { confirmedAfter: 3 }), 5)
    expect(marksOf(all(source))).toEqual([10, 11])
  })
})

test('a queue keeps the oldest facts and counts those beyond its bound', () => {
  const lost = new Count()
  const queue = new QueueSource('tips', lost)
  for (let fact = 0; fact < queueMax + 5; fact++) queue.push(fact as never, fact)
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
