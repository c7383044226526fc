// The figures of the last blocks in typed arrays, ascending by block number.
// One row per height. Two proposals may compete for a height: the row shows the first until it is
// rejected, and counts the others in `rivals`.
//
//   [ dropped | row row row … row | free ]      twice the capacity; the rows move to the front
//             ^start              ^end          when the end is reached, so they stay adjacent

import { type EfficiencyBand, verdictOf } from '../client/frames.ts'

export const columns = [
  'number',
  'tps',
  'efficiency',
  'contended',
  'written',
  'critical',
  'txns',
  'wallMs',
  'rivals',
] as const
export type Column = (typeof columns)[number]
export type Figures = Readonly<Record<Exclude<Column, 'rivals'>, number>>

export class FigureHistory {
  readonly #capacity: number
  readonly #columns: Readonly<Record<Column, Float64Array>>
  readonly #hashes: string[]
  #start = 0
  #end = 0

  constructor(capacity: number) {
    this.#capacity = capacity
    const entries = columns.map((name) => [name, new Float64Array(capacity * 2)])
    // Reason for the cast: fromEntries loses the names.
    this.#columns = Object.fromEntries(entries) as Record<Column, Float64Array>
    this.#hashes = new Array<string>(capacity * 2).fill('')
  }

  /** The number of the oldest row; NaN without rows. */
  get oldest(): number {
    return this.value('number', 0)
  }

  get length(): number {
    return this.#end - this.#start
  }

  /** The number of the newest row; NaN without rows. */
  get newest(): number {
    return this.length === 0 ? Number.NaN : this.value('number', this.length - 1)
  }

  value(column: Column, row: number): number {
    return this.#columns[column][this.#start + row] ?? Number.NaN
  }

  /** The band of a row; null where its efficiency says nothing. */
  verdict(row: number): EfficiencyBand | null {
    return verdictOf({
      parallel_efficiency_pct: this.value('efficiency', row),
      total_txn_count: this.value('txns', row),
      contended_slot_count: this.value('contended', row),
    })
  }

  hash(row: number): string {
    return this.#hashes[this.#start + row] ?? ''
  }

  /** The rows up to block `newest`, at most `count` blocks wide: [from, to). */
  window(count: number, newest = this.newest): { from: number; to: number } {
    const to = this.#firstAbove(newest) - this.#start
    const from = this.#firstAbove(newest - count) - this.#start
    return { from, to }
  }

  /** The row of a block; -1 when it is not kept. */
  rowOf(number: number): number {
    const at = this.#firstAbove(number) - 1
    return at >= this.#start && this.#columns.number[at] === number ? at - this.#start : -1
  }

  /** The row nearest to a block number; -1 without rows. */
  nearest(number: number): number {
    if (this.length === 0) return -1
    const below = Math.max(this.#start, this.#firstAbove(number) - 1)
    const above = Math.min(this.#end - 1, below + 1)
    const distance = (at: number) => Math.abs(this.#columns.number[at]! - number)
    return (distance(above) < distance(below) ? above : below) - this.#start
  }

  /** Adds or completes the row of a block. `hash` is '' where it is not known. */
  add(figures: Figures, hash: string): void {
    const row = this.rowOf(figures.number)
    if (row === -1) this.#write(this.#insert(figures.number), figures, hash, 0)
    else if (this.hash(row) === hash || hash === '' || this.hash(row) === '')
      this.#write(this.#start + row, figures, hash || this.hash(row), this.value('rivals', row))
    else this.#columns.rivals[this.#start + row]!++
  }

  /** Another proposal takes the height: the one before was rejected. */
  replace(figures: Figures, hash: string): void {
    const row = this.rowOf(figures.number)
    if (row !== -1)
      this.#write(this.#start + row, figures, hash, Math.max(1, this.value('rivals', row)))
  }

  clear(): void {
    this.#start = 0
    this.#end = 0
  }

  #write(at: number, figures: Figures, hash: string, rivals: number): void {
    const kept = this.#columns.tps[at]!
    for (const name of columns)
      this.#columns[name][at] = name === 'rivals' ? rivals : (figures[name] ?? Number.NaN)
    if (Number.isNaN(figures.tps)) this.#columns.tps[at] = kept
    this.#hashes[at] = hash
  }

  /** Makes room for a block in its place, almost always at the end. */
  #insert(number: number): number {
    if (this.length === this.#capacity) this.#start++
    if (this.#end === this.#capacity * 2) this.#toFront()
    const at = this.#firstAbove(number)
    for (const name of columns) {
      this.#columns[name].copyWithin(at + 1, at, this.#end)
      this.#columns[name][at] = Number.NaN
    }
    if (at < this.#end) this.#hashes.copyWithin(at + 1, at, this.#end)
    this.#end++
    return at
  }

  #toFront(): void {
    for (const name of columns) this.#columns[name].copyWithin(0, this.#start, this.#end)
    this.#hashes.copyWithin(0, this.#start, this.#end)
    this.#end -= this.#start
    this.#start = 0
  }

  /** The first position whose number is above; binary search. */
  #firstAbove(number: number): number {
    const numbers = this.#columns.number
    let low = this.#start
    let high = this.#end
    while (low < high) {
      const middle = (low + high) >> 1
      if (numbers[middle]! <= number) low = middle + 1
      else high = middle
    }
    return low
  }
}
