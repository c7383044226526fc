// The slots of blocks as ranges without gaps: a chain skips few.

interface Gap {
  /** The first slot after the gap, and the last one before it. */
  readonly slot: number
  readonly previous: number
}

export class SlotRanges {
  /** Ascending. */
  #gaps: Gap[] = []

  add(gap: Gap): void {
    this.#gaps.push(gap)
  }

  /** Forgets the gaps that end at this slot or before. */
  dropBefore(slot: number): void {
    this.#gaps = this.#gaps.filter((gap) => gap.slot > slot)
  }

  /** Forgets the gaps that end after this slot. */
  dropAfter(slot: number): void {
    this.#gaps = this.#gaps.filter((gap) => gap.slot <= slot)
  }

  /** Slots from `from` to `to`, both included, without those in gaps; at most `limit`. */
  slots({ from, to, limit }: { from: number; to: number; limit: number }): number[] {
    const slots: number[] = []
    let at = from
    const addUpTo = (end: number) => {
      for (; at <= Math.min(end, to) && slots.length < limit; at++) slots.push(at)
    }
    for (const { slot, previous } of this.#gaps) {
      addUpTo(previous)
      at = Math.max(at, slot)
    }
    addUpTo(to)
    return slots
  }
}
