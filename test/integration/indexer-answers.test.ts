// The embedded engine against recorded answers of ClickHouse 26.7: each expression and query is
// answered equally, or refused with an error that names what is missing; never otherwise.
// SLUICE_ANSWERS=<file> writes every refusal and every other type to that file.
import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { translate } from '../../src/indexer/clickhouse/duckdb/print-select.ts'
import { catalogue } from '../../src/indexer/duckdb/schemas.ts'
import {
  type Answered,
  answersCaller,
  answersPlan,
  compared,
  type ListName,
  lists,
  type Recorded,
  readAnswers,
  statementOf,
} from '../testkit/clickhouse-answers.ts'
import { makeRows } from '../testkit/generated-rows.ts'
import { tryAsk } from '../testkit/index-asking.ts'
import { QueryStage } from '../testkit/query-stage.ts'
import { until } from '../testkit/until.ts'

/** What was reached; a smaller number is a regression. */
const reached: Readonly<Record<ListName, { equal: number; sameType: number }>> = {
  expressions: { equal: 1393, sameType: 1377 },
  queries: { equal: 219, sameType: 219 },
}

/**
 * Codes of errors that name what this engine does not do: arguments of a function, a function, a
 * clause, a type, a table, or a number beyond its type, where ClickHouse wraps around.
 */
const naming: readonly number[] = [42, 46, 48, 50, 60, 321]

type Ask = (sql: string) => Promise<Answered>

/** One statement each would take most of the time of this test. */
const togetherMax = 32

/**
 * The expressions whose values and types are equal when many are columns of one statement. What
 * is not among them is asked alone.
 */
async function equalTogether(all: readonly Recorded[], asked: Ask): Promise<Set<unknown>> {
  const single = all.filter(({ sql, types, rows }) => {
    const isColumn = types?.length === 1 && rows?.length === 1 && !/\b(AS|FROM|LIMIT)\b/i.test(sql)
    return isColumn && translate(`SELECT ${sql}`, { hasJoinNulls: false, catalogue, values: [] }).ok
  })
  const equal = new Set<unknown>()
  for (let at = 0; at < single.length; at += togetherMax)
    for (const recorded of await equalColumns(single.slice(at, at + togetherMax), asked))
      equal.add(recorded)
  return equal
}

async function equalColumns(batch: readonly Recorded[], asked: Ask): Promise<Recorded[]> {
  const { text, error } = await asked(`SELECT ${batch.map(({ sql }) => sql).join(', ')}`)
  if (error !== null) {
    if (batch.length <= 2) return []
    const middle = batch.length >> 1
    const first = await equalColumns(batch.slice(0, middle), asked)
    return [...first, ...(await equalColumns(batch.slice(middle), asked))]
  }
  const { meta, data } = JSON.parse(text) as { meta: unknown[]; data: unknown[][] }
  return batch.filter((recorded, at) => {
    const alone = JSON.stringify({ meta: [meta[at]], data: data.map((row) => [row[at]]) })
    return compared(recorded, alone, null).verdict === 'equal'
  })
}

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

  test('parameters of Enum types are equal', async () => {
    const sql = "SELECT {e:Enum8('z' = 1, 'a' = 2)} AS e, toInt8(e), e > 'z', toTypeName(e)"
    for (const e of ['a', '2']) {
      const { text } = await tryAsk(stage.engine, sql, { format: 'CSV', params: { e } })
      expect(text).toBe(`"a",2,1,"Enum8('z' = 1, 'a' = 2)"\n`)
    }
  })

  test.each(lists)('%s are equal or refused by name', async (list) => {
    const counts = { equal: 0, sameType: 0, refused: 0 }
    const wrong: string[] = []
    const notes: string[] = []
    const answers = readAnswers(list)
    const equal = list === 'expressions' ? await equalTogether(answers, asked) : new Set()
    // Most are, or the test takes minutes.
    if (list === 'expressions') expect(equal.size).toBeGreaterThan(answers.length / 2)
    for (const recorded of answers) {
      if (equal.has(recorded)) {
        counts.equal += 1
        counts.sameType += 1
        continue
      }
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
  })
})
