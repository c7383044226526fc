// Runs one connection of a race in a thread of its own: connects, reconnects, posts what it saw.
// Thread: observer.
//
//   connect ─► live ─► saw … ─► down ─► back-off ─► connect     lost for `lostMsMax`: gives up
//   refused before it was ever live: gives up at once, so that a wrong address or token is reported
import type { MessagePort } from 'node:worker_threads'
import { backoffMs } from '../../base/clock.ts'
import { LagWatch } from '../lag-watch.ts'
import { sharedNowMs } from '../thread-clock.ts'
import { observeGeyser } from './geyser-observer.ts'
import type { Endpoint, Observer, ObserverEvents, Subject } from './observer.ts'
import { observeMetrics, observePubsub, observeRpc, observeShreds } from './socket-observer.ts'

export interface ObserverData {
  readonly endpoint: Endpoint
  readonly subject: Subject
  readonly heartbeat: MessagePort
}

/** What the thread posts to the race. */
export type ObserverReport =
  | { readonly kind: 'live' }
  | { readonly kind: 'sights'; readonly keys: string[]; readonly numbers: Float64Array }
  | { readonly kind: 'roundTrip'; readonly ms: number }
  | { readonly kind: 'lost'; readonly problem: string }
  | { readonly kind: 'failed'; readonly problem: string; readonly wasLive: boolean }
  | { readonly kind: 'done'; readonly lagP99Ms: number | null }

/** Sights wait this long, or until there are that many, so that a message to main has several. */
const postEveryMs = 20
const sightsMax = 1_024
const connectMsMax = 10_000
const lostMsMax = 5_000
const backoff = { firstMs: 50, lastMs: 1_000 }

export type Post = (report: ObserverReport) => void

export class ObserverThread {
  readonly #data: ObserverData
  readonly #post: Post
  readonly #lag: LagWatch
  readonly #posting: NodeJS.Timeout
  #observer: Observer | null = null
  #deadline: NodeJS.Timeout | undefined
  #keys: string[] = []
  #numbers: number[] = []
  #wasLive = false
  #isStopped = false
  #failures = 0
  #lostMs = 0

  constructor(data: ObserverData, post: Post) {
    this.#data = data
    this.#post = post
    this.#lag = new LagWatch(data.heartbeat)
    this.#posting = setInterval(() => this.#postSights(), postEveryMs)
    this.#connect()
  }

  stop(): void {
    this.#isStopped = true
    clearInterval(this.#posting)
    clearTimeout(this.#deadline)
    this.#observer?.close()
    this.#postSights()
    this.#post({ kind: 'done', lagP99Ms: this.#lag.lags.percentile(99) })
    this.#lag.stop()
  }

  #connect(): void {
    if (this.#isStopped) return
    let isOver = false
    const down = (problem: string, isTransient = false) => {
      if (isOver || this.#isStopped) return
      isOver = true
      clearTimeout(this.#deadline)
      this.#down(problem, isTransient || this.#wasLive)
    }
    this.#deadline = setTimeout(() => {
      this.#observer?.close()
      down(`did not start the stream within ${connectMsMax / 1000} s`)
    }, connectMsMax)
    this.#observer = openObserver(this.#data.endpoint, this.#data.subject, {
      live: () => {
        clearTimeout(this.#deadline)
        this.#wasLive = true
        this.#failures = 0
        this.#post({ kind: 'live' })
      },
      saw: (key, slot, atMs) => this.#saw(key, slot, atMs),
      roundTrip: (ms) => this.#post({ kind: 'roundTrip', ms }),
      down,
    })
  }

  #down(problem: string, mayRetry: boolean): void {
    if (this.#failures === 0) this.#lostMs = sharedNowMs()
    this.#failures += 1
    const isLost = sharedNowMs() - this.#lostMs > lostMsMax
    if (!mayRetry || isLost) {
      this.#postSights()
      this.#post({ kind: 'failed', problem, wasLive: this.#wasLive })
      return
    }
    this.#post({ kind: 'lost', problem })
    setTimeout(() => this.#connect(), backoffMs(this.#failures, backoff))
  }

  #saw(key: string, slot: number, atMs: number): void {
    this.#keys.push(key)
    this.#numbers.push(slot, atMs)
    if (this.#keys.length >= sightsMax) this.#postSights()
  }

  #postSights(): void {
    if (this.#keys.length === 0) return
    this.#post({ kind: 'sights', keys: this.#keys, numbers: Float64Array.from(this.#numbers) })
    this.#keys = []
    this.#numbers = []
  }
}

/** Connects; the events tell when it is live, what it shows and when it ended. */
export function openObserver(
  endpoint: Endpoint,
  subject: Subject,
  events: ObserverEvents,
): Observer {
  switch (endpoint.kind) {
    case 'geyser':
      return observeGeyser(endpoint, subject, events)
    case 'websocket':
      return observePubsub(endpoint, subject, events)
    case 'metrics':
      return observeMetrics(endpoint, events)
    case 'rpc':
      return observeRpc(endpoint, subject, events)
    case 'shreds':
      return observeShreds(endpoint, subject, events)
  }
}
