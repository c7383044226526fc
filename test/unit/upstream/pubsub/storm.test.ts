// Random days of a relay: wishes come and go, nodes are lost, fall behind, refuse and return. In the
// end every wish that is left has exactly one subscription at one node, and no node has any other.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/telemetry/log.ts'
import type { HeldWish } from '../../../../src/upstream/pubsub/held-wish.ts'
import { SetRelay } from '../../../../src/upstream/pubsub/set-relay.ts'
import { type FakeConnection, FakeSet, Told } from '../../../support/fake-pubsub.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** Numbers that are the same for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state % below
  }
}

/** What a node would hold for a connection, read from what was asked of it. */
function heldAt(connection: FakeConnection): Map<string, string> {
  const held = new Map<string, string>()
  for (const { method, params, id } of connection.answered)
    if (method.endsWith('Unsubscribe')) held.delete(JSON.parse(params)[0].toString())
    else held.set(id, params)
  return held
}

async function storm(seed: number): Promise<void> {
  const random = randomOf(seed)
  const set = new FakeSet(3)
  const relay = new SetRelay(set, { connect: set.connect, clock: systemClock, log: silentLog })
  const live = new Map<HeldWish, { told: Told; params: string }>()
  let next = 0
  for (let turn = 0; turn < 300; turn++) {
    const node = set.nodes[random(3)]!
    const connection = node.connections.at(-1)
    switch (random(8)) {
      case 0:
      case 1:
      case 2: {
        const told = new Told()
        const params = `[${next++}]`
        live.set(relay.add({ set: 'default', topic: 'logs', params }, told), { told, params })
        break
      }
      case 3: {
        const wish = [...live.keys()][random(live.size + 1)]
        if (wish === undefined) break
        relay.close(wish)
        live.delete(wish)
        break
      }
      case 4:
        if (connection?.isClosed === false) connection.lose()
        break
      case 5:
        node.state = (['up', 'down', 'lagging', 'probing'] as const)[random(4)]!
        relay.review()
        break
      case 6:
        if (connection !== undefined) connection.isAnswering = random(3) > 0
        break
      default:
        relay.tick()
    }
    await vi.advanceTimersByTimeAsync(random(3) * 150)
  }
  for (const node of set.nodes) {
    node.state = 'up'
    const connection = node.connections.at(-1)
    if (connection === undefined || connection.isClosed) continue
    connection.isAnswering = true
    // As the socket does after a while.
    if (connection.unanswered > 0) connection.lose('unanswered')
  }
  for (let tick = 0; tick < 20; tick++) {
    await vi.advanceTimersByTimeAsync(1_000)
    relay.tick()
  }
  const open = set.nodes.flatMap(({ connections }) => connections).filter((one) => !one.isClosed)
  const atNodes = open.flatMap((connection) => [...heldAt(connection).entries()])
  const wanted = [...live.values()].filter(({ told }) => told.error === null)
  expect(atNodes.map(([, params]) => params).sort()).toEqual(
    wanted.map(({ params }) => params).sort(),
  )
  expect([relay.count, open.length <= 3]).toEqual([wanted.length, true])
  // Every node's word reaches the one it is meant for.
  for (const connection of open)
    for (const [id, params] of heldAt(connection)) connection.notify(Number(id), params)
  for (const { told, params } of wanted) expect(told.results.at(-1)).toBe(params)
  for (const { told } of live.values()) expect(told.opens + (told.error === null ? 0 : 1)).toBe(1)
  relay.stop()
}

describe('a storm', () => {
  it('leaves every wish with one subscription, and no other', async () => {
    for (let seed = 1; seed <= 40; seed++) await storm(seed)
  })
})
