// Solana PubSub client that reconnects with back-off and resumes each subscription at its cursor,
// at any gateway of the set. Browsers and Node; no dependencies.
//
//   const client = new PubsubClient({ url: ['ws://a:8900', 'ws://b:8900'] })
//   const logs = client.subscribe('logs', ['all', { commitment: 'confirmed' }], (result) => …)
//   logs.cursor          where a program continues after a restart: { resume: cursor }
//
//   waiting --open--> subscribe (cursor or resume) --close, no answer--> back-off --> the next url
//
// Between two connections nothing is lost and nothing comes twice. Where the server does not have
// what follows the cursor any more, `onGap` is called and the subscription begins anew.
import { platformSocket, type SocketLike } from './socket.ts'

export type PubsubTopic =
  | 'account'
  | 'block'
  | 'logs'
  | 'program'
  | 'root'
  | 'signature'
  | 'slot'
  | 'slotsUpdates'
  | 'transaction'

export interface PubsubOptions {
  /** Of the service, `ws://host:8900`; of several the next one is tried after a failure. */
  readonly url: string | readonly string[]
  /** Sent in the header `x-token` by the client for Node. */
  readonly token?: string
  /** Opens a socket: required where the platform has no WebSocket, or to send a token header. */
  readonly open?: (url: string) => SocketLike
  /** Exponential back-off: first and longest wait before a reconnect. Default 250 ms and 30 s. */
  readonly backoffMs?: { readonly first: number; readonly most: number }
  /** A call is sent this often, and must be answered until the next. Default 15 s. */
  readonly heartbeatMs?: number
}

export interface PubsubError {
  readonly code: number
  readonly message: string
  readonly data?: { readonly reason?: string; readonly retryAfterMs?: number }
}

export interface SubscribeOptions {
  /** Continues after this notification, for example after a restart of the program. */
  readonly resume?: string
  /** What followed the cursor is not kept any more: from here on there are new ones only. */
  readonly onGap?: (error: PubsubError) => void
  /** The server refused; the client tries again unless the params are invalid. */
  readonly onError?: (error: PubsubError) => void
}

export type PubsubListener = (result: unknown, cursor: string | null) => void

/** One subscription over all connections. */
export interface PubsubSubscription {
  /** Of the last notification; null before the first. Stored before the listener is called. */
  readonly cursor: string | null
  /** False once the server has sent its last notification, or refused it for good. */
  readonly isOpen: boolean
  unsubscribe(): void
}

class Subscription implements PubsubSubscription {
  readonly topic: PubsubTopic
  readonly params: readonly unknown[]
  readonly listener: PubsubListener
  readonly options: SubscribeOptions
  readonly #end: (subscription: Subscription) => void
  cursor: string | null
  isOpen = true
  /** Id of the subscription on the current connection. */
  id: number | null = null

  constructor(
    given: Pick<Subscription, 'topic' | 'params' | 'listener' | 'options'>,
    end: (subscription: Subscription) => void,
  ) {
    this.topic = given.topic
    this.params = given.params
    this.listener = given.listener
    this.options = given.options
    this.#end = end
    this.cursor = given.options.resume ?? null
  }

  unsubscribe(): void {
    this.#end(this)
  }

  /** With the cursor of the last notification, where the topic has one. */
  get request(): readonly unknown[] {
    const { topic, params, cursor } = this
    if (topic === 'slotsUpdates' || topic === 'signature') return params
    const at = topic === 'slot' || topic === 'root' ? 0 : 1
    const given = (params[at] ?? {}) as object
    const config = cursor === null ? { ...given, cursor: true } : { ...given, resume: cursor }
    return at === 0 ? [config] : [params[0], config]
  }
}

interface Message {
  readonly id?: number | null
  readonly result?: unknown
  readonly error?: PubsubError & { readonly data?: { readonly subscription?: number } }
  readonly params?: {
    readonly result: unknown
    readonly subscription: number
    readonly cursor?: string
  }
}

type Timer = ReturnType<typeof setTimeout>
const PARAMS_INVALID = -32602
const CLEANED_UP = -32001

export class PubsubClient {
  readonly #options: PubsubOptions
  readonly #open: (url: string) => SocketLike
  readonly #subscriptions = new Set<Subscription>()
  readonly #calls = new Map<number, Subscription | null>()
  #socket: SocketLike | null = null
  #isReady = false
  #isClosed = false
  #urls = 0
  #attempts = 0
  #callId = 0
  #heartbeat: Timer | null = null
  #retry: Timer | null = null

  /** Throws when the platform has no WebSocket and none was passed. */
  constructor(options: PubsubOptions) {
    this.#options = options
    this.#open = options.open ?? platformSocket()
    this.#connect()
  }

  get isConnected(): boolean {
    return this.#isReady
  }

