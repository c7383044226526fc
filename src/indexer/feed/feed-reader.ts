// Reads the streams of one gateway or of several, and turns them into parcels, from where the index
// is on. A stream that ends is opened again, and continues where it was.
//
//   of one gateway:   Subscribe (confirmed, from_slot) ─► SlotSource ──┐
//    or the next      Feeds/Events (after) ────────────────────────────┼─► take(parcel)
//   of every gateway: Feeds/Tips, Feeds/Usage (after) ─────────────────┘
//
// Back-pressure: while it is paused nothing is read from the connections, and the gateways keep
// what was not read: slots in hub and stream log, frames in the event log.
import { backoffMs, type Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { pack, unpack } from '../../base/threads/frames.ts'
import { reachable } from '../../base/transport/unix-socket.ts'
import { batchOf } from '../../chain/solana/geyser-batch.ts'
import { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import {
  confirmedSlotRequest,
  firstAvailableIn,
  GeyserClient,
  type GeyserEnd,
  type GeyserStream,
  type GeyserTarget,
  slotIn,
  subscribeRequest,
} from '../../upstream/geyser/geyser-client.ts'
import type { FeedCursor, FeedCursors, Marks, Parcel } from '../engine.ts'
import {
  type FactFeed,
  type FeedItem,
  type FeedStart,
  feedMethods,
  type ItemFeed,
} from '../feed-items.ts'
import type { FeedName } from '../tables.ts'
import { SlotSource } from './slot-source.ts'

export interface FeedReaderDeps {
  /** Gateways of one cluster where they are several: slots and events are the same at each. */
  readonly gateways: readonly GeyserTarget[]
  /** The index's. */
  readonly marks: Marks
  readonly cursors: FeedCursors
  take(parcel: Parcel): void
  lost(feed: FeedName, count: number): void
  /** The state of a gateway is another one. */
  changed?(change: GatewayChange): void
  /** For tests. */
  readonly stalledMs?: number
  readonly clock: Clock
}

export interface GatewayChange {
  /** Its address. */
  readonly gateway: string
  readonly state: 'read' | 'lost' | 'refused'
}

interface Gateway {
  readonly target: GeyserTarget
  client: GeyserClient | null
  state: GatewayChange['state'] | null
  /** Since it was read. */
  failures: number
  readonly cursors: { -readonly [K in ItemFeed]?: FeedCursor }
}

/** How far before the index's last slot the stream begins: slots that were not complete by then,
 *  and blocks by which the index sees whether it is still the same chain. */
const overlapSlots = 150
/** Looks at a chain that is below the index's slots until it is taken for another one. */
const looksMax = 30
/** Of the oldest slots, when they were gone by the time of the request; doubled each time. */
const marginSlots = 8
/** The gRPC codes of a `from_slot` that is not kept any more, and of a wrong credential. */
const outOfRange = 11
const permissionDenied = 7
/** Codes with which a gateway that runs does not serve. */
const away: readonly number[] = [permissionDenied, 8, 14]
/** Where there are several gateways, one that sends nothing for so long is left for the next. */
const stalledMsMax = 30_000
const retryMs = { firstMs: 100, lastMs: 5_000 }
const callMsMax = 5_000
/** Approximate size of an item in addition to its payload. */
const itemOverheadBytes = 300

export class FeedReader {
  readonly #deps: FeedReaderDeps
  readonly #slots: SlotSource
  readonly #gateways: readonly Gateway[]
  /** The gateways that these are read from. */
  readonly #from = { slots: 0, events: 0 }
  readonly #streams = new Set<GeyserStream>()
  readonly #timers = new Set<NodeJS.Timeout>()
  /** Each leaves a stream that sends nothing, of what another gateway has, too. */
  readonly #stalls = new Set<NodeJS.Timeout>()
  #isPaused = false
  #isStopped = false
  #looks = 0
  /** Slots after the oldest one that is kept: those before them are gone before they are read. */
  #margin = 0

  constructor(deps: FeedReaderDeps) {
    const { marks, cursors, gateways, clock } = deps
    this.#deps = deps
    // Their numbers are the same in every run, and at every gateway of a cluster.
    const indexed = marks.events === undefined ? undefined : { run: '', seq: marks.events }
    // A mark is higher where another program has written meanwhile.
    const read = cursors.events
    const events = read !== undefined && read.seq >= (marks.events ?? 0) ? read : indexed
    this.#gateways = gateways.map((target) => ({
      ...{ target, client: null, state: null, failures: 0 },
      cursors: events === undefined ? {} : { events },
    }))
    this.#slots = new SlotSource(marks.slots, { lost: (count) => deps.lost('slots', count), clock })
    void this.#openSlots()
    this.#openItems('events', this.#gateways[0]!)
    for (const gateway of this.#gateways)
      for (const feed of ['tips', 'usage'] as const) this.#openItems(feed, gateway)
  }

  /** Whether everything of the first gateway up to these numbers was read. */
  hasRead(positions: Readonly<Record<ItemFeed, number>>): boolean {
    const { cursors } = this.#gateways[0]!
    return Object.entries(positions).every(
      ([feed, seq]) => (cursors[feed as ItemFeed]?.seq ?? -1) >= seq,
    )
  }

  pause(): void {
    this.#isPaused = true
    for (const stream of this.#streams) stream.pause()
  }

  resume(): void {
    this.#isPaused = false
    for (const stall of this.#stalls) stall.refresh()
    for (const stream of this.#streams) stream.resume()
  }

  stop(): void {
    this.#isStopped = true
    for (const timer of [...this.#timers, ...this.#stalls]) clearTimeout(timer)
    for (const { client } of this.#gateways) client?.close()
  }

  #connect(gateway: Gateway): GeyserClient {
    const { target } = gateway
    const { path } = target
    const at = path === undefined ? target : { ...target, path: reachable(path) }
    gateway.client ??= new GeyserClient(at, this.#deps.clock)
    return gateway.client
  }

  async #openSlots(): Promise<void> {
    const again = () => this.#later(this.#gateways[this.#from.slots]!, () => void this.#openSlots())
    // Nothing that it asks would be answered.
    if (this.#isPaused) {
      again()
      return
    }
    const gateway = this.#gateways[this.#from.slots]!
    const from = await this.#fromSlot(gateway)
    if (this.#isStopped) return
    if (from === 'unknown') {
      again()
      return
    }
    this.#slots.restart()
    this.#open(gateway, {
      feed: 'slots',
      method: 'Subscribe',
      request: subscribeRequest(from, Commitment.confirmed),
      messages: (bytes, offsets) => this.#takeUpdates(bytes, offsets),
      again,
    })
  }

  async #fromSlot(gateway: Gateway): Promise<number | 'unknown'> {
    const client = this.#connect(gateway)
    const ask = async (method: string, request: Uint8Array) => {
      const answer = await client.call(method, request, callMsMax)
      // Reason for the cast: GeyserClient.call refuses with how the call ended.
      if (!answer.ok) this.#failed(gateway, client, 'slots', answer.refusal.data as GeyserEnd)
      return answer.ok ? answer.value : null
    }
    // In this order: a gateway that has a confirmed slot knows which is the oldest it keeps. One
    // that starts in between would say that it keeps none, and what it reads meanwhile were lost.
    const tip = await ask('GetSlot', confirmedSlotRequest)
    const info = tip && (await ask('SubscribeReplayInfo', new Uint8Array(0)))
    const oldest = info && firstAvailableIn(info)
    if (tip === null || oldest === null) return 'unknown'
    const newest = this.#slots.newestSlot
    const first = oldest + this.#margin
    if (newest === null) return first
    const isBelow = slotIn(tip) < newest
    // The gateway may have started a moment ago, and read its nodes up to here only; or it lags,
    // and the next one does not.
    if (isBelow && ++this.#looks < looksMax) {
      this.#turn('slots')
      return 'unknown'
    }
    this.#looks = 0
    return isBelow ? first : Math.max(first, newest + 1 - overlapSlots)
  }

  /** Returns whether a slot was complete with them, one that the index has included. */
  #takeUpdates(bytes: Buffer, offsets: readonly number[]): boolean {
    this.#margin = 0
    let isComplete = false
    const batch = new ReceivedBatch(batchOf(bytes, offsets, this.#deps.clock.nowMs()))
    for (let at = 0; at < batch.length; at++) {
      const update = batch.update(at)
      if (update === null || update === 'other') continue
      this.#slots.take(update)
      for (let next = this.#slots.next(); next !== null; next = this.#slots.next()) {
        isComplete = true
        this.#deps.take(next)
      }
    }
    return isComplete
  }

  #openItems(feed: ItemFeed, gateway: Gateway): void {
    const { run, seq } = gateway.cursors[feed] ?? { run: '', seq: null }
    this.#open(gateway, {
      feed,
      method: feedMethods[feed],
      request: pack({ after: seq, run }),
      messages: (bytes, offsets) => {
        let isItem = false
        for (let at = 0; at < offsets.length; at += 2) {
          // Reason for the cast: the gateway packs nothing else.
          const message = unpack(bytes.subarray(offsets[at]!, offsets[at + 1]!)) as
            | FeedStart
            | FeedItem
          isItem ||= 'seq' in message
          this.#takeMessage(feed, gateway, message)
        }
        return isItem
      },
      again: () => {
        const next = feed === 'events' ? this.#gateways[this.#from.events]! : gateway
        const { events } = gateway.cursors
        if (events !== undefined) next.cursors.events = events
        this.#later(next, () => this.#openItems(feed, next))
      },
    })
  }

  #takeMessage(feed: ItemFeed, gateway: Gateway, message: FeedStart | FeedItem): void {
    if ('lost' in message) {
      this.#change(gateway, 'read')
      this.#begin(feed, gateway, message)
      return
    }
    const { run, seq } = gateway.cursors[feed]!
    // Of a run that an earlier process has read up to here.
    if (message.seq <= seq) return
    const cursor = { run, seq: message.seq }
    gateway.cursors[feed] = cursor
    this.#deps.take(parcelOf(feed, message, cursor, this.#deps.clock))
  }

  #begin(feed: ItemFeed, { cursors }: Gateway, { run, after, lost }: FeedStart): void {
    const known =
      feed === 'events' || cursors[feed]?.run === run ? undefined : this.#known(feed, run)
    const missing = known === undefined ? lost : after - known
    if (missing > 0) this.#deps.lost(feed, missing)
    cursors[feed] = { run, seq: Math.max(after, known ?? after) }
  }

  /** The last durable fact of a run of a gateway. */
  #known(feed: FactFeed, run: string): number | undefined {
    const { cursors, marks } = this.#deps
    const [read, indexed] = [cursors[`${feed} ${run}`], marks[`${feed} ${run}`]]
    return read === undefined || indexed === undefined ? (read ?? indexed) : Math.max(read, indexed)
  }

  #open(gateway: Gateway, opened: Opened): void {
    const { feed, method, request, again } = opened
    const client = this.#connect(gateway)
    const isOfAll = feed === 'slots' || feed === 'events'
    const leave = () => {
      stream.cancel()
      this.#turn(feed)
      over()
    }
    const stall = isOfAll && this.#gateways.length > 1 ? this.#onStall(leave) : null
    const over = () => {
      this.#streams.delete(stream)
      if (stall !== null) this.#clear(stall)
      again()
    }
    const ended = (end: GeyserEnd) => {
      this.#failed(gateway, client, feed, end)
      if (end.code === outOfRange) this.#margin = this.#margin * 2 || marginSlots
      over()
    }
    const messages: Opened['messages'] = (bytes, offsets) => {
      const isMore = opened.messages(bytes, offsets)
      if (isMore) stall?.refresh()
      return isMore
    }
    const stream = client.subscribe(request, { messages, ended }, method, method !== 'Subscribe')
    this.#streams.add(stream)
    if (this.#isPaused) stream.pause()
  }

  #onStall(leave: () => void): NodeJS.Timeout {
    const timer = setTimeout(() => {
      if (this.#isPaused) timer.refresh()
      else leave()
    }, this.#deps.stalledMs ?? stalledMsMax)
    this.#stalls.add(timer)
    return timer
  }

  #clear(stall: NodeJS.Timeout): void {
    clearTimeout(stall)
    this.#stalls.delete(stall)
  }

  #failed(gateway: Gateway, client: GeyserClient, feed: FeedName, end: GeyserEnd): void {
    if (this.#isStopped) return
    if (end.kind !== 'status') {
      // The next stream connects again.
      if (gateway.client === client) {
        gateway.client = null
        gateway.failures++
      }
      client.close()
      this.#change(gateway, 'lost')
    } else if (end.code === permissionDenied) {
      gateway.failures++
      this.#change(gateway, 'refused')
    }
    if (end.kind !== 'status' || away.includes(end.code)) this.#turn(feed)
  }

  /** What every gateway has is read from the next one. */
  #turn(feed: FeedName): void {
    if (feed === 'slots' || feed === 'events')
      this.#from[feed] = (this.#from[feed] + 1) % this.#gateways.length
  }

  #change(gateway: Gateway, state: GatewayChange['state']): void {
    if (state === 'read') gateway.failures = 0
    if (gateway.state === state) return
    gateway.state = state
    this.#deps.changed?.({ gateway: gateway.target.address, state })
  }

  #later({ failures }: Gateway, open: () => void): void {
    if (this.#isStopped) return
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        open()
      },
      failures === 0 ? retryMs.firstMs : backoffMs(failures, retryMs),
    )
    this.#timers.add(timer)
  }
}

interface Opened {
  readonly feed: FeedName
  readonly method: string
  readonly request: Uint8Array
  /** Returns whether there was what it is read for. */
  messages(bytes: Buffer, offsets: readonly number[]): boolean
  /** Opens it again, later. */
  again(): void
}

function parcelOf(feed: ItemFeed, item: FeedItem, cursor: FeedCursor, clock: Clock): Parcel {
  const { seq, content, atMs } = item
  const sinceMs = clock.monotonicMs() - Math.max(0, clock.nowMs() - atMs)
  const bytes = itemOverheadBytes + ('payload' in content ? content.payload.length : 0)
  // Numbers of tips and queries are of one run of the gateway: they are no marks.
  const mark = feed === 'events' ? seq : null
  // Reason for the cast: the gateway packs in each feed what belongs there.
  return { feed, content, bytes, sinceMs, mark, cursor } as Parcel
}
