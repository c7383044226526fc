// Stores the shred worker's counters in shared memory: main reports them, a restarted worker
// continues them. Thread: the shred worker writes (main clears a target's row before its new use).
//
//   totals | sources x 16 | targets x 1024 | slots x 64     all float64, stored by one instruction
//   sockets: descriptors and ports of the worker's sockets, which outlive it
//   tally: sent to each served target since targets were last counted
//   pauses: by cause, counts for each bound and the sum
import { rowsMax } from './targets.ts'

export const dropReasons = [
  'size',
  'variant',
  'version',
  'slot',
  'layout',
  'source',
  'duplicate',
  'signature',
  'cap',
  'error',
] as const
export type DropReason = (typeof dropReasons)[number]

export const sourcesMax = 16
export const windowSlots = 64

const totalNames = [
  ...dropReasons,
  'received',
  'accepted',
  'rebuilt',
  'rebuildFailed',
  'sent',
  'sentBytes',
  'batches',
  'windowMoves',
] as const
const sourceNames = ['packets', 'first', 'duplicates', 'lagSamples', 'lagMs'] as const
const targetNames = [
  'generation',
  'packets',
  'bytes',
  'droppedCap',
  'droppedError',
  'refused',
  'lastErrno',
  'lastSentMs',
] as const
const slotNames = [
  'slot',
  'data',
  'dataEnd',
  'isLastKnown',
  'code',
  'duplicates',
  'rebuilt',
] as const
const socketNames = [
  'ingest',
  'out4',
  'out6',
  'ingestPort',
  'outPort',
  'io',
  'bufferBytes',
  'tableVersion',
] as const

/** Sent to each served target since targets were last counted; shared, so a crash loses none. */
const tallyNames = ['packets', 'bytes', 'sentMs'] as const

/** Why the worker was away from its socket: batch-loop.ts. */
export const pauseCauses = ['forward', 'maintenance', 'gc', 'preempted'] as const
/** Upper bounds of the pauses that are counted together; longer ones come after the last. */
export const pauseBoundsMs = [
  0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100,
] as const
const pauseNames: readonly string[] = [...pauseBoundsMs.map(String), 'longer', 'sum']

export type TotalName = (typeof totalNames)[number]
/** Values of `io` in the socket row. */
export const ioNames = ['none', 'dgram', 'batch', 'batch-segments'] as const

/**
 * A table of numbers with named columns. Hot paths look a column up once and count in
 * `numbers[row * width + column]`; other code uses the methods.
 */
class NumberTable<C extends string> {
  readonly numbers: Float64Array
  readonly width: number
  readonly #names: readonly C[]

  constructor(buffer: SharedArrayBuffer, at: number, rows: number, names: readonly C[]) {
    this.#names = names
    this.width = names.length
    this.numbers = new Float64Array(buffer, at, rows * names.length)
  }

  column(name: C): number {
    return this.#names.indexOf(name)
  }

  at(row: number, name: C): number {
    return row * this.width + this.#names.indexOf(name)
  }

  get(row: number, name: C): number {
    return this.numbers[this.at(row, name)]!
  }

  set(row: number, name: C, value: number): void {
    this.numbers[this.at(row, name)] = value
  }

  add(row: number, name: C, by: number): void {
    this.numbers[this.at(row, name)]! += by
  }

  clear(row: number): void {
    this.numbers.fill(0, row * this.#names.length, (row + 1) * this.#names.length)
  }

  row(row: number): Record<C, number> {
    const pairs = this.#names.map((name) => [name, this.get(row, name)])
    return Object.fromEntries(pairs) as Record<C, number>
  }
}

const tables = [
  [1, totalNames],
  [sourcesMax, sourceNames],
  [rowsMax, targetNames],
  [windowSlots, slotNames],
  [1, socketNames],
  [1, tallyNames],
  [pauseCauses.length, pauseNames],
] as const

export class SharedStats {
  readonly buffer: SharedArrayBuffer
  readonly totals: NumberTable<TotalName>
  readonly sources: NumberTable<(typeof sourceNames)[number]>
  readonly targets: NumberTable<(typeof targetNames)[number]>
  readonly slots: NumberTable<(typeof slotNames)[number]>
  readonly sockets: NumberTable<(typeof socketNames)[number]>
  readonly tally: NumberTable<(typeof tallyNames)[number]>
  readonly pauses: NumberTable<string>

  constructor(buffer?: SharedArrayBuffer) {
    const starts = [0]
    for (const [rows, names] of tables) starts.push(starts.at(-1)! + rows * names.length * 8)
    this.buffer = buffer ?? new SharedArrayBuffer(starts.at(-1)!)
    this.totals = new NumberTable(this.buffer, starts[0]!, 1, totalNames)
    this.sources = new NumberTable(this.buffer, starts[1]!, sourcesMax, sourceNames)
    this.targets = new NumberTable(this.buffer, starts[2]!, rowsMax, targetNames)
    this.slots = new NumberTable(this.buffer, starts[3]!, windowSlots, slotNames)
    this.sockets = new NumberTable(this.buffer, starts[4]!, 1, socketNames)
    this.tally = new NumberTable(this.buffer, starts[5]!, 1, tallyNames)
    this.pauses = new NumberTable(this.buffer, starts[6]!, pauseCauses.length, pauseNames)
  }
}

/** Pauses of one cause: how many within each bound, and their sum in seconds. */
export function pausesOf(stats: SharedStats, row: number): { counts: number[]; sum: number } {
  const { numbers, width } = stats.pauses
  const columns = [...numbers.subarray(row * width, (row + 1) * width)]
  return { counts: columns.slice(0, -1), sum: columns.at(-1)! / 1000 }
}
