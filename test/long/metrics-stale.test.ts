// The rules of silence in real time: 10 s, 30 s, drain, close, open again; or exit 75. Meters stay.
import { expect, test } from 'vitest'
import { Listener, openService } from '../testkit/metrics-service.ts'
import { RingWriterProcess } from '../testkit/ring-writer.ts'
import { startServer } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { until, untilWithin } from '../testkit/until.ts'

/** Twice the 30 s after which a silent source is stale. */
const staleMsMax = 60_000

/** A real source of the metrics: products on embedded sources must be disabled or asked for. */
const metricsAlone = ['rpc', 'websocket', 'grpc', 'tpu', 'shredstream'].map(
  (name) => `--${name}.enabled=false`,
)

test.skipIf(isSlice)(
  'a silent source degrades the service, closes its streams and REST and reopens them',
  async () => {
    const service = await openService({ isSilent: true })
    const startMs = performance.now()
    service.execution.run(1)
    const listener = new Listener(`${service.ws}/v1/ws`)
    await listener.has(1)
    const seen: [string, number][] = []
    const note = (what: string) => {
      if (seen.at(-1)?.[0] !== what) seen.push([what, (performance.now() - startMs) / 1000])
    }
    const look = async () => {
      const health = await fetch(`${service.origin}/health`)
      const answer = await fetch(`${service.origin}/v1/status`)
      const { status = 'closed' } = (await answer.json()) as { status?: string }
      note(`${health.status} ${status}`)
      return answer.status === 503
    }
    await untilWithin(staleMsMax, look, 'REST to close')
    expect(seen.map(([what]) => what)).toEqual([
      '200 healthy',
      '200 degraded',
      '503 degraded',
      '503 closed',
    ])
    const [, degraded, unhealthy, closed] = seen.map(([, secs]) => secs)
    expect(degraded).toBeGreaterThan(10)
    expect(unhealthy).toBeGreaterThan(30)
    expect(closed! - unhealthy!).toBeGreaterThan(1.5)
    await until(() => listener.closed !== null, 'the close frame')
    expect(listener.closed).toBe(1001)
    expect(service.calls.restarts).toBe(1)
    service.execution.run(2)
    await until(async () => !(await look()), 'REST to open again')
    expect(seen.at(-1)?.[0]).toBe('200 healthy')
    await service.running.stop()
  },
)

test.skipIf(isSlice)('onStale: exit ends the process with code 75', async () => {
  const service = await openService({ isSilent: true, section: { onStale: 'exit' } })
  await untilWithin(staleMsMax, () => service.calls.exits.length > 0, 'the exit')
  expect(service.calls).toEqual({ restarts: 0, exits: [75] })
  await service.running.stop()
})

test.skipIf(isSlice)(
  'a server whose event ring never appears ends with 75 under onStale: exit',
  async () => {
    const flags = [
      '--metrics.source=ring',
      '--metrics.path=/nonexistent/ring',
      '--metrics.onStale=exit',
      ...metricsAlone,
    ]
    const server = await startServer({ flags })
    try {
      await untilWithin(staleMsMax, () => server.child.exitCode !== null, 'the end of the process')
      expect(server.child.exitCode).toBe(75)
    } finally {
      await server.dispose()
    }
  },
)

test('a live ring that falls silent closes only streams and REST of metrics; its next event opens them', async () => {
  const writer = new RingWriterProcess()
  await writer.create()
  // This client asks more often than the budget of its address allows.
  const unlimited = '--addressBudget.workMsPerSecond=0'
  const flags = [
    '--metrics.source=ring',
    `--metrics.path=${writer.path}`,
    ...metricsAlone,
    unlimited,
  ]
  const server = await startServer({ flags })
  const { host, port } = server.doors.metrics!
  const statusOf = async (path: string) => (await fetch(`http://${host}:${port}${path}`)).status
  const health = () => statusOf('/health')
  try {
    await writer.write({ kind: 'mixed', count: 100 })
    await until(async () => (await health()) === 200, 'a healthy service')
    await untilWithin(staleMsMax, async () => (await health()) === 503, 'the silence to be told')
    await until(async () => (await statusOf('/v1/tps')) === 503, 'the closed REST')
    expect(await statusOf('/metrics')).toBe(200)
    expect(server.child.exitCode).toBeNull()
    // A source that was started again reads what comes from then on.
    let written = 0
    await until(async () => {
      written = await writer.write({ kind: 'mixed', count: 10 })
      return (await health()) === 200
    }, 'the open endpoint')
    const ringSeqno = async () => {
      const status = await (await fetch(`http://${host}:${port}/v1/status`)).json()
      return (status as { ring_seqno: number }).ring_seqno
    }
    // The endpoint opens with the first event; the count follows with the batch it came in.
    await until(async () => (await ringSeqno()) > 100, 'the events to be counted')
    expect(await ringSeqno()).toBeLessThanOrEqual(written)
  } finally {
    await server.dispose()
    await writer.stop()
  }
})
