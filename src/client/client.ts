// `sluice/client`: follows the metrics stream and never loses its place. Browsers and Node.
// Depends on nothing. Thread: any.
//
//   const client = new MetricsClient({ url: 'http://127.0.0.1:8443' })
//   client.on('TPS', (tps) => …)             listeners, or
//   for await (const frame of client) …      an iterator that holds the server back when it is slow
//
//   closed --connect()--> open --close, silence--> waiting --back-off--> open
//
// The cursor is the seq of the last frame; a new connection goes on behind it (`resume_from`). When
// the server no longer has what follows, it says so: `Resume` with mode `snapshot`.
import { type Frame, type Kind, kinds, type Payloads, type Resume } from './frames.ts'
import { MetricsRest, type RestOptions } from './rest.ts'

// biome-ignore lint/performance/noBarrelFile: the package has this one entry for its users.
export * from './frames.ts'
export { MetricsRest, ServiceError } from './rest.ts'

/** The part of a WebSocket that is used; browsers', undici's and `ws`' fit. */
export interface SocketLike {
  onopen: ((event: never) => void) | null
  onmessage: ((event: never) => void) | null
  onclose: ((event: never) => void) | null
  onerror: ((event: never) => void) | null
  send(text: string): void
  close(): void
}

export interface ClientOptions extends Omit<RestOptions, 'origin'> {
  /** Where the service stands: `http://host:8443`, `https://…`, or the same with ws, wss. */
  readonly url: string
  /** What to get; all four kinds unless told otherwise. Gap always comes. */
  readonly events?: readonly Kind[]
  /** Goes on behind this frame, from an earlier life of the program. */
  readonly resumeFrom?: number
  /** The run that `resumeFrom` belongs to. */
  readonly run?: string
  /** Opens a socket: needed where the platform has no WebSocket, or to send a token header. */
  readonly open?: (url: string) => SocketLike
  /** Without a frame for this long the connection counts as dead. Default 35 s. */
  readonly silenceMs?: number
  /** Shortest and longest wait before a new connection. Default 250 ms and 30 s. */
  readonly backoffMs?: { readonly first: number; readonly most: number }
  /** Frames that may wait for a slow iterator before the connection is let go. Default 4,096. */
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
  readonly #waiting: Frame[] = []
  #events: readonly Kind[]
  #socket: SocketLike | null = null
  #cursor: number
  #run: string | null
  #tries = 0
  #retryTimer: Timer | null = null
  #silenceTimer: Timer | null = null
  #wake: (() => void) | null = null
  #isWanted = false
  #isHeldBack = false
  #iterators = 0

  constructor(options: ClientOptions) {
    super({ ...options, origin: options.url.replace(/^ws/, 'http') })
    this.#options = options
    this.#events = options.events ?? kinds
    this.#cursor = options.resumeFrom ?? 0
    this.#run = options.run ?? null
  }

  /** The seq of the last frame; 0 before the first. Keep it with `run` to go on after a restart. */
  get cursor(): number {
    return this.#cursor
  }

  get run(): string | null {
    return this.#run
  }

  get isOpen(): boolean {
    return this.#socket !== null
  }

  /** Begins to follow. Throws when the platform has no WebSocket and none was passed. */
  connect(): this {
    if (this.#isWanted) return this
    const open = this.#options.open ?? platformSocket()
    this.#isWanted = true
    this.#open(open)
    return this
  }

  /** Ends the connection and every iterator. `connect` goes on from the cursor. */
  close(): void {
    this.#isWanted = false
    this.#stopTimers()
    this.#letGo()
    this.#wake?.()
  }

  /** Replaces the kinds, now and for later connections. */
  subscribe(events: readonly Kind[]): void {
    this.#events = events
    this.#socket?.send(JSON.stringify({ subscribe: events }))
  }

  /** Calls `listener` for every such frame; returns how to end it. */
  on<K extends keyof Events>(name: K, listener: Listener<K>): () => void {
    const set = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, set)
    set.add(listener as (payload: never, seq: number) => void)
    return () => set.delete(listener as (payload: never, seq: number) => void)
  }

