// Rebuilds lost shreds from the erasure sets that pass through. Thread: shred worker, only with
// `shredstream.recover`. As soon as half of a set is there the other half is made and sent, so that
// a receiver has it whole before its slowest shred arrives.
import { setOf, slotOf } from '../../solana/shred.ts'
import { ShredSet } from '../../solana/shred-set.ts'
import type { Board } from './board.ts'

/** Sets kept at once: about three seconds of a busy cluster, 20 MB at most. */
const setsMax = 256

export class Recovery {
  readonly #board: Board
  /** In the order in which they began; the oldest makes room. */
  readonly #sets = new Map<string, ShredSet>()
  readonly #rebuilt: Uint8Array[] = []

  constructor(board: Board) {
    this.#board = board
  }

  /** Takes a shred that is being forwarded. */
  add(bytes: Uint8Array, at: number): void {
    const key = `${slotOf(bytes, at)}/${setOf(bytes, at)}`
    let set = this.#sets.get(key)
    if (set === undefined) {
      if (this.#sets.size >= setsMax) this.#sets.delete(this.#sets.keys().next().value!)
      set = new ShredSet()
      this.#sets.set(key, set)
    }
    if (set.isDone) return
    set.add(bytes, at)
    if (!set.isRipe) return
    const rebuilt = set.rebuild()
    // The finished set stays as a mark; its shreds are not needed any more.
    set.release()
    if (rebuilt === null) this.#board.totals.add(0, 'rebuildFailed', 1)
    else this.#rebuilt.push(...rebuilt)
  }

  /** What was rebuilt since the last call. */
  take(): Uint8Array[] {
    return this.#rebuilt.splice(0)
  }
}
