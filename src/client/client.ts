// `sluice/client`: metrics stream client that reconnects with back-off and resumes at its cursor.
// Browsers and Node; no dependencies.
//
//   const client = new MetricsClient({ url: 'http://127.0.0.1:8443' })
//   client.on('TPS', (tps) => …)             listeners, or
//   for await (const frame of client) …      an iterator with backpressure
//
//   closed --connect()--> open --close, silence--> waiting --back-off--> open
//
// The cursor is the seq of the last frame; a new connection resumes after it (`resume_from`). When
// the server no longer has the following frames, it sends `Resume` with mode `snapshot`.
import { type Frame, type Kind, kinds, type Payloads, type Resume } from './frames.ts'
import { MetricsRest, type RestOptions } from './rest.ts'
import { platformSocket, type SocketLike } from './socket.ts'

// biome-ignore lint/performance/noBarrelFile: the package has this one entry for its users.
export * from './frames.ts'
export {
  PubsubClient,
  type PubsubError,
  type PubsubListener,
  type PubsubOptions,
  type PubsubSubscription,
  type PubsubTopic,
  type SubscribeOptions,
} from './pubsub.ts'
export { MetricsRest, ServiceError } from './rest.ts'
export type { SocketLike } from './socket.ts'

export interface ClientOptions extends Omit<RestOptions, 'origin'> {
  /** URL of the service: `http://host:8443`, `https://…`, or the same with ws, wss. */
  readonly url: string
  /** Kinds to subscribe to. Default: all four. Gap is always sent. */
  readonly events?: readonly Kind[]
  /** Resumes after this frame, for example after a restart of the program. */
  readonly resumeFrom?: number
  /** The run that `resumeFrom` belongs to. */
  readonly run?: string
  /** Opens a socket: required where the platform has no WebSocket, or to send a token header. */
  readonly open?: (url: string) => SocketLike
  /** Timeout without a frame after which the client reconnects. Default 35 s. */
  readonly silenceMs?: number
  /** Exponential back-off: first and longest wait before a reconnect. Default 250 ms and 30 s. */
  readonly backoffMs?: { readonly first: number; readonly most: number }
  /** Frames buffered for a slow iterator before the client disconnects. Default 4,096. */
  readonly waitingMax?: number
}

export interface Events extends Payloads {
  Resume: Resume
  Subscribed: { events: Kind[] }
  Warning: { code: string; dropped: number }
  Error: { code: string; message: string }
  /** The connection ended; a new one follows unless `close` was called. */
  closed: { code: number; retryMs: number | null }
}

type Listener<K extends keyof Events> = (payload: Events[K], seq: number) => void

export class MetricsClient extends MetricsRest implements AsyncIterable<Frame> {
  readonly #options: ClientOptions
  readonly #listeners = new Map<string, Set<(payload: never, seq: number) => void>>()
  /** Each with its run. */
  readonly #buffered: (readonly [Frame, string | null])[] = []
  #events: readonly Kind[]
  #socket: SocketLike | null = null
  #cursor: number
  #run: string | null
  #attempts = 0
  #retryTimer: Timer | undefined
  #silenceTimer: Timer | undefined
  #wake: (() => void) | null = null
  #isStarted = false
  #isReady = false
  #isPaused = false
  #iterators = 0

  constructor(options: ClientOptions) {
    super({ ...options, origin: options.url.replace(/^ws/, 'http') })
    this.#options = options
    this.#events = options.events ?? kinds
    this.#cursor = options.resumeFrom ?? 0
    this.#run = options.run ?? null
  }

  /** The seq of the last frame, 0 before the first. Store it with `run` to resume later. */
  get cursor(): number {
    return this.#cursor
  }

  get run(): string | null {
    return this.#run
  }

  get isOpen(): boolean {
    return this.#socket !== null
  }

