// Runs one query at a time in a query process and writes its result bytes with backpressure.
// Thread: main of a query process.
//
//   job -> snapshot -> gate -> plan -> DuckDB streams chunks -> encoder -> pipe
//                                         ^------ waits while the pipe is full
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBResult } from '@duckdb/node-api'
import { messageOf } from '../../../base/errors.ts'
import type { QueryError } from '../engine.ts'
import { exception } from '../exceptions.ts'
import { type Encoder, encoderOf, type ResultCell, type TextFormat } from '../formats.ts'
import { duckdbString } from '../sql/quoting.ts'
import { engineError } from './engine-error.ts'
import { type Gated, passGate } from './gate.ts'
import { statementText } from './literal.ts'
import { type QueryDatabase, resultName, StaleSnapshot } from './query-database.ts'
import type { QueryJob, QueryReport } from './query-protocol.ts'
import {
  endRowSql,
  jsonRowsSql,
  type PlannedColumn,
  probeSql,
  renderedSql,
  resultColumns,
} from './rendering.ts'
import { type ByteSink, ResultCut, ResultWriter } from './result-writer.ts'

const pieceBytes = 64 * 1024
/** Results of plans that allow more rows are streamed, others are materialized first. */
const wholeRowsMax = 100_000

/** `unsure`: the end row was received, but not as the last row. */
type StreamEnd = 'whole' | 'unsure' | 'broken'

export class QueryRunner {
  readonly #database: QueryDatabase
  readonly #sink: ByteSink
  #isCancelled = false
  /** Lets DuckDB render whole rows where possible; off in the test that compares both ways. */
  readonly #isFast: boolean

  constructor(database: QueryDatabase, sink: ByteSink, isFast = true) {
    this.#database = database
    this.#sink = sink
    this.#isFast = isFast
  }

  /** Interrupts the running query. */
  cancel(): void {
    this.#isCancelled = true
    this.#database.connection.interrupt()
    this.#sink.wake()
  }

  /** Never rejects. */
  async run(job: QueryJob): Promise<QueryReport> {
    this.#isCancelled = false
    const out = new ResultWriter(this.#sink, job.limits, () => this.#isCancelled)
    let error: QueryError | null = null
    try {
      await this.#database.refresh(job.snapshot)
      error = await this.#answer(job, out)
      if (error === null) await out.flush()
    } catch (thrown) {
      if (thrown instanceof StaleSnapshot) return { rows: 0, bytes: 0, error: null, isStale: true }
      if (!(thrown instanceof ResultCut)) error = this.#errorOf(thrown)
      else if (thrown.error !== null) error = thrown.error
    }
    await this.#database.clear().catch(() => {})
    return { rows: out.rows, bytes: out.bytes, error, isStale: false }
  }

  async #answer(job: QueryJob, out: ResultWriter): Promise<QueryError | null> {
    const { connection, rules } = this.#database
    const gated = await passGate(connection, statementText(job.statement), rules)
    if (!gated.ok) return gated.error
    await this.#database.show(gated.value.tables, job.subscription)
    if (job.format === 'Parquet') await this.#writeFile(gated.value, job, out)
    else await this.#writeText(gated.value, job, job.format, out)
    return null
  }

