// A sink that keeps rows in memory, by their keys, as the port of the engine asks. For tests.
import { Fault } from '../../src/base/errors.ts'
import type { Cell, Marks, RowBatch, RowSink } from '../../src/indexer/engine.ts'
import { type TableName, tableNames, tables } from '../../src/indexer/tables.ts'
import { type Row, rowsOf } from './index-rows.ts'

export class MemorySink implements RowSink {
  readonly #rows = new Map<TableName, Map<string, Row>>()
  #marks: Marks = {}
  writes = 0
  /** How often it was asked for blockhashes. */
  comparisons = 0
  /** Rows that came although their keys were there. */
  repeated = 0
  isStopped = false
  /** Faults of the next writes. */
  readonly faults: Fault[] = []
  /** Whether it rejects these rows for good. */
  isBad: (batches: readonly RowBatch[]) => boolean = () => false
  /** What a write waits for. */
  gate: Promise<void> = Promise.resolve()

  async marks(): Promise<Marks> {
    return this.#marks
  }

  async write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    await this.gate
    const fault = this.faults.shift()
    if (fault !== undefined) throw fault
    if (this.isBad(batches)) throw new Fault('sink', 'a bad row')
    this.writes++
    this.#marks = { ...this.#marks, ...marks }
    const found = rowsOf(batches)
    for (const name of tableNames) for (const row of found[name] ?? []) this.#put(name, row)
  }

  async blockhashes(from: number, to: number): Promise<ReadonlyMap<number, string>> {
    this.comparisons++
    const counts = new Map<number, number>()
    for (const { slot } of this.rows('transactions'))
      counts.set(Number(slot), (counts.get(Number(slot)) ?? 0) + 1)
    const rows = this.rows('blocks').map(({ slot, blockhash, tx_count }) => {
      const count = counts.get(Number(slot)) ?? 0
      return [Number(slot), count < Number(tx_count) ? '' : String(blockhash)] as const
    })
    return new Map(rows.filter(([slot]) => slot >= from && slot <= to))
  }

  async cut(from: number, to: number): Promise<void> {
    for (const name of tableNames) {
      if (tables[name].feed !== 'slots') continue
      const rows = this.#rows.get(name)
      for (const [key, { slot }] of rows ?? [])
        if (Number(slot) >= from && Number(slot) <= to) rows!.delete(key)
    }
    this.#marks = { ...this.#marks, slots: from - 1 }
  }

  async stop(): Promise<void> {
    this.isStopped = true
  }

  rows(table: TableName): Row[] {
    return [...(this.#rows.get(table)?.values() ?? [])]
  }

  #put(name: TableName, row: Row): void {
    const rows = this.#rows.get(name) ?? new Map<string, Row>()
    this.#rows.set(name, rows)
    const key = tables[name].key.map((column) => textOf(row[column]!)).join('/')
    if (rows.has(key)) this.repeated++
    else rows.set(key, row)
  }
}

export function retryable(message: string): Fault {
  return new Fault('sink', message, { retryable: true })
}

function textOf(cell: Cell): string {
  return String(cell)
}
