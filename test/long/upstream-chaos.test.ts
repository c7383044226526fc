// Three nodes, one after another killed, frozen, slowed and lagging, under reads and sends.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sluice } from '../testkit/server.ts'
import { Fleet } from '../testkit/upstream-fleet.ts'

const readsPerSecond = 500
/** Reads that pass before and after each blow. */
const some = 500
let fleet: Fleet

beforeAll(async () => {
  const setFlags = ['--upstreams.default.lagSlots=60']
  // The third one lags the others by four more slots each second.
  fleet = await Fleet.start({ slotMs: [200, 200, 1_000], setFlags })
})
afterAll(() => fleet?.dispose())

describe('reads and sends through three nodes', () => {
  it('do not feel it when nodes freeze, slow down, lag or die, while one is good', async () => {
    await fleet.untilState(0, 'up')
    await fleet.untilState(1, 'up')
    fleet.load(readsPerSecond)
    await fleet.untilReads(some)

    const [first, second] = fleet.nodes
    fleet.phase = 'frozen'
    first!.server.child.kill('SIGSTOP')
    await fleet.untilState(0, 'down')
    await fleet.untilReads(some)
    first!.server.child.kill('SIGCONT')
    await fleet.untilState(0, 'up')

    fleet.phase = 'slow'
    second!.wire.delayMs = 150
    await fleet.untilReads(some * 2)
    second!.wire.delayMs = 0

    fleet.phase = 'lagging'
    await fleet.untilState(2, 'lagging')
    await fleet.untilReads(some)

    fleet.phase = 'dead'
    await fleet.kill(0)
    await fleet.untilState(0, 'down')
    await fleet.untilReads(some)
    fleet.pause()

    expect(fleet.problems()).toEqual({})
    const arrivals = fleet.arrivals()
    expect([...arrivals].filter(([, count]) => count > 1)).toEqual([])
    // What was sent while its node froze or died may be lost, all else arrived.
    const others = fleet.sent.filter(({ phase }) => !['frozen', 'dead'].includes(phase))
    expect(others.length).toBeGreaterThan(20)
    expect(others.filter(({ text }) => !arrivals.has(text))).toEqual([])
  })

  it('are refused by -32005 when all nodes are dead, and go on by themselves', async () => {
    await Promise.all([fleet.kill(1), fleet.kill(2)])
    await fleet.untilState(1, 'down')
    await fleet.untilState(2, 'down')
    for (const text of ['"getSlot","params":[]', '"sendTransaction","params":["send-x"]']) {
      const { status, json } = await fleet.call(text)
      expect(status).toBe(200)
      expect(json.error).toEqual({
        code: -32005,
        message: 'Node is unhealthy',
        data: { numSlotsBehind: null },
      })
    }
    await fleet.revive(1)
    await fleet.untilState(1, 'up')
    expect((await fleet.call('"getSlot","params":[]')).json.result).toBeTypeOf('number')
  })

  it('never reveal the addresses of the nodes', async () => {
    const { stdout } = await sluice(fleet.front.data, 'status')
    const told = stdout + fleet.front.stderr()
    expect(told).toContain('default/2')
    for (const { wire, token } of fleet.nodes) {
      expect(told).not.toContain(String(wire.port))
      expect(told).not.toContain(token)
    }
  })
})
