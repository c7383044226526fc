// The embedded engine against recorded answers of ClickHouse 26.7: each expression and query is
// answered equally, or refused with an error that names what is missing; never otherwise.
// SLUICE_ANSWERS=<file> writes every refusal and every other type to that file.
import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  answersCaller,
  answersPlan,
  compared,
  type ListName,
  lists,
  readAnswers,
  statementOf,
} from '../testkit/clickhouse-answers.ts'
import { makeRows } from '../testkit/generated-rows.ts'
import { tryAsk } from '../testkit/index-asking.ts'
import { QueryStage } from '../testkit/query-stage.ts'
import { until } from '../testkit/until.ts'

/** What was reached; a smaller number is a regression. */
const reached: Readonly<Record<ListName, { equal: number; sameType: number }>> = {
  expressions: { equal: 1277, sameType: 1262 },
  queries: { equal: 217, sameType: 217 },
}

/**
 * Codes of errors that name what this engine does not do: arguments of a function, a function, a
 * clause, a type, a table, or a number beyond its type, where ClickHouse wraps around.
 */
const naming: readonly number[] = [42, 46, 48, 50, 60, 321]

describe('answers of the embedded engine', () => {
  let stage: QueryStage
  const asked = (sql: string) =>
    tryAsk(stage.engine, sql, { format: 'JSONCompact', subscription: answersCaller })

  beforeAll(async () => {
    stage = await QueryStage.open({ warm: 1 })
    await stage.sink.write([...makeRows(answersPlan)], {})
    const sees = async () => (await asked('SELECT count() FROM usage')).text.includes('12')
    await until(sees, 'the rows are seen')
  })
  afterAll(() => stage?.close())

  test.each(lists)(
    '%s are equal or refused by name',
    async (list) => {
      const counts = { equal: 0, sameType: 0, refused: 0 }
      const wrong: string[] = []
      const notes: string[] = []
      for (const recorded of readAnswers(list)) {
        const { text, error } = await asked(statementOf(list, recorded))
        const { verdict, note } = compared(recorded, text, error)
        if (verdict === 'other') wrong.push(note)
        else if (verdict === 'refused') {
          counts.refused += 1
          // What ClickHouse refuses as well may have any code.
          const isNamed = recorded.error !== undefined || naming.includes(error!.code)
          if (!isNamed) wrong.push(note)
        } else {
          counts.equal += 1
          if (verdict === 'equal') counts.sameType += 1
        }
        if (verdict !== 'equal') notes.push(`${verdict}\t${note}`)
      }
      console.info(`${list}: ${JSON.stringify(counts)}`)
      if (process.env.SLUICE_ANSWERS)
        writeFileSync(`${process.env.SLUICE_ANSWERS}.${list}`, notes.join('\n'))
      expect(wrong).toEqual([])
      expect(counts.equal).toBeGreaterThanOrEqual(reached[list].equal)
      expect(counts.sameType).toBeGreaterThanOrEqual(reached[list].sameType)
    },
    300_000,
  )
})