  /** `params` are those of the method, without `cursor` and `resume`. */
  subscribe(
    topic: PubsubTopic,
    params: readonly unknown[],
    listener: PubsubListener,
    options: SubscribeOptions = {},
  ): PubsubSubscription {
    const given = { topic, params, listener, options }
    const subscription = new Subscription(given, (ended) => this.#unsubscribe(ended))
    this.#subscriptions.add(subscription)
    if (this.#isReady) this.#ask(subscription)
    return subscription
  }

  close(): void {
    this.#isClosed = true
    if (this.#retry !== null) clearTimeout(this.#retry)
    const socket = this.#socket
    this.#leave()
    socket?.close()
  }

  #connect(): void {
    const urls = typeof this.#options.url === 'string' ? [this.#options.url] : this.#options.url
    const socket = this.#open(urls[this.#urls % urls.length]!.replace(/^http/, 'ws'))
    this.#socket = socket
    const isCurrent = () => this.#socket === socket
    socket.onopen = () => {
      if (!isCurrent()) return
      this.#isReady = true
      this.#beat()
      for (const subscription of this.#subscriptions) this.#ask(subscription)
    }
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (isCurrent()) this.#onMessage(JSON.parse(String(data)) as Message)
    }
    // The close event that follows reports the error.
    socket.onerror = () => {}
    socket.onclose = () => {
      if (isCurrent()) this.#reconnectLater()
    }
  }

  #ask(subscription: Subscription): void {
    if (!subscription.isOpen || !this.#isReady) return
    this.#call(`${subscription.topic}Subscribe`, subscription.request, subscription)
  }

  #call(method: string, params: readonly unknown[], subscription: Subscription | null): void {
    const id = ++this.#callId
    this.#calls.set(id, subscription)
    this.#socket?.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
  }

  #onMessage({ id, result, error, params }: Message): void {
    if (params !== undefined) {
      const { subscription, cursor = null } = params
      const found = this.#find(subscription)
      if (found !== undefined) this.#notify(found, params.result, cursor)
      return
    }
    const ended = error?.data?.subscription
    const subscription =
      typeof id === 'number' ? this.#calls.get(id) : this.#find(ended ?? Number.NaN)
    if (typeof id === 'number') this.#calls.delete(id)
    if (!subscription) return
    if (error !== undefined) this.#refused(subscription, error)
    else if (typeof result === 'number') {
      subscription.id = result
      if (!subscription.isOpen) this.#unsubscribe(subscription)
    }
  }

  #find(id: number): Subscription | undefined {
    for (const one of this.#subscriptions) if (one.id === id) return one
    return undefined
  }

  #notify(subscription: Subscription, result: unknown, cursor: string | null): void {
    this.#attempts = 0
    if (cursor !== null) subscription.cursor = cursor
    const isLast = subscription.topic === 'signature' && !isReceived(result)
    if (isLast) this.#forget(subscription)
    subscription.listener(result, cursor)
  }

  #refused(subscription: Subscription, error: PubsubError): void {
    const { options, cursor } = subscription
    subscription.id = null
    const reason = error.data?.reason ?? ''
    const isUseless = reason.startsWith('cursor-') && reason !== 'cursor-in-use'
    const isGap = cursor !== null && (error.code === CLEANED_UP || isUseless)
    if (isGap) {
      subscription.cursor = null
      options.onGap?.(error)
      this.#ask(subscription)
      return
    }
    options.onError?.(error)
    if (error.code === PARAMS_INVALID) {
      this.#forget(subscription)
      return
    }
    const waitMs = error.data?.retryAfterMs ?? this.#waitMs()
    const socket = this.#socket
    setTimeout(() => {
      if (this.#socket === socket) this.#ask(subscription)
    }, waitMs)
  }

  #unsubscribe(subscription: Subscription): void {
    const { id, topic } = subscription
    this.#forget(subscription)
    if (id !== null && this.#isReady) this.#call(`${topic}Unsubscribe`, [id], null)
  }

  #forget(subscription: Subscription): void {
    subscription.isOpen = false
    subscription.id = null
    this.#subscriptions.delete(subscription)
  }

  /** A connection that answers nothing is dead, whatever the network says. */
  #beat(): void {
    const id = this.#callId + 1
    this.#call('getVersion', [], null)
    this.#heartbeat = setTimeout(() => {
      if (!this.#calls.has(id)) {
        this.#beat()
        return
      }
      const socket = this.#socket
      this.#reconnectLater()
      socket?.close()
    }, this.#options.heartbeatMs ?? 15_000)
  }

  #reconnectLater(): void {
    this.#leave()
    if (this.#isClosed) return
    this.#urls++
    this.#retry = setTimeout(() => this.#connect(), this.#waitMs())
  }

  #leave(): void {
    this.#socket = null
    this.#isReady = false
    this.#calls.clear()
    if (this.#heartbeat !== null) clearTimeout(this.#heartbeat)
    for (const subscription of this.#subscriptions) subscription.id = null
  }

  /** Half of it is random (jitter), so that clients do not all come back at once. */
  #waitMs(): number {
    const { first, most } = this.#options.backoffMs ?? { first: 250, most: 30_000 }
    const waitMs = Math.min(most, first * 2 ** Math.min(this.#attempts++, 30))
    return waitMs * (1 + Math.random()) * 0.5
  }
}

function isReceived(result: unknown): boolean {
  return (result as { readonly value?: unknown } | null)?.value === 'receivedSignature'
}
