// Where wishes are held, what they are told, and what becomes of them when nodes go.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/telemetry/log.ts'
import { SetRelay } from '../../../../src/upstream/pubsub/set-relay.ts'
import { FakeSet, Told } from '../../../support/fake-pubsub.ts'

let set: FakeSet
let relay: SetRelay
const open = (nodes: number) => {
  set = new FakeSet(nodes)
  relay = new SetRelay(set, { connect: set.connect, clock: systemClock, log: silentLog })
}
beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  relay.stop()
  vi.useRealTimers()
})

const turn = () => vi.advanceTimersByTimeAsync(0)
const wish = (topic: string, params = '[]') => ({ set: 'default', topic, params })

async function add(topic: string, params = '[]') {
  const told = new Told()
  const held = relay.add(wish(topic, params), told)
  await turn()
  return { told, held }
}

describe('ids', () => {
  it('are translated both ways: what a node calls a wish is its own affair', async () => {
    open(1)
    const [slot, root] = [await add('slot'), await add('root')]
    const [node] = set.nodes
    expect(node!.socket.texts()).toEqual(['slotSubscribe []', 'rootSubscribe []'])
    node!.socket.notify(1000, '{"slot":1}')
    node!.socket.notify(1001, '17')
    node!.socket.notify(999, '"nobody"')
    expect([slot.told.results, root.told.results]).toEqual([['{"slot":1}'], ['17']])
    relay.close(root.held)
    await turn()
    expect(node!.socket.texts().at(-1)).toBe('rootUnsubscribe [1001]')
    node!.socket.notify(1001, '18')
    expect(root.told.results).toEqual(['17'])
    expect(relay.count).toBe(1)
  })

  it('serve two wishes that a node takes for one, and end with the second', async () => {
    open(1)
    const one = await add('logs', '["all"]')
    const two = await add('logs', '["all",{}]')
    const { socket } = set.nodes[0]!
    // As a node does that finds them equal.
    relay.close(two.held)
    await turn()
    socket.asked.length = 0
    const again = new Told()
    socket.isAnswering = false
    const held = relay.add(wish('logs', '["all",{}]'), again)
    await turn()
    socket.asked[0]!.answered({ ok: true, result: '1000' })
    socket.notify(1000, '1')
    expect([one.told.results, again.results]).toEqual([['1'], ['1']])
    relay.close(held)
    expect(socket.texts()).toEqual(['logsSubscribe ["all",{}]'])
    relay.close(one.held)
    expect(socket.texts().at(-1)).toBe('logsUnsubscribe [1000]')
  })

  it('of a wish given up before the answer go to whoever wants the same, or are ended', async () => {
    open(1)
    await add('root')
    const { socket } = set.nodes[0]!
    socket.isAnswering = false
    const gone = await add('slot')
    relay.close(gone.held)
    const next = await add('slot')
    expect(socket.texts().filter((text) => text.startsWith('slotSub'))).toHaveLength(1)
    socket.answer(socket.asked.at(-1)!)
    socket.notify(1001, '5')
    expect([gone.told.opens, next.told.opens, next.told.results]).toEqual([0, 1, ['5']])
    const lone = await add('logs', '["all"]')
    relay.close(lone.held)
    socket.answer(socket.asked.at(-1)!)
    expect(socket.texts().at(-1)).toBe('logsUnsubscribe [1002]')
  })

  it('may be told of before the answer that names them', async () => {
    open(1)
    await add('root')
    const { socket } = set.nodes[0]!
    socket.isAnswering = false
    const { told } = await add('signature', '["s",{"commitment":"processed"}]')
    socket.notify(1001, '{"context":{"slot":1},"value":{"err":null}}')
    expect(told.results).toEqual([])
    socket.answer(socket.asked.at(-1)!)
    expect([told.opens, told.lasts.length]).toEqual([1, 1])
  })
})

