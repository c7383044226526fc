// The replay of the embedded chain after a restart: the slots before it, as they were published.
import { afterEach, expect, test } from 'vitest'
import { Commitment } from '../../src/base/commitment.ts'
import { isSameKey, keyOf } from '../../src/chain/solana/base58.ts'
import { sysvarOwner } from '../../src/chain/solana/programs.ts'
import { type SolanaUpdate, slotStatus } from '../../src/chain/solana/updates.ts'
import { ChainStage } from '../testkit/chain-stage.ts'
import { until } from '../testkit/until.ts'

const stages: ChainStage[] = []
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage.dispose()
})

/** What a replay at a commitment gives of the slots up to `last`. */
function replayed({ hub }: ChainStage, commitment: Commitment, last: number): SolanaUpdate[] {
  const replay = hub.replay(commitment, hub.oldestSlot!)!
  const updates: SolanaUpdate[] = []
  for (let next = replay.next(); next !== null; next = replay.next())
    if (next.slot <= last) updates.push(next)
  return updates
}

const bodies = (updates: readonly SolanaUpdate[], kind: 'transaction' | 'entry' | 'blockMeta') =>
  updates.flatMap((one) => (one.kind === kind ? [Buffer.from(one.body).toString('hex')] : []))

/** The last write of each account in each slot, without sysvars. */
function lastWrites(updates: readonly SolanaUpdate[]): Map<string, string> {
  const writes = new Map<string, string>()
  for (const one of updates)
    if (one.kind === 'account' && !isSameKey(one.owner, sysvarOwner))
      writes.set(`${one.slot} ${keyOf(one.pubkey)}`, Buffer.from(one.body).toString('hex'))
  return writes
}

test('has the slots before the restart, also those before the last snapshot', async () => {
  // Snapshots of every few slots: most of the replayed blocks are older than the last one.
  const stage = new ChainStage({ traffic: 50, snapshotSlots: 20 })
  stages.push(stage)
  await stage.start()
  await until(() => stage.chain.ledger.newest.slot >= 70, 'slots')
  await stage.stop()
  const before = stage.told.splice(0)
  const last = before.findLast(({ kind }) => kind === 'blockMeta')!.slot
  await stage.start()
  expect(stage.hub.oldestSlot).toBe(1)
  for (const commitment of [Commitment.processed, Commitment.confirmed, Commitment.finalized]) {
    const after = replayed(stage, commitment, last)
    for (const kind of ['transaction', 'entry', 'blockMeta'] as const)
      expect(bodies(after, kind)).toEqual(bodies(before, kind))
    const writes = lastWrites(after)
    expect(writes.size).toBeGreaterThan(100)
    expect(writes).toEqual(lastWrites(before.filter(({ slot }) => slot <= last)))
    const blocks = after.filter((one) => one.kind === 'block')
    expect(blocks.map(({ slot }) => slot)).toEqual(Array.from({ length: last }, (_, at) => at + 1))
    for (const { slot, transactions, meta } of blocks)
      expect([slot, transactions.length]).toEqual([slot, meta.executedTransactionCount])
    const finalized = after.filter(
      (one) => one.kind === 'slot' && one.status === slotStatus.finalized,
    )
    expect(finalized.map(({ slot }) => slot)).toEqual(blocks.map(({ slot }) => slot))
  }
})

test('continues with the next slot, without a gap', async () => {
  const stage = new ChainStage()
  stages.push(stage)
  await stage.start()
  await until(() => stage.chain.ledger.newest.slot >= 5, 'slots')
  await stage.stop()
  await stage.start()
  await stage.reached(stage.chain.ledger.newest.slot + 3, Commitment.confirmed)
  const slots = stage.told.splice(0).flatMap((one) => (one.kind === 'blockMeta' ? [one.slot] : []))
  // Published before and after: those of the first run are in both.
  const restart = slots.lastIndexOf(1)
  expect(restart).toBeGreaterThan(4)
  const second = slots.slice(restart)
  expect(second).toEqual(second.map((_, at) => at + 1))
  expect(second.length).toBeGreaterThan(restart + 2)
})
