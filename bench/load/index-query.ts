// How long an analyst waits: ten questions over a million transactions, on embedded DuckDB (in its
// query processes) and on a ClickHouse server, over the same rows, in the same rounds.
// Thread: main of the bench process; the engines are processes of their own.
import type { Query, QueryEngine } from '../../src/indexer/engine.ts'
import { firstSlot } from '../../test/testkit/generated-rows.ts'
import type { Bench, Contender, Goal, Measurement } from '../lib/bench.ts'
import { LatencyHistogram } from '../lib/histogram.ts'
import {
  clickhouseStage,
  duckdbStage,
  type EngineStage,
  missingClickhouse,
  slotsOf,
  transactionsPerSlot,
} from '../lib/index-stage.ts'
import type { Shared } from '../lib/shared.ts'

const slotSeconds = 0.4

type Question = readonly [name: string, rows: number, sql: string]

/** Each with the rows that it answers. */
function questionsOver(slots: number): readonly Question[] {
  const middle = firstSlot + slots / 2
  return [
    ['count', 1, 'SELECT count() AS n FROM transactions'],
    [
      'failures by minute',
      Math.ceil((slots * slotSeconds) / 60),
      `SELECT toStartOfMinute(block_time) AS minute, count() AS n, countIf(success = 0) AS failed
        FROM transactions GROUP BY minute ORDER BY minute`,
    ],
    [
      'top payers',
      20,
      `SELECT fee_payer, count() AS n, sum(fee) AS paid FROM transactions
        GROUP BY fee_payer ORDER BY paid DESC, fee_payer LIMIT 20`,
    ],
    ['how many payers', 1, 'SELECT uniqExact(fee_payer) AS n FROM transactions'],
    [
      'fee percentiles',
      1,
      `SELECT quantileExact(0.5)(fee) AS p50, quantileExact(0.9)(fee) AS p90,
        quantileExact(0.99)(fee) AS p99 FROM transactions`,
    ],
    [
      'compute by version',
      2,
      `SELECT version, count() AS n, avg(compute_units) AS mean, max(compute_units) AS top
        FROM transactions GROUP BY version ORDER BY version`,
    ],
    [
      'errors by kind',
      3,
      `SELECT err, count() AS n FROM transactions WHERE success = 0 GROUP BY err ORDER BY err`,
    ],
    [
      'one slot',
      transactionsPerSlot,
      `SELECT idx, signature, fee FROM transactions WHERE slot = ${middle} ORDER BY idx`,
    ],
    [
      'ten slots by fee',
      50,
      `SELECT slot, idx, fee FROM transactions WHERE slot >= ${middle} AND slot < ${middle + 10}
        ORDER BY fee DESC, slot, idx LIMIT 50`,
    ],
    [
      'dear transactions',
      100,
      'SELECT slot, idx, fee_payer, fee FROM transactions ORDER BY fee DESC, slot, idx LIMIT 100',
    ],
  ]
}

/** The names of the contenders are those of any number of slots. */
const questions = questionsOver(slotsOf({ seconds: 0 }))
const answers = new Map<string, string>()

export const bench: Bench = {
  name: 'index-query',
  question: 'How long does an analyst wait for ten questions over a million transactions?',
  cores: 2,
  baseline: contender('clickhouse', 0, clickhouseStage),
  candidates: [
    contender('duckdb', 0, duckdbStage),
    ...questions
      .slice(1)
      .flatMap((_, index) => [
        contender('clickhouse', index + 1, clickhouseStage),
        contender('duckdb', index + 1, duckdbStage),
      ]),
  ],
  // The embedded engine stays within a small multiple of a server; each question's ratio is shown.
  goals: questions.map(
    ([name]): Goal => ({
      contender: `${name}: duckdb`,
      to: `${name}: clickhouse`,
      figure: 'p50',
      atMost: 4,
    }),
  ),
  verify({ evidence }) {
    if (evidence?.rows !== evidence?.expected)
      return `${String(evidence?.rows)} rows, not ${String(evidence?.expected)}`
    const question = String(evidence?.question)
    const text = String(evidence?.text)
    const known = answers.get(question) ?? text
    answers.set(question, known)
    return known === text ? undefined : 'the two engines answer differently'
  },
}

function contender(
  engine: 'duckdb' | 'clickhouse',
  index: number,
  shared: Shared<EngineStage>,
): Contender {
  let [question, expected, sql] = questions[index]!
  let asked: QueryEngine | undefined
  return {
    name: `${question}: ${engine}`,
    ...(engine === 'clickhouse' && { missing: missingClickhouse }),
    async prepare(context) {
      ;[question, expected, sql] = questionsOver(slotsOf(context))[index]!
      asked = await (await shared.get(context)).engine()
      if (context.smoke !== true) await ask(asked, sql)
    },
    async run({ seconds }): Promise<Measurement> {
      const histogram = new LatencyHistogram()
      const beganMs = performance.now()
      let last = { text: '', rows: 0 }
      do {
        const askedMs = performance.now()
        last = await ask(asked!, sql)
        histogram.recordNs((performance.now() - askedMs) * 1e6)
      } while (performance.now() - beganMs < seconds * 1000)
      return {
        opsPerSecond: (histogram.total * 1000) / (performance.now() - beganMs),
        latencyUs: histogram.summary(),
        evidence: { question, expected, ...last },
      }
    },
    close: () => shared.stop(),
  }
}

let count = 0

async function ask(engine: QueryEngine, sql: string): Promise<{ text: string; rows: number }> {
  const query: Query = {
    id: `bench-${++count}`,
    subscription: 'bench',
    statement: { texts: [sql], values: [] },
    format: 'JSONEachRow',
    limits: {
      timeMs: 60_000,
      rows: 100_000,
      resultBytes: 64_000_000,
      memoryBytes: 512_000_000,
      overflow: 'throw',
    },
    output: { quotes64: true },
  }
  const outcome = await engine.run(query).started
  if (!outcome.ok) throw new Error(`${outcome.error.code} ${outcome.error.message}`)
  let text = ''
  for await (const chunk of outcome.result.chunks) text += Buffer.from(chunk).toString('latin1')
  const error = outcome.result.failed()
  if (error !== null) throw new Error(`${error.code} ${error.message}`)
  return { text, rows: outcome.result.totals().rows }
}
