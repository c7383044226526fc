// The index against every death: of its program, of the gateway with it, and of streams alone.
import { expect, test } from 'vitest'
import { tableNames, tables } from '../../src/indexer/tables.ts'
import { caseCount } from '../testkit/case-count.ts'
import { KilledIndex } from '../testkit/killed-index.ts'

const rounds = 12

test.each(Array.from({ length: caseCount(2, 40) }, (_, seed) => seed + 1))(
  'rows are those of the chain after kills at any point, seed %i',
  async (seed) => {
    const index = new KilledIndex(seed)
    try {
      await index.start()
      for (let round = 0; round < rounds; round++) {
        await index.round()
        if (round % 3 === 2) await index.settled()
      }
      await index.settled()
      const expected = await index.expected()
      for (const table of tableNames.filter((name) => tables[name].feed === 'slots')) {
        const [rows, all] = [textsOf(index.rows.rows(table)), textsOf(expected.rows(table))]
        expect(
          [...all].filter((row) => !rows.has(row)),
          `missing in ${table}`,
        ).toEqual([])
        expect(
          [...rows].filter((row) => !all.has(row)),
          `others in ${table}`,
        ).toEqual([])
      }
      expect(index.lost).toBe(0)
    } finally {
      await index.dispose()
    }
  },
)

function textsOf(rows: readonly object[]): Set<string> {
  const replacer = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)
  return new Set(rows.map((row) => JSON.stringify(row, replacer)))
}
