// Reads the gateway's streams over its Unix socket and turns them into parcels, from where the
// index is on. A stream that ends is opened again, and continues where it was.
//
//   geyser.Geyser Subscribe (confirmed, from_slot) ─► SlotSource ──┐
//   Feeds/Events, Feeds/Tips, Feeds/Usage (after) ─────────────────┴─► take(parcel)
//
// Back-pressure: while it is paused nothing is read from the connection, and the gateway keeps what
// was not read: slots in its hub and stream log, frames in the event log.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import type { Outcome } from '../../base/errors.ts'
import { pack, unpack } from '../../base/threads/frames.ts'
import { reachable } from '../../base/transport/unix-socket.ts'
import { batchOf } from '../../chain/solana/geyser-batch.ts'
import { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import {
  GeyserClient,
  type GeyserEnd,
  type GeyserStream,
} from '../../upstream/geyser/geyser-client.ts'
import {
  confirmedSlotRequest,
  firstAvailableIn,
  slotIn,
  subscribeRequest,
} from '../../upstream/geyser/geyser-requests.ts'
import type { Marks } from '../engine.ts'
import { type FeedItem, type FeedStart, feedMethods, type ItemFeed } from '../feed-items.ts'
import type { FeedCursor, FeedCursors, Parcel } from '../parcels.ts'
import type { FeedName } from '../tables.ts'
import { SlotSource } from './slot-source.ts'

/** Where the gateway serves its streams. */
export interface FeedsAddress {
  readonly path: string
  readonly secret: string
}

export interface FeedReaderDeps {
  readonly feeds: FeedsAddress
  /** What is read: slots, and these. */
  readonly reads: readonly FeedName[]
  /** The index's, for the slots. */
  readonly marks: Marks
  readonly cursors: FeedCursors
  take(parcel: Parcel): void
  lost(feed: FeedName, count: number): void
  readonly clock: Clock
}

/** How far before the index's last slot the stream begins: slots that were not complete by then,
 *  and blocks by which the index sees whether it is still the same chain. */
const overlapSlots = 150
/** Looks at a chain that is below the index's slots until it is taken for another one. */
const looksMax = 30
/** Of the oldest slots, when they were gone by the time of the request; doubled each time. */
const marginSlots = 8
/** The gRPC code of a `from_slot` that is not kept any more. */
const outOfRange = 11
const retryMs = 100
const callMsMax = 5_000
/** Approximate size of an item in addition to its payload. */
const itemOverheadBytes = 300

export class FeedReader {
  readonly #deps: FeedReaderDeps
  readonly #slots: SlotSource
  readonly #cursors: { -readonly [K in ItemFeed]?: FeedCursor }
  readonly #streams = new Set<GeyserStream>()
  readonly #timers = new Set<NodeJS.Timeout>()
  #client: GeyserClient | null = null
  #isPaused = false
  #isStopped = false
  #looks = 0
  /** Slots after the oldest one that is kept: those before them are gone before they are read. */
  #margin = 0

  constructor(deps: FeedReaderDeps) {
    this.#deps = deps
    this.#cursors = { ...deps.cursors }
    this.#slots = new SlotSource(deps.marks.slots, {
      lost: (count) => deps.lost('slots', count),
      clock: deps.clock,
    })
    for (const feed of deps.reads)
      if (feed === 'slots') void this.#openSlots()
      else this.#openItems(feed)
  }

  /** Whether everything up to these numbers was read. */
  hasRead(positions: Readonly<Record<ItemFeed, number>>): boolean {
    return this.#deps.reads.every(
      (feed) => feed === 'slots' || (this.#cursors[feed]?.seq ?? -1) >= positions[feed],
    )
  }

  pause(): void {
    this.#isPaused = true
    for (const stream of this.#streams) stream.pause()
  }

  resume(): void {
    this.#isPaused = false
    for (const stream of this.#streams) stream.resume()
  }

  stop(): void {
    this.#isStopped = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#client?.close()
  }

  #connect(): GeyserClient {
    const { feeds, clock } = this.#deps
    const target = { address: 'http://gateway', xToken: feeds.secret, path: reachable(feeds.path) }
    this.#client ??= new GeyserClient(target, clock)
    return this.#client
  }

  async #openSlots(): Promise<void> {
    const again = () => this.#later(() => void this.#openSlots())
    // Nothing that it asks would be answered.
    if (this.#isPaused) {
      again()
      return
    }
    const client = this.#connect()
    const from = await this.#fromSlot(client)
    if (this.#isStopped) return
    if (from === 'unknown') {
      again()
      return
    }
    this.#slots.restart()
    this.#open(client, {
      method: 'Subscribe',
      request: subscribeRequest(from, Commitment.confirmed),
      messages: (bytes, offsets) => this.#takeUpdates(bytes, offsets),
      again,
    })
  }

  async #fromSlot(client: GeyserClient): Promise<number | 'unknown'> {
    const ask = async (method: string, request: Uint8Array) => {
      const answer = await client.call(method, request, callMsMax)
      if (!answer.ok) this.#failed(client, answer)
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
    // The gateway may have started a moment ago, and read its nodes up to here only.
    if (isBelow && ++this.#looks < looksMax) return 'unknown'
    this.#looks = 0
    return isBelow ? first : Math.max(first, newest + 1 - overlapSlots)
  }

  #takeUpdates(bytes: Buffer, offsets: readonly number[]): void {
    this.#margin = 0
    const batch = new ReceivedBatch(batchOf(bytes, offsets, this.#deps.clock.nowMs()))
    for (let at = 0; at < batch.length; at++) {
      const update = batch.update(at)
      if (update === null || update === 'other') continue
      this.#slots.take(update)
      for (let next = this.#slots.next(); next !== null; next = this.#slots.next())
        this.#deps.take(next)
    }
  }

  #openItems(feed: ItemFeed): void {
    const { run, seq } = this.#cursors[feed] ?? { run: '', seq: null }
    this.#open(this.#connect(), {
      method: feedMethods[feed],
      request: pack({ after: seq, run }),
      messages: (bytes, offsets) => {
        for (let at = 0; at < offsets.length; at += 2) {
          const message = unpack(bytes.subarray(offsets[at]!, offsets[at + 1]!))
          // Reason for the cast: the gateway packs nothing else.
          this.#takeMessage(feed, message as FeedStart | FeedItem)
        }
      },
      again: () => this.#later(() => this.#openItems(feed)),
    })
  }

  #takeMessage(feed: ItemFeed, message: FeedStart | FeedItem): void {
    if ('lost' in message) {
      if (message.lost > 0) this.#deps.lost(feed, message.lost)
      this.#cursors[feed] = { run: message.run, seq: message.after }
      return
    }
    const cursor = { run: this.#cursors[feed]!.run, seq: message.seq }
    this.#cursors[feed] = cursor
    this.#deps.take(parcelOf(feed, message, cursor, this.#deps.clock))
  }

  #open(client: GeyserClient, opened: Opened): void {
    const { method, request, messages, again } = opened
    const ended = (end: GeyserEnd) => {
      this.#streams.delete(stream)
      if (end.kind !== 'status') this.#leave(client)
      if (end.code === outOfRange) this.#margin = this.#margin * 2 || marginSlots
      again()
    }
    const stream = client.subscribe(request, { messages, ended }, method, method !== 'Subscribe')
    this.#streams.add(stream)
    if (this.#isPaused) stream.pause()
  }

  #failed(client: GeyserClient, answer: Outcome<unknown>): void {
    // Reason for the cast: GeyserClient.call refuses with how the call ended.
    const end = answer.ok ? null : (answer.refusal.data as GeyserEnd)
    if (end?.kind !== 'status') this.#leave(client)
  }

  /** The next stream connects again. */
  #leave(client: GeyserClient): void {
    if (this.#client === client) this.#client = null
    client.close()
  }

  #later(open: () => void): void {
    if (this.#isStopped) return
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      open()
    }, retryMs)
    this.#timers.add(timer)
  }
}

interface Opened {
  readonly method: string
  readonly request: Uint8Array
  messages(bytes: Buffer, offsets: readonly number[]): void
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
