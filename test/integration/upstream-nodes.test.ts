// Sets of nodes over real connections: probes, failures, lag, streams, and what must stay secret.
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { Log, LogFields } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { NodeSection, SetSection } from '../../src/upstream/config.ts'
import { BodyStream } from '../../src/upstream/http-client/body-stream.ts'
import type { HttpRequest } from '../../src/upstream/http-client/http-request.ts'
import type { UpstreamNode } from '../../src/upstream/node-pool/upstream-node.ts'
import type { UpstreamSet } from '../../src/upstream/node-pool/upstream-set.ts'
import { declareUpstreamMeters, Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { FakeNode } from '../testkit/fake-node.ts'
import { FakeClock } from '../testkit/fake-senders.ts'
import { until } from '../testkit/until.ts'
import { setSection } from '../testkit/upstream-sections.ts'

const fakes: FakeNode[] = []
let upstreams: Upstreams
let set: UpstreamSet
let nodes: readonly UpstreamNode[]
let lines: string[] = []

afterEach(async () => {
  await upstreams.stop()
  await Promise.all(fakes.splice(0).map((fake) => fake.kill()))
  lines = []
})

const record = (msg: string, fields: LogFields = {}) => {
  lines.push(JSON.stringify({ msg, ...fields }))
}
const log: Log = { debug: record, info: record, warn: record, error: record, area: () => log }

interface Wanted {
  readonly fake?: (fake: FakeNode) => void
  readonly node?: Partial<NodeSection>
}

async function start(wanted: readonly Wanted[], changes: Partial<SetSection> = {}) {
  const sections: Partial<NodeSection>[] = []
  for (const { fake: change, node } of wanted) {
    const fake = await new FakeNode().listen()
    change?.(fake)
    fakes.push(fake)
    sections.push({ rpc: `${fake.url}/path-key/?api-key=query-key`, ...node })
  }
  upstreams = new Upstreams({ main: setSection(sections, changes) }, { clock: systemClock, log })
  await upstreams.start()
  set = upstreams.set('main') as UpstreamSet
  nodes = set.nodes
  return [...fakes]
}

const states = () => nodes.map(({ state }) => state)
const becomes = (...wanted: string[]) =>
  until(() => `${states()}` === `${wanted}`, `${wanted}, but it is ${states()}`)

const body = '{"jsonrpc":"2.0","id":7,"method":"getThing","params":[]}'
const call = (node: UpstreamNode, timeoutMs = 10_000) => node.call(body, { timeoutMs }).response

describe('probes', () => {
  it('have probed every node when the start is over: health, slots, shreds', async () => {
    await start([{}, { fake: (fake) => Object.assign(fake, { slot: 990, shredSlot: 992 }) }])
    expect(states()).toEqual(['up', 'up'])
    expect(upstreams.report()).toMatchObject([
      { name: 'main/1', state: 'up', slot: 1000, finalizedSlot: 968, lagSlots: 0 },
      { name: 'main/2', state: 'up', slot: 990, finalizedSlot: 958, lagSlots: 10 },
    ])
    expect(nodes[1]?.shredSlot).toBe(992)
  })

  it('go one by one to a node that takes no batches', async () => {
    await start([{ fake: (fake) => Object.assign(fake, { takesBatches: false }) }])
    await until(() => nodes[0]?.slot() === 1000, 'its slot to be known')
    expect(states()).toEqual(['up'])
  })

  it('see a node that lags leave and come back', async () => {
    const [first] = await start([{}, {}], { lagSlots: 20 })
    first!.slot = 979
    await becomes('lagging', 'up')
    first!.slot = 989
    await until(() => nodes[0]?.slot() === 989, 'the probe')
    expect(states()).toEqual(['lagging', 'up'])
    first!.slot = 990
    await becomes('up', 'up')
  })

  it('detect a node that reports its own lag', async () => {
    const [first] = await start([{}])
    first!.isHealthy = false
    await becomes('lagging')
    expect(set.pick('getThing')).toBeNull()
    first!.isHealthy = true
    await becomes('up')
  })

  it('keep a node of another chain out, and name it', async () => {
    const [first, second] = await start([
      { fake: (fake) => Object.assign(fake, { genesis: 'ours' }) },
      { fake: (fake) => Object.assign(fake, { genesis: 'theirs', slot: 4_000_000_000 }) },
    ])
    expect(states()).toEqual(['up', 'foreign'])
    expect(set.slot()).toBe(1000)
    expect(upstreams.report()[1]).toMatchObject({ state: 'foreign', genesis: 'theirs' })
    expect(lines.some((line) => line.includes('main/2') && line.includes('genesis'))).toBe(true)
    await first!.kill()
    await becomes('down', 'foreign')
    expect(set.pick('getThing')).toBeNull()
    await first!.listen()
    second!.genesis = 'ours'
    second!.slot = 1_000
    await second!.kill()
    await second!.listen()
    await becomes('up', 'up')
  })

  it('follow the only node of a set to the chain that it began', async () => {
    const [first] = await start([{ fake: (fake) => Object.assign(fake, { genesis: 'first' }) }])
    await first!.kill()
    Object.assign(first!, { genesis: 'second', slot: 3 })
    await becomes('down')
    await first!.listen()
    await becomes('up')
    expect(set.restarts).toBe(1)
    expect(set.slot()).toBe(3)
  })

  it('never use a chain that is not the configured one', async () => {
    const genesis = '1'.repeat(32)
    await start([{ fake: (fake) => Object.assign(fake, { genesis: 'another' }) }, {}], { genesis })
    expect(states()).toEqual(['foreign', 'up'])
  })

  it('do not follow one node of two that is far above the other', async () => {
    const [, second] = await start([{}, {}], { lagSlots: 20 })
    second!.slot = 4_000_000_000
    await becomes('up', 'ahead')
    expect(set.slot()).toBe(1000)
    expect(set.pick('getThing')).toBe(nodes[0])
    second!.slot = 1_001
    await becomes('up', 'up')
  })

  it('detect a node that hangs, and its recovery', async () => {
    const [first] = await start([{}, {}])
    first!.behaviour = 'hang'
    await until(() => states()[0] !== 'up', 'it to be doubted')
    await becomes('down', 'up')
    first!.thaw()
    await becomes('up', 'up')
  })

  it('see a node that is killed, and one that is started again', async () => {
    const [first] = await start([{}, {}])
    await first!.kill()
    await becomes('down', 'up')
    await first!.listen()
    await becomes('up', 'up')
  })

  it('are not sent to a node that serves none of their methods', async () => {
    const [first] = await start([{ node: { allow: ['sendTransaction'] } }, {}])
    await until(() => (fakes[1]?.probes ?? 0) >= 3, 'some probes')
    expect(first!.probes).toBe(0)
    expect(states()).toEqual(['up', 'up'])
  })
})

describe('calls', () => {
  it('carry the token of the node and bring its bytes', async () => {
    const [first] = await start([{ node: { xToken: 'node-token' } }])
    first!.answers.set('getThing', () => 'this')
    const answer = await call(nodes[0]!)
    const text = '{"jsonrpc":"2.0","id":7,"result":"this"}'
    expect(answer).toEqual({ ok: true, status: 200, body: text })
    expect([...first!.tokens]).toEqual(['node-token'])
  })

  it('use few connections again and again', async () => {
    const [first] = await start([{}])
    for (let time = 0; time < 50; time++) await call(nodes[0]!)
    expect(first!.sockets.size).toBeLessThanOrEqual(3)
  })

  it('that hang end at their deadline', async () => {
    const [first] = await start([{}])
    first!.answers.set('getThing', () => 'this')
    first!.delayMs = 400
    expect(await call(nodes[0]!, 100)).toMatchObject({ fault: 'timeout', isSent: true })
    expect(nodes[0]?.waiting).toBe(0)
    expect(nodes[0]?.outcomes.timeout).toBe(1)
  })

  it('that wait at a node which leaves are let go: scans late, sends never', async () => {
    const [first] = await start([{}, {}])
    first!.behaviour = 'hang'
    const faults: string[] = []
    const note = (request: HttpRequest) => {
      void request.response.then((response) => faults.push(response.ok ? 'ok' : response.fault))
      return request
    }
    note(nodes[0]!.call(body, { timeoutMs: 60_000 }))
    note(nodes[0]!.call(body, { timeoutMs: 60_000, isHeavy: true }))
    const send = note(nodes[0]!.call(body, { timeoutMs: 60_000, isSend: true }))
    await until(() => faults.length > 0, 'the first to be let go')
    // Where the machine stalled it is down at once.
    expect(['probing', 'down']).toContain(states()[0])
    expect(faults[0]).toBe('left')
    await becomes('down', 'up')
    expect(faults).toEqual(['left', 'left'])
    expect(nodes[0]?.waiting).toBe(1)
    send.abort()
    await until(() => faults.length === 3, 'the send to end')
    expect(nodes[0]?.waiting).toBe(0)
    expect(faults).toEqual(['left', 'left', 'aborted'])
  })

  it('to a node that is gone are refused, and take it out of the rotation at once', async () => {
    const [first] = await start([{}, {}])
    await first!.kill()
    const faults = await Promise.all([call(nodes[0]!), call(nodes[0]!)])
    for (const fault of faults) expect(fault.ok).toBe(false)
    await becomes('down', 'up')
    for (let time = 0; time < 50; time++) expect(set.pick('getThing')).toBe(nodes[1])
  })

  it('in flight are answered by the only node of a set, although it takes no connection', async () => {
    const [first] = await start([{}])
    first!.answers.set('getThing', () => 'this')
    first!.delayMs = 700
    const slow = Array.from({ length: 20 }, () => call(nodes[0]!))
    await until(() => first!.calls.length === 20, 'the calls to be there')
    first!.deafen()
    expect(await call(nodes[0]!)).toMatchObject({ fault: 'unreached' })
    expect(states()[0]).not.toBe('down')
    expect((await Promise.all(slow)).map(({ ok }) => ok)).toEqual(Array(20).fill(true))
    // Its probes go on over the connections that are open.
    await becomes('up')
  })

  it('wait at the only node of a set while its probe is late, and are not refused', async () => {
    const fake = await new FakeNode().listen()
    fakes.push(fake)
    fake.answers.set('getThing', () => 'this')
    const clock = new FakeClock()
    upstreams = new Upstreams({ main: setSection([{ rpc: fake.url }]) }, { clock, log })
    await upstreams.start()
    set = upstreams.set('main') as UpstreamSet
    nodes = set.nodes
    fake.behaviour = 'hang'
    const waiting = call(nodes[0]!)
    clock.ms += 400
    upstreams.tick()
    clock.ms += 2_500
    upstreams.tick()
    expect(states()).toEqual(['probing'])
    expect(set.pick('getThing')).toBe(nodes[0])
    await until(() => fake.calls.length === 1, 'the call to be there')
    fake.thaw()
    expect(await waiting).toMatchObject({ ok: true })
  })

  it('that fail in a row open the breaker, although its probes are fine', async () => {
    const [first] = await start([{}, {}])
    first!.answers.set('getThing', () => 'this')
    first!.status = 502
    const failing = Array.from({ length: 5 }, () => call(nodes[0]!))
    expect((await Promise.all(failing)).map((answer) => answer.ok && answer.status)).toEqual(
      Array(5).fill(502),
    )
    expect(states()[0]).toBe('down')
    first!.status = 200
    await becomes('probing', 'up')
    for (let time = 0; time < 3; time++) await call(nodes[0]!)
    expect(states()).toEqual(['up', 'up'])
  })

  it('that are refused by 429 turn to another node, where there is one', async () => {
    const [first] = await start([{}, {}])
    first!.status = 429
    await call(nodes[0]!)
    expect(states()).toEqual(['up', 'up'])
    expect(set.pick('getThing')).toBe(nodes[1])
    expect(set.pick('getThing', { exclude: [nodes[1]!] })).toBe(nodes[0])
    expect(nodes[0]?.outcomes.limited).toBe(1)
  })

  it('that break within the body report it', async () => {
    const [first] = await start([{}])
    first!.behaviour = 'break-late'
    expect(await call(nodes[0]!)).toMatchObject({ ok: false, fault: 'broken', isSent: true })
    first!.behaviour = 'answer'
  })

  it('apply backpressure to a large answer while the reader is slow', async () => {
    const [first] = await start([{}])
    const bytes = 40_000_000
    first!.answers.set('getThing', () => 'x'.repeat(bytes))
    const response = await call(nodes[0]!, 30_000)
    const stream = response.ok ? response.body : null
    if (!(stream instanceof BodyStream)) throw new Error('it is not streamed')
    let seen = 0
    while (seen < 1_000_000) seen += (await stream.read())?.length ?? Number.NaN
    // The socket of the sender is what fills up now.
    const unsent = () => [...first!.sockets].reduce((sum, each) => sum + each.writableLength, 0)
    await until(() => unsent() > 0, 'the sender to be blocked')
    const probes = first!.probes
    await until(() => first!.probes > probes + 3, 'some more probes')
    expect(unsent()).toBeGreaterThan(bytes / 2)
    for (let chunk = await stream.read(); chunk !== null; chunk = await stream.read())
      seen += chunk.length
    expect(seen).toBeGreaterThan(bytes)
    await until(() => nodes[0]?.outcomes.ok === 1, 'the call to be counted')
  })

  it('whose stream breaks off count as broken', async () => {
    const [first] = await start([{}])
    first!.answers.set('getThing', () => 'x'.repeat(20_000_000))
    const response = await call(nodes[0]!)
    const stream = response.ok ? response.body : null
    if (!(stream instanceof BodyStream)) throw new Error('it is not streamed')
    await first!.kill()
    const readAll = async () => {
      while ((await stream.read()) !== null);
    }
    await expect(readAll()).rejects.toThrow('the node broke off')
    await until(() => nodes[0]?.outcomes.broken === 1, 'the call to be counted')
  })
})

describe('the report of the nodes', () => {
  it('is their share, errors and percentiles', async () => {
    const [first] = await start([{ node: { region: 'fra' } }, {}])
    first!.answers.set('getThing', () => 1)
    for (let time = 0; time < 3; time++) await call(nodes[0]!)
    await call(nodes[1]!)
    first!.behaviour = 'break'
    await call(nodes[0]!)
    const [row, other] = upstreams.report()
    expect(row).toMatchObject({ region: 'fra', requests: 4, errors: 1, share: 0.75 })
    expect(row?.p50Ms).toBeGreaterThan(0)
    expect(row?.p99Ms).toBeGreaterThanOrEqual(row?.p50Ms ?? 0)
    expect(other).toMatchObject({ requests: 1, errors: 0, share: 0.25 })
  })

  it('never exposes an address or a token: report, log, meters', async () => {
    const meters = new Meters()
    const [first] = await start([{ node: { xToken: 'node-token', region: 'fra' } }, {}])
    declareUpstreamMeters(meters, upstreams)
    await call(nodes[0]!)
    first!.behaviour = 'break'
    await call(nodes[0]!)
    await first!.kill()
    await call(nodes[0]!)
    await becomes('down', 'up')
    const { body: exposed } = await meters.render('text')
    expect(exposed).toContain('sluice_upstream_up{set="main",node="1"} 0')
    expect(exposed).toContain('sluice_upstream_slot{set="main",node="2"} 1000')
    expect(exposed).toContain(
      'sluice_upstream_requests_total{set="main",node="1",outcome="broken"} 1',
    )
    expect(exposed).toContain('sluice_upstream_info{set="main",node="1",region="fra"} 1')
    expect(exposed).toContain('sluice_upstream_seconds_count{set="main",node="1"} 1')
    const told = [exposed, JSON.stringify(upstreams.report()), ...lines].join('\n')
    expect(lines.length).toBeGreaterThan(2)
    expect(told).not.toMatch(/127\.0\.0\.1|path-key|query-key|node-token|http:/)
    expect(told).not.toContain(new URL(first!.url).port)
  })
})
