// Feeds the store: history by REST, then the stream, or polling where the stream is refused.
// Thread: browser; no DOM, so that it could run in a worker.
//
//   status, blocks, lifecycle --> stream (resume a few hundred frames back) --> store
//     |401: wait for a token        |close: ask /v1/status
//     |no answer: retry             |  answers: the stream is refused --> poll until it opens
//                                   |  no answer: offline --> the client reconnects and resumes
import { MetricsClient, MetricsRest, ServiceError, type SocketLike } from '../client/client.ts'
import type { Resume, Status } from '../client/frames.ts'
import type { PageStore } from './page-store.ts'
import type { Facts } from './state.ts'

/** Frames that are resumed at open, for the views of whole frames: about 60 blocks. */
const backfillFrames = 420
const historyBlocks = 3000
const polledBlocks = 60
const retryFirstMs = 1_000
const retryMostMs = 8_000
const streamRetryMs = { first: 500, most: 8_000 }
const pollMs = 1_000
const statusMs = 5_000

export interface FeedParts {
  readonly origin: string
  readonly store: PageStore
  /** Something that the bar shows changed. */
  changed(): void
}

export class PageFeed {
  readonly #parts: FeedParts
  #token: string | undefined
  #rest: MetricsRest
  #client: MetricsClient | null = null
  #timer: ReturnType<typeof setTimeout> | null = null
  #retryMs = retryFirstMs
  /** The stream was open since the last close. */
  #hadResume = false
  #target = 0
  /** Newest seq when the stream opened: frames up to it are as old as the server says. */
  #oldSeq = 0
  #statusAtMs = 0
  #seenMs = 0
  link: Facts['link'] = 'starting'
  slow: Facts['slow'] = null
  retryAtMs = 0
  closeCode = 0
  isSilent = false
  lastFrameAtMs = 0

  constructor(parts: FeedParts) {
    this.#parts = parts
    this.#rest = new MetricsRest({ origin: parts.origin })
    setInterval(() => {
      if (this.link === 'open') this.#status().catch(() => {})
    }, statusMs)
  }

