// Solana PubSub client that reconnects with back-off and resumes each subscription at its cursor,
// at any gateway of the set. Browsers and Node; no dependencies.
//
//   const client = new PubsubClient({ url: ['ws://a:8900', 'ws://b:8900'] })
//   const logs = client.subscribe('logs', ['all', { commitment: 'confirmed' }], (result) => …)
//   logs.cursor          where a program continues after a restart: { resume: cursor }
//   swaps.update({ add: { accountInclude: [key] } })      of a transaction subscription
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
  | 'tokenOwner'
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
  /** A call is sent this often and answered until the next; also to connect. Default 15 s. */
  readonly heartbeatMs?: number
  /** The client reads too slowly and gets what follows from the server's log, or is live again. */
  readonly onBehind?: (behind: { readonly isBehind: boolean; readonly slot: number }) => void
}

/** Keys in base58 by list of a transaction filter. */
export type KeyLists = {
  readonly [list in 'accountInclude' | 'accountExclude' | 'accountRequired']?: readonly string[]
}

export interface KeysUpdate {
  readonly add?: KeyLists
  readonly remove?: KeyLists
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
  /**
   * Adds and removes keys of a transaction subscription, also for later connections. What the
   * server refuses is passed to `onError` and not kept; while a connection begins, the subscription
   * ends with it.
   */
  update(keys: KeysUpdate): void
  unsubscribe(): void
}

class Subscription implements PubsubSubscription {
  readonly topic: PubsubTopic
  readonly params: readonly unknown[]
  readonly listener: PubsubListener
  readonly options: SubscribeOptions
  readonly #events: SubscriptionEvents
  readonly #keys: PresentKeys
  cursor: string | null
  isOpen = true
  /** Id of the subscription on the current connection. */
  id: number | null = null
  /** The server waits for the rest of its keys. */
  isHeld = false

  constructor(
    given: Pick<Subscription, 'topic' | 'params' | 'listener' | 'options'>,
    events: SubscriptionEvents,
  ) {
    this.topic = given.topic
    this.params = given.params
    this.listener = given.listener
    this.options = given.options
    this.#events = events
    this.#keys = new PresentKeys(given.topic === 'transaction' ? given.params[0] : {})
    this.cursor = given.options.resume ?? null
  }

  unsubscribe(): void {
    this.#events.end(this)
  }

  update(keys: KeysUpdate): void {
    if (this.topic !== 'transaction') throw new Error('only transaction subscriptions have keys')
    for (const { change, undo } of this.#keys.update(keys)) this.#events.change(this, change, undo)
  }

  /** Changes of keys since the request. */
  get rest(): readonly KeysUpdate[] {
    return this.topic === 'transaction' ? this.#keys.rest : []
  }

  /** With the cursor of the last notification, where the topic has one. */
  get request(): readonly unknown[] {
    const { topic, cursor } = this
    const params = topic === 'transaction' ? this.#keys.request(this.params) : this.params
    if (topic === 'slotsUpdates' || topic === 'signature') return params
    const at = topic === 'slot' || topic === 'root' ? 0 : 1
    const given = (params[at] ?? {}) as object
    const config = cursor === null ? { ...given, cursor: true } : { ...given, resume: cursor }
    return at === 0 ? [config] : [params[0], config]
  }
}

interface SubscriptionEvents {
  end(subscription: Subscription): void
  change(subscription: Subscription, keys: KeysUpdate, undo: () => void): void
}

type ListName = keyof KeyLists
const listNames = ['accountInclude', 'accountExclude', 'accountRequired'] as const
/** Keys of a message: it may have 4,096 bytes, a key has up to 47 of them, a cursor 1,600. */
const KEYS_PER_UPDATE = 72
/** Of each of the three lists. */
const KEYS_PER_SUBSCRIBE = 8

/** The lists of keys of a transaction subscription as they are now. */
class PresentKeys {
  readonly #filter: Readonly<Record<string, unknown>>
  readonly #initial: Readonly<Record<ListName, readonly string[]>>
  readonly #lists: Readonly<Record<ListName, Set<string>>>
  /** Of the last request. */
  #sent: Readonly<Record<ListName, readonly string[]>>
  #isChanged = false

