// The stream of a set whose nodes fail and lie: scripted connections, a clock of the test's own.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { Heads, openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { GeyserFeed } from '../../../../src/upstream/geyser/geyser-feed.ts'
import { UpstreamSet } from '../../../../src/upstream/node-pool/upstream-set.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'
import { ScriptedGeyser, scriptedIngest } from '../../../testkit/scripted-geyser.ts'
import { setSection } from '../../../testkit/upstream-sections.ts'

const far = 4_000_000_000
const stepMs = 50
const closes: (() => void)[] = []

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  for (const close of closes.splice(0)) close()
  vi.useRealTimers()
})

/** A set of nodes that are up, and its stream. */
async function stage(
  count: number,
  change: (node: ScriptedGeyser) => void = () => {},
  knowsBlockhash: (blockhash: string, slot: number) => Promise<boolean | null> = async () => null,
  merge = 1,
) {
  const clock = new FakeClock()
  const geysers = Array.from({ length: count }, () => new ScriptedGeyser())
  const addresses = geysers.map((_, index) => `http://127.0.0.1:${index + 1}`)
  const sections = addresses.map((grpc) => ({ grpc }))
  const set = new UpstreamSet('main', setSection(sections, { merge }), { clock, log: silentLog })
  const hub = openSolanaHub()
  const heads = new Heads(hub)
  const sink = new SolanaUpstream(hub, { log: silentLog, slotLimit: () => set.slotLimit() })
  const named = Object.fromEntries(addresses.map((name, index) => [name, geysers[index]!]))
  for (const geyser of geysers) change(geyser)
  for (const node of set.nodes) node.wasProbed = true
  /** Probes every node, as often as a slot passes. */
  const probe = (genesis = 'genesis') => {
    for (const [index, node] of set.nodes.entries()) {
      const geyser = geysers[index]!
      if (geyser.isDown) node.probeFailed('unreached', '')
      else {
        node.observeGenesis(genesis)
        node.probedSlots(geyser.slot, null, null)
        set.compare()
        node.health.probeAnswered({ isBehind: false })
      }
      set.compare()
    }
  }
  probe()
  const ingest = scriptedIngest(named)
  const feed = new GeyserFeed(set, { ingest, sink, knowsBlockhash, clock, log: silentLog })
  closes.push(() => {
    feed.stop()
    set.stop()
  })
  const pass = async (ms: number, genesis?: string) => {
    for (let passed = 0; passed < ms; passed += stepMs) {
      clock.ms += stepMs
      if (clock.ms % 400 === 0) probe(genesis)
      await vi.advanceTimersByTimeAsync(stepMs)
    }
  }
  await pass(300)
  const slot = () => heads.at(Commitment.processed)?.slot ?? null
  return { set, geysers, feed, sink, slot, pass, probe, clock }
}

const from = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

describe('a node with a far slot', () => {
  it('is left before anything of it is published, and the other node goes on', async () => {
    const { set, geysers, slot, pass } = await stage(2)
    const [liar, honest] = geysers as [ScriptedGeyser, ScriptedGeyser]
    expect(liar.isFollowed).toBe(true)
    liar.send(from(1_001, 5))
    honest.slot = 1_005
    liar.send([far, far + 1])
    expect(slot()).toBe(1_005)
    await pass(1_000)
    expect(set.nodes.map(({ state }) => state)).toEqual(['ahead', 'up'])
    expect(set.pick('getSlot')).toBe(set.nodes[1])
    expect(honest.isFollowed).toBe(true)
    honest.send(from(1_006, 3))
    expect(slot()).toBe(1_008)
  })

  it('leaves a stream that begins anew when its set has no other, dies and is honest again', async () => {
    const { geysers, sink, feed, slot, pass } = await stage(1)
    const [node] = geysers as [ScriptedGeyser]
    node.send([...from(1_001, 5), far])
    expect(slot()).toBe(far)
    const changes: boolean[] = []
    feed.watch(() => changes.push(feed.isUp()))
    node.die()
    await pass(2_000)
    node.isDown = false
    node.slot = 1_010
    await pass(4_000)
    expect(node.isFollowed).toBe(true)
    expect(slot()).toBeNull()
    node.send(from(1_011, 3))
    expect(slot()).toBe(1_013)
    expect(sink.counts().restarts).toBe(1)
    // Streams of customers end: what they know is of the slots before.
    expect(changes).toEqual([false, true])
  })
})

