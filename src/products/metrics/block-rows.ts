// Keeps the scalars of the newest blocks, each as the JSON of its row of GET /v1/blocks.
// Fed with the frames of the event log, in order: the TPS of a block is published at
// its BlockStart, its ContentionData at its BlockEnd, and no other block starts in between.
import { assert } from '../../base/errors.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import type { StoredFrame } from '../../streams/log/encoded.ts'
import type { EventLog } from '../../streams/log/log.ts'

/** Blocks that are kept; a row has about 330 bytes. */
export const blocksMax = 3000
/** Blocks that a gateway can append a second time, at most. */
const againMax = 600
/** Frames that are taken in one turn of the event loop when those of a log are read again. */
const turnFrames = 500

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
  #rows: Buffer[] = []
  /** Hashes of blocks that a shared log may number a second time. */
  #numbered = new Set<unknown>()
  #added = 0
  /** TPS of the open block; null when it is not known. */
  #tps: number | null = null
  /** Until the older blocks of the log are listed, too, or do not come now; null then. */
  filling: Promise<void> | null = null
  readonly #meters: Pick<ChainMeters, 'tps' | 'block'>

  constructor(meters: Pick<ChainMeters, 'tps' | 'block'>) {
    this.#meters = meters
  }

  /** Lists what a log reads after its start: its older frames, which it publishes to nobody. */
  follow(log: EventLog): void {
    if (log.filling !== null) this.filling = log.filling.then(() => this.#fill(log))
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

  async #fill(log: EventLog): Promise<void> {
    if (log.filling !== null) return this.follow(log)
    const { run } = log
    const whole = new BlockRows({ tps: () => {}, block: () => {} })
    let frames = 0
    for (const frame of log.after(0)) {
      whole.update(frame)
      if (++frames % turnFrames === 0) await new Promise(setImmediate)
    }
    this.filling = null
    // Not of another run, which begins with what there is.
    if (log.run !== run || whole.count < this.count) return
    this.#rows = whole.#rows
    this.#added = whole.#added
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

// Keeps the newest Lifecycle frame of every block that is not in a final stage, for snapshots.
// Fed with the frames of the event log.

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
      for (const [hash, { number }] of this.#active)
        if (number < this.#highest - depthMax) this.#active.delete(hash)
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
}

/** Upper ends; 0.7 and 0.9 are the ends of the bands, and most blocks are above 0.9. */
const efficiencyBuckets = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999, 1]
/** Seconds; a chain with two votes of 400 ms finalizes after 0.8. */
const finalizeBuckets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10, 30]

/** Scalars of a ContentionData. */
export interface BlockScalars {
  readonly parallel_efficiency_pct: number
  readonly contention_ratio: number
  readonly critical_path_txn_count: number
  readonly total_txn_count: number
}

export type ChainMeters = ReturnType<typeof declareChainMeters>

export function declareChainMeters(meters: Meters) {
  const tps = meters.gauge(
    'sluice_tps',
    'Transactions per second of the execution source, over its last 2.5 blocks',
  )
  const efficiency = meters.histogram(
    'sluice_parallel_efficiency_ratio',
    'Parallel efficiency of executed blocks, 0 to 1; blocks without transactions do not count',
    efficiencyBuckets,
  )
  const contention = meters.gauge(
    'sluice_contention_ratio',
    'Fraction of storage slots that two or more transactions of the newest block accessed',
  )
  const criticalPath = meters.gauge(
    'sluice_critical_path_ratio',
    'Longest chain of dependent transactions over all transactions of the newest block',
  )
  const finalize = meters.histogram(
    'sluice_finalize_seconds',
    'Time from the proposal of a block to its finalization, by event timestamps',
    finalizeBuckets,
  )
  return {
    tps: (value: number) => tps.set(value),
    block: (scalars: BlockScalars) => {
      const { total_txn_count: txns, critical_path_txn_count: path } = scalars
      // The efficiency of an empty block is 0 by definition, which says nothing.
      if (txns > 0) efficiency.observe(scalars.parallel_efficiency_pct / 100)
      contention.set(scalars.contention_ratio)
      criticalPath.set(txns === 0 ? 0 : path / txns)
    },
    finalized: (ageMs: number) => finalize.observe(ageMs / 1000),
  }
}
