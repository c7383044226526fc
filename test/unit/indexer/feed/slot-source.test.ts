import { describe, expect, test } from 'vitest'
import { accountUpdate, slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { noTransaction, type Parcel, unpackAccounts } from '../../../../src/indexer/engine.ts'
import { parcelBytesMax, SlotSource } from '../../../../src/indexer/feed/slot-source.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'
import { type SyntheticOptions, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const clock = new HandClock()

describe('SlotSource', () => {
  const stage = (mark?: number) => {
    const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 64 << 20 })
    const lost: number[] = []
    const source = new SlotSource(mark, { lost: (count) => void lost.push(count), clock })
    hub.listen((commitment, update) => {
      if (commitment === 1) source.take(update)
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

  test('counts the slots that a stream did not keep for it, and not those that the chain skips', () => {
    const { lost, source, publish } = stage()
    publish(solanaAt(10), 3)
    expect(marksOf(all(source))).toEqual([10, 11])
    expect(source.newestSlot).toBe(11)
    source.restart()
    publish(solanaAt(40), 3)
    publish(solanaAt(60), 3)
    expect(marksOf(all(source))).toEqual([40, 41, 60, 61])
    expect(lost).toEqual([28])
  })

  test('takes slots that come again as ones that the index may have', () => {
    const { lost, source, publish } = stage()
    publish(solanaAt(10), 5)
    expect(marksOf(all(source))).toEqual([10, 11, 12, 13])
    source.restart()
    publish(solanaAt(12), 5)
    const again = all(source)
    expect(again.map(({ cut }) => cut?.indexed.to ?? null)).toEqual([13, 13, null, null])
    expect(lost).toEqual([])
  })

  test('returns the blockhash of each slot that the index has, in ascending order', () => {
    const { hub, lost, source, publish } = stage(12)
    for (const update of solanaAt(9).next()) publishUpdate(hub, update)
    const updates = publish(solanaAt(10), 6)
    const hashes = updates.flatMap((one) => (one.kind === 'blockMeta' ? [one.blockhash] : []))
    const slots = all(source)
    const indexed = { to: 12 }
    expect(slots.map(({ cut }) => cut)).toEqual([
      { from: 10, blockhash: hashes[0], indexed },
      { from: 11, blockhash: hashes[1], indexed },
      { from: 12, blockhash: hashes[2], indexed },
      null,
      null,
    ])
    expect(marksOf(slots)).toEqual([10, 11, 12, 13, 14])
    expect(lost).toEqual([])
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
    expect(cuts).toMatchObject([
      { from: 101, indexed: { to: 103 } },
      { from: 102 },
      { from: 103 },
      null,
    ])
  })

  test('counts the slots lost between two runs', () => {
    const { lost, source, publish } = stage(500)
    publish(solanaAt(503), 3)
    const slots = all(source)
    expect(slots.map(({ cut }) => cut)).toEqual([null, null])
    expect(lost).toEqual([2])
  })

  test('waits for the confirmation of a slot', () => {
    const { source, publish } = stage()
    publish(solanaAt(10, { confirmedAfter: 3 }), 5)
    expect(marksOf(all(source))).toEqual([10, 11])
  })
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
