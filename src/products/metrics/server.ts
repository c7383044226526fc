// Serves the metrics product on port 8443 from the event log; closes streams and REST while the
// execution source is silent and reopens them on the next event.
//
//   EventLog --> stream-sockets.ts: publish once per encoding --> live clients
//            '-> StreamClient: snapshot, resume, slow clients (from the log, at their own pace)
//   GET, POST / --> routes.ts --> rest.ts, rpc.ts --> ExecutionView, EventLog
//   GET /live, / from a browser --> live.ts --> pages, scripts, styles
//   GET /v1/solana --> solana.ts --> SolanaView, meters of the products
//   handshake, messages --> session.ts --> handle.ts --> StreamClient
//   every 100 ms --> health.ts: nothing | drain | close, restart the source | open

import type { ReadyReport } from '../../base/readiness.ts'
import type { EndpointAddress, Running } from '../../base/running.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import {
  type EndpointDeps,
  type HttpEndpoint,
  openHttpEndpoint,
} from '../../base/transport/http-endpoint.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import type { StoredFrame } from '../../streams/log/encoded.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { ExecutionView } from '../../upstream/ports.ts'
import { ActiveBlocks, BlockRows, declareChainMeters } from './block-rows.ts'
import { type MetricsSection, pageOf } from './config.ts'
import { HandshakeTickets } from './handshake-tickets.ts'
import { StaleWatch } from './health.ts'
import { Limits } from './limits.ts'
import { LivePage } from './live.ts'
import { declareMetricsMeters, declareMetricsReads } from './meters.ts'
import type { SourceName } from './rest.ts'
import { type Caller, httpOptions, jsonHead, streamPaths } from './routes.ts'
import { socketRoute } from './session.ts'
import type { SolanaView } from './solana.ts'
import { type StreamLimits, type StreamParts, StreamSockets } from './stream-sockets.ts'

/** A client with more unsent bytes than this is slow; one that stays slow is closed. */
export const unsentBytesMax = 4 * 1024 * 1024
const slowMsMax = 30_000
const watchMs = 100
/** Close code of a WebSocket whose stream ends for a while. */
const goingAway = 1001
/** sysexits: temporary failure, so that a supervisor restarts the process. */
const exitStale = 75

export interface MetricsDeps extends EndpointDeps {
  readonly events: EventLog
  readonly view: ExecutionView
  readonly gate: Pick<Gate, 'admit' | 'readmits' | 'lease' | 'isExpired'>
  readonly meters: Meters
  /** Cost budget per client address, shared with the other open endpoints. */
  readonly addressBudget: AddressBudget
  readonly quotaMeters: Pick<QuotaMeters, 'addressRefused'>
  /** Identifies this process, so that a cursor of another one is detected. */
  readonly run: string
  readonly version: string
  readonly source: SourceName
  readonly solana: SolanaView
  /** For GET /ready. */
  ready(): ReadyReport
  /** Restarts the source, after 30 s of silence. */
  restartSource(): void
  /** For `onStale: exit`, whose endpoint closes first. */
  exit(code: number): void
  /** Set by tests only, to lower the bounds. */
  readonly limits?: Partial<StreamLimits>
}

export async function startMetrics(section: MetricsSection, deps: MetricsDeps): Promise<Running> {
  const service = new MetricsService(section, deps)
  await service.start()
  return service
}

class MetricsService implements Running {
  readonly #section: MetricsSection
  readonly #deps: MetricsDeps
  readonly #stream: StreamParts
  readonly #sockets: StreamSockets
  readonly #limits: Limits
  readonly #history: BlockRows
  readonly #tickets: HandshakeTickets
  readonly #page: LivePage | null
  readonly #watch = new StaleWatch()
  readonly #startedMs: number
  readonly #endListening: () => void
  #endpoint: HttpEndpoint<Caller> | null = null
  address: EndpointAddress | null = null
  #timer: NodeJS.Timeout | null = null
  #exiting: Promise<void> | null = null
  /** True while the source is silent: streams and REST are closed. */
  #isStale = false

