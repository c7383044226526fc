// What a set believes of its nodes: slots that stand still, blocks that contradict each other,
// answers that are wrong, health that is unknown.
import { afterEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import type { NodeSection } from '../../../../src/upstream/config.ts'
import { distrustMs, type UpstreamNode } from '../../../../src/upstream/node-pool/upstream-node.ts'
import { SetBlocks, UpstreamSet } from '../../../../src/upstream/node-pool/upstream-set.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'
import { setSection } from '../../../testkit/upstream-sections.ts'

const made: UpstreamSet[] = []
afterEach(() => {
  for (const set of made.splice(0)) set.stop()
})

/** A set whose nodes were probed once, at slot 1,000. */
function setOf(count: number, each: Partial<NodeSection> = {}) {
  const clock = new FakeClock()
  const sections = Array.from({ length: count }, () => each)
  const set = new UpstreamSet('main', setSection(sections), { clock, log: silentLog })
  made.push(set)
  const nodes = set.nodes as UpstreamNode[]
  for (const node of nodes) {
    node.wasProbed = true
    node.probedSlots(1_000, 968, null)
    node.health.probeAnswered({ isBehind: false })
  }
  set.compare()
  /** A probe of each node at each second, with these slots. */
  const pass = (seconds: number, slotsOf: (second: number) => readonly (number | null)[]) => {
    for (let second = 1; second <= seconds; second++) {
      clock.ms += 1_000
      for (const [index, slot] of slotsOf(second).entries())
        if (slot !== null) nodes[index]!.probedSlots(slot, slot - 32, null)
      set.compare()
    }
  }
  return { set, nodes, clock, pass, states: () => nodes.map(({ state }) => state) }
}

describe('a slot', () => {
  test('that stands still while those of the others advance takes its node out, and back', () => {
    const { pass, states, nodes, set } = setOf(3)
    pass(4, (second) => [1_000 + 2 * second, 1_000 + 2 * second, 1_000])
    expect(states()).toEqual(['up', 'up', 'up'])
    pass(4, (second) => [1_008 + 2 * second, 1_008 + 2 * second, 1_000])
    expect(states()).toEqual(['up', 'up', 'lagging'])
    expect(nodes[2]!.reason).toContain('stands still')
    expect(set.pick('getSlot')).not.toBe(nodes[2])
    pass(1, () => [1_018, 1_018, 1_017])
    expect(states()).toEqual(['up', 'up', 'up'])
  })

  test('stands still also where the stream of the same node goes on', () => {
    const { pass, states, nodes } = setOf(2)
    pass(8, (second) => {
      nodes[1]!.observeSlot(1_000 + 2 * second, 0)
      return [1_000 + 2 * second, 1_000]
    })
    expect(states()).toEqual(['up', 'lagging'])
  })

  test('that no node moves beyond takes none out: the chain has halted', () => {
    const { pass, states } = setOf(2)
    pass(60, () => [1_000, 995])
    expect(states()).toEqual(['up', 'up'])
  })

  test('that a node does not report takes it out, where others report theirs', () => {
    const { set, nodes, states } = setOf(2)
    nodes[1]!.observeGenesis('first')
    nodes[1]!.observeGenesis('second')
    nodes[0]!.observeGenesis('second')
    set.compare()
    expect(nodes[1]!.slot()).toBeNull()
    expect(states()).toEqual(['up', 'lagging'])
    expect(nodes[1]!.reason).toBe('it reports no slot')
  })

  test('is not expected of a node that does not serve it', () => {
    const clock = new FakeClock()
    const sections = [{}, { allow: ['sendTransaction'] }]
    const set = new UpstreamSet('main', setSection(sections), { clock, log: silentLog })
    made.push(set)
    set.nodes[0]!.wasProbed = true
    set.nodes[0]!.probedSlots(1_000, 968, null)
    set.nodes[0]!.health.probeAnswered({ isBehind: false })
    set.compare()
    expect(set.nodes.map(({ state }) => state)).toEqual(['up', 'up'])
  })
})

describe('processed below finalized', () => {
  test('does not make a node lag: the highest of the three commitments counts', () => {
    const { set, nodes, states, clock } = setOf(3)
    for (let slot = 1_001; slot <= 1_200; slot++) {
      clock.ms += 400
      nodes[0]!.probedSlots(slot, slot - 1, null, slot)
      nodes[1]!.probedSlots(slot, slot - 1, null, slot)
      // Skip votes and roots do not move it.
      nodes[2]!.probedSlots(1_000, slot - 1, null, slot - 1)
      set.compare()
    }
    expect(states()).toEqual(['up', 'up', 'up'])
    expect(nodes[2]!.lagSlots).toBe(1)
    expect([nodes[2]!.slot(0), nodes[2]!.slot(1), nodes[2]!.slot(2)]).toEqual([1_000, 1_199, 1_199])
    expect(set.slot()).toBe(1_200)
  })

  test('of all nodes leaves the head where finalized is', () => {
    const { set, nodes, clock } = setOf(2)
    clock.ms += 40_000
    for (const node of nodes) node.probedSlots(1_000, 1_090, null, 1_090)
    set.compare()
    expect(set.slot()).toBe(1_090)
    expect(set.pick('getSlot')).not.toBeNull()
  })

  test('goes back to the root without a doubt about the chain', () => {
    const { nodes } = setOf(1)
    expect(nodes[0]!.probedSlots(1_100, 1_068, null, 1_090)).toBe(true)
    expect(nodes[0]!.probedSlots(1_070, 1_070, null, 1_101)).toBe(true)
    expect(nodes[0]!.slot(0)).toBe(1_070)
  })
})

describe('an unknown health', () => {
  const unknown = { isBehind: true, isUnknown: true }

  test('of all nodes does not empty the set while their slots move', () => {
    const { set, nodes, pass, clock } = setOf(2)
    pass(2, (second) => [1_000 + second, 1_000 + second])
    for (const node of nodes) node.health.probeAnswered(unknown)
    expect(set.isServing()).toBe(true)
    expect(set.pick('getBalance')).not.toBeNull()
    expect(set.all('sendTransaction')).toHaveLength(2)
    clock.ms += 6_000
    expect(set.isServing()).toBe(false)
  })

  test('is worse than a known one, and a known lag is no unknown health', () => {
    const { set, nodes, pass } = setOf(2)
    pass(2, (second) => [1_000 + second, 1_000 + second])
    nodes[0]!.health.probeAnswered(unknown)
    for (let time = 0; time < 20; time++) expect(set.pick('getBalance')).toBe(nodes[1])
    for (const node of nodes) node.health.probeAnswered({ isBehind: true })
    expect(set.pick('getBalance')).toBeNull()
  })
})

describe('blocks', () => {
  test('of one node against two take it out, with slot and others named', () => {
    const { set, nodes, states, clock } = setOf(3)
    set.observeBlock(nodes[0]!, 970, 'false')
    set.observeBlock(nodes[1]!, 970, 'true')
    // Two against each other: the third one decides, also against the one that is followed.
    set.followed = nodes[0]!
    expect(states()).toEqual(['up', 'up', 'up'])
    set.observeBlock(nodes[2]!, 970, 'true')
    expect(states()).toEqual(['distrusted', 'up', 'up'])
    expect(nodes[0]!.reason).toBe('at slot 970 it has another block than main/2, main/3')
    expect(nodes[0]!.wrongs.block).toBe(1)
    for (let time = 0; time < 20; time++) expect(set.pick('getSlot')).not.toBe(nodes[0])
    clock.ms += distrustMs / 2
    set.observeBlock(nodes[1]!, 971, 'true')
    set.observeBlock(nodes[0]!, 971, 'false')
    clock.ms += distrustMs / 2 + 1
    nodes[0]!.health.probeAnswered({ isBehind: false })
    expect(states()[0]).toBe('distrusted')
    clock.ms += distrustMs / 2
    nodes[0]!.health.probeAnswered({ isBehind: false })
    expect(states()[0]).toBe('up')
  })

  test('of two nodes leave the one that is followed, and neither is called wrong', () => {
    const { set, nodes, states } = setOf(2)
    set.followed = nodes[1]!
    set.observeBlock(nodes[0]!, 970, 'one')
    set.observeBlock(nodes[1]!, 970, 'other')
    expect(states()).toEqual(['distrusted', 'up'])
    expect(nodes[0]!.reason).toContain('another block than main/2; neither is proven wrong')
    set.observeBlock(nodes[1]!, 971, 'other')
    set.observeBlock(nodes[0]!, 971, 'one')
    expect(states()).toEqual(['distrusted', 'up'])
  })

  test('of two nodes are decided by a third that returns, and by nodes that count', () => {
    const { set, nodes, states, clock } = setOf(3)
    set.followed = nodes[0]!
    nodes[2]!.health.probeSilent()
    for (const slot of [970, 971]) {
      set.observeBlock(nodes[0]!, slot, 'false')
      set.observeBlock(nodes[1]!, slot, 'true')
    }
    expect(states()).toEqual(['up', 'distrusted', 'down'])
    nodes[2]!.health.probeAnswered({ isBehind: false })
    set.observeBlock(nodes[2]!, 971, 'true')
    expect(states()).toEqual(['distrusted', 'distrusted', 'up'])
    expect(nodes[0]!.reason).toContain('another block than main/2, main/3')
    // The proven liar stays out by its further blocks, the other one returns.
    clock.ms += distrustMs / 2
    set.observeBlock(nodes[0]!, 1_000, 'false')
    set.observeBlock(nodes[2]!, 1_000, 'true')
    clock.ms += distrustMs / 2 + 1
    for (const node of nodes) node.health.probeAnswered({ isBehind: false })
    expect(states()).toEqual(['distrusted', 'up', 'up'])
  })

  test('of two nodes without a stream leave the one that reported first', () => {
    const { set, nodes, states } = setOf(2)
    set.observeBlock(nodes[0]!, 970, 'one')
    set.observeBlock(nodes[1]!, 970, 'other')
    expect(states()).toEqual(['up', 'distrusted'])
  })

  test('of a stream count for its node: against its own JSON-RPC and another node', () => {
    const { set, nodes, states } = setOf(2)
    set.followed = nodes[0]!
    set.observeBlock(nodes[0]!, 970, 'of the stream')
    set.observeBlock(nodes[1]!, 970, 'true')
    expect(states()).toEqual(['up', 'distrusted'])
    const { set: other, nodes: both, states: after } = setOf(2)
    other.observeBlock(both[0]!, 970, 'true')
    other.observeBlock(both[1]!, 970, 'true')
    other.observeBlock(both[0]!, 970, 'of the stream')
    expect(after()).toEqual(['distrusted', 'up'])
  })

  test('are remembered for a bounded number of slots', () => {
    const blocks = new SetBlocks<string>()
    for (let slot = 0; slot < 300; slot++) expect(blocks.add('a', slot, 'one')).toBeNull()
    expect(blocks.add('b', 0, 'other')).toBeNull()
    expect([...blocks.add('b', 299, 'other')!.keys()]).toEqual(['one', 'other'])
  })
})

describe('wrong answers', () => {
  test('take a node out with the third within a minute, and name what is wrong', () => {
    const { nodes, states, clock } = setOf(2)
    nodes[0]!.distrust('id')
    nodes[0]!.distrust('id')
    clock.ms += 61_000
    nodes[0]!.distrust('id')
    nodes[0]!.distrust('shape')
    expect(states()).toEqual(['up', 'up'])
    nodes[0]!.distrust('id')
    expect(states()).toEqual(['distrusted', 'up'])
    expect(nodes[0]!.reason).toContain('other ids')
    expect(nodes[0]!.wrongs).toMatchObject({ id: 4, shape: 1, block: 0 })
  })

  test('are only counted in a set of one node', () => {
    const { nodes, states } = setOf(1)
    for (let time = 0; time < 10; time++) nodes[0]!.distrust('id')
    expect(states()).toEqual(['up'])
    expect(nodes[0]!.wrongs.id).toBe(10)
  })
})

test('a drained node is out whatever it reports, is named, and returns as it is', () => {
  const { set, nodes, states } = setOf(2)
  nodes[0]!.setDrained('by alice: upgrade')
  expect(states()).toEqual(['drained', 'up'])
  expect(nodes[0]!.reason).toBe('by alice: upgrade')
  nodes[0]!.health.probeFailed('unreached')
  expect(states()[0]).toBe('drained')
  expect(set.all('sendTransaction')).toEqual([nodes[1]])
  nodes[0]!.setDrained(null)
  expect(states()[0]).toBe('down')
})