describe('a replay', () => {
  it('that a node evicts between question and request starts some slots later', async () => {
    const { geysers, sink, slot, pass } = await stage(1)
    const [node] = geysers as [ScriptedGeyser]
    node.send(from(1_001, 10))
    node.die()
    // It has 1,100 and later ones; another slot is gone with every request.
    Object.assign(node, { isDown: false, slot: 1_250, first: 1_100 })
    node.refuse = (fromSlot) => (fromSlot !== null && fromSlot <= node.first!++ ? 11 : null)
    await pass(2_000)
    expect(node.fromSlots.slice(-2)).toEqual([1_100, 1_109])
    node.send(from(1_109, 3))
    expect(slot()).toBe(1_111)
    expect(sink.counts().gapSlots).toBeLessThanOrEqual(100)
  })

  it('begins with the first slot of a node that has no block yet', async () => {
    const { geysers } = await stage(1, (node) => {
      Object.assign(node, { isInFirstSlot: true, first: 1 })
    })
    expect(geysers[0]!.fromSlots).toEqual([1])
  })

  it('is not asked for again at a node that has none', async () => {
    const { geysers, pass } = await stage(1, (node) => {
      node.refuse = (fromSlot) => (fromSlot === null ? null : 12)
    })
    await pass(1_000)
    expect(geysers[0]!.fromSlots).toEqual([960, null])
  })

  it('that is refused in other words, again and again, is done without', async () => {
    const { geysers, pass } = await stage(1, (node) => {
      node.refuse = (fromSlot) => (fromSlot === null ? null : 13)
    })
    await pass(1_000)
    expect(geysers[0]!.fromSlots).toEqual([960, 960, 960, 960, null])
  })
})

describe('a chain that began anew', () => {
  it('is followed when the only node of a set has another genesis hash', async () => {
    const { geysers, sink, slot, pass } = await stage(1)
    const [node] = geysers as [ScriptedGeyser]
    node.send(from(1_001, 10))
    node.die()
    await pass(1_000)
    node.isDown = false
    node.slot = 5
    await pass(3_000, 'another')
    expect(node.isFollowed).toBe(true)
    node.send(from(6, 3))
    expect(slot()).toBe(8)
    expect(sink.counts().restarts).toBe(1)
  })

  it('is followed without another genesis hash, too, once its nodes had time to catch up', async () => {
    const { geysers, sink, slot, pass } = await stage(1)
    const [node] = geysers as [ScriptedGeyser]
    node.send(from(1_001, 10))
    node.die()
    node.isDown = false
    node.slot = 5
    await pass(20_000)
    expect(slot()).toBe(1_010)
    await pass(15_000)
    node.send(from(6, 3))
    expect(slot()).toBe(8)
    expect(sink.counts().restarts).toBe(1)
  })

  it('is not assumed while a node only catches up after a restart', async () => {
    const { geysers, sink, slot, pass } = await stage(1)
    const [node] = geysers as [ScriptedGeyser]
    node.send(from(1_001, 10))
    node.die()
    node.isDown = false
    node.slot = 500
    await pass(5_000)
    node.slot = 1_009
    await pass(5_000)
    expect(node.isFollowed).toBe(true)
    node.send(from(1_009, 5))
    expect(slot()).toBe(1_013)
    expect(sink.counts().restarts).toBe(0)
  })
})

