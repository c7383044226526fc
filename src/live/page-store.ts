// Everything the page knows: figures per block, frames of the last blocks, proposals, hot keys,
// holes and the log. Thread: browser; no DOM. Every collection has a bound.
import type {
  BlockRow,
  ContentionData,
  Gap,
  Lifecycle,
  LifecycleRecord,
  Stage,
  Status,
  TopAccesses,
} from '../client/frames.ts'
import { verdictOf } from '../client/frames.ts'
import { EventLines } from './event-lines.ts'
import { FigureHistory, type Figures } from './figure-history.ts'

const historyBlocks = 3000
const detailsMax = 600
const proposalsMax = 160
const marksMax = 64
const pendingTpsMax = 64
const finalizedMax = 50
/** A block number this far below the newest means another chain, not a late proposal. */
const rewindBlocks = 1000

/** A hatched column: what happened between two blocks that are shown. */
export interface Mark {
  readonly kind: 'gap' | 'hole' | 'restart'
  /** The newest block before it. */
  readonly after: number
  text: string
}

/** A proposal with the milliseconds from Proposed to each stage that it reached. */
export interface Proposal {
  readonly hash: string
  readonly number: number
  txns: number
  stage: Stage
  readonly times: Partial<Record<Stage, number>>
  /** When it was first seen here. */
  readonly sinceMs: number
}

export type Change = 'block' | 'tps' | 'lifecycle' | 'top' | 'mark' | 'status'
export interface Kept {
  readonly seq: number
  readonly payload: unknown
}

export class PageStore {
  readonly history = new FigureHistory(historyBlocks)
  readonly log = new EventLines()
  readonly proposals: Proposal[] = []
  readonly marks: Mark[] = []
  /** Milliseconds from Proposed to Finalized of the last blocks. */
  readonly finalized: number[] = []
  /** The last frame of each kind, for the cards that show it. */
  readonly latest = new Map<string, Kept>()
  tps = Number.NaN
  top: TopAccesses | null = null
  status: Status | null = null
  gaps = 0
  seq = 0
  run = ''
  readonly #details = new Map<string, ContentionData>()
  readonly #pendingTps = new Map<number, number>()
  readonly #changed: (change: Change) => void
  #lastTps = Number.NaN
  #openHole: Mark | null = null
  #band = ''

  constructor(changed: (change: Change) => void) {
    this.#changed = changed
  }

  /** The whole frame of a proposal, of the last 600. */
  detailOf(hash: string): ContentionData | null {
    return this.#details.get(hash) ?? null
  }

  takeTps(tps: number, seq: number): void {
    this.#keep('TPS', seq, tps)
    this.tps = tps
    this.#lastTps = tps
    this.#changed('tps')
  }

  takeContention(data: ContentionData, seq: number): void {
    this.#keep('ContentionData', seq, data)
    const hash = data.block_hash
    const number = data.block_number
    if (number < this.history.newest - rewindBlocks) this.#rewind(number)
    this.#closeHole(number)
    this.#remember(hash, data)
    const tps = this.#pendingTps.get(number) ?? Number.NaN
    this.history.add(figuresOf(data, tps), hash)
    this.#noteBand(data)
    this.#changed('block')
  }

  takeTop(top: TopAccesses, seq: number): void {
    this.#keep('TopAccesses', seq, top)
    this.top = top
    this.#changed('top')
  }

