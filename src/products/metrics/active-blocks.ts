// Keeps the newest Lifecycle frame of every block that is not in a final stage, for snapshots.
// Fed with the frames of the event log.
import type { StoredFrame } from '../../streams/log/encoded.ts'
import type { ChainMeters } from './chain-meters.ts'

/** A block this far below the highest one is no longer tracked. */
const depthMax = 1000
/** Proposals kept at once, whatever their numbers: many siblings must not grow memory. */
const activeMax = 10_000

interface Move {
  readonly block_hash: string
  readonly block_number: number
  readonly to_stage: string
  readonly block_age_ms: number
}

export class ActiveBlocks {
  /** By consensus id, in the order in which they were first seen. */
  readonly #active = new Map<string, { readonly number: number; readonly frame: StoredFrame }>()
  #highest = 0
  readonly #meters: Pick<ChainMeters, 'finalized'>

  constructor(meters: Pick<ChainMeters, 'finalized'>) {
    this.#meters = meters
  }

  update(frame: StoredFrame): void {
    if (frame.kind !== 'Lifecycle') return
    // Reason for the cast: our own analysis writes the payload.
    const move = JSON.parse(frame.payload.toString()) as Move
    if (move.to_stage === 'Finalized') this.#meters.finalized(move.block_age_ms)
    if (move.to_stage === 'Verified' || move.to_stage === 'Rejected')
      this.#active.delete(move.block_hash)
    else this.#active.set(move.block_hash, { number: move.block_number, frame })
    if (move.block_number > this.#highest) {
      this.#highest = move.block_number
      this.#forget()
    }
    while (this.#active.size > activeMax) {
      const [first] = this.#active.keys()
      this.#active.delete(first!)
    }
  }

  get count(): number {
    return this.#active.size
  }

  /** One frame per active block, ascending by seq. */
  frames(): StoredFrame[] {
    return [...this.#active.values()].map(({ frame }) => frame).sort((a, b) => a.seq - b.seq)
  }

  #forget(): void {
    for (const [hash, { number }] of this.#active)
      if (number < this.#highest - depthMax) this.#active.delete(hash)
  }
}