  /** Connects. Throws when the platform has no WebSocket and none was passed. */
  connect(): this {
    if (!this.#isStarted) this.#open()
    this.#isStarted = true
    return this
  }

  /** Closes the connection and every iterator. `connect` resumes from the cursor. */
  close(): void {
    this.#isStarted = false
    this.#stopTimers()
    this.#disconnect()
    this.#wake?.()
  }

  /** Replaces the kinds, now and for later connections. */
  subscribe(events: readonly Kind[]): void {
    this.#events = events
    if (this.#isReady) this.#socket?.send(JSON.stringify({ subscribe: events }))
  }

  /** Calls `listener` for every frame of that name; returns a function that removes it. */
  on<K extends keyof Events>(name: K, listener: Listener<K>): () => void {
    const set = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, set)
    set.add(listener as (payload: never, seq: number) => void)
    return () => set.delete(listener as (payload: never, seq: number) => void)
  }

  /**
   * Every frame in order. A loop that is slower than the stream loses nothing: the client
   * disconnects and resumes when the loop has caught up. Leaving the loop closes the client; a
   * later loop resumes after the last frame that was consumed. One loop at a time.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Frame, void, undefined> {
    if (this.#iterators > 0)
      throw new Error('only one loop at a time: two loops would split the frames')
    this.#iterators++
    let consumed: readonly [number, string | null] = [this.#cursor, this.#run]
    this.connect()
    try {
      while (this.#isStarted || this.#buffered.length > 0) {
        const next = this.#buffered.shift()
        if (next !== undefined) {
          const [frame, run] = next
          consumed = [frame.seq, run]
          yield frame
          if (this.#isPaused && this.#buffered.length === 0) this.#resume()
        } else
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
      }
    } finally {
      this.#iterators--
      this.#isPaused = false
      if (this.#buffered.length > 0) [this.#cursor, this.#run] = consumed
      this.#buffered.length = 0
      this.close()
    }
  }

  #open(): void {
    const { open = platformSocket() } = this.#options
    const requested = this.#events.join()
    const socket = open(this.#streamUrl())
    this.#socket = socket
    this.#isReady = false
    const isCurrent = () => this.#socket === socket
    socket.onopen = () => {
      if (!isCurrent()) return
      this.#isReady = true
      this.#resetSilenceTimer()
      // Changed since the URL was made: a socket takes no message before it is open.
      if (this.#events.join() !== requested) this.subscribe(this.#events)
    }
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (!isCurrent()) return
      this.#resetSilenceTimer()
      this.#onMessage(JSON.parse(String(data)) as Record<string, unknown>)
    }
    // The close event that follows reports the error.
    socket.onerror = () => {}
    socket.onclose = ({ code }: { code?: number }) => {
      if (isCurrent()) this.#reconnectLater(code ?? 1006)
    }
    this.#resetSilenceTimer()
  }

  #streamUrl(): string {
    const base = this.#options.url.replace(/^http/, 'ws').replace(/\/+$/, '')
    const query = [`events=${this.#events.join(',')}`]
    const hasCursor = this.#cursor > 0 || this.#options.resumeFrom !== undefined
    if (hasCursor) query.push(`resume_from=${this.#cursor}`)
    if (hasCursor && this.#run !== null) query.push(`run=${encodeURIComponent(this.#run)}`)
    const path = base.endsWith('/v1/ws') ? base : `${base}/v1/ws`
    return `${path}?${query.join('&')}`
  }

  #onMessage(message: Record<string, unknown>): void {
    const { seq, ...rest } = message
    const [kind, payload] = Object.entries(rest)[0] ?? []
    if (kind === undefined || typeof seq !== 'number') return
    if (kind === 'Resume') this.#begin(payload as Resume)
    else this.#attempts = 0
    const isNumbered = seq > 0 && kind !== 'Resume'
    if (isNumbered) this.#cursor = Math.max(this.#cursor, seq)
    for (const listener of this.#listeners.get(kind) ?? []) listener(payload as never, seq)
    if (!isNumbered || this.#iterators === 0) return
    this.#buffered.push([{ seq, kind, payload } as Frame, this.#run])
    this.#wake?.()
    if (this.#buffered.length >= (this.#options.waitingMax ?? 4096)) this.#pause()
  }

  /** Another run has numbers of its own. A cursor without a run is kept where it is resumed. */
  #begin({ mode, run }: Resume): void {
    if (mode === 'snapshot' && run !== this.#run) this.#cursor = 0
    this.#run = run
  }

  /** Backpressure: the loop is slow, so further frames stay in the server's buffer. */
  #pause(): void {
    this.#isPaused = true
    this.#stopTimers()
    this.#disconnect()
  }

  #resume(): void {
    this.#isPaused = false
    if (this.#isStarted) this.#open()
  }

  #resetSilenceTimer(): void {
    clearTimeout(this.#silenceTimer)
    this.#silenceTimer = setTimeout(() => {
      this.#disconnect()
      this.#reconnectLater(1006)
    }, this.#options.silenceMs ?? 35_000)
  }

  #reconnectLater(code: number): void {
    this.#socket = null
    this.#stopTimers()
    if (!this.#isStarted) return
    const { first, most } = this.#options.backoffMs ?? { first: 250, most: 30_000 }
    // Half of the wait is random (jitter), so that clients do not all reconnect at once.
    const retryMs =
      Math.min(most, first * 2 ** Math.min(this.#attempts++, 30)) * (1 + Math.random()) * 0.5
    this.#retryTimer = setTimeout(() => this.#open(), retryMs)
    for (const listener of this.#listeners.get('closed') ?? [])
      listener({ code, retryMs } as never, 0)
  }

  #disconnect(): void {
    const socket = this.#socket
    this.#socket = null
    socket?.close()
  }

  #stopTimers(): void {
    clearTimeout(this.#retryTimer)
    clearTimeout(this.#silenceTimer)
  }
}

type Timer = ReturnType<typeof setTimeout>