describe('a stream that is left', () => {
  it('is frozen while the slot of its own node advances, and the node is named', async () => {
    const { set, geysers, slot, pass } = await stage(2)
    const [frozen, other] = geysers as [ScriptedGeyser, ScriptedGeyser]
    frozen.send(from(1_001, 5))
    frozen.slot = 1_015
    other.slot = 1_015
    await pass(4_500)
    expect(other.isFollowed).toBe(true)
    expect(set.nodes[0]!.reason).toContain('silent while its slot advances')
    expect(set.nodes[0]!.wrongs.stream).toBe(1)
    // Its JSON-RPC is fine.
    expect(set.nodes[0]!.state).toBe('up')
    other.send(from(1_006, 10))
    expect(slot()).toBe(1_015)
    // It is the last choice, and is named no more once it streams.
    other.die()
    await pass(1_000)
    frozen.send([1_016])
    expect(set.nodes[0]!.reason).toBe('')
  })

  it('is on another chain than the set, and nothing of it is published', async () => {
    const { set, geysers, slot } = await stage(2, undefined, async (blockhash) =>
      blockhash === 'of another chain' ? false : null,
    )
    expect(geysers[0]!.isFollowed).toBe(true)
    const { set: strange, geysers: both } = await stage(
      2,
      (node) => {
        node.blockhash = 'of another chain'
      },
      async () => false,
    )
    expect(both.map(({ isFollowed }) => isFollowed)).toEqual([false, false])
    expect(strange.nodes[0]!.reason).toContain('another chain')
    expect([slot(), set.nodes[0]!.reason]).toEqual([null, ''])
  })

  it.each(['foreign', 'distrusted'])('is that of a node that is %s', async (state) => {
    const { set, geysers, slot, pass } = await stage(2)
    const [first, second] = geysers as [ScriptedGeyser, ScriptedGeyser]
    first.send(from(1_001, 3))
    second.slot = 1_003
    if (state === 'foreign') set.nodes[0]!.health.setForeign(true)
    else set.nodes[0]!.distrust('block', 'it has another block')
    await pass(300)
    expect([first.isFollowed, second.isFollowed]).toEqual([false, true])
    expect(set.followed).toBe(set.nodes[1])
    second.send([1_004])
    expect(slot()).toBe(1_004)
  })

  it('is that of a drained node once another can take over, and no slot is lost', async () => {
    const { set, geysers, feed, sink, slot, pass } = await stage(2)
    const [first, second] = geysers as [ScriptedGeyser, ScriptedGeyser]
    const changes: boolean[] = []
    feed.watch(() => changes.push(feed.isUp()))
    first.send(from(1_001, 5))
    second.die()
    await pass(1_000)
    set.nodes[0]!.setDrained('by alice')
    await pass(2_000)
    expect(first.isFollowed).toBe(true)
    second.isDown = false
    second.slot = 1_005
    await pass(1_500)
    expect([first.isFollowed, second.isFollowed]).toEqual([false, true])
    second.send(from(1_001, 8))
    expect(slot()).toBe(1_008)
    expect([changes, sink.counts().gapSlots]).toEqual([[], 0])
  })
})

describe('a stream that is silent from the start', () => {
  it.each([
    ['is never opened', true],
    ['brings nothing', false],
  ])('is left when it %s: after 10 s for another node, after 30 s alone', async (_, isMute) => {
    const mute = (node: ScriptedGeyser) => void Object.assign(node, { isMute })
    const { geysers, slot, pass } = await stage(2, mute)
    const [first, second] = geysers as [ScriptedGeyser, ScriptedGeyser]
    second.isMute = false
    await pass(9_000)
    expect([first, second].map(({ fromSlots }) => fromSlots.length)).toEqual([1, 0])
    await pass(2_000)
    expect([first, second].map(({ isFollowed }) => isFollowed)).toEqual([false, true])
    second.send(from(1_001, 3))
    expect(slot()).toBe(1_003)
    const alone = await stage(1, mute)
    await alone.pass(29_000)
    expect(alone.geysers[0]!.fromSlots).toHaveLength(1)
    // Back-off, and as long again.
    await alone.pass(40_000)
    expect(alone.geysers[0]!.fromSlots).toHaveLength(3)
    expect(alone.geysers[0]!.isFollowed).toBe(true)
  })

  it('is left by one stream of two, whose node is asked for it anew', async () => {
    const { geysers, feed, slot, pass } = await stage(2, undefined, undefined, 2)
    const [first, second] = geysers as [ScriptedGeyser, ScriptedGeyser]
    second.die()
    Object.assign(second, { isDown: false, isMute: true })
    await pass(1_000)
    expect([feed.nodes, second.fromSlots.length]).toEqual([['main/1'], 2])
    for (let sent = 1_001; sent < 1_023; sent++) {
      first.send([sent])
      second.slot = sent
      await pass(400)
    }
    second.isMute = false
    let last = 1_022
    // Ten seconds after it was asked, and its back-off.
    for (; last < 1_044 && feed.nodes.length < 2; last++) {
      first.send([last + 1])
      second.slot = last + 1
      await pass(400)
    }
    expect([feed.nodes, second.fromSlots.length]).toEqual([['main/1', 'main/2'], 3])
    expect(slot()).toBe(last)
  })
})