  async #writeText(
    { sql, isExplain }: Gated,
    job: QueryJob,
    format: TextFormat,
    out: ResultWriter,
  ): Promise<void> {
    const { connection } = this.#database
    const beganMs = performance.now()
    if (isExplain) {
      const plan = await connection.runAndReadAll(sql)
      const lines = plan.getRows().flatMap((row) => String(row.at(-1)).split('\n'))
      const column = { name: 'explain', type: 'String', kind: 'text' } as const
      const encoder = encoderOf(format, [column], job.quotes64)
      await out.text(encoder.begin())
      await out.chunk(lines.length, (count) => encoder.rows([lines], count))
      return out.text(encoder.end({ rows: out.rows, elapsedSeconds: seconds(beganMs) }))
    }
    const columns = await this.#plan(sql)
    const whole = format === 'JSONEachRow' && this.#isFast
    const fast = whole ? jsonRowsSql(sql, columns, job.quotes64) : null
    if (fast !== null)
      return this.#write({ sql: fast, endRow: 'NULL', job }, (result) => writeRows(result, out))
    const style = { isJson: format.startsWith('JSON'), quotes64: job.quotes64 }
    const encoder = encoderOf(format, resultColumns(columns), job.quotes64)
    await out.text(encoder.begin())
    const rendered = renderedSql(sql, columns, style)
    await this.#write({ sql: rendered, endRow: endRowSql(columns), job }, (result) =>
      writeCells(result, encoder, out),
    )
    await out.end(() => encoder.end({ rows: out.rows, elapsedSeconds: seconds(beganMs) }))
  }

  /** Names and types of the result columns; errors of the statement itself are thrown here. */
  async #plan(sql: string): Promise<readonly PlannedColumn[]> {
    const prepared = await this.#database.connection.prepare(sql)
    try {
      return Array.from({ length: prepared.columnCount }, (_, at) => ({
        name: prepared.columnName(at),
        type: prepared.columnType(at),
      }))
    } finally {
      prepared.destroySync()
    }
  }

  /**
   * Results of the usual size are materialized first, so that an error comes before the first
   * byte. Larger ones are streamed. A DuckDB stream that fails ends like a complete one, so an end
   * row of our own is appended; when that is not the last row, the statement runs again to check
   * whether it fails.
   */
  async #write(
    { sql, endRow, job }: { sql: string; endRow: string; job: QueryJob },
    write: (result: DuckDBResult) => Promise<StreamEnd>,
  ): Promise<void> {
    const { connection } = this.#database
    const { rows } = job.limits
    if (rows <= wholeRowsMax) {
      await write(await connection.run(`SELECT * FROM (${sql}) LIMIT ${rows + 1}`))
    } else {
      const end = await write(await connection.stream(`${sql} UNION ALL SELECT ${endRow}`))
      if (end !== 'whole' && !this.#isCancelled) await connection.run(probeSql(sql))
      if (end === 'broken') throw new Error('the stream of the result broke off')
    }
    if (this.#isCancelled) throw new Error('cancelled')
  }

  /** Parquet has its index at the end: the file is written to the scratch folder, then sent. */
  async #writeFile({ sql, isExplain }: Gated, job: QueryJob, out: ResultWriter): Promise<void> {
    if (isExplain) throw new ResultCut(exception('NOT_IMPLEMENTED', 'EXPLAIN has no Parquet form'))
    const { limits } = job
    await this.#plan(sql)
    const path = join(this.#database.scratch, resultName)
    const rowsMax = limits.overflow === 'break' ? limits.rows : limits.rows + 1
    const { rowsChanged } = await this.#database.connection.run(
      `COPY (SELECT * FROM (${sql}\n) LIMIT ${rowsMax})
        TO ${duckdbString(path)} (FORMAT parquet)`,
    )
    out.count(rowsChanged)
    const file = await open(path, 'r')
    try {
      const { size } = await file.stat()
      out.allow(size)
      for (;;) {
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceBytes), 0, pieceBytes)
        if (bytesRead === 0) return
        await out.piece(buffer.subarray(0, bytesRead))
      }
    } finally {
      await file.close()
    }
  }

  #errorOf(thrown: unknown): QueryError {
    if (this.#isCancelled) return exception('QUERY_WAS_CANCELLED', 'the query was cancelled')
    return engineError(messageOf(thrown))
  }
}

/** Writes rows that DuckDB already rendered as text. */
async function writeRows(result: DuckDBResult, out: ResultWriter): Promise<StreamEnd> {
  let end: StreamEnd = 'broken'
  for (;;) {
    const chunk = await result.fetchChunk()
    if (chunk === null || chunk.rowCount === 0) return end
    const all = chunk.getColumnValues(0) as readonly (string | null)[]
    const at = all.indexOf(null)
    end = endAfter(end, at, all.length)
    const rows = at === -1 ? all : all.filter((row) => row !== null)
    await out.chunk(rows.length, (taken) => `${rows.slice(0, taken).join('\n')}\n`)
    if (out.isFull) return 'whole'
  }
}

async function writeCells(
  result: DuckDBResult,
  encoder: Encoder,
  out: ResultWriter,
): Promise<StreamEnd> {
  let end: StreamEnd = 'broken'
  for (;;) {
    const chunk = await result.fetchChunk()
    if (chunk === null || chunk.rowCount === 0) return end
    // Reason for the cast: rendering.ts produces only numbers, booleans and strings.
    const all = chunk.getColumns() as unknown as readonly (readonly ResultCell[])[]
    const at = all.at(-1)!.indexOf(true)
    end = endAfter(end, at, chunk.rowCount)
    const columns = at === -1 ? all : all.map((cells) => cells.filter((_, row) => row !== at))
    const count = at === -1 ? chunk.rowCount : chunk.rowCount - 1
    await out.chunk(count, (taken) => encoder.rows(columns, taken))
    if (out.isFull) return 'whole'
  }
}

/** The state after a chunk that has the end row at index `at` (-1: no end row). */
function endAfter(before: StreamEnd, at: number, count: number): StreamEnd {
  if (at === -1) return before === 'broken' ? 'broken' : 'unsure'
  return at === count - 1 ? 'whole' : 'unsure'
}

function seconds(sinceMs: number): number {
  return (performance.now() - sinceMs) / 1000
}
