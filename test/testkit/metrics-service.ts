// The metrics product with its endpoint open on a free port, fed by hand.
import { WebSocket } from 'ws'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { type AddressLimits, addressBudgetSection } from '../../src/customers/quota/config.ts'
import { AddressBudget } from '../../src/customers/quota/rates.ts'
import { type MetricsSection, metricsSection } from '../../src/products/metrics/config.ts'
import { type MetricsDeps, startMetrics } from '../../src/products/metrics/server.ts'
import { EventLog, type EventLogOptions } from '../../src/streams/log/log.ts'
import { FakeExecution, handOutSeqs } from './fake-execution.ts'
import { until } from './until.ts'

export interface ServiceOptions {
  readonly section?: Partial<MetricsSection>
  readonly deps?: Partial<MetricsDeps>
  readonly events?: Partial<EventLogOptions>
  /** A log that outlives the service, for an endpoint that closes and opens. */
  readonly eventLog?: EventLog
  readonly clock?: Clock
  readonly addressLimits?: Partial<AddressLimits>
  /** No event comes by itself: after 30 s of that a service closes. */
  readonly isSilent?: boolean
}

export async function openService(options: ServiceOptions = {}) {
  const clock = options.clock ?? systemClock
  const events =
    options.eventLog ?? new EventLog({ reserve: handOutSeqs(), clock, ...options.events })
  const execution = new FakeExecution(events, clock)
  const meters = new Meters()
  const calls = { restarts: 0, exits: [] as number[] }
  const refused = { metrics: 0 }
  const limits = { ...initialOf<AddressLimits>(addressBudgetSection), ...options.addressLimits }
  const count = { inc: () => void refused.metrics++, value: 0 }
  const running = await startMetrics(
    { ...initialOf<MetricsSection>(metricsSection), port: 0, ...options.section },
    {
      events,
      view: execution,
      gate: {
        admit: () => null,
        readmits: () => true,
        isExpired: () => false,
        lease: () => () => {},
      },
      meters,
      addressBudget: new AddressBudget(limits, clock),
      quotaMeters: { addressRefused: { metrics: count, grpc: count, tpu: count } },
      clock,
      log: silentLog,
      tls: null,
      trustedProxies: [],
      run: 'run-1',
      version: '1.2.3',
      source: { kind: 'recording', file: 'night.zst' },
      solana: { sets: () => [] },
      ready: () => ({ ready: true, checks: [{ name: 'components', ok: true }] }),
      restartSource: () => calls.restarts++,
      exit: (code) => calls.exits.push(code),
      ...options.deps,
    },
  )
  // However slow the machine is, a test that waits for something else is no silence of the source.
  const alive = setInterval(() => execution.touch(), 1_000).unref()
  if (options.isSilent === true || clock !== systemClock) clearInterval(alive)
  const { host, port } = running.address!
  const origin = `http://${host}:${port}`
  const ws = `ws://${host}:${port}`
  return { events, execution, meters, running, calls, refused, origin, port, ws }
}

/** The defaults of a section. */
function initialOf<T>(section: { fields: Record<string, unknown> }): T {
  const fields = section.fields as Record<string, { readonly initial?: unknown }>
  // Reason for the cast: the section's type follows from its fields.
  return Object.fromEntries(Object.entries(fields).map(([key, { initial }]) => [key, initial])) as T
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