describe('a new wish', () => {
  it('goes to the node that holds the fewest, by weight', async () => {
    open(3)
    set.nodes[0]!.weight = 2
    set.nodes[2]!.weight = 0
    for (let at = 0; at < 6; at++) await add('logs', `[${at}]`)
    expect(set.nodes.map((node) => relay.at(node).subscriptions)).toEqual([4, 2, 0])
  })

  it('is answered with the error of the node', async () => {
    open(2)
    await add('slot')
    const error = { code: -32601, message: 'Method not found' }
    for (const node of set.nodes) node.denied.add('rootSubscribe')
    const denied = await add('root')
    expect(denied.told.error).toMatchObject({ code: -32601 })
    set.nodes[0]!.socket.errors.set('blockSubscribe', error)
    set.nodes[1]!.denied.add('blockSubscribe')
    const { told } = await add('block')
    expect(told).toMatchObject({ error, opens: 0 })
  })

  it('tries another node where one says "not now", and passes the word on when all do', async () => {
    open(2)
    await add('slot')
    await add('root')
    const busy = { code: -32005, message: 'Node is behind' }
    set.nodes[0]!.socket.errors.set('logsSubscribe', busy)
    const { told } = await add('logs')
    expect(told.opens).toBe(1)
    set.nodes[1]!.socket.errors.set('logsSubscribe', busy)
    expect((await add('logs', '[1]')).told.error).toEqual(busy)
  })

  it('goes over another socket where the node takes no more over one', async () => {
    open(1)
    const full = { code: -32429, message: 'Too many requests' }
    const [node] = set.nodes
    const first = await add('logs', '[0]')
    await add('logs', '[1]')
    node!.socket.errors.set('logsSubscribe', full)
    const { told } = await add('logs', '[2]')
    expect([told.opens, node!.connections.length, relay.count]).toEqual([1, 2, 3])
    expect(relay.connections).toBe(2)
    // What leaves makes room again; a fresh socket that takes nothing is the node's own word.
    node!.connections[0]!.errors.clear()
    relay.close(first.held)
    expect((await add('logs', '[3]')).told.opens).toBe(1)
    expect(node!.connections[0]!.texts().at(-1)).toBe('logsSubscribe [3]')
    for (const connection of node!.connections) connection.errors.set('logsSubscribe', full)
    const connect = set.connect
    relay.stop()
    relay = new SetRelay(set, {
      connect: (to, listener) => {
        const connection = connect(to, listener)
        node!.socket.errors.set('logsSubscribe', full)
        return connection
      },
      clock: systemClock,
      log: silentLog,
    })
    expect((await add('logs', '[4]')).told.error).toEqual(full)
    expect(node!.connections.length).toBe(3)
  })

  it('is refused with -32005 when no node is good, and when none answers in time', async () => {
    open(1)
    set.nodes[0]!.state = 'down'
    expect(relay.problem('slotSubscribe')).toMatchObject({ code: -32005 })
    const unhealthy = { code: -32005, data: { numSlotsBehind: null } }
    expect((await add('slot')).told.error).toMatchObject(unhealthy)
    set.nodes[0]!.state = 'up'
    expect((await add('root')).told.opens).toBe(1)
    set.nodes[0]!.socket.isAnswering = false
    const late = await add('slot')
    await vi.advanceTimersByTimeAsync(10_100)
    relay.tick()
    expect(late.told.error).toMatchObject(unhealthy)
  })
})

describe('a lost node', () => {
  it('loses nothing: everything is subscribed at another one, and nobody hears of it', async () => {
    open(2)
    const all = []
    for (let at = 0; at < 20; at++) all.push(await add('logs', `[${at}]`))
    set.nodes[0]!.socket.lose()
    await turn()
    expect(relay.at(set.nodes[1]!).subscriptions).toBe(20)
    for (const { told } of all) expect(told).toMatchObject({ opens: 1, error: null, results: [] })
    expect(relay.tally).toMatchObject({ reconnects: 1, resubscribed: 10 })
    set.nodes[1]!.socket.notify(2010, '"on"')
    expect(all.filter(({ told }) => told.results.length === 1)).toHaveLength(1)
  })

  it('is waited for when it is the only one, and found again with back-off', async () => {
    open(1)
    const { told } = await add('slot')
    const [node] = set.nodes
    node!.socket.lose()
    node!.state = 'down'
    expect((await add('root')).told.error).toMatchObject({ code: -32005 })
    await vi.advanceTimersByTimeAsync(30_000)
    expect([node!.connections.length, told.error]).toEqual([1, null])
    node!.state = 'up'
    await vi.advanceTimersByTimeAsync(200)
    expect([node!.connections.length, relay.count]).toEqual([2, 1])
    node!.socket.notify(1100, '9')
    expect(told).toMatchObject({ opens: 1, results: ['9'] })
    // Refused again and again: each try waits longer, up to the bound.
    node!.socket.lose()
    for (let tries = 0; tries < 40; tries++) {
      await vi.advanceTimersByTimeAsync(100)
      if (!node!.socket.isClosed) node!.socket.lose('refused')
    }
    expect(node!.connections.length).toBeLessThan(12)
  })

  it('gives its wishes back when they were never taken', async () => {
    open(2)
    await add('root')
    await add('slot')
    set.nodes[0]!.socket.isAnswering = false
    const { told } = await add('logs')
    expect(told.opens).toBe(0)
    set.nodes[0]!.socket.lose('unanswered')
    await turn()
    expect(told.opens).toBe(1)
  })

  it('is left when it falls behind while another is good', async () => {
    open(2)
    await add('root')
    await add('slot')
    set.nodes[0]!.state = 'lagging'
    relay.review()
    await turn()
    expect(set.nodes.map((node) => relay.at(node).subscriptions)).toEqual([0, 2])
    expect(set.nodes[0]!.socket.isClosed).toBe(true)
    set.nodes[1]!.state = 'lagging'
    relay.review()
    expect(set.nodes[1]!.socket.isClosed).toBe(false)
  })

  it('is tried again later where the next one does not offer the method', async () => {
    open(2)
    const { told } = await add('block')
    set.nodes[1]!.denied.add('blockSubscribe')
    set.nodes[0]!.socket.lose()
    await turn()
    expect(relay.count).toBe(0)
    await vi.advanceTimersByTimeAsync(6_000)
    expect([relay.at(set.nodes[0]!).subscriptions, told.opens]).toEqual([1, 1])
  })

  it('closes a connection that nothing is held on', async () => {
    open(1)
    const { held } = await add('slot')
    relay.close(held)
    for (let ticks = 0; ticks < 32; ticks++) relay.tick()
    expect(set.nodes[0]!.socket.isClosed).toBe(true)
    expect(relay.at(set.nodes[0]!).connected).toBe(false)
  })
})
