// The rules of silence in real time: 10 s, 30 s, drain, close, open again; or exit 75.
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
  'a silent source degrades the service, closes its endpoint and reopens it',
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
      try {
        const health = await fetch(`${service.origin}/health`)
        const { status } = (await (await fetch(`${service.origin}/v1/status`)).json()) as {
          status: string
        }
        note(`${health.status} ${status}`)
        return false
      } catch {
        note('closed')
        return true
      }
    }
    await untilWithin(staleMsMax, look, 'the endpoint to close')
    expect(seen.map(([what]) => what)).toEqual([
      '200 healthy',
      '200 degraded',
      '503 degraded',
      'closed',
    ])
    const [, degraded, unhealthy, closed] = seen.map(([, secs]) => secs)
    expect(degraded).toBeGreaterThan(10)
    expect(unhealthy).toBeGreaterThan(30)
    expect(closed! - unhealthy!).toBeGreaterThan(1.5)
    await until(() => listener.closed !== null, 'the close frame')
    expect(listener.closed).toBe(1001)
    expect(service.calls.restarts).toBe(1)
    service.execution.run(2)
    await until(async () => !(await look()), 'the endpoint to open again')
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

test('a live ring that falls silent closes only the metrics endpoint; its next event opens it', async () => {
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
  const health = () =>
    fetch(`http://${host}:${port}/health`).then(
      ({ status }) => status,
      () => 0,
    )
  try {
    await writer.write({ kind: 'mixed', count: 100 })
    await until(async () => (await health()) === 200, 'a healthy service')
    await untilWithin(staleMsMax, async () => (await health()) === 503, 'the silence to be told')
    await until(async () => (await health()) === 0, 'the closed endpoint')
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
