// Tests that strings are copied out of DuckDB's vectors whole, in order and in few pieces.
import { DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { textPieces } from '../../../../../src/indexer/clickhouse/duckdb/row-bytes.ts'

let instance: DuckDBInstance

beforeAll(async () => {
  instance = await DuckDBInstance.create(':memory:')
})

afterAll(() => instance.closeSync())

const texts: readonly (readonly [string, string, (row: number) => string])[] = [
  ['short', `'r' || i || ' '`, (row) => `r${row} `],
  ['long', `'row of more bytes ' || i`, (row) => `row of more bytes ${row}`],
  ['short and long by turns', `repeat('é', i::INT % 9)`, (row) => 'é'.repeat(row % 9)],
  [
    'short, then long',
    `repeat('x', CASE WHEN i < 1000 THEN 12 ELSE 13 END)`,
    (row) => 'x'.repeat(row < 1000 ? 12 : 13),
  ],
]

describe('text pieces', () => {
  test.each(texts)('hold %s strings in their order', async (_, sql, made) => {
    const connection = await instance.connect()
    const result = await connection.stream(`SELECT ${sql} FROM range(4000) AS r(i)`)
    const rows = Array.from({ length: 4000 }, (_, row) => made(row))
    let done = 0
    for (;;) {
      const chunk = await result.fetchChunk()
      if (chunk === null || chunk.rowCount === 0) break
      const pieces = textPieces(chunk, chunk.rowCount)
      expect(pieces.length).toBeLessThan(65)
      expect(Buffer.concat(pieces).toString()).toBe(
        rows.slice(done, done + chunk.rowCount).join(''),
      )
      expect(Buffer.concat(textPieces(chunk, 3)).toString()).toBe(
        rows.slice(done, done + 3).join(''),
      )
      expect(textPieces(chunk, 0)).toEqual([])
      done += chunk.rowCount
    }
    expect(done).toBe(4000)
  })
})
