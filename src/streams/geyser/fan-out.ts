// Fans every update of a hub out to the live streams, grouped by equal filters.
// Frames are batched until the end of the event-loop turn, or a later one, or 64 KiB per group.
import { Commitment } from '../../base/commitment.ts'
import { assert, codesOf, type Refusal } from '../../base/errors.ts'
import { type GrpcStatus, grpcCode } from '../../base/transport/grpc-stream.ts'
import type { SolanaHeads, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub, KeptStream } from '../hub/hub.ts'
import {
  copyFilters,
  type FilterSet,
  hasSlotsOnly,
  type KeyChange,
  ownFilters,
} from './filter-set.ts'
import { type RunSink, SlabPool, SubscriberGroup } from './frame.ts'
import { Matcher } from './matcher.ts'
import { type GrpcMeters, type UpdateKind, updateKinds } from './meters.ts'
import type { PublishedSlots } from './position.ts'

type Counts = Record<UpdateKind, number>

/** Of a turn: a thousand groups take 10 ms, and other callers are served in between. */
const [flushMsMax, groupsPerLook] = [0.25, 4]

export class FanOut {
  readonly pool = new SlabPool()
  readonly #matchers: readonly [processed: Matcher, confirmed: Matcher, finalized: Matcher]
  /** Of the streams with retractions, all at processed. */
  readonly #retracting: Matcher
  readonly #groups = new Map<string, SubscriberGroup>()
  readonly #meters: GrpcMeters
  readonly #dirty: SubscriberGroup[] = []
  readonly stop: () => void
  /** Updates since the last flush: a meter costs more than a match. */
  readonly #reached = Object.fromEntries(updateKinds.map((kind) => [kind, 0])) as Counts
  #isScheduled = false