  takeLifecycle(move: Lifecycle, seq: number, nowMs: number): void {
    this.#keep('Lifecycle', seq, move)
    const { block_hash: hash, block_number: number, to_stage: stage } = move
    if (stage === 'Proposed' && !Number.isNaN(this.#lastTps)) this.#assignTps(number)
    const found = this.#proposal(hash, number, nowMs - move.block_age_ms)
    if (stage === 'Finalized') this.#noteFinalized(found, move.block_age_ms)
    found.times[stage] = move.block_age_ms
    found.stage = stage
    found.txns = move.txn_count
    if (stage === 'Rejected') this.#reject(hash, number)
    this.#changed('lifecycle')
  }

  takeGap(gap: Gap, seq: number): void {
    this.#keep('Gap', seq, gap)
    this.gaps++
    const lost = gap.to - gap.from + 1
    const text = `source lost ${lost} events (${gap.from} to ${gap.to})`
    this.#mark({ kind: 'gap', after: this.history.newest, text })
    this.log.add('gap', text)
  }

  /** Frames between the newest block and the next one never arrive here. */
  takeHole(kind: 'hole' | 'restart'): void {
    this.#openHole = { kind, after: this.history.newest, text: holeText(kind, 0) }
    this.#mark(this.#openHole)
  }

  /** GET /v1/blocks: the figures of blocks before the stream was opened. */
  takeBlocks(rows: readonly BlockRow[]): void {
    for (const row of rows) {
      const { tps } = row
      this.history.add(figuresOf(row, tps), row.block_hash)
    }
    this.#changed('block')
  }

  /** GET /v1/blocks/lifecycle: proposals before the stream was opened. */
  takeRecords(records: readonly LifecycleRecord[], nowMs: number): void {
    for (const record of records.slice(-proposalsMax)) {
      const age = record.total_age_ms ?? record.block_age_ms
      const found = this.#proposal(record.block_hash, record.block_number, nowMs - age)
      const finalizedMs = record.stage_timings_ms.Finalized
      if (finalizedMs !== undefined) this.#noteFinalized(found, finalizedMs)
      found.txns = record.txn_count
      found.stage = record.current_stage
      Object.assign(found.times, { Proposed: 0 }, record.stage_timings_ms)
    }
    this.#changed('lifecycle')
  }

  takeStatus(status: Status): void {
    this.status = status
    this.#changed('status')
  }

  /** Forgets the blocks: the page was away for so long that it opens afresh. */
  forget(): void {
    this.history.clear()
    this.#details.clear()
    this.proposals.length = 0
    this.marks.length = 0
    this.finalized.length = 0
  }

  #keep(kind: string, seq: number, payload: unknown): void {
    if (seq > this.seq) this.seq = seq
    this.latest.set(kind, { seq, payload })
  }

  #remember(key: string, data: ContentionData): void {
    this.#details.set(key, data)
    if (this.#details.size > detailsMax) this.#details.delete(this.#details.keys().next().value!)
  }

  /** A TPS frame has no block: it belongs to the Proposed move that follows it. */
  #assignTps(number: number): void {
    this.#pendingTps.set(number, this.#lastTps)
    if (this.#pendingTps.size > pendingTpsMax)
      this.#pendingTps.delete(this.#pendingTps.keys().next().value!)
  }

  #proposal(hash: string, number: number, sinceMs: number): Proposal {
    const known = this.proposals.findLast((one) => one.hash === hash)
    if (known !== undefined) return known
    const made: Proposal = { hash, number, txns: 0, stage: 'Proposed', times: {}, sinceMs }
    this.proposals.push(made)
    if (this.proposals.length > proposalsMax) this.proposals.shift()
    return made
  }

  /** Once per proposal: a record of REST may repeat what a frame said. */
  #noteFinalized({ times }: Proposal, ms: number): void {
    if (times.Finalized !== undefined) return
    this.finalized.push(ms)
    if (this.finalized.length > finalizedMax) this.finalized.shift()
  }

  #reject(hash: string, number: number): void {
    this.log.add('rejected', `block ${number}, proposal ${hash.slice(0, 10)}…`)
    const row = this.history.rowOf(number)
    if (row === -1 || this.history.hash(row) !== hash) return
    const other = this.proposals.findLast((one) => one.number === number && one.hash !== hash)
    const data = other === undefined ? undefined : this.#details.get(other.hash)
    if (data === undefined || other === undefined) return
    this.history.replace(figuresOf(data, Number.NaN), other.hash)
    this.#changed('block')
  }

  #rewind(number: number): void {
    this.log.add('chain', `block numbers restarted at ${number}`)
    this.forget()
  }

  #closeHole(number: number): void {
    const hole = this.#openHole
    if (hole === null || number <= hole.after) return
    this.#openHole = null
    const missed = Number.isNaN(hole.after) ? 0 : number - hole.after - 1
    // Polling may have brought every block meanwhile.
    if (missed === 0 && hole.kind === 'hole') {
      this.marks.splice(this.marks.indexOf(hole), 1)
      return
    }
    hole.text = holeText(hole.kind, missed)
    this.log.add(hole.kind, hole.text)
    this.#changed('mark')
  }

  #mark(mark: Mark): void {
    this.marks.push(mark)
    if (this.marks.length > marksMax) this.marks.shift()
    this.#changed('mark')
  }

  #noteBand(data: ContentionData): void {
    const band = verdictOf(data)
    if (band === null) return
    const percent = data.parallel_efficiency_pct.toFixed(1)
    if (band !== this.#band && band !== 'excellent')
      this.log.add('efficiency', `${percent} % (${band}) at block ${data.block_number}`)
    this.#band = band
  }
}

function figuresOf(data: Omit<BlockRow, 'tps'>, tps: number): Figures {
  const isEmpty = data.total_txn_count === 0
  return {
    number: data.block_number,
    tps,
    // An empty block has no efficiency: the frame's 0 would draw a fall that never was.
    efficiency: isEmpty ? Number.NaN : data.parallel_efficiency_pct,
    contended: data.contended_slot_count,
    written: data.written_contended_slot_count,
    critical: data.critical_path_txn_count,
    txns: data.total_txn_count,
    wallMs: data.block_wall_time_ns / 1e6,
  }
}

function holeText(kind: Mark['kind'], missed: number): string {
  const blocks = missed === 1 ? '1 block' : `${missed} blocks`
  if (kind === 'restart')
    return missed > 0 ? `server restarted, ${blocks} not seen` : 'server restarted'
  return `not seen here: ${blocks}`
}
