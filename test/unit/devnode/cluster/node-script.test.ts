// The script of a cluster: the same seed gives the same faults, and every node's stream ends in the
// blocks of the chain, whatever happened on the way.
import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { NodeScript, VoidBlocks } from '../../../../src/devnode/cluster/node-script.ts'
import {
  ClusterPlan,
  type FaultName,
  faultNames,
  usualFaults,
} from '../../../../src/devnode/cluster/plan.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const nodes = 4
const voids = new VoidBlocks(new Uint8Array(32).fill(3))
const planOf = (seed: number, faults: readonly FaultName[] = usualFaults, isAlpenglow = false) =>
  new ClusterPlan({ seed, nodes, faults, isAlpenglow })

/** A chain with the skipped slots of a plan. */
function chainOf(plan: ClusterPlan, slots: number, after = { confirmed: 1, finalized: 6 }) {
  const chain = new SyntheticSolana({
    seed: 3,
    confirmedAfter: after.confirmed,
    finalizedAfter: after.finalized,
    isSkipped: (slot) => plan.isSkipped(slot),
  })
  return Array.from({ length: slots }, () => chain.next()).flat()
}

function sentBy(plan: ClusterPlan, node: number, chain: readonly SolanaUpdate[]): SolanaUpdate[] {
  const script = new NodeScript(plan, node, voids)
  return chain.flatMap((update) => script.next(update))
}

const isBank = (update: SolanaUpdate) =>
  update.kind === 'slot' && update.status === slotStatus.createdBank

/** Bodies of what a gateway publishes at a commitment, per slot and kind, for a stream. */
function published(
  ...connections: readonly (readonly SolanaUpdate[])[]
): [confirmed: string[], finalized: string[]] {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const all: [string[], string[]] = [[], []]
  hub.listen((commitment, update) => {
    if (commitment === 0 || update.kind === 'slot' || update.kind === 'block') return
    all[commitment - 1]!.push(`${update.slot} ${update.kind} ${hash('sha1', update.body)}`)
  })
  const sink = new SolanaUpstream(hub, { log: silentLog })
  for (const [index, stream] of connections.entries()) {
    sink.opened(index === 0 ? null : stream[0]!.slot)
    const messages = stream.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
    for (let at = 0; at < messages.length; at += 7)
      sink.batch(batchFrom(messages.slice(at, at + 7)))
  }
  expect(sink.counts().incompleteBlocks).toBe(0)
  return [all[0].toSorted(), all[1].toSorted()]
}

describe('the plan of a cluster', () => {
  it('gives every node leader windows of four slots, and a third of them a handover', () => {
    const plan = planOf(7)
    const windows = Array.from({ length: 3_000 }, (_, window) => window * 4)
    const led = windows.map((slot) => plan.leaderOf(slot))
    for (const slot of windows.slice(0, 100))
      expect([1, 2, 3].map((by) => plan.leaderOf(slot + by))).toEqual(
        Array(3).fill(plan.leaderOf(slot)),
      )
    for (let node = 0; node < nodes; node++)
      expect(led.filter((one) => one === node).length / led.length).toBeCloseTo(1 / nodes, 1)
    const handovers = windows.filter((slot) => plan.isHandover(slot)).length
    expect(handovers / windows.length).toBeCloseTo(1 / 3, 1)
  })

  it('has nothing without faults, and each fault by itself', () => {
    const none = planOf(7, [])
    const slots = Array.from({ length: 600 }, (_, slot) => slot)
    const hasAny = (plan: ClusterPlan) =>
      slots.some((slot) => plan.isSkipped(slot) || plan.lagSlots(slot, 3) > 0) ||
      slots.some((slot) => plan.voidBank(slot, 1) !== null || plan.stallSlots(slot) > 0)
    expect(hasAny(none)).toBe(false)
    for (const fault of faultNames.filter((name) => !name.startsWith('lie')))
      expect(hasAny(planOf(7, [fault])), fault).toBe(true)
    for (const way of ['handover', 'dead', 'equivocation'] as const) {
      const seen = new Set(slots.map((slot) => planOf(7, [way]).voidBank(slot, 2)))
      expect([...seen].toSorted()).toEqual([null, way].toSorted())
    }
  })
})