  constructor(hub: Hub<SolanaUpdate>, meters: GrpcMeters) {
    this.#meters = meters
    const matcherAt = (commitment: Commitment) =>
      new Matcher(commitment, (slot) => hub.keptOf(slot))
    const { processed, confirmed, finalized } = Commitment
    this.#matchers = [matcherAt(processed), matcherAt(confirmed), matcherAt(finalized)]
    this.#retracting = matcherAt(processed)
    const stopListening = hub.listen(
      (commitment, update) => {
        if (update.kind === 'retraction') this.#matchers[commitment].observe(update)
        else this.#reached[update.kind] += this.#matchers[commitment].deliver(update)
        if (commitment === processed) this.#reached[update.kind] += this.#retracting.deliver(update)
      },
      (commitment) => !this.#matchers[commitment].isEmpty,
    )
    const stopRestarts = hub.onRestart(() => {
      for (const matcher of [...this.#matchers, this.#retracting]) matcher.restart()
    })
    this.stop = () => {
      stopListening()
      stopRestarts()
    }
  }

  /** Distinct sets of filters. */
  get groups(): number {
    return this.#groups.size
  }

  /** Delivers from the next update on; frames batched so far go to the other streams only. */
  join(sink: RunSink, filters: FilterSet): SubscriberGroup {
    let group = this.#groups.get(filters.key)
    if (group === undefined) {
      group = new SubscriberGroup(filters, this.pool, this.#wantsFlush)
      this.#groups.set(filters.key, group)
      this.#matcherOf(filters).add(group)
    }
    group.flush()
    group.sinks.add(sink)
    return group
  }

  /** The stream still gets the frames batched before. */
  leave(sink: RunSink, group: SubscriberGroup): void {
    group.flush()
    group.sinks.delete(sink)
    if (group.sinks.size > 0) return
    this.#groups.delete(group.filters.key)
    this.#matcherOf(group.filters).remove(group)
  }

  /** A group of the stream alone, whose keys it may change: copies the filters of a shared one. */
  own(sink: RunSink, group: SubscriberGroup): SubscriberGroup {
    assert(group.sinks.has(sink), 'a stream changes the keys of its group')
    if (group.sinks.size > 1) {
      this.leave(sink, group)
      return this.join(sink, copyFilters(group.filters))
    }
    this.#groups.delete(group.filters.key)
    group.filters = ownFilters(group.filters)
    this.#groups.set(group.filters.key, group)
    return group
  }

  /** Changes keys of a stream's own group; returns the first slot that the new ones match. */
  changeKeys(group: SubscriberGroup, changes: readonly KeyChange[]): number {
    assert(group.sinks.size === 1, 'keys change for one stream')
    group.flush()
    return this.#matcherOf(group.filters).changeKeys(group, changes)
  }

  #matcherOf({ retractions, commitment }: FilterSet): Matcher {
    return retractions === null ? this.#matchers[commitment] : this.#retracting
  }

  readonly #wantsFlush = (group: SubscriberGroup): void => {
    this.#dirty.push(group)
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#flush)
  }

  readonly #flush = (): void => {
    const dirty = this.#dirty
    // Slots first: to compress and write the rest of a turn takes time.
    for (const group of dirty) if (hasSlotsOnly(group.filters)) group.flush()
    const endMs = performance.now() + flushMsMax
    let flushed = 0
    do dirty[flushed++]?.flush()
    while (flushed < dirty.length && (flushed % groupsPerLook > 0 || performance.now() < endMs))
    dirty.splice(0, flushed)
    this.#isScheduled = dirty.length > 0
    if (this.#isScheduled) setImmediate(this.#flush)
    for (const kind of updateKinds) {
      if (this.#reached[kind] > 0) this.#meters.updates[kind].inc(this.#reached[kind])
      this.#reached[kind] = 0
    }
  }
}

// The chain that a caller reads, and its fan-out, opened with the first stream.

export interface GrpcChain {
  readonly hub: Hub<SolanaUpdate>
  /** What was published earlier than the hub remembers; none where it is turned off. */
  readonly streamLog?: KeptStream<SolanaUpdate> | null
  /** Where live readers are, for consumers; none without a stream log. */
  readonly published?: PublishedSlots | null
  readonly heads: SolanaHeads
  /** False when its source is disconnected for too long: cached state is stale by then. */
  isUp(): boolean
  /** Calls the listener when `isUp` has changed; returns how to unsubscribe. */
  watch(listener: () => void): () => void
  /** The validator's version; '' when unknown. */
  solanaVersion(): string
}

export class FanOuts {
  readonly #byChain = new Map<GrpcChain, { fanOut: FanOut; unwatch(): void }>()
  readonly #meters: GrpcMeters
  readonly #changed: (chain: GrpcChain) => void

  /** `changed` is called when a chain with a fan-out goes down or comes back up. */
  constructor(meters: GrpcMeters, changed: (chain: GrpcChain) => void) {
    this.#meters = meters
    this.#changed = changed
    meters.groups.count = () => {
      const fanOuts = [...this.#byChain.values()]
      return fanOuts.reduce((count, { fanOut }) => count + fanOut.groups, 0)
    }
  }

  of(chain: GrpcChain): FanOut {
    const known = this.#byChain.get(chain)
    if (known !== undefined) return known.fanOut
    const fanOut = new FanOut(chain.hub, this.#meters)
    const unwatch = chain.watch(() => this.#changed(chain))
    this.#byChain.set(chain, { fanOut, unwatch })
    return fanOut
  }

  stop(): void {
    for (const { fanOut, unwatch } of this.#byChain.values()) {
      unwatch()
      fanOut.stop()
    }
  }
}

const { unavailable } = grpcCode
export const noChain: GrpcStatus = { code: unavailable, details: 'no chain is attached' }

/** Ends streams instead of leaving them silent: geyser clients reconnect with from_slot. */
export const chainDown: GrpcStatus = {
  code: unavailable,
  details: 'the node behind this stream is not reachable, subscribe again with from_slot',
}

// The gRPC status of a refusal.

export function statusOf(refusal: Refusal): GrpcStatus {
  const status = { code: codesOf[refusal.kind].grpc, details: refusal.message }
  const { retryAfterMs } = refusal
  return retryAfterMs === undefined ? status : { ...status, retryAfterMs }
}
