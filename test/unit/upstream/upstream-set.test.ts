import { afterEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../../src/telemetry/log.ts'
import type { NodeSection, SetSection } from '../../../src/upstream/config.ts'
import type { UpstreamNode } from '../../../src/upstream/upstream-node.ts'
import { type ChooseOptions, UpstreamSet } from '../../../src/upstream/upstream-set.ts'
import { FakeClock } from '../../support/fake-senders.ts'
import { setSection } from '../../support/upstream-sections.ts'

const clock = new FakeClock()
const made: UpstreamSet[] = []
afterEach(async () => {
  await Promise.all(made.splice(0).map((set) => set.stop()))
})

/** A set whose nodes are all up; the draw is a plain sequence that covers 0 to 1 evenly. */
function setOf(nodes: readonly Partial<NodeSection>[], changes: Partial<SetSection> = {}) {
  let draws = 0
  const random = () => (draws++ * 0.618_033_988_75) % 1
  const set = new UpstreamSet('main', setSection(nodes, changes), { clock, log: silentLog, random })
  made.push(set)
  for (const node of set.nodes) node.health.probeAnswered({ isBehind: false })
  return { set, nodes: set.nodes as UpstreamNode[] }
}

/** How often each node is chosen out of a thousand, in percent. */
function shares(set: UpstreamSet, options: ChooseOptions = {}, method = 'getSlot'): number[] {
  const counts = set.nodes.map(() => 0)
  for (let time = 0; time < 1_000; time++) {
    const node = set.choose(method, options)
    if (node !== null) counts[node.number - 1]!++
  }
  return counts.map((count) => Math.round(count / 10))
}

function slow(node: UpstreamNode, ms: number): void {
  for (let time = 0; time < 50; time++) node.tookMs(ms)
}

describe('the choice of a node', () => {
  test('follows the weights while the nodes are alike', () => {
    const { set } = setOf([{ weight: 3 }, { weight: 1 }])
    const [first = 0, second = 0] = shares(set)
    expect(first).toBeGreaterThanOrEqual(72)
    expect(first).toBeLessThanOrEqual(78)
    expect(first + second).toBe(100)
  })

  test('leaves a slow node to itself as long as it is drawn against a faster one', () => {
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
    expect(set.choose('getSlot')).toBeNull()
    expect(set.isServing()).toBe(false)
    expect(set.all('sendTransaction')).toEqual([])
  })

  test('takes a doubtful node rather than none', () => {
    const { set, nodes } = setOf([{}, {}])
    nodes[0]!.health.probeOverdue()
    expect(shares(set)).toEqual([0, 100])
    nodes[1]!.health.probeSilent()
    expect(set.choose('getSlot')).toBe(nodes[0])
    expect(set.isServing()).toBe(true)
  })

  test('leaves out the nodes that were asked already', () => {
    const { set, nodes } = setOf([{}, {}])
    expect(shares(set, { not: [nodes[0]!] })).toEqual([0, 100])
    expect(set.choose('getSlot', { not: nodes })).toBeNull()
  })

  test('respects allow and deny lists, and says what nobody serves', () => {
    const { set } = setOf([{ deny: ['getProgramAccounts'] }, { allow: ['getBlock*', 'getProg*'] }])
    expect(shares(set, {}, 'getProgramAccounts')).toEqual([0, 100])
    expect(shares(set, {}, 'getSlot')).toEqual([100, 0])
    expect(set.serves('getBlock')).toBe(true)
    const { set: narrow } = setOf([{ allow: ['getSlot'] }])
    expect(narrow.serves('getBlock')).toBe(false)
    expect(narrow.choose('getBlock')).toBeNull()
  })

  test('picks no node without rpc', () => {
    const { set } = setOf([{}, { rpc: '', grpc: 'http://127.0.0.1:9' }])
    expect(shares(set)).toEqual([100, 0])
  })

  test('on trial a node gets one call at a time, and nothing that is sent once', () => {
    const { set, nodes } = setOf([{}, {}])
    for (let time = 0; time < 5; time++) nodes[0]!.health.callFailed('status')
    clock.ms += 2_000
    nodes[0]!.health.probeAnswered({ isBehind: false })
    expect(shares(set)[0]).toBeGreaterThan(0)
    expect(shares(set, { isOnce: true })).toEqual([0, 100])
  })
})

describe('minContextSlot', () => {
  test('leaves out the nodes that are known to be below, by the commitment asked for', () => {
    const { set, nodes } = setOf([{}, {}])
    nodes[0]!.tellSlots(100, 68, null)
    nodes[1]!.tellSlots(110, 78, null)
    expect(shares(set, { minContextSlot: 105, commitment: 0 })).toEqual([0, 100])
    expect(shares(set, { minContextSlot: 70 })).toEqual([0, 100])
    expect(shares(set, { minContextSlot: 60 })[0]).toBeGreaterThan(40)
  })

  test('goes to the best node when all are below: it gives the right error itself', () => {
    const { set, nodes } = setOf([{}, {}])
    nodes[0]!.tellSlots(100, 68, null)
    nodes[1]!.tellSlots(110, 78, null)
    expect(shares(set, { minContextSlot: 500 })).toEqual([0, 100])
  })

  test('does not leave out a node that tells no slots', () => {
    const { set } = setOf([{}])
    expect(set.choose('getSlot', { minContextSlot: 500 })).not.toBeNull()
  })
})

describe('lag', () => {
  test('is counted against the best node of the set that is there', () => {
    const { set, nodes } = setOf([{}, {}], { lagSlots: 10 })
    nodes[0]!.tellSlots(100, null, null)
    nodes[1]!.tellSlots(111, null, null)
    set.judge()
    expect(nodes.map(({ lagSlots, state }) => [lagSlots, state])).toEqual([
      [11, 'lagging'],
      [0, 'up'],
    ])
    nodes[0]!.tellSlots(106, null, null)
    set.judge()
    expect(nodes[0]!.state).toBe('up')
  })

  test('is nothing as soon as the node that was ahead is doubtful or gone', () => {
    const { set, nodes } = setOf([{}, {}], { lagSlots: 10 })
    nodes[0]!.tellSlots(100, null, null)
    nodes[1]!.tellSlots(200, null, null)
    set.judge()
    expect(nodes[0]!.state).toBe('lagging')
    nodes[1]!.health.probeOverdue()
    expect(nodes[0]!.state).toBe('up')
    nodes[1]!.health.probeAnswered({ isBehind: false })
    set.judge()
    expect(nodes[0]!.state).toBe('lagging')
    nodes[1]!.health.callFailed('unreached')
    expect(nodes[0]!.state).toBe('up')
    expect(set.slot()).toBe(100)
  })

  test('does not come of a probe that is older than what a stream showed', () => {
    const { nodes } = setOf([{}])
    nodes[0]!.tellSlots(100, 68, null)
    nodes[0]!.sawSlot(103, 0)
    nodes[0]!.sawSlot(70, 2)
    nodes[0]!.tellSlots(102, 70, null)
    expect(nodes[0]!.slot(0)).toBe(103)
    nodes[0]!.tellSlots(104, 72, null)
    expect([nodes[0]!.slot(0), nodes[0]!.slot(2)]).toEqual([104, 72])
    nodes[0]!.tellSlots(10, 1, null)
    expect(nodes[0]!.slot(0)).toBe(104)
    nodes[0]!.tellSlots(11, 2, null)
    expect([nodes[0]!.slot(0), nodes[0]!.slot(2)]).toEqual([11, 2])
  })

  test('is also what a node has taken in but not replayed', () => {
    const { set, nodes } = setOf([{}], { lagSlots: 10 })
    nodes[0]!.tellSlots(100, 68, 111)
    set.judge()
    expect(nodes[0]!.state).toBe('lagging')
    nodes[0]!.tellSlots(108, 76, 112)
    set.judge()
    expect(nodes[0]!.state).toBe('up')
  })
})
