import { afterEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import type { NodeSection, SetSection } from '../../../../src/upstream/config.ts'
import type { UpstreamNode } from '../../../../src/upstream/node-pool/upstream-node.ts'
import { type PickOptions, UpstreamSet } from '../../../../src/upstream/node-pool/upstream-set.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'
import { setSection } from '../../../testkit/upstream-sections.ts'

const clock = new FakeClock()
const made: UpstreamSet[] = []
afterEach(() => {
  for (const set of made.splice(0)) set.stop()
})

/** A set whose nodes are all up; `random` is a plain sequence that covers 0 to 1 evenly. */
function setOf(nodes: readonly Partial<NodeSection>[], changes: Partial<SetSection> = {}) {
  let draws = 0
  const random = () => (draws++ * 0.618_033_988_75) % 1
  const set = new UpstreamSet('main', setSection(nodes, changes), { clock, log: silentLog, random })
  made.push(set)
  for (const node of set.nodes) node.health.probeAnswered({ isBehind: false })
  return { set, nodes: set.nodes as UpstreamNode[] }
}

/** How often each node is picked out of a thousand, in percent. */
function shares(set: UpstreamSet, options: PickOptions = {}, method = 'getSlot'): number[] {
  const counts = set.nodes.map(() => 0)
  for (let time = 0; time < 1_000; time++) {
    const node = set.pick(method, options)
    if (node !== null) counts[node.number - 1]!++
  }
  return counts.map((count) => Math.round(count / 10))
}

function slow(node: UpstreamNode, ms: number): void {
  for (let time = 0; time < 50; time++) node.observeLatency(ms)
}

describe('the pick of a node', () => {
  test('follows the weights while the nodes are alike', () => {
    const { set } = setOf([{ weight: 3 }, { weight: 1 }])
    const [first = 0, second = 0] = shares(set)
    expect(first).toBeGreaterThanOrEqual(72)
    expect(first).toBeLessThanOrEqual(78)
    expect(first + second).toBe(100)
  })

  test('avoids a slow node as long as it is sampled against a faster one', () => {
    const { set, nodes } = setOf([{}, {}, {}])
    for (const node of nodes) slow(node, 2)
    slow(nodes[1]!, 300)
    expect(shares(set)[1]).toBe(0)
  })

  test('takes a node of weight 0 only when there is no other', () => {
    const { set, nodes } = setOf([{ weight: 0 }, {}])
    expect(shares(set)).toEqual([0, 100])
    nodes[1]!.health.probeSilent()
    expect(shares(set)).toEqual([100, 0])
  })

  test('goes to no node that is down or lagging', () => {
    const { set, nodes } = setOf([{}, {}, {}])
    nodes[0]!.health.probeSilent()
    nodes[1]!.health.probeAnswered({ isBehind: true })
    expect(shares(set)).toEqual([0, 0, 100])
    nodes[2]!.health.callFailed('unreached')
    expect(set.pick('getSlot')).toBeNull()
    expect(set.isServing()).toBe(false)
    expect(set.all('sendTransaction')).toEqual([])
  })

  test('takes a doubtful node rather than none', () => {
    const { set, nodes } = setOf([{}, {}])
    nodes[0]!.health.probeOverdue()
    expect(shares(set)).toEqual([0, 100])
    nodes[1]!.health.probeSilent()
    expect(set.pick('getSlot')).toBe(nodes[0])
    expect(set.isServing()).toBe(true)
  })

  test('excludes the nodes that were tried already', () => {
    const { set, nodes } = setOf([{}, {}])
    expect(shares(set, { exclude: [nodes[0]!] })).toEqual([0, 100])
    expect(set.pick('getSlot', { exclude: nodes })).toBeNull()
  })

  test('respects allow and deny lists, and knows which methods no node serves', () => {
    const { set } = setOf([{ deny: ['getProgramAccounts'] }, { allow: ['getBlock*', 'getProg*'] }])
    expect(shares(set, {}, 'getProgramAccounts')).toEqual([0, 100])
    expect(shares(set, {}, 'getSlot')).toEqual([100, 0])
    expect(set.serves('getBlock')).toBe(true)
    const { set: narrow } = setOf([{ allow: ['getSlot'] }])
    expect(narrow.serves('getBlock')).toBe(false)
    expect(narrow.pick('getBlock')).toBeNull()
  })

  test('picks no node without rpc', () => {
    const { set } = setOf([{}, { rpc: '', grpc: 'http://127.0.0.1:9' }])
    expect(shares(set)).toEqual([100, 0])
  })

  test('a half-open node gets one call at a time, and no sends', () => {
    const { set, nodes } = setOf([{}, {}])
    for (let time = 0; time < 5; time++) nodes[0]!.health.callFailed('status')
    clock.ms += 2_000
    nodes[0]!.health.probeAnswered({ isBehind: false })
    expect(shares(set)[0]).toBeGreaterThan(0)
    expect(shares(set, { isSend: true })).toEqual([0, 100])
  })
})

test('an error of this machine says nothing about a node', () => {
  const { nodes } = setOf([{}])
  for (let time = 0; time < 10; time++) {
    nodes[0]!.failed('unreached', 'EMFILE')
    nodes[0]!.probeFailed('unreached', 'EADDRNOTAVAIL')
  }
  expect(nodes[0]!.state).toBe('up')
  nodes[0]!.failed('unreached', 'ECONNREFUSED')
  expect(nodes[0]!.state).toBe('down')
})

describe('minContextSlot', () => {
  test('excludes the nodes that are known to be below, at the requested commitment', () => {
    const { set, nodes } = setOf([{}, {}])
    nodes[0]!.probedSlots(100, 68, null)
    nodes[1]!.probedSlots(110, 78, null)
    expect(shares(set, { minContextSlot: 105, commitment: 0 })).toEqual([0, 100])
    expect(shares(set, { minContextSlot: 70 })).toEqual([0, 100])
    expect(shares(set, { minContextSlot: 60 })[0]).toBeGreaterThan(40)
  })

  test('picks the best node when all are below: it returns the right error itself', () => {
    const { set, nodes } = setOf([{}, {}])
    nodes[0]!.probedSlots(100, 68, null)
    nodes[1]!.probedSlots(110, 78, null)
    expect(shares(set, { minContextSlot: 500 })).toEqual([0, 100])
  })

  test('does not exclude a node that reports no slots', () => {
    const { set } = setOf([{}])
    expect(set.pick('getSlot', { minContextSlot: 500 })).not.toBeNull()
  })
})

describe('lag', () => {
  test('is measured against the best reachable node of the set', () => {
    const { set, nodes } = setOf([{}, {}], { lagSlots: 10 })
    nodes[0]!.probedSlots(100, null, null)
    nodes[1]!.probedSlots(111, null, null)
    set.compare()
    expect(nodes.map(({ lagSlots, state }) => [lagSlots, state])).toEqual([
      [11, 'lagging'],
      [0, 'up'],
    ])
    nodes[0]!.probedSlots(106, null, null)
    set.compare()
    expect(nodes[0]!.state).toBe('up')
  })

  test('is a time, in slots by their measured time, unless it is configured in slots', () => {
    const [{ set }, { set: written }] = [setOf([{}, {}]), setOf([{}, {}], { lagSlots: 10 })]
    expect([set.lagSlots, written.lagSlots]).toEqual([50, 10])
    for (const one of [set, written])
      for (let slot = 0; slot < 20; slot++) one.slotTime.observe(slot, slot * 200)
    expect([set.lagSlots, written.lagSlots]).toEqual([100, 10])
    for (const [index, slot] of [100, 200].entries()) set.nodes[index]!.probedSlots(slot, 0, null)
    set.compare()
    expect(set.nodes.map(({ state }) => state)).toEqual(['up', 'up'])
  })

  test('is zero as soon as the node that was ahead is doubtful or gone', () => {
    const { set, nodes } = setOf([{}, {}], { lagSlots: 10 })
    nodes[0]!.probedSlots(100, null, null)
    nodes[1]!.probedSlots(200, null, null)
    set.compare()
    expect(nodes[0]!.state).toBe('lagging')
    nodes[1]!.health.probeOverdue()
    expect(nodes[0]!.state).toBe('up')
    nodes[1]!.health.probeAnswered({ isBehind: false })
    set.compare()
    expect(nodes[0]!.state).toBe('lagging')
    nodes[1]!.health.callFailed('unreached')
    expect(nodes[0]!.state).toBe('up')
    expect(set.slot()).toBe(100)
  })

  test('is not caused by a probe that is older than what a stream showed', () => {
    const { nodes } = setOf([{}])
    nodes[0]!.probedSlots(100, 68, null)
    nodes[0]!.observeSlot(103, 0)
    nodes[0]!.observeSlot(70, 2)
    nodes[0]!.probedSlots(102, 70, null)
    expect(nodes[0]!.slot(0)).toBe(103)
    nodes[0]!.probedSlots(104, 72, null)
    expect([nodes[0]!.slot(0), nodes[0]!.slot(2)]).toEqual([104, 72])
    nodes[0]!.probedSlots(10, 1, null)
    expect(nodes[0]!.slot(0)).toBe(104)
    nodes[0]!.probedSlots(11, 2, null)
    expect([nodes[0]!.slot(0), nodes[0]!.slot(2)]).toEqual([11, 2])
  })

  test('is also what a node has received but not replayed', () => {
    const { set, nodes } = setOf([{}], { lagSlots: 10 })
    nodes[0]!.probedSlots(100, 68, 111)
    set.compare()
    expect(nodes[0]!.state).toBe('lagging')
    nodes[0]!.probedSlots(108, 76, 112)
    set.compare()
    expect(nodes[0]!.state).toBe('up')
  })

  test('is not hidden by shreds that are as far ahead as the slot', () => {
    const { set, nodes } = setOf([{}, {}, {}], { lagSlots: 10 })
    for (const node of nodes) node.probedSlots(100, 68, 101)
    nodes[2]!.probedSlots(4_000_000, 3_999_968, 4_000_001)
    set.compare()
    expect(nodes.map(({ state }) => state)).toEqual(['up', 'up', 'ahead'])
    expect(set.slot()).toBe(100)
  })
})

describe('the version of a set', () => {
  test('is the lowest of the nodes that are reachable, else of all', () => {
    const { set, nodes } = setOf([{}, {}, {}])
    expect(set.apiVersion()).toBe('')
    nodes[0]!.apiVersion = '4.3.0'
    expect(set.apiVersion()).toBe('4.3.0')
    nodes[1]!.apiVersion = '4.2.1'
    expect(set.apiVersion()).toBe('4.2.1')
    nodes[1]!.health.probeSilent()
    expect(set.apiVersion()).toBe('4.3.0')
    nodes[0]!.health.probeSilent()
    expect(set.apiVersion()).toBe('4.2.1')
    nodes[1]!.health.probeAnswered({ isBehind: false })
    nodes[1]!.apiVersion = '4.3.0'
    expect(set.apiVersion()).toBe('4.3.0')
  })
})