  /**
   * Every frame in order. A loop that is slower than the stream loses nothing: the connection is
   * let go and resumed when it has caught up. Leaving the loop closes the client; a later one goes
   * on behind the last frame that was taken. One loop at a time.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Frame, void, undefined> {
    if (this.#iterators > 0) throw new Error('one loop at a time: it would share the frames')
    this.#iterators++
    let taken = this.#cursor
    this.connect()
    try {
      while (this.#isWanted || this.#waiting.length > 0) {
        const frame = this.#waiting.shift()
        if (frame !== undefined) {
          taken = frame.seq
          yield frame
          if (this.#isHeldBack && this.#waiting.length === 0) this.#goOn()
        } else
          await new Promise<void>((resolve) => {
            this.#wake = resolve
          })
      }
    } finally {
      this.#iterators--
      this.#isHeldBack = false
      if (this.#waiting.length > 0) this.#cursor = taken
      this.#waiting.length = 0
      this.close()
    }
  }

  #open(open: (url: string) => SocketLike): void {
    const socket = open(this.#streamUrl())
    this.#socket = socket
    const isCurrent = () => this.#socket === socket
    socket.onopen = () => isCurrent() && this.#heard()
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (!isCurrent()) return
      this.#heard()
      this.#take(JSON.parse(String(data)) as Record<string, unknown>)
    }
    // What went wrong is told by the close that follows.
    socket.onerror = () => {}
    socket.onclose = ({ code }: { code?: number }) => {
      if (isCurrent()) this.#lost(code ?? 1006)
    }
    this.#heard()
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

  #take(message: Record<string, unknown>): void {
    const { seq, ...rest } = message
    const [kind, payload] = Object.entries(rest)[0] ?? []
    if (kind === undefined || typeof seq !== 'number') return
    if (kind === 'Resume') this.#run = (payload as Resume).run
    else this.#tries = 0
    const isNumbered = seq > 0 && kind !== 'Resume'
    if (isNumbered) this.#cursor = Math.max(this.#cursor, seq)
    for (const listener of this.#listeners.get(kind) ?? []) listener(payload as never, seq)
    if (!isNumbered || this.#iterators === 0) return
    this.#waiting.push({ seq, kind, payload } as Frame)
    this.#wake?.()
    if (this.#waiting.length >= (this.#options.waitingMax ?? 4096)) this.#holdBack()
  }

  /** The loop is slow: what follows stays in the server's buffer. */
  #holdBack(): void {
    this.#isHeldBack = true
    this.#stopTimers()
    this.#letGo()
  }

  #goOn(): void {
    this.#isHeldBack = false
    if (this.#isWanted) this.#open(this.#options.open ?? platformSocket())
  }

  #heard(): void {
    if (this.#silenceTimer !== null) clearTimeout(this.#silenceTimer)
    this.#silenceTimer = setTimeout(() => {
      this.#letGo()
      this.#lost(1006)
    }, this.#options.silenceMs ?? 35_000)
  }

  #lost(code: number): void {
    this.#socket = null
    this.#stopTimers()
    if (!this.#isWanted) return
    const { first, most } = this.#options.backoffMs ?? { first: 250, most: 30_000 }
    // Half of the wait is chance, so that clients of a restarted server do not come all at once.
    const retryMs =
      Math.min(most, first * 2 ** Math.min(this.#tries++, 30)) * (1 + Math.random()) * 0.5
    this.#retryTimer = setTimeout(() => this.#open(this.#options.open ?? platformSocket()), retryMs)
    for (const listener of this.#listeners.get('closed') ?? [])
      listener({ code, retryMs } as never, 0)
  }

  #letGo(): void {
    const socket = this.#socket
    this.#socket = null
    socket?.close()
  }

  #stopTimers(): void {
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer)
    if (this.#silenceTimer !== null) clearTimeout(this.#silenceTimer)
    this.#retryTimer = null
    this.#silenceTimer = null
  }
}

type Timer = ReturnType<typeof setTimeout>

function platformSocket(): (url: string) => SocketLike {
  // Reason for the cast: not every platform that this runs on has the constructor.
  const { WebSocket } = globalThis as { WebSocket?: new (url: string) => SocketLike }
  if (WebSocket === undefined)
    throw new Error(
      'this platform has no WebSocket (Node has one from version 22 on): ' +
        "pass one, for example open: (url) => new WebSocket(url) with WebSocket from 'ws'",
    )
  return (url) => new WebSocket(url)
}
