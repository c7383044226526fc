// What ten users get who ask the embedded index at the same time, each one question after another:
// queries a second, and how long they wait for the whole answer or for its first byte; while rows
// arrive as from a chain of 50 transactions a second, and while none do. The figure per CPU-second
// counts the time of the query processes: it holds on a machine with other work.
// Thread: main of the bench process, which also writes; the queries run in processes of their own.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import type { Cell, RowBatch, RowSink } from '../../src/indexer/engine.ts'
import { feedNames, type TableName, tables } from '../../src/indexer/tables.ts'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { firstSlot, makeRows } from '../../test/testkit/generated-rows.ts'
import { queryOf } from '../../test/testkit/query-stage.ts'
import { openDuckdb } from '../../test/testkit/read-back.ts'
import type { ReadEngine } from '../../test/testkit/send-results.ts'
import {
  type Bench,
  type Contender,
  latencyUsOf,
  type Measurement,
  type RoundContext,
} from '../lib/bench.ts'
import { childrenSeconds } from '../lib/processor-time.ts'
import { Shared } from '../lib/shared.ts'

const users = 10
/** A slot takes 0.4 s: 50 transactions a second. */
const transactionsPerSlot = 20
const slotMs = 400
/** Slots that are stored before the first question, and at hand for what arrives later. */
const slotsOf = ({ smoke }: RoundContext) =>
  smoke === true ? { stored: 100, later: 100 } : { stored: 1_000, later: 500 }

const questions: readonly string[] = [
  'SELECT count() AS n, sum(fee) AS paid FROM transactions',
  `SELECT toStartOfMinute(block_time) AS minute, count() AS n, countIf(success = 0) AS failed
    FROM transactions GROUP BY minute ORDER BY minute`,
  `SELECT fee_payer, count() AS n FROM transactions GROUP BY fee_payer
    ORDER BY n DESC, fee_payer LIMIT 20`,
  'SELECT program, count() AS n FROM instructions GROUP BY program ORDER BY n DESC LIMIT 10',
  'SELECT slot, idx, signature, fee FROM transactions ORDER BY slot DESC, idx DESC LIMIT 50',
  `SELECT b.slot, b.blockhash, count() AS n FROM blocks AS b
    JOIN transactions AS t ON t.slot = b.slot GROUP BY b.slot, b.blockhash
    ORDER BY b.slot DESC LIMIT 10`,
]

interface Rows {
  readonly slots: number
  /** The columns of a table, in the order of the rows' arrival. */
  readonly columns: ReadonlyMap<TableName, readonly Cell[][]>
}

class Stage {
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-bench-users-'))
  readonly #slots: ReturnType<typeof slotsOf>
  readonly #rows: Rows
  #sink!: RowSink
  #step = 0
  engine!: ReadEngine

  private constructor(context: RoundContext) {
    this.#slots = slotsOf(context)
    this.#rows = generate(this.#slots.stored + this.#slots.later)
  }

  static async open(context: RoundContext): Promise<Stage> {
    const stage = new Stage(context)
    const folder = stage.#folder
    stage.#sink = await openDuckdbSink(folder, { retentionMs: 1e12, retentionBytes: 1e12 })
    await stage.#sink.write(part(stage.#rows, 0, stage.#slots.stored), {})
    stage.engine = await openDuckdb(folder, { log: silentLog })
    return stage
  }

