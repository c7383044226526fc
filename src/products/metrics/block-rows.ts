// Keeps the scalars of the newest blocks, each as the JSON of its row of GET /v1/blocks.
// Fed with the frames of the event log, in order: the TPS of a block is published at
// its BlockStart, its ContentionData at its BlockEnd, and no other block starts in between.
import { assert } from '../../base/assert.ts'
import type { StoredFrame } from '../../streams/log/encoded.ts'
import type { BlockScalars, ChainMeters } from './chain-meters.ts'

/** Blocks that are kept; a row has about 330 bytes. */
export const blocksMax = 3000
/** Blocks that a gateway can append a second time, at most. */
const againMax = 600

/** Fields of a row, in order; `tps` is not in ContentionData. */
const fields = [
  'block_number',
  'block_hash',
  'at_ms',
  'tps',
  'parallel_efficiency_pct',
  'contended_slot_count',
  'written_contended_slot_count',
  'critical_path_txn_count',
  'total_txn_count',
  'block_wall_time_ns',
]
/** The lists of ContentionData begin here; the scalars are in front of it. */
const listsOpen = Buffer.from(',"top_contended_slots":')

type Scalars = BlockScalars & Readonly<Record<string, unknown>>

export class BlockRows {
  /** Rows as JSON; the row of block n (counted from 0) is at n mod `blocksMax`. */
  readonly #rows: Buffer[] = []
  /** Hashes of blocks that a shared log may number a second time. */
  #numbered = new Set<unknown>()
  #added = 0
  /** TPS of the open block; null when it is not known. */
  #tps: number | null = null
  readonly #meters: Pick<ChainMeters, 'tps' | 'block'>

  constructor(meters: Pick<ChainMeters, 'tps' | 'block'>) {
    this.#meters = meters
  }

  update(frame: StoredFrame): void {
    if (frame.kind === 'TPS') {
      this.#tps = Number(frame.payload.toString('latin1'))
      this.#meters.tps(this.#tps)
    }
    // A block that was not seen whole has no ContentionData: the next one is another block's.
    else if (frame.kind === 'Gap') this.#tps = null
    else if (frame.kind === 'ContentionData') this.#add(scalarsOf(frame.payload))
  }

  /** The shared log begins anew: blocks that it had lost come again and are here already. */
  restarted(): void {
    const hashes = [...this.newest(againMax)].map((row) => JSON.parse(String(row)).block_hash)
    this.#numbered = new Set(hashes)
  }

  get count(): number {
    return Math.min(this.#added, blocksMax)
  }

  /** JSON of the newest `last` rows, oldest first. */
  *newest(last: number): Generator<Buffer> {
    const end = this.#added
    for (let at = end - Math.min(last, this.count); at < end; at++)
      yield this.#rows[at % blocksMax]!
  }

  #add(scalars: Scalars): void {
    const tps = this.#tps
    this.#tps = null
    if (this.#numbered.delete(scalars.block_hash)) return
    this.#meters.block(scalars)
    if (tps === null) return
    const row = Object.fromEntries(fields.map((name) => [name, scalars[name]]))
    this.#rows[this.#added % blocksMax] = Buffer.from(JSON.stringify({ ...row, tps }))
    this.#added += 1
    assert(this.#rows.length === this.count, 'the rows of the last blocks are kept')
  }
}

/** Parses the scalars alone: the lists are most of the text. */
function scalarsOf(payload: Buffer): Scalars {
  const end = payload.indexOf(listsOpen)
  // Reason for the cast: our own analysis writes the payload.
  const text = end < 0 ? payload.toString() : `${payload.toString('latin1', 0, end)}}`
  return JSON.parse(text) as Scalars
}
