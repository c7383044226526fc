// Reads the files of an index as a stranger would: another engine, read-only, by readable.json.
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { type Readable, readReadable } from '../../src/products/indexer/duckdb/store-files.ts'
import type { TableName } from '../../src/products/indexer/tables.ts'

export interface Counted {
  readonly rows: number
  readonly distinct: number
}

/** How many rows the view has of a table, and how many distinct keys. */
export async function countRows(
  folder: string,
  table: TableName,
  key = 'slot, idx',
  of?: Readable,
): Promise<Counted> {
  const readable = of ?? (await readReadable(folder))
  const instance = await DuckDBInstance.create()
  try {
    const connection = await instance.connect()
    const parts: string[] = []
    for (const [number, file] of readable.files.entries()) {
      await connection.run(`ATTACH '${join(folder, file.name)}' AS f${number} (READ_ONLY)`)
      if (file.tables.includes(table)) parts.push(`FROM f${number}."${table}"`)
    }
    if (parts.length === 0) return { rows: 0, distinct: 0 }
    const found = await connection.runAndReadAll(
      `SELECT count(*), count(DISTINCT (${key})) FROM (${parts.join(' UNION ALL ')})`,
    )
    const [rows, distinct] = found.getRows()[0]!
    return { rows: Number(rows), distinct: Number(distinct) }
  } finally {
    instance.closeSync()
  }
}