describe('the stream of a node', () => {
  it('is the same for the same seed, byte for byte, and another one for another seed', () => {
    const bytesOf = (seed: number) => {
      const plan = planOf(seed)
      return sentBy(plan, 2, chainOf(plan, 60)).map((one) =>
        one.kind === 'block' ? `block ${one.slot}` : hash('sha1', one.body),
      )
    }
    expect(bytesOf(5)).toEqual(bytesOf(5))
    expect(bytesOf(6)).not.toEqual(bytesOf(5))
  })

  it('is the chain itself without faults', () => {
    const plan = planOf(5, [])
    const chain = chainOf(plan, 20)
    for (let node = 0; node < nodes; node++) expect(sentBy(plan, node, chain)).toEqual(chain)
  })

  const seeds = Number(process.env.SLUICE_SEEDS ?? caseCount(4, 80))
  it(`ends in the chain's blocks at every node, over ${seeds} seeds`, () => {
    const seen = { banks: 0, forks: 0, rootedFirst: 0 }
    for (let seed = 1; seed <= seeds; seed++) {
      const isAlpenglow = seed % 2 === 0
      const plan = planOf(seed, usualFaults, isAlpenglow)
      const after = isAlpenglow ? { confirmed: 1, finalized: 1 } : { confirmed: 1, finalized: 6 }
      const chain = chainOf(plan, 30, after)
      const expected = published(chain)
      const slots = new Set(chain.map(({ slot }) => slot))
      for (let node = 0; node < nodes; node++) {
        const stream = sentBy(plan, node, chain)
        expect(published(stream), `seed ${seed}, node ${node}`).toEqual(expected)
        seen.banks += stream.filter(isBank).length - slots.size
        seen.forks += new Set(stream.map(({ slot }) => slot)).size - slots.size
        for (const slot of slots) if (plan.isRootedFirst(slot, node)) seen.rootedFirst++
      }
    }
    // More banks than those of forks: slots with two of them.
    expect(seen.banks).toBeGreaterThan(seeds * nodes + seen.forks)
    expect(seen.forks).toBeGreaterThan(seeds)
    expect(seen.rootedFirst).toBeGreaterThan(seeds)
  })

  it('has the chain’s transactions too where nothing tells of a replaced bank', () => {
    const isTold = (one: SolanaUpdate) =>
      one.kind === 'slot' &&
      (one.status === slotStatus.createdBank || one.status === slotStatus.dead)
    for (let seed = 1; seed <= 4; seed++) {
      const plan = planOf(seed, ['handover', 'dead', 'equivocation'])
      const chain = chainOf(plan, 30)
      const untold = (stream: readonly SolanaUpdate[]) => stream.filter((one) => !isTold(one))
      const [confirmed] = published(untold(sentBy(plan, 1, chain)))
      const expected = new Set(published(untold(chain))[0])
      // Accounts have no index: those of a void bank cannot be told from the block's.
      expect(
        confirmed.filter((one) => !expected.has(one) && !one.includes('account')),
        `seed ${seed}`,
      ).toEqual([])
    }
  })

  it('is right when a connection ends between a void block and the chain’s', () => {
    let ends = 0
    for (let seed = 1; seed <= 4; seed++) {
      const plan = planOf(seed, ['equivocation'])
      const chain = chainOf(plan, 30)
      const expected = published(chain)
      const stream = sentBy(plan, 1, chain)
      for (const [at, { slot, ...last }] of stream.entries()) {
        if (!voids.isVoid(stream[at]!) || last.kind !== 'slot' || last.status !== 0) continue
        const sent = stream.slice(0, at + 1)
        // A replay has no life cycle: neither the bank that was created, nor the next one.
        const replay = sent.filter((one) => one.slot === slot && one.kind !== 'slot')
        expect(published(sent, [...replay, ...stream.slice(at + 1)])).toEqual(expected)
        ends++
      }
    }
    expect(ends).toBeGreaterThan(3)
  })

  it('tells a node’s lies beside the chain, or instead of its blockhashes', () => {
    const slotLie = planOf(5, ['lie-slot'])
    const chain = chainOf(slotLie, 12)
    const ahead = sentBy(slotLie, 3, chain).filter(({ slot }) => slot > 1_000_000)
    expect(ahead.length).toBeGreaterThan(10)
    expect(sentBy(slotLie, 2, chain)).toEqual(chain)
    const hashLie = planOf(5, ['lie-blockhash'])
    const hashesOf = (stream: readonly SolanaUpdate[]) =>
      stream.flatMap((one) => (one.kind === 'blockMeta' ? [one.blockhash] : []))
    const told = hashesOf(sentBy(hashLie, 3, chain))
    expect(told).toHaveLength(12)
    expect(hashesOf(chain).filter((one) => told.includes(one))).toEqual([])
  })
})
