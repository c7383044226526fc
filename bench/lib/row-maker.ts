// Makes random values from a seed, and gathers rows by table. Thread: main of a bench or test.
import type { Cell, RowBatch } from '../../src/indexer/engine.ts'
import { type Table, type TableName, tables } from '../../src/indexer/tables.ts'

const rowsPerBatch = 20_000
const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** Gathers rows by table, and all the random choices. */
export class RowMaker {
  readonly #only: ReadonlySet<TableName> | null
  readonly #columns = new Map<TableName, Cell[][]>()
  readonly payers: readonly string[]
  readonly programs: readonly string[]
  readonly mints: readonly string[]
  readonly contracts: readonly string[]
  #state: number

  constructor({ seed, only }: { seed: number; only?: readonly TableName[] | undefined }) {
    this.#only = only === undefined ? null : new Set(only)
    this.#state = seed
    this.payers = Array.from({ length: 5_000 }, () => this.text(44))
    this.programs = Array.from({ length: 24 }, () => this.text(43))
    this.mints = Array.from({ length: 60 }, () => this.text(44))
    this.contracts = Array.from({ length: 80 }, () => `0x${this.hex(40)}`)
  }

  /** 0 up to 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  /** Favours the first ones, as chains do. */
  pick(list: readonly string[]): string {
    return list[Math.floor(this.next() ** 3 * list.length)]!
  }

  text(chars: number): string {
    let text = ''
    for (let n = 0; n < chars; n++) text += alphabet[this.below(58)]
    return text
  }

  hex(chars: number): string {
    let text = ''
    while (text.length < chars) text += this.below(0x1000000).toString(16).padStart(6, '0')
    return text.slice(0, chars)
  }

  wants(table: TableName): boolean {
    return this.#only === null || this.#only.has(table)
  }

  /** By column name; the table defines which and in what order. */
  add(table: TableName, row: Readonly<Record<string, Cell>>): void {
    if (!this.wants(table)) return
    const names = Object.keys((tables[table] as Table).columns)
    let columns = this.#columns.get(table)
    if (columns === undefined) {
      columns = names.map(() => [])
      this.#columns.set(table, columns)
    }
    for (const [index, name] of names.entries()) columns[index]!.push(row[name]!)
  }

  *full(): Iterable<RowBatch> {
    for (const [table, columns] of this.#columns)
      if (columns[0]!.length >= rowsPerBatch) yield this.#take(table, columns)
  }

  *rest(): Iterable<RowBatch> {
    for (const [table, columns] of this.#columns) yield this.#take(table, columns)
  }

  #take(table: TableName, columns: Cell[][]): RowBatch {
    this.#columns.delete(table)
    return { table, count: columns[0]!.length, columns }
  }
}
