// The slot time of a chain, measured by the times in its stream, and how many slots a time is.
// Bounds are times: slots of 400 ms become shorter, to 200 ms, and what a bound is for does not.
//
//   times of the last blocks ─► per slot, over the slots of a leader ─► median ─► slots in a time

/** Before enough blocks were seen. */
const initialMs = 400
/** What is believed: the times are the nodes' word. */
const [msMin, msMax] = [50, 800]
/** Blocks come in bursts, one per leader: the shortest time between them says nothing. */
const leaderBlocks = 4
const timesMin = 8
const timesMax = 64

export class SlotTime {
  /** The last blocks, ascending by slot. */
  readonly #blocks: { readonly slot: number; readonly atMs: number }[] = []
  #ms = initialMs

  get ms(): number {
    return this.#ms
  }

  /** Slots that pass in a time, but at least `slotsMin`. */
  slotsIn(timeMs: number, slotsMin = 1): number {
    return Math.max(slotsMin, Math.ceil(timeMs / this.#ms))
  }

  /** The block of a slot; `atMs` is its time in the stream. One below the last is ignored. */
  observe(slot: number, atMs: number): void {
    const blocks = this.#blocks
    if (slot <= (blocks.at(-1)?.slot ?? -1)) return
    blocks.push({ slot, atMs })
    if (blocks.length > timesMax + leaderBlocks) blocks.shift()
    const times: number[] = []
    for (let at = leaderBlocks; at < blocks.length; at++) {
      const [first, last] = [blocks[at - leaderBlocks]!, blocks[at]!]
      times.push((last.atMs - first.atMs) / (last.slot - first.slot))
    }
    if (times.length < timesMin) return
    const median = times.sort((a, b) => a - b)[times.length >> 1]!
    this.#ms = Math.round(Math.min(msMax, Math.max(msMin, median)))
  }

  /** The chain begins anew. */
  restart(): void {
    this.#blocks.length = 0
  }
}
