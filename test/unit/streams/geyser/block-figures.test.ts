// Tests the figures of confirmed blocks: exact while someone watches, and free of cost otherwise.
import { describe, expect, test, vi } from 'vitest'
import { decodeTransactionInfo } from '../../../../src/chain/solana/geyser-decode.ts'
import { readCost } from '../../../../src/chain/solana/geyser-parts.ts'
import type { BlockUpdate, SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import {
  BlockFiguresTracker,
  openSolanaHub,
  publishUpdate,
} from '../../../../src/streams/geyser/hub.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

function stage() {
  const solana = new SyntheticSolana()
  const hub = openSolanaHub()
  const clock = new HandClock()
  const tracker = new BlockFiguresTracker(hub, clock)
  const blocks: BlockUpdate[] = []
  const grow = (slots: number, isLost: (update: SolanaUpdate) => boolean = () => false) => {
    for (let count = 0; count < slots; count++)
      for (const update of solana.next()) {
        if (update.kind === 'block') blocks.push(update)
        if (!isLost(update)) publishUpdate(hub, update)
      }
  }
  return { hub, clock, tracker, blocks, grow }
}

describe('figures of confirmed blocks', () => {
  test('are the sums over the transactions of each block', () => {
    const { tracker, blocks, grow } = stage()
    tracker.watch()
    grow(6)
    // The last one is not confirmed.
    const whole = blocks.slice(0, -1)
    const found = tracker.watch()
    expect(found.map(({ slot }) => slot)).toEqual(whole.map(({ slot }) => slot))
    for (const [at, { transactions }] of whole.entries()) {
      const contents = transactions.map(({ info }) => decodeTransactionInfo(info))
      const fees = contents.map(({ meta }) => Number(meta.fee))
      const units = contents.map(({ meta }) => Number(meta.costUnits ?? meta.computeUnitsConsumed))
      const paid = contents.filter(({ isVote }) => !isVote).map(({ meta }) => Number(meta.fee))
      const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
      expect(found[at]).toEqual({
        slot: whole[at]!.slot,
        transactions: transactions.length,
        content: {
          votes: contents.filter(({ isVote }) => isVote).length,
          failed: contents.filter(({ meta }) => meta.err !== null).length,
          feeLamports: sum(fees),
          feeMedian: paid.sort((a, b) => a - b)[paid.length >> 1] ?? null,
          costUnits: sum(units),
        },
      })
    }
  })

  test('are only counts of transactions while nobody watches', () => {
    const { clock, tracker, grow } = stage()
    grow(4)
    expect(tracker.watch().map(({ content }) => content)).toEqual([null, null, null])
    grow(2)
    expect(tracker.watch().at(-1)?.content).not.toBeNull()
    clock.advance(10_001)
    grow(3)
    expect(tracker.watch().at(-1)?.content).toBeNull()
    expect(tracker.watch().at(-1)?.transactions).toBe(6)
  })

  test('leave out the content of a block whose transactions did not all arrive', () => {
    const { tracker, grow } = stage()
    tracker.watch()
    let lost = 0
    grow(3, (update) => update.kind === 'transaction' && lost++ === 0)
    expect(tracker.watch().map(({ content }) => content === null)).toEqual([true, false])
  })

  test('are kept of 64 blocks, and forgotten when the chain begins anew', () => {
    const { hub, tracker, blocks, grow } = stage()
    grow(90)
    expect(tracker.watch()).toHaveLength(64)
    expect(tracker.watch().at(-1)?.slot).toBe(blocks.at(-2)?.slot)
    hub.restart()
    expect(tracker.watch()).toEqual([])
    expect(tracker.ageMs()).toBeNull()
  })

  test('tell how long ago the newest block arrived', () => {
    const { clock, tracker, grow } = stage()
    expect(tracker.ageMs()).toBeNull()
    grow(1)
    clock.advance(1_500)
    expect(tracker.ageMs()).toBe(1_500)
    tracker.stop()
    grow(1)
    expect(tracker.ageMs()).toBe(1_500)
  })

  test('ask the hub for confirmed transactions only while they are watched', () => {
    const { hub, clock } = stage()
    const listen = vi.spyOn(hub, 'listen')
    const tracker = new BlockFiguresTracker(hub, clock)
    const wants = listen.mock.calls[0]![1]!
    expect([0, 1, 2].map((commitment) => wants(commitment as never))).toEqual(Array(3).fill(false))
    tracker.watch()
    expect([0, 1, 2].map((commitment) => wants(commitment as never))).toEqual([false, true, false])
  })
})

describe('the cost of a transaction', () => {
  test('is 0 where bytes are no transaction', () => {
    for (const bytes of [[], [0xff], [0x22, 0x05, 0x10]])
      expect(readCost(Uint8Array.from(bytes))).toEqual({ fee: 0, units: 0 })
    // Consumed units where the node reports no cost.
    expect(readCost(Uint8Array.of(0x22, 5, 0x10, 9, 0x80, 1, 7))).toEqual({ fee: 9, units: 7 })
  })
})