  constructor(filter: unknown) {
    const { accounts, ...rest } = { ...(filter as Record<string, unknown> | undefined) }
    const { include, exclude, required } = (accounts ?? {}) as Record<string, string[]>
    const listOf = (name: ListName, nested: string[] = []) => (rest[name] ?? nested) as string[]
    this.#initial = {
      accountInclude: listOf('accountInclude', include),
      accountExclude: listOf('accountExclude', exclude),
      accountRequired: listOf('accountRequired', required),
    }
    this.#filter = rest
    this.#sent = this.#initial
    this.#lists = eachList((name) => new Set(this.#initial[name]))
  }

  /** The params of a subscribe; keys that do not fit it follow. */
  request(params: readonly unknown[]): readonly unknown[] {
    if (!this.#isChanged) return params
    this.#sent = eachList((name) => {
      const keys = [...this.#lists[name]].slice(0, KEYS_PER_SUBSCRIBE)
      // A list that has lost all its keys is still a condition: it is sent with one, then without.
      return keys.length > 0 ? keys : this.#initial[name].slice(0, 1)
    })
    const more = this.rest.length > 0 ? { more: true } : {}
    const lists = Object.entries(this.#sent).filter(([, keys]) => keys.length > 0)
    const filter = { ...this.#filter, ...Object.fromEntries(lists) }
    return [filter, { ...(params[1] as object | undefined), ...more }]
  }

  /** What differs from the last request, in pieces that fit a message. */
  get rest(): readonly KeysUpdate[] {
    return listNames.flatMap((name) => {
      const sent = new Set(this.#sent[name])
      const keys = this.#lists[name]
      const fresh = [...keys].filter((key) => !sent.has(key))
      const gone = [...sent].filter((key) => !keys.has(key))
      return [...pieces('add', name, fresh), ...pieces('remove', name, gone)]
    })
  }

  /** Makes the change; returns it in pieces that fit a message, and how each is undone. */
  update({ add = {}, remove = {} }: KeysUpdate) {
    this.#isChanged = true
    return listNames.flatMap((name) => {
      const keys = this.#lists[name]
      const added = new Set(add[name])
      const fresh = [...added].filter((key) => !keys.has(key))
      const gone = [...new Set(remove[name])].filter((key) => keys.has(key) && !added.has(key))
      for (const key of fresh) keys.add(key)
      for (const key of gone) keys.delete(key)
      return [...pieces('add', name, fresh), ...pieces('remove', name, gone)].map((change) => ({
        change,
        undo: () => {
          for (const key of change.add?.[name] ?? []) keys.delete(key)
          for (const key of change.remove?.[name] ?? []) keys.add(key)
        },
      }))
    })
  }
}

function eachList<T>(make: (name: ListName) => T): Record<ListName, T> {
  // Reason for the cast: every name has its entry.
  return Object.fromEntries(listNames.map((name) => [name, make(name)])) as Record<ListName, T>
}

function pieces(verb: 'add' | 'remove', name: ListName, keys: readonly string[]): KeysUpdate[] {
  const count = Math.ceil(keys.length / KEYS_PER_UPDATE)
  return Array.from({ length: count }, (_, at) => {
    const piece = keys.slice(at * KEYS_PER_UPDATE, (at + 1) * KEYS_PER_UPDATE)
    return { [verb]: { [name]: piece } }
  })
}

interface Message {
  readonly id?: number | null
  readonly method?: string
  readonly result?: unknown
  readonly error?: PubsubError & { readonly data?: { readonly subscription?: number } }
  readonly params?: {
    readonly result: unknown
    readonly subscription: number
    readonly cursor?: string
  }
}

/** What an answer is of; `undo` is of a change of keys. */
interface Call {
  readonly subscription: Subscription | null
  readonly undo?: () => void
}

type Timer = ReturnType<typeof setTimeout>
const PARAMS_INVALID = -32602
const CLEANED_UP = -32001
/** A quota may have days left to wait; a timer of more than 2^31 ms fires at once. */
const REFUSED_MS_MAX = 3_600_000

export class PubsubClient {
  readonly #options: PubsubOptions
  readonly #open: (url: string) => SocketLike
  readonly #subscriptions = new Set<Subscription>()
  readonly #calls = new Map<number, Call>()
  #socket: SocketLike | null = null
  #isReady = false
  #isClosed = false
  #urls = 0
  #attempts = 0
  #callId = 0
  #heartbeat: Timer | undefined
  #retry: Timer | undefined
  /** Subscriptions that are asked for again on this connection. */
  readonly #refusals = new Set<Timer>()

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
    const subscription = new Subscription(given, {
      end: (ended) => this.#unsubscribe(ended),
      change: (one, keys, undo) => {
        if (one.id !== null && this.#isReady)
          this.#call('transactionUpdate', [one.id, keys], { subscription: one, undo })
      },
    })
    this.#subscriptions.add(subscription)
    if (this.#isReady) this.#ask(subscription)
    return subscription
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#retry)
    const socket = this.#socket
    this.#leave()
    socket?.close()
  }

  #connect(): void {
    const urls = typeof this.#options.url === 'string' ? [this.#options.url] : this.#options.url
    const socket = this.#open(urls[this.#urls % urls.length]!.replace(/^http/, 'ws'))
    this.#socket = socket
    this.#beat()
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
    socket.onclose = () => isCurrent() && this.#reconnectLater()
  }

  #ask(subscription: Subscription): void {
    if (!subscription.isOpen || !this.#isReady) return
    this.#call(`${subscription.topic}Subscribe`, subscription.request, { subscription })
    subscription.isHeld = subscription.rest.length > 0
  }

  #call(method: string, params: readonly unknown[], of: Call): void {
    const id = ++this.#callId
    this.#calls.set(id, of)
    this.#socket?.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
  }

  #onMessage({ id, method, result, error, params }: Message): void {
    if (params !== undefined) {
      const { subscription, cursor = null } = params
      const found = this.#find(subscription)
      if (method === 'behindNotification')
        this.#options.onBehind?.(params.result as { isBehind: boolean; slot: number })
      else if (found !== undefined) this.#notify(found, params.result, cursor)
      return
    }
    const call = typeof id === 'number' ? this.#calls.get(id) : undefined
    if (typeof id === 'number') this.#calls.delete(id)
    if (call?.undo !== undefined) {
      if (error === undefined || call.subscription?.isOpen === false) return
      call.undo()
      return void call.subscription?.options.onError?.(error)
    }
    const ended = this.#find(error?.data?.subscription ?? Number.NaN)
    const subscription = typeof id === 'number' ? call?.subscription : ended
    if (!subscription) return
    if (error !== undefined) this.#refused(subscription, error)
    else if (typeof result === 'number') this.#subscribed(subscription, result)
  }

  /** The keys that did not fit the request follow, and those that were changed meanwhile. */
  #subscribed(subscription: Subscription, id: number): void {
    // A quiet topic notifies seldom: the connection works all the same.
    this.#attempts = 0
    subscription.id = id
    if (!subscription.isOpen) return void this.#unsubscribe(subscription)
    const { rest, isHeld } = subscription
    const changes = isHeld && rest.length === 0 ? [{}] : rest
    for (const [at, keys] of changes.entries()) {
      const more = at < changes.length - 1 ? { more: true } : {}
      // Without all its keys it is not what was asked for.
      const of = { subscription, undo: () => this.#unsubscribe(subscription) }
      this.#call('transactionUpdate', [id, { ...keys, ...more }], of)
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
      return void this.#ask(subscription)
    }
    options.onError?.(error)
    if (error.code === PARAMS_INVALID) return void this.#forget(subscription)
    // Closed by `onError`: a timer would keep the program running.
    if (this.#isClosed) return
    const waitMs = Math.min(error.data?.retryAfterMs ?? this.#waitMs(), REFUSED_MS_MAX)
    const timer = setTimeout(() => {
      this.#refusals.delete(timer)
      this.#ask(subscription)
    }, waitMs)
    this.#refusals.add(timer)
  }

  #unsubscribe(subscription: Subscription): void {
    const { id, topic } = subscription
    this.#forget(subscription)
    if (id !== null && this.#isReady)
      this.#call(`${topic}Unsubscribe`, [id], { subscription: null })
  }

  #forget(subscription: Subscription): void {
    subscription.isOpen = false
    subscription.id = null
    this.#subscriptions.delete(subscription)
  }

  /** A connection that does not open or answers nothing is dead, whatever the network says. */
  #beat(): void {
    const id = this.#callId + 1
    if (this.#isReady) this.#call('getVersion', [], { subscription: null })
    clearTimeout(this.#heartbeat)
    this.#heartbeat = setTimeout(() => {
      if (this.#isReady && !this.#calls.has(id)) return void this.#beat()
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
    for (const timer of this.#refusals) clearTimeout(timer)
    this.#refusals.clear()
    clearTimeout(this.#heartbeat)
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
