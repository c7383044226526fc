// Fans every update of a hub out to the live streams, grouped by equal filters.
// Frames are batched until the end of the event-loop turn or 64 KiB per group.
import { assert } from '../../base/assert.ts'
import { Commitment } from '../../base/commitment.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub } from '../hub/hub.ts'
import {
  copyFilters,
  type FilterSet,
  hasSlotsOnly,
  type KeyChange,
  ownFilters,
} from './filter-set.ts'
import { SlabPool } from './frame.ts'
import { Matcher } from './matcher.ts'
import { type GrpcMeters, type UpdateKind, updateKinds } from './meters.ts'
import { type RunSink, SubscriberGroup } from './subscriber-group.ts'

type Counts = Record<UpdateKind, number>

export class FanOut {
  readonly pool = new SlabPool()
  readonly #matchers: readonly [processed: Matcher, confirmed: Matcher, finalized: Matcher]
  /** Of the streams with retractions, all at processed. */
  readonly #retracting: Matcher
  readonly #groups = new Map<string, SubscriberGroup>()
  readonly #meters: GrpcMeters
  readonly #dirty: SubscriberGroup[] = []
  readonly #stopListening: () => void
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
    this.#stopListening = () => {
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

  stop(): void {
    this.#stopListening()
  }

  readonly #wantsFlush = (group: SubscriberGroup): void => {
    this.#dirty.push(group)
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#flush)
  }

  readonly #flush = (): void => {
    this.#isScheduled = false
    // Slots first: to compress and write the rest of a turn takes time.
    for (const group of this.#dirty) if (hasSlotsOnly(group.filters)) group.flush()
    for (const group of this.#dirty) group.flush()
    this.#dirty.length = 0
    for (const kind of updateKinds) {
      if (this.#reached[kind] > 0) this.#meters.updates[kind].inc(this.#reached[kind])
      this.#reached[kind] = 0
    }
  }
}
