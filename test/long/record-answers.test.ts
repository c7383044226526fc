// Asks a ClickHouse server the lists of test/golden/clickhouse and writes its answers down:
//
//   SLUICE_RECORD=http://user:password@127.0.0.1:8123 npx vitest run \
//     --config vitest.long.config.ts test/long/record-answers.test.ts
//
// A line may be added as {"sql": "..."} before. Tables of the database `chain` there are replaced.
// A server older than 20 does not replace answers: it marks the rows where it differs.
import { describe, expect, test } from 'vitest'
import {
  askServer,
  compared,
  lists,
  prepareServer,
  type Recorded,
  readAnswer,
  readAnswers,
  statementOf,
  writeAnswers,
} from '../testkit/clickhouse-answers.ts'

const url = process.env.SLUICE_RECORD ?? ''

describe.skipIf(url === '')('answers of a ClickHouse server (skipped: no SLUICE_RECORD)', () => {
  test('are written down', async () => {
    const isOld = await prepareServer(url)
    for (const list of lists) {
      const rows: Recorded[] = []
      for (const row of readAnswers(list)) {
        const { text, error } = await askServer(url, statementOf(list, row))
        if (isOld) rows.push(marked(row, compared(row, text, error).verdict))
        else rows.push(renewed(row, text, error?.code ?? null))
      }
      writeAnswers(list, rows)
      expect(rows.length).toBeGreaterThan(0)
    }
  })
})

function renewed({ sql, old }: Recorded, text: string, code: number | null): Recorded {
  const answer = code === null ? readAnswer(text) : { error: code }
  return { sql, ...answer, ...(old !== undefined && { old }) }
}

function marked({ old: _, ...row }: Recorded, verdict: string): Recorded {
  if (verdict === 'refused' && row.error === undefined) return { ...row, old: 'absent' }
  return verdict === 'other' ? { ...row, old: 'differs' } : row
}
