// The head of a set of nodes: the slot that its nodes are compared with.
// One node's word is not enough: with three or more it is the second-highest slot, so that one node
// alone can neither raise nor lower it. With fewer it is the highest one that the time since the
// last head can explain; two nodes that jump together corroborate each other. A set of one node
// has only that node's word.
import type { Clock } from '../../base/clock.ts'

/** The shortest slot time that is believed: half of the shortest that a devnode can be given. */
export const slotMsMin = 10
/** From so many nodes on, the second-highest slot is the head. */
const corroboratingMin = 3

export class SetHead {
  readonly #clock: Clock
  readonly #isSingle: boolean
  /** The highest head so far, and since when. */
  #highest: { readonly slot: number; readonly atMs: number } | null = null

  /** `isSingle`: the set has one node only. */
  constructor(clock: Clock, isSingle: boolean) {
    this.#clock = clock
    this.#isSingle = isSingle
  }

  /** The head by the slots of the nodes that count; null when none has reported one. */
  of(reported: readonly number[]): number | null {
    const slots = [...reported].sort((a, b) => b - a)
    if (slots.length === 0) return null
    const head = this.#corroborated(slots)
    if (this.#highest === null || head > this.#highest.slot)
      this.#highest = { slot: head, atMs: this.#clock.monotonicMs() }
    return head
  }

  /** The highest slot that the time since the last head can explain. */
  limit(): number {
    if (this.#highest === null || this.#isSingle) return Number.POSITIVE_INFINITY
    const { slot, atMs } = this.#highest
    return slot + (this.#clock.monotonicMs() - atMs) / slotMsMin
  }

  /** The chain begins anew: its slots say nothing about the earlier ones. */
  reset(): void {
    this.#highest = null
  }

  #corroborated(slots: readonly number[]): number {
    if (slots.length >= corroboratingMin) return slots[1]!
    const limit = this.limit()
    const head = slots.find((slot) => slot <= limit) ?? slots[1]
    // One node of several is reachable, and has jumped: its word is not taken.
    return head ?? this.#highest!.slot
  }
}