  /**
   * Writes what arrives until the signal, whole slots as the feeds do, each feed at a time of its
   * own; rejects when the rows at hand are used up.
   */
  async ingest(signal: AbortSignal): Promise<void> {
    const { stored, later } = this.#slots
    while (!signal.aborted) {
      const slot = stored + Math.floor(this.#step / feedNames.length)
      if (slot >= stored + later) throw new Error('no more rows: fewer seconds, please')
      const feed = feedNames[this.#step % feedNames.length]!
      const arrived = part(this.#rows, slot, slot + 1)
      this.#step += 1
      await Promise.all([
        this.#sink.write(
          arrived.filter(({ table }) => tables[table].feed === feed),
          {},
        ),
        sleep(slotMs / feedNames.length),
      ])
    }
  }

  async stop(): Promise<void> {
    await this.engine.stop()
    await this.#sink.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const shared = new Shared((context) => Stage.open(context))

export const bench: Bench = {
  name: 'index-users',
  question: 'What do ten users get who ask the embedded index while rows arrive?',
  cores: 2,
  seconds: 5,
  baseline: contender('no rows arrive, whole answer', 'whole', false),
  candidates: [
    contender('rows arrive, whole answer', 'whole'),
    contender('rows arrive, first byte', 'first'),
    contender('rows arrive, per CPU-second', 'cpu'),
  ],
  goals: [
    { contender: 'rows arrive, whole answer', figure: 'opsPerSecond', atLeast: 55 },
    { contender: 'rows arrive, first byte', figure: 'p50', atMost: 50_000 },
  ],
  smoke: ['no rows arrive, whole answer', 'rows arrive, whole answer'],
  verify: ({ evidence }) =>
    evidence?.failures === 0 ? undefined : `${String(evidence?.failures)} queries failed`,
}

/** What is measured: until the whole answer or its first byte, or the query processes' CPU time. */
type Figure = 'whole' | 'first' | 'cpu'

function contender(name: string, figure: Figure, isIngesting = true): Contender {
  return {
    name,
    async prepare(context) {
      await shared.get(context)
    },
    async run(context): Promise<Measurement> {
      const stage = await shared.get(context)
      const stop = new AbortController()
      const ingest = isIngesting ? stage.ingest(stop.signal) : Promise.resolve()
      const histogram = new Latencies()
      const beganCpu = childrenSeconds()
      const beganMs = performance.now()
      const isOver = () => performance.now() - beganMs >= context.seconds * 1000
      let failures = 0
      const user = async (number: number) => {
        for (let at = number; !isOver(); at++) {
          const waited = await ask(stage.engine, number, questions[at % questions.length]!)
          if (waited === null) failures += 1
          else histogram.record(figure === 'first' ? waited.firstMs : waited.wholeMs)
        }
      }
      await Promise.all(Array.from({ length: users }, (_, number) => user(number)))
      const seconds =
        figure === 'cpu' ? childrenSeconds() - beganCpu : (performance.now() - beganMs) / 1000
      stop.abort()
      await ingest
      return {
        opsPerSecond: histogram.count / seconds,
        latencyUs: latencyUsOf(histogram),
        evidence: { failures },
      }
    },
    close: () => shared.stop(),
  }
}

/** Null when the query failed. */
async function ask(
  engine: ReadEngine,
  user: number,
  sql: string,
): Promise<{ firstMs: number; wholeMs: number } | null> {
  const askedMs = performance.now()
  const outcome = await engine.run(queryOf(sql, { subscription: `user-${user}` })).started
  if (!outcome.ok) return null
  const firstMs = performance.now() - askedMs
  for await (const _ of outcome.result.chunks);
  const isWhole = outcome.result.failed() === null
  return isWhole ? { firstMs, wholeMs: performance.now() - askedMs } : null
}

function generate(slots: number): Rows {
  const plan = { seed: 5, slots, transactionsPerSlot, blocks: slots, tips: slots, usage: slots }
  const all = new Map<TableName, Cell[][]>()
  for (const { table, columns } of makeRows(plan)) {
    const before = all.get(table)
    if (before === undefined)
      all.set(
        table,
        columns.map((cells) => [...cells]),
      )
    else for (const [at, cells] of columns.entries()) before[at] = before[at]!.concat(cells)
  }
  return { slots, columns: all }
}

/** The rows of the slots from `from` to before `to`. */
function part(rows: Rows, from: number, to: number): RowBatch[] {
  return [...rows.columns].flatMap(([table, columns]) => {
    const startOf = (slot: number) =>
      tables[table].feed === 'slots'
        ? startBySlot(columns[0]!, slot)
        : Math.floor((columns[0]!.length * slot) / rows.slots)
    const [start, end] = [from, to].map(startOf)
    const cells = columns.map((column) => column.slice(start, end))
    return cells[0]!.length === 0 ? [] : { table, count: cells[0]!.length, columns: cells }
  })
}

/** The index of a slot's first row. */
function startBySlot(first: readonly Cell[], slot: number): number {
  const at = first.findIndex((cell) => Number(cell) >= firstSlot + slot)
  return at === -1 ? first.length : at
}
