// Feeds the Solana page: GET /v1/solana once a second while the tab is seen, with back-off while
// nothing answers; and decides which state the page is in. Thread: browser; no DOM.
import { MetricsRest, ServiceError } from '../client/client.ts'
import type { Solana, SolanaStream } from '../client/frames.ts'
import { clockTime, seconds } from './format.ts'
import { isSolana } from './solana-document.ts'
import type { State, StateName } from './state.ts'

const pollMs = 1_000
const retryMostMs = 8_000
/** For an answer; a server that hangs is one that does not answer. */
const answerMsMax = 5_000
/** A document that stays the same for so long is of a server or proxy that stands still. */
const stalledMs = 5_000
const quietMs = 3_000
const degradedMs = 10_000

export type Trouble = 'none' | 'offline' | 'unauthorized' | 'refused' | 'unreadable'

export interface FeedParts {
  readonly origin: string
  isHidden(): boolean
  /** Returns false for a document that is known. */
  take(document: Solana): boolean
  changed(): void
}

export class SolanaFeed {
  readonly #parts: FeedParts
  #rest: MetricsRest
  #timer: ReturnType<typeof setTimeout> | undefined
  #retryMs = pollMs
  #isAsking = false
  trouble: Trouble = 'none'
  retryAtMs = 0
  /** When the last new document came, monotonic; 0 before the first. */
  newAtMs = 0
  /** The same on the clock. */
  newAtDate = 0

  constructor(parts: FeedParts) {
    this.#parts = parts
    this.#rest = restOf(parts.origin)
  }

  useToken(token: string): void {
    this.#rest = restOf(this.#parts.origin, token)
    this.poll()
  }

  /** Asks now, and then every second. */
  poll(): void {
    clearTimeout(this.#timer)
    if (!this.#isAsking && !this.#parts.isHidden()) void this.#ask()
  }

  async #ask(): Promise<void> {
    this.#isAsking = true
    const rest = this.#rest
    this.trouble = await rest.solana().then((answer) => this.#take(answer), troubleOf)
    this.#isAsking = false
    if (rest !== this.#rest) {
      this.poll()
      return
    }
    const isAnswered = this.trouble === 'none'
    const waitMs = isAnswered ? pollMs : this.#retryMs
    this.#retryMs = isAnswered ? pollMs : Math.min(retryMostMs, this.#retryMs * 2)
    this.retryAtMs = performance.now() + waitMs
    // Whoever has no token yet asks again with one.
    if (this.trouble !== 'unauthorized') this.#timer = setTimeout(() => this.poll(), waitMs)
    this.#parts.changed()
  }

  #take(answer: unknown): Trouble {
    if (!isSolana(answer)) return 'unreadable'
    if (this.#parts.take(answer)) {
      this.newAtMs = performance.now()
      this.newAtDate = Date.now()
    }
    return 'none'
  }
}

function restOf(origin: string, token?: string): MetricsRest {
  return new MetricsRest({
    origin,
    ...(token === undefined ? {} : { token }),
    fetch: (url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(answerMsMax) }),
  })
}

function troubleOf(error: unknown): Trouble {
  if (error instanceof SyntaxError) return 'unreadable'
  if (!(error instanceof ServiceError)) return 'offline'
  if (error.code === 401) return 'unauthorized'
  return error.code === 429 ? 'refused' : 'unreadable'
}

/** What decides the state of the page. */
export interface SolanaFacts {
  readonly feed: Pick<SolanaFeed, 'trouble' | 'retryAtMs' | 'newAtMs' | 'newAtDate'>
  readonly document: Solana | null
  /** Name and stream of the set that is shown. */
  readonly set: string
  readonly stream: SolanaStream | null
  readonly isHidden: boolean
  readonly pausedAtMs: number | null
}

/** The most serious one wins: a page that cannot see must not look live. */
export function solanaState(facts: SolanaFacts, nowMs: number): State {
  if (facts.isHidden) return state('hidden', 'hidden', 'nothing is asked while the tab is hidden')
  return troubleState(facts, nowMs) ?? chainState(facts, nowMs)
}

function troubleState({ feed }: SolanaFacts, nowMs: number): State | null {
  const again = `again in ${Math.max(0, Math.ceil((feed.retryAtMs - nowMs) / 1000))} s`
  const last = feed.newAtMs === 0 ? '' : `; this picture is from ${clockTime(feed.newAtDate)}`
  switch (feed.trouble) {
    case 'unauthorized':
      return state('unauthorized', 'token needed', 'the service refuses requests without a token')
    case 'offline':
      return state('offline', `offline, ${again}`, `the server does not answer${last}`)
    case 'refused':
      return state('refused', `refused, ${again}`, `too many requests of this address${last}`)
    case 'unreadable':
      return state(
        'offline',
        `unreadable, ${again}`,
        `the answer of GET /v1/solana is not one that this page can read: reload it${last}`,
      )
    case 'none':
      return null
  }
}

function chainState({ feed, document, set, stream, pausedAtMs }: SolanaFacts, nowMs: number) {
  if (document === null) return state('starting', 'connecting', '')
  if (document.sets.length === 0)
    return state('empty', 'no nodes', 'no Solana node is configured on this server')
  if (pausedAtMs !== null) return state('paused', `paused for ${seconds(nowMs - pausedAtMs)}`, '')
  const unchangedMs = nowMs - feed.newAtMs
  if (unchangedMs > stalledMs)
    return state(
      'degraded',
      `no news for ${seconds(unchangedMs)}`,
      'the server answers, but always the same: it or a proxy before it stands still',
    )
  if (stream === null)
    return state(
      'empty',
      'no stream',
      `no geyser stream of set ${set} is open: heads, blocks and fees come from one`,
    )
  return streamState(stream, set, unchangedMs)
}

function streamState({ up, age_ms: age }: SolanaStream, set: string, unchangedMs: number): State {
  if (!up)
    return state('degraded', 'stream down', `no node of set ${set} delivers its geyser stream`)
  if (age === null) return state('empty', 'no block yet', 'waiting for the first block')
  const ageMs = age + unchangedMs
  if (ageMs > degradedMs)
    return state('degraded', `no block for ${seconds(ageMs)}`, 'the stream is open but silent')
  return ageMs < quietMs
    ? state('live', 'live', '')
    : state('quiet', `quiet for ${seconds(ageMs)}`, '')
}

function state(name: StateName, text: string, detail: string): State {
  return { name, text, detail }
}