  constructor(section: MetricsSection, deps: MetricsDeps) {
    this.#section = section
    this.#deps = deps
    const page = pageOf(section)
    this.#page = page === 'off' ? null : new LivePage(page)
    this.#startedMs = deps.clock.monotonicMs()
    this.#tickets = new HandshakeTickets(deps.clock, (principal, address) =>
      deps.gate.readmits(principal, 'metrics', address),
    )
    const chainMeters = declareChainMeters(deps.meters)
    const active = new ActiveBlocks(chainMeters)
    const history = new BlockRows(chainMeters)
    this.#history = history
    const take = (frame: StoredFrame) => {
      active.update(frame)
      history.update(frame)
    }
    // The source may have started before the endpoint.
    for (const frame of deps.events.after(0)) take(frame)
    history.follow(deps.events)
    const endFrames = deps.events.listen(take)
    const endRestarts = deps.events.onRestart(() => history.restarted())
    this.#endListening = () => {
      endFrames()
      endRestarts()
    }
    this.#stream = {
      log: deps.events,
      active,
      meters: declareMetricsMeters(deps.meters),
      limits: { unsentBytesMax, slowMsMax, ...deps.limits },
      run: deps.run,
    }
    this.#sockets = new StreamSockets(this.#stream, deps.clock)
    this.#limits = new Limits({
      budget: deps.addressBudget,
      refused: deps.quotaMeters.addressRefused.metrics,
      clock: deps.clock,
      head: jsonHead,
    })
    declareMetricsReads(deps.meters, {
      ...deps,
      sockets: this.#sockets,
      isOpen: () => this.#endpoint !== null && !this.#isStale,
    })
  }

  async start(): Promise<void> {
    await this.#open()
    this.#timer = setInterval(() => this.#look(), watchMs)
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    await this.#exiting
    await this.#close()
    this.#sockets.stop()
    this.#endListening()
  }

  async #open(): Promise<void> {
    const { events, view, source, solana, clock, meters, version, ready } = this.#deps
    const gate = this.#section.auth === 'token' ? this.#deps.gate : null
    const session = {
      stream: this.#stream,
      sockets: this.#sockets,
      gate: this.#deps.gate,
      clock,
      limits: this.#limits,
      perAddressMax: this.#section.connectionsPerAddress,
    }
    const endpoint = await openHttpEndpoint<Caller>({
      ...this.#deps,
      product: 'metrics',
      listen: {
        host: this.#section.host,
        port: this.#section.port,
        isShared: this.#deps.sharePorts,
      },
      http: httpOptions({
        log: events,
        view,
        source,
        history: this.#history,
        gate,
        tickets: this.#tickets,
        version,
        ready,
        instruments: meters,
        meters: this.#stream.meters,
        limits: this.#limits,
        clock,
        clients: () => this.#sockets.count,
        uptimeMs: () => clock.monotonicMs() - this.#startedMs,
        page: this.#page,
        solana,
        isStale: () => this.#isStale,
      }),
      sockets: streamPaths.map((path) => socketRoute(path, session)),
    })
    this.#endpoint = endpoint
    this.address = endpoint.address
    this.#sockets.publish = (topic, bytes, isBinary) =>
      endpoint.sockets.publish(topic, bytes, isBinary)
  }

  /** Stops accepting, answers what is in flight, ends the sockets with 1001. */
  async #close(): Promise<void> {
    const endpoint = this.#endpoint
    this.#endpoint = null
    await endpoint?.stop()
  }

  /** Runs on the timer. */
  #look(): void {
    if (this.#exiting !== null) return
    const { view, clock, log, restartSource } = this.#deps
    this.#history.follow(this.#deps.events)
    const step = this.#watch.step(view.lastEventAgeMs(), clock.monotonicMs())
    if (step === 'drain') log.warn('metrics streams draining: no execution event for 30 s')
    else if (step === 'recover') log.info('metrics streams stay open: execution events resumed')
    else if (step === 'restart') restartSource()
    else if (step === 'close') this.#goStale()
    else if (step === 'open') {
      this.#isStale = false
      log.info('metrics streams and REST reopened: execution events resumed')
    }
  }

  /** Meters, readiness and the page stay reachable, for whoever looks for the cause. */
  #goStale(): void {
    const { log, restartSource, exit } = this.#deps
    log.warn('metrics streams and REST closing until the next execution event')
    this.#stream.meters.staleCloses.inc()
    if (this.#section.onStale === 'exit') {
      this.#exiting = this.#close().then(() => exit(exitStale))
      return
    }
    this.#isStale = true
    for (const socket of this.#endpoint?.sockets.open ?? [])
      socket.end(goingAway, 'no execution event for 30 s')
    restartSource()
  }
}