  get toCatchUp(): number {
    return Math.max(0, this.#target - (this.#client?.cursor ?? this.#target))
  }

  /** Age of the source's last event, by whichever is newer: a frame made since the stream opened,
   *  or the server's own figure, which also counts events that make no frame. */
  ageMs(nowMs: number): number {
    const { status } = this.#parts.store
    if (status !== null && this.#statusAtMs > this.#seenMs)
      return status.last_event_age_secs * 1000 + nowMs - this.#statusAtMs
    return this.#seenMs === 0 ? Number.POSITIVE_INFINITY : nowMs - this.#seenMs
  }

  get refusedFor(): string {
    const common = 'ten streams are open from this address, or a proxy does not pass upgrades'
    return this.#token === undefined ? common : `no ticket was given, ${common}`
  }

  async start(): Promise<void> {
    this.#stopTimer()
    try {
      const status = await this.#status()
      await this.#loadHistory(status)
      this.#retryMs = retryFirstMs
      this.#openStream(status)
    } catch (error) {
      if (isRefused(error, 401)) return this.#setLink('unauthorized')
      this.isSilent = isRefused(error, 503)
      this.retryAtMs = performance.now() + this.#retryMs
      this.#timer = setTimeout(() => void this.start(), this.#retryMs)
      this.#retryMs = Math.min(retryMostMs, this.#retryMs * 2)
      this.#setLink('offline')
    }
  }

  useToken(token: string): void {
    this.#token = token
    this.#rest = new MetricsRest({ origin: this.#parts.origin, token })
    this.release()
    this.#client = null
    this.#setLink('starting')
    void this.start()
  }

  /** Lets the socket go; the cursor stays. */
  release(): void {
    this.#stopTimer()
    this.#client?.close()
  }

  /** Back from `release`: resumes at the cursor, or opens afresh after a long time. */
  resume(isFresh: boolean): void {
    this.#setLink('starting')
    if (this.#client !== null && !isFresh) {
      this.#client.connect()
      return
    }
    if (isFresh) this.#parts.store.forget()
    void this.start()
  }

  /** The stream starts a little back in the resume buffer, so that the page opens with history. */
  #openStream({ oldest_seqno: oldest, newest_seqno: newest }: Status): void {
    const rest = this.#rest
    this.#client?.close()
    const client = new MetricsClient({
      url: this.#parts.origin,
      backoffMs: streamRetryMs,
      ...(newest > 0 ? { resumeFrom: Math.max(oldest - 1, newest - backfillFrames) } : {}),
      ...(this.#token === undefined
        ? {}
        : { open: (url: string) => new TicketSocket(url, () => rest.ticket()) }),
    })
    this.#client = client
    this.#listen(client)
    client.connect()
  }

  #listen(client: MetricsClient): void {
    const { store } = this.#parts
    const seen = (seq: number) => {
      if (seq <= this.#oldSeq) return
      this.#seenMs = performance.now()
      this.lastFrameAtMs = Date.now()
    }
    client.on('Resume', (resume) => this.#onResume(resume))
    client.on('TPS', (tps, seq) => {
      seen(seq)
      store.takeTps(tps, seq)
    })
    client.on('ContentionData', (data, seq) => {
      seen(seq)
      store.takeContention(data, seq)
    })
    client.on('TopAccesses', (top, seq) => store.takeTop(top, seq))
    client.on('Lifecycle', (move, seq) => {
      seen(seq)
      store.takeLifecycle(move, seq, performance.now())
    })
    client.on('Gap', (gap, seq) => store.takeGap(gap, seq))
    client.on('Warning', ({ code, dropped }) => {
      this.slow = { dropped, atMs: performance.now() }
      store.log.add('warning', `${code}: ${dropped} frames replaced by newer ones`)
      this.#parts.changed()
    })
    client.on('closed', ({ code, retryMs }) => void this.#onClosed(client, code, retryMs ?? 0))
  }

  #onResume({ mode, run, oldest, newest }: Resume): void {
    const { store } = this.#parts
    this.#stopTimer()
    this.#hadResume = true
    this.#target = mode === 'resume' ? newest : 0
    this.#oldSeq = newest
    const kept = `the server keeps frames ${oldest} to ${newest} of run ${run}`
    store.log.add('stream', `${mode === 'resume' ? 'resumed' : 'opened at the newest'}; ${kept}`)
    if (store.run !== '' && store.run !== run) store.takeHole('restart')
    else if (mode === 'snapshot' && store.seq > 0) store.takeHole('hole')
    store.run = run
    this.#setLink('open')
  }

  async #onClosed(client: MetricsClient, code: number, retryMs: number): Promise<void> {
    const wasOpen = this.#hadResume
    this.#hadResume = false
    // Attempts that fail later do not change why the stream ended.
    if (wasOpen) this.closeCode = code
    this.retryAtMs = performance.now() + retryMs
    if (wasOpen) this.#parts.store.log.add('closed', `code ${code}`)
    const answer = await this.#status().catch((error: unknown) => error)
    if (client !== this.#client || this.#hadResume) return
    this.isSilent = isRefused(answer, 503)
    if (isRefused(answer, 401)) {
      client.close()
      this.#setLink('unauthorized')
    } else if (answer instanceof Error) {
      this.#stopTimer()
      this.#setLink('offline')
    } else if (wasOpen) this.#setLink('starting')
    else this.#poll()
  }

  /** REST once a second until one of the client's attempts opens the stream. */
  #poll(): void {
    if (this.link !== 'refused') this.#parts.store.log.add('polling', this.refusedFor)
    this.#setLink('refused')
    if (this.#timer !== null) return
    const turn = async () => {
      await this.#pollOnce().catch(() => {})
      if (this.link === 'refused') this.#timer = setTimeout(turn, pollMs)
    }
    this.#timer = setTimeout(turn, 0)
  }

  async #pollOnce(): Promise<void> {
    const { store } = this.#parts
    const rest = this.#rest
    const [, tps, data, records, blocks, top] = await Promise.all([
      this.#status(),
      rest.tps(),
      rest.contention(),
      rest.lifecycles(),
      rest.blocks(polledBlocks),
      rest.topAccesses(),
    ])
    if (this.link !== 'refused') return
    store.takeTps(tps, 0)
    store.takeBlocks(blocks)
    if (data !== null) store.takeContention(data, 0)
    store.takeRecords(records, performance.now())
    if (top !== null) store.takeTop(top, 0)
  }

  async #loadHistory(status: Status): Promise<void> {
    if (status.newest_seqno === 0) return
    const { store } = this.#parts
    const [blocks, records] = await Promise.all([
      this.#rest.blocks(historyBlocks),
      this.#rest.lifecycles(),
    ])
    store.takeBlocks(blocks)
    store.takeRecords(records, performance.now())
  }

  async #status(): Promise<Status> {
    const status = await this.#rest.status()
    this.#statusAtMs = performance.now()
    const lastEventAtMs = Date.now() - status.last_event_age_secs * 1000
    this.lastFrameAtMs = Math.max(this.lastFrameAtMs, lastEventAtMs)
    this.#parts.store.takeStatus(status)
    return status
  }

  #setLink(link: Facts['link']): void {
    this.link = link
    this.#parts.changed()
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }
}

function isRefused(error: unknown, code: number): boolean {
  return error instanceof ServiceError && error.code === code
}

/**
 * Exchanges the token for a one-time ticket first: browsers cannot send headers with a handshake,
 * and a token in an address would end in logs.
 */
class TicketSocket implements SocketLike {
  onopen: SocketLike['onopen'] = null
  onmessage: SocketLike['onmessage'] = null
  onclose: SocketLike['onclose'] = null
  onerror: SocketLike['onerror'] = null
  #socket: WebSocket | null = null
  #isClosed = false

  constructor(url: string, ticket: () => Promise<string>) {
    ticket().then(
      (found) => this.#open(`${url}&ticket=${encodeURIComponent(found)}`),
      () => this.onclose?.({ code: 1006 } as never),
    )
  }

  send(text: string): void {
    this.#socket?.send(text)
  }

  close(): void {
    this.#isClosed = true
    this.#socket?.close()
  }

  #open(url: string): void {
    if (this.#isClosed) return
    const socket = new WebSocket(url)
    this.#socket = socket
    socket.onopen = (event) => this.onopen?.(event as never)
    socket.onmessage = (event) => this.onmessage?.(event as never)
    socket.onclose = (event) => this.onclose?.(event as never)
  }
}
