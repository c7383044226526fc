// The metrics product with its door open on a free port, fed by hand.
import { WebSocket } from 'ws'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { type MetricsSection, metricsSection } from '../../src/products/metrics/config.ts'
import { type MetricsDeps, startMetrics } from '../../src/products/metrics/server.ts'
import { EventLog, type EventLogOptions } from '../../src/stream/log.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { Meters } from '../../src/telemetry/meters.ts'
import { FakeExecution, handOutSeqs } from './fake-execution.ts'
import { until } from './until.ts'

export interface ServiceOptions {
  readonly section?: Partial<MetricsSection>
  readonly deps?: Partial<MetricsDeps>
  readonly events?: Partial<EventLogOptions>
  /** A log that outlives the service, to play a door that closes and opens. */
  readonly eventLog?: EventLog
  readonly clock?: Clock
}

export async function openService(options: ServiceOptions = {}) {
  const clock = options.clock ?? systemClock
  const events =
    options.eventLog ?? new EventLog({ reserve: handOutSeqs(), clock, ...options.events })
  const execution = new FakeExecution(events, clock)
  const meters = new Meters()
  const calls = { restarts: 0, exits: [] as number[] }
  const initial = Object.fromEntries(
    Object.entries(metricsSection.fields).map(([key, field]) => [key, field.initial]),
  ) as MetricsSection
  const running = await startMetrics(
    { ...initial, port: 0, ...options.section },
    {
      events,
      view: execution,
      gate: { admit: () => null, hold: () => () => {} },
      meters,
      clock,
      log: silentLog,
      tls: null,
      trustedProxies: [],
      run: 'run-1',
      version: '1.2.3',
      restartSource: () => calls.restarts++,
      exit: (code) => calls.exits.push(code),
      ...options.deps,
    },
  )
  const { host, port } = running.address!
  const origin = `http://${host}:${port}`
  return { events, execution, meters, running, calls, origin, port, ws: `ws://${host}:${port}` }
}

export type Service = Awaited<ReturnType<typeof openService>>
export type Frame = { seq: number; [kind: string]: unknown }

/** A `ws` client that keeps what it gets. */
export class Listener {
  readonly frames: Frame[] = []
  readonly socket: WebSocket
  closed: number | null = null
  /** The HTTP answer when the upgrade was refused. */
  refused: { status: number; body: string } | null = null

  constructor(url: string, protocols: string[] = [], headers: Record<string, string> = {}) {
    this.socket = new WebSocket(url, protocols, { headers })
    this.socket.on('message', (data, isBinary) => {
      if (!isBinary) this.frames.push(JSON.parse(data.toString()))
    })
    this.socket.on('close', (code) => {
      this.closed = code
    })
    this.socket.on('error', () => {})
    this.socket.on('unexpected-response', (_, response) => {
      let body = ''
      response.on('data', (chunk) => {
        body += chunk
      })
      response.on('end', () => {
        this.refused = { status: response.statusCode ?? 0, body }
      })
    })
  }

  has(count: number): Promise<void> {
    return until(() => this.frames.length >= count, `${count} frames`)
  }

  get kinds(): string[] {
    return this.frames.map((frame) => Object.keys(frame)[1]!)
  }

  get seqs(): number[] {
    return this.frames.map((frame) => frame.seq).filter((seq) => seq > 0)
  }
}
