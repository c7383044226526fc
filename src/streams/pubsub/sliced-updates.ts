// Takes updates in their order: a few at once, the rest in slices of a millisecond, between which
// the thread serves others. All that a slot brings to a commitment is published in one turn, and
// is a tenth of a second of work for a reader of everything.
import { assert } from '../../base/assert.ts'
import type { Commitment } from '../../base/commitment.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'

/** Updates of a slot that are taken where they are published. */
const AT_ONCE = 64
const SLICE_MS = 1
/** A slot has about 10,000; with more the oldest are taken at once. */
const WAITING_MAX = 65_536

type Take = (commitment: Commitment, update: SolanaUpdate) => void

interface Waiting {
  readonly commitment: Commitment
  readonly update: SolanaUpdate
  /** The hub's newest slot when it was published. */
  readonly era: number
}

export class SlicedUpdates {
  readonly #take: Take
  #waiting: Waiting[] = []
  /** Those before it were taken. */
  #next = 0
  /** Of the slot of the last update, until the next slice. */
  #taken = 0
  #slot = -1
  #slice: NodeJS.Immediate | null = null

  constructor(take: Take) {
    this.#take = take
  }

  add(commitment: Commitment, update: SolanaUpdate, era: number): void {
    this.#slice ??= setImmediate(this.#onSlice)
    if (update.slot !== this.#slot) this.#taken = 0
    this.#slot = update.slot
    if (this.isEmpty && this.#taken < AT_ONCE) {
      this.#taken++
      this.#take(commitment, update)
      return
    }
    this.#waiting.push({ commitment, update, era })
    if (this.#waiting.length - this.#next > WAITING_MAX) this.#takeNext()
  }

  get isEmpty(): boolean {
    return this.#next === this.#waiting.length
  }

  /** The era of the oldest update that waits. */
  get oldestEra(): number | null {
    return this.#waiting[this.#next]?.era ?? null
  }

  /** Takes all that waits. */
  finish(): void {
    while (!this.isEmpty) this.#takeNext()
  }

  readonly #onSlice = (): void => {
    this.#slice = null
    this.#taken = 0
    const endMs = performance.now() + SLICE_MS
    while (!this.isEmpty) {
      this.#takeNext()
      if (performance.now() >= endMs) break
    }
    if (!this.isEmpty) this.#slice = setImmediate(this.#onSlice)
  }

  #takeNext(): void {
    const next = this.#waiting[this.#next]
    assert(next !== undefined, 'an update waits')
    // Counted first: taking it may finish the rest.
    this.#next++
    if (this.#next === this.#waiting.length || this.#next > WAITING_MAX) {
      this.#waiting = this.#waiting.slice(this.#next)
      this.#next = 0
    }
    this.#take(next.commitment, next.update)
  }
}
