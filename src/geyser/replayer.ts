// Brings one stream from a slot in the past up to now. Thread: main.
// Made by subscriber.ts. Reads the hub's log no faster than the stream drains; at its end the
// stream joins the live ones in the same turn, so that nothing is missing and nothing comes twice.
import type { SolanaUpdate } from '../solana/updates.ts'
import type { Replay } from '../stream/hub.ts'
import type { FilterSet } from './filter-set.ts'
import { Group, type RunSink } from './group.ts'
import { Matcher } from './matcher.ts'
import type { SlabPool } from './slab.ts'

/** How far ahead of the stream's own sending the replay reads. */
const aheadBytes = 1024 * 1024
/** Updates looked at in one turn, so that other streams get theirs in between. */
const updatesPerTurn = 256

export interface ReplayingStream extends RunSink {
  readonly backlogBytes: number
  /** The log was read to its end: live from here. */
  caughtUp(): void
  /** The hub dropped what should have come next. */
  fellBehind(): void
}

export class Replayer {
  readonly #replay: Replay<SolanaUpdate>
  readonly #stream: ReplayingStream
  readonly #matcher = new Matcher()
  readonly #group: Group
  #isStopped = false
  #isScheduled = false

  constructor(
    replay: Replay<SolanaUpdate>,
    filters: FilterSet,
    pool: SlabPool,
    stream: ReplayingStream,
  ) {
    this.#replay = replay
    this.#stream = stream
    this.#group = new Group(filters, pool, () => {})
    this.#group.sinks.add(stream)
    this.#matcher.add(this.#group)
    this.#schedule()
  }

  /** The stream drained: go on where the last turn stopped. */
  drained(): void {
    this.#schedule()
  }

  stop(): void {
    this.#isStopped = true
  }

  #schedule(): void {
    if (this.#isStopped || this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(this.#step)
  }

  readonly #step = (): void => {
    this.#isScheduled = false
    for (let seen = 0; seen < updatesPerTurn; seen++) {
      if (this.#isStopped) return
      if (this.#replay.isLost) {
        this.#isStopped = true
        this.#stream.fellBehind()
        return
      }
      if (this.#stream.backlogBytes >= aheadBytes) break
      const update = this.#replay.next()
      if (update === null) {
        this.#isStopped = true
        this.#group.flush()
        this.#stream.caughtUp()
        return
      }
      this.#matcher.deliver(update)
    }
    this.#group.flush()
    if (this.#stream.backlogBytes < aheadBytes) this.#schedule()
  }
}