describe('merged streams', () => {
  it('go on without a gap or a wait when a node stalls inside of a slot', async () => {
    const { geysers, sink, feed, slot, pass } = await stage(2, undefined, undefined, 2)
    const [stalled, other] = geysers as [ScriptedGeyser, ScriptedGeyser]
    expect(feed.nodes).toEqual(['main/1', 'main/2'])
    stalled.send(from(1_001, 5))
    other.send(from(1_001, 5))
    // Nothing passes in between: the other node's next slots are published as they come.
    other.send(from(1_006, 3))
    expect(slot()).toBe(1_008)
    stalled.die()
    other.send([1_009])
    expect(slot()).toBe(1_009)
    await pass(2_000)
    expect(feed.isUp()).toBe(true)
    expect(feed.nodes).toEqual(['main/2'])
    stalled.isDown = false
    stalled.slot = 1_009
    await pass(3_000)
    expect(feed.nodes).toEqual(['main/1', 'main/2'])
    expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
  })

  it.each([0, 1])('wait for the replay of another node where node %i has none', async (without) => {
    const { geysers, feed, sink, slot, pass } = await stage(2, undefined, undefined, 2)
    const live = geysers[without]!
    const replaying = geysers[1 - without]!
    for (const geyser of geysers) geyser.send(from(1_001, 10))
    for (const geyser of geysers) geyser.die()
    Object.assign(live, { isDown: false, slot: 1_100, first: null })
    live.refuse = (fromSlot) => (fromSlot === null ? null : 12)
    // The one without a replay is back first.
    await pass(1_500)
    expect(live.isFollowed).toBe(false)
    Object.assign(replaying, { isDown: false, slot: 1_100 })
    await pass(4_000)
    expect([live.isFollowed, replaying.isFollowed]).toEqual([false, true])
    const resumed = replaying.fromSlots.at(-1)!
    expect(resumed).toBeLessThanOrEqual(1_011)
    replaying.send(from(resumed, 1_101 - resumed))
    await pass(1_000)
    expect(feed.nodes).toHaveLength(2)
    for (const geyser of geysers) geyser.send(from(1_101, 3))
    expect(slot()).toBe(1_103)
    expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
  })

  it('begin after a long wait for the replay of another node, and do not connect again', async () => {
    const { geysers, feed, slot, pass } = await stage(2, undefined, undefined, 2)
    const [live, replaying] = geysers as [ScriptedGeyser, ScriptedGeyser]
    for (const geyser of geysers) geyser.send(from(1_001, 10))
    for (const geyser of geysers) geyser.die()
    Object.assign(live, { isDown: false, slot: 1_100, first: null })
    live.refuse = (fromSlot) => (fromSlot === null ? null : 12)
    await pass(1_500)
    Object.assign(replaying, { isDown: false, slot: 1_100 })
    await pass(4_000)
    expect([live.isFollowed, replaying.isFollowed]).toEqual([false, true])
    const { failures } = feed.counts
    const subscribed = live.fromSlots.length
    // The chain went on meanwhile, and the replay comes up to it.
    const resumed = replaying.fromSlots.at(-1)!
    for (const geyser of geysers) geyser.slot = 1_500
    replaying.send(from(resumed, 1_501 - resumed))
    await pass(1_000)
    expect([feed.nodes.length, feed.counts.failures]).toEqual([2, failures])
    expect(live.fromSlots.slice(subscribed)).toEqual([null])
    for (const geyser of geysers) geyser.send(from(1_501, 3))
    expect(slot()).toBe(1_503)
  })

  it('do not wait for a node that does not come back, nor where no other one has a replay', async () => {
    for (const hasOther of [true, false]) {
      const { geysers, pass } = await stage(2, undefined, undefined, 2)
      const [live, other] = geysers as [ScriptedGeyser, ScriptedGeyser]
      for (const geyser of geysers) geyser.send(from(1_001, 10))
      for (const geyser of geysers) geyser.die()
      for (const geyser of hasOther ? [live] : geysers) {
        Object.assign(geyser, { isDown: false, slot: 1_100, first: null })
        geyser.refuse = (fromSlot) => (fromSlot === null ? null : 12)
      }
      await pass(6_000)
      for (const geyser of geysers) if (geyser.isFollowed) geyser.send([1_101])
      await pass(1_000)
      expect([live.isFollowed, other.isFollowed]).toEqual([true, !hasOther])
    }
  })

  it('read each node once, and as many as there are', async () => {
    const { geysers, feed } = await stage(2, undefined, undefined, 4)
    expect(feed.nodes).toEqual(['main/1', 'main/2'])
    for (const geyser of geysers) expect(geyser.fromSlots).toHaveLength(1)
  })

  it('leave the third node for a failover', async () => {
    const { geysers, feed, pass } = await stage(3, undefined, undefined, 2)
    expect(feed.nodes).toEqual(['main/1', 'main/2'])
    geysers[0]!.die()
    await pass(500)
    expect(feed.nodes.toSorted()).toEqual(['main/2', 'main/3'])
  })

  it('leave nodes that lag for those that do not', async () => {
    const { geysers, feed, sink, slot, pass } = await stage(4, undefined, undefined, 2)
    for (const geyser of geysers.slice(0, 2)) geyser.send(from(1_001, 5))
    // Within what an operator allows (20 s), and far from what the others have.
    for (const geyser of geysers.slice(2)) geyser.slot = 1_005
    await pass(400)
    for (const geyser of geysers.slice(2)) geyser.slot = 1_013
    await pass(2_000)
    expect(feed.nodes.toSorted()).toEqual(['main/3', 'main/4'])
    for (const geyser of geysers.slice(2)) geyser.send(from(1_006, 8))
    expect([slot(), sink.counts().gapSlots]).toEqual([1_013, 0])
    await pass(3_000)
    expect(feed.nodes.toSorted()).toEqual(['main/3', 'main/4'])
  })

  it('leave a node that is drained, and return to it', async () => {
    const { set, geysers, feed, sink, slot, pass } = await stage(2, undefined, undefined, 2)
    for (const geyser of geysers) geyser.send(from(1_001, 5))
    set.nodes[0]!.setDrained('by alice')
    await pass(500)
    expect(feed.nodes).toEqual(['main/2'])
    await pass(3_000)
    expect(geysers[0]!.fromSlots).toHaveLength(1)
    geysers[1]!.send(from(1_006, 3))
    expect(slot()).toBe(1_008)
    set.nodes[0]!.setDrained(null)
    geysers[0]!.slot = 1_008
    await pass(3_000)
    expect(feed.nodes).toEqual(['main/1', 'main/2'])
    expect(sink.counts().gapSlots).toBe(0)
  })

  it('end together when the chain begins anew', async () => {
    const { geysers, sink, slot, pass } = await stage(2, undefined, undefined, 2)
    for (const geyser of geysers) geyser.send(from(1_001, 10))
    for (const geyser of geysers) geyser.die()
    await pass(1_000)
    for (const geyser of geysers) Object.assign(geyser, { isDown: false, slot: 5 })
    await pass(6_000, 'another')
    for (const geyser of geysers) geyser.send(from(6, 3))
    expect(slot()).toBe(8)
    expect(sink.counts().restarts).toBe(1)
  })
})
