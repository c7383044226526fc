// Remembers the keys of the newest rows of tables whose rows arrive out of order: a query or a tip
// is reported when it ends, and ordered by when it began. A row that is surely new is appended
// without a search of the files. Thread: main of the writer process.
import type { RowBatch } from '../engine.ts'
import { type FeedName, type TableName, tables } from '../tables.ts'
import { keysOf, orderOf } from './chunks.ts'

/** Keys per table: at 200 queries a second those of 20 s. */
const keysMax = 4096
const feeds: ReadonlySet<FeedName> = new Set(['tips', 'usage'])

interface Recent {
  /** All stored rows with a higher order value are in `keys`. */
  floor: number
  /** With their order values, oldest first. */
  readonly keys: Map<string, number>
}

/** Valid from the opening of the files until they are closed. */
export class RecentKeys {
  readonly #tables = new Map<TableName, Recent>()

  /**
   * True when no row of the batch is stored and no two have the same key; false when it is not
   * known. Adds the rows in any case. `top` is the highest order value of the stored rows.
   */
  add(batch: RowBatch, top: number): boolean {
    const { table } = batch
    if (!feeds.has(tables[table].feed)) return false
    const recent = this.#tables.get(table) ?? { floor: top, keys: new Map<string, number>() }
    this.#tables.set(table, recent)
    const order = orderOf(batch)
    let isNew = true
    for (const [row, key] of keysOf(batch).entries()) {
      const value = Number(order[row])
      isNew &&= value > recent.floor && !recent.keys.has(key)
      recent.keys.set(key, value)
    }
    for (const [key, value] of recent.keys) {
      if (recent.keys.size <= keysMax) break
      recent.keys.delete(key)
      recent.floor = Math.max(recent.floor, value)
    }
    return isNew
  }
}
