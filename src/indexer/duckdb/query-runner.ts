// Runs one query at a time in a query process and writes its result bytes with backpressure.
// Thread: main of a query process.
//
//   job -> snapshot -> gate -> plan -> DuckDB renders rows, chunk by chunk -> bytes -> pipe
//                                         ^------ waits while the pipe is full
import { existsSync, statSync } from 'node:fs'
import { chown, mkdir, open, rm } from 'node:fs/promises'
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DuckDBDataChunk } from '@duckdb/node-api'
import { messageOf } from '../../base/errors.ts'
import { binaryPieces } from '../clickhouse/duckdb/binary.ts'
import { engineError } from '../clickhouse/duckdb/engine-error.ts'
import { type Gated, passGate } from '../clickhouse/duckdb/gate.ts'
import type { DuckColumn } from '../clickhouse/duckdb/nested-text.ts'
import {
  cellsSql,
  namedSql,
  namesOf,
  planned,
  probeSql,
  rowsSql,
  totalsDepth,
  withoutTuples,
} from '../clickhouse/duckdb/nested-text.ts'
import type { TakenChunk } from '../clickhouse/duckdb/row-bytes.ts'
import {
  binarySql,
  chunksAhead,
  hasFailed,
  jsonRows,
  textPieces,
} from '../clickhouse/duckdb/row-bytes.ts'
import { exception, type QueryError } from '../clickhouse/exceptions.ts'
import { arrange, modeOf } from '../clickhouse/formats/arranged.ts'
import { type Format, formatOf, type ResultStatistics } from '../clickhouse/formats/formats.ts'
import { type CellMode, jsonCell, layoutOf } from '../clickhouse/formats/layouts.ts'
import { duckdbString } from '../clickhouse/sql/lexer.ts'
import type { QueryLimits } from '../engine.ts'
import { type ByteSink, ResultConnection } from '../queries/result-connection.ts'
import { QueryDatabase, resultName, StaleSnapshot } from './query-database.ts'
import type { QueryGreeting, QueryJob, QueryProcessConfig, QueryReport } from './query-process.ts'
import { catalogue } from './schemas.ts'
import { type StoreSnapshot, stepDownTo } from './store-files.ts'

/** Statements that are remembered, and the longest of them. */
const plansMax = 128
const planCharsMax = 16_384

/** A gated query with all that its writers need. */
interface Task {
  readonly sql: string
  /** Of WITH TOTALS; empty without it. */
  readonly totals: string
  readonly columns: readonly DuckColumn[]
  readonly job: QueryJob
  readonly format: Format
  readonly out: ResultWriter
  readonly beganMs: number
}

const sleepStepMs = 10
const stale: QueryReport = { rows: 0, readRows: 0, bytes: 0, error: null, isStale: true }

export class QueryRunner {
  readonly #database: QueryDatabase
  readonly #sinkOf: (ticket: string) => ByteSink
  #sink: ByteSink | null = null
  #isCancelled = false
  #readRows = 0

  /** What the gate and the planner found out about recent statements: data does not change it. */
  readonly #plans = new Map<string, { ok: true; value: Gated; columns: readonly DuckColumn[] }>()

  constructor(database: QueryDatabase, sinkOf: (ticket: string) => ByteSink) {
    this.#database = database
    this.#sinkOf = sinkOf
  }

  /** Interrupts the running query. */
  cancel(): void {
    this.#isCancelled = true
    this.#database.connection.interrupt()
    this.#sink?.wake()
  }

  /** Never rejects. */
  async run(job: QueryJob): Promise<QueryReport> {
    this.#isCancelled = false
    this.#readRows = 0
    this.#sink = this.#sinkOf(job.ticket)
    const out = new ResultWriter(this.#sink, job.limits, () => this.#isCancelled)
    let error: QueryError | null = null
    try {
      await this.#database.refresh(job.snapshot)
      error = await this.#answer(job, out)
      if (error === null) await out.flush()
      // A process that is old is ended after its report.
      await this.#sink.flushed()
    } catch (thrown) {
      if (thrown instanceof StaleSnapshot) return stale
      error = thrown instanceof ResultCut ? thrown.error : this.#errorOf(thrown)
    }
    await this.#database.clear().catch(() => {})
    const { rows, bytes } = out
    return { rows, readRows: this.#readRows, bytes, error, isStale: false }
  }

  async #sleep(ms: number): Promise<void> {
    const endMs = performance.now() + ms
    while (performance.now() < endMs && !this.#isCancelled) await sleep(sleepStepMs)
    if (this.#isCancelled) throw new Error('cancelled')
  }

  async #answer(job: QueryJob, out: ResultWriter): Promise<QueryError | null> {
    const { connection } = this.#database
    const rules = this.#database.rulesFor(job.database ?? 'chain')
    const beganMs = performance.now()
    const format = formatOf(job.format, 'duckdb')
    if (format === null) return exception('UNKNOWN_FORMAT', 'this format is not written here')
    const dialect = {
      database: job.database ?? 'chain',
      hasJoinNulls: job.settings?.join_use_nulls === '1',
    } as const
    const key = JSON.stringify([job.statement, dialect])
    const known = this.#plans.get(key)
    const gated =
      known ?? (await passGate(connection, job.statement, rules, { ...dialect, catalogue }))
    if (!gated.ok) return gated.error
    await this.#sleep(gated.value.sleepMs)
    await this.#database.show(gated.value.tables, job.subscription)
    const { explain } = gated.value
    const sql = explain === '' ? gated.value.sql : await this.#explained(gated.value)
    const columns =
      known?.columns ?? (await planned(connection, sql, explain === '' ? gated.value.columns : []))
    this.#plans.delete(key)
    if (explain === '' && key.length <= planCharsMax) this.#plans.set(key, { ...gated, columns })
    if (this.#plans.size > plansMax) this.#plans.delete(this.#plans.keys().next().value!)
    const { totals } = gated.value
    const task: Task = { sql, totals, columns, job, format, out, beganMs }
    const { writing } = format
    await this.#database.countRows()
    if ('rows' in writing) await this.#writeRows(task)
    else if ('whole' in writing) await this.#writeWhole(task, writing.whole)
    else if (format.name === 'Parquet') await this.#writeFile(task)
    else await this.#writeBinary(task)
    return null
  }

  /** A statement that returns the lines of the plan. */
  async #explained({ explain, sql }: Gated): Promise<string> {
    const plan = await this.#database.connection.runAndReadAll(`${explain}${sql}`)
    const lines = plan.getRows().flatMap((row) => String(row.at(-1)).split('\n'))
    return `SELECT unnest([${lines.map(duckdbString).join(', ')}]) AS "explain"`
  }

  /** A truncated result leaves its stream open until the next statement closes it. */
  async #writeRows(task: Task): Promise<void> {
    const { sql, job, format, out } = task
    const columns = format.name.startsWith('CSV') ? withoutTuples(task.columns) : task.columns
    const layout = layoutOf(format, namesOf(columns))
    const escaped = (bytes: Buffer) =>
      layout.mode.startsWith('json') ? jsonRows(bytes, job.output.keepsSlashes !== true) : bytes
    const rendered = `${rowsSql(sql, columns, layout, job.output)} LIMIT ${job.limits.rows + 1}`
    await out.write(Buffer.from(layout.begin))
    const result = await this.#database.connection.stream(rendered)
    for await (const chunk of chunksAhead(result)) {
      let start = out.rows === 0 ? Buffer.byteLength(layout.between) : 0
      const taken = out.take(chunk.rowCount)
      if (layout.isSilent !== true)
        for (const piece of textPieces(chunk, taken)) {
          await out.write(escaped(piece.subarray(start)))
          start = 0
        }
      if (out.isFull) break
    }
    if (this.#isCancelled) throw new Error('cancelled')
    if (!out.isFull && hasFailed(result)) await this.#throwErrorOf(rendered)
    await this.#countRead(out)
    const totals = await this.#totals({ ...task, columns }, layout.mode)
    await out.end(Buffer.from(layout.end(this.#statistics(task, totals))))
  }

  async #throwErrorOf(rendered: string): Promise<void> {
    await this.#database.connection.run(probeSql(rendered))
    throw new Error('the stream of the result broke off')
  }

  async #writeWhole(task: Task, name: Parameters<typeof arrange>[0]): Promise<void> {
    const { sql, columns, job, out } = task
    const rendered = cellsSql(sql, columns, modeOf(name), job.output)
    const escaped = escapeOf(modeOf(name), job)
    const cells: string[][] = columns.map(() => [])
    await this.#materialize(task, rendered, (chunk, taken) => {
      // Reason for the cast: rendered cells are texts.
      const texts = chunk.getColumns() as string[][]
      for (const [at, column] of texts.entries())
        for (const text of column.slice(0, taken)) cells[at]!.push(escaped(text))
    })
    const totals = await this.#totals(task, modeOf(name))
    const statistics = this.#statistics(task, totals)
    await out.write(Buffer.from(arrange(name, { columns: namesOf(columns), cells, statistics })))
  }

  async #writeBinary(task: Task): Promise<void> {
    const { sql, columns, job, format, out } = task
    const chunks: TakenChunk[] = []
    await this.#materialize(task, binarySql(sql, columns), (chunk, taken) => {
      chunks.push([chunk, taken])
    })
    // Loaded when it is first needed: it is larger than the rest of the process's code.
    const pieces = format.name.startsWith('Arrow')
      ? (await import('../clickhouse/duckdb/arrow.ts')).arrowPieces(format, columns, chunks)
      : binaryPieces(format, columns, chunks, job.output)
    for (const bytes of pieces) await out.write(bytes)
  }

  /** The rendered cells of WITH TOTALS; null without it. */
  async #totals({ totals, columns, job }: Task, mode: CellMode): Promise<string[] | null> {
    if (totals === '') return null
    const sql = cellsSql(totals, columns, mode, job.output, totalsDepth)
    const result = await this.#database.connection.runAndReadAll(sql)
    // Reason for the cast: rendered cells are texts.
    const [cells] = result.getRows() as string[][]
    return cells!.map(escapeOf(mode, job))
  }

  /** Runs a statement as a whole, so that an error comes before the first byte. */
  async #materialize(
    { job, out }: Task,
    sql: string,
    each: (chunk: DuckDBDataChunk, taken: number) => void,
  ): Promise<void> {
    const result = await this.#database.connection.run(`${sql} LIMIT ${job.limits.rows + 1}`)
    for (;;) {
      const chunk = await result.fetchChunk()
      if (chunk === null || chunk.rowCount === 0) break
      each(chunk, out.take(chunk.rowCount))
      if (out.isFull) break
    }
    if (this.#isCancelled) throw new Error('cancelled')
    await this.#countRead(out)
  }

  /** Parquet has its index at the end: the file is written to the scratch folder, then sent. */
  async #writeFile({ sql, columns, job: { limits }, out }: Task): Promise<void> {
    const path = join(this.#database.scratch, resultName)
    const rowsMax = limits.overflow === 'break' ? limits.rows : limits.rows + 1
    const { connection } = this.#database
    let size = 0
    // The disk has room for a result, not for all that a query can write before it ends.
    const watch = setInterval(() => {
      size = Math.max(size, statSync(path, { throwIfNoEntry: false })?.size ?? 0)
      if (size > limits.resultBytes) connection.interrupt()
    }, watchMs)
    try {
      const copy = `COPY (${namedSql(sql, columns)} LIMIT ${rowsMax})
        TO ${duckdbString(path)} (FORMAT parquet)`
      // What runs on this connection after it must not be interrupted.
      const copying = connection.run(copy).finally(() => clearInterval(watch))
      const { rowsChanged } = await copying.finally(() => out.allow(size))
      out.take(rowsChanged)
      await this.#countRead(out)
      await sendFile(path, out)
    } finally {
      await rm(path, { force: true })
    }
  }

  /** A truncated result leaves its statement unfinished: then only its rows are known. */
  async #countRead({ isFull, rows }: ResultWriter): Promise<void> {
    this.#readRows = isFull ? rows : await this.#database.rowsRead()
  }

  #statistics({ sql, out, beganMs }: Task, totals: ResultStatistics['totals']): ResultStatistics {
    return {
      totals,
      rows: out.rows,
      readRows: this.#readRows,
      elapsedSeconds: (performance.now() - beganMs) / 1000,
      isLimited: /\blimit\s+\d+(\s+offset\s+\d+)?\s*$/i.test(sql),
    }
  }

  #errorOf(thrown: unknown): QueryError {
    if (this.#isCancelled) return exception('QUERY_WAS_CANCELLED', 'the query was cancelled')
    return engineError(messageOf(thrown))
  }
}

function escapeOf(mode: CellMode, { output }: QueryJob): (text: string) => string {
  if (!mode.startsWith('json')) return (text) => text
  return (text) => jsonCell(text, output.keepsSlashes !== true)
}

// Enforces row and byte limits of a result and sends it in pieces with backpressure.

/** Ends the result with an error. */
class ResultCut extends Error {
  readonly error: QueryError
  constructor(error: QueryError) {
    super('the result ends here')
    this.error = error
  }
}

/** Results up to this size are sent in one piece, so that a late error can replace them. */
const pieceBytes = 64 * 1024

class ResultWriter {
  rows = 0
  /** Bytes sent. */
  bytes = 0
  readonly #sink: ByteSink
  readonly #limits: QueryLimits
  readonly #isCancelled: () => boolean
  #buffered: Uint8Array[] = []
  #bufferedBytes = 0
  isFull = false

  constructor(sink: ByteSink, limits: QueryLimits, isCancelled: () => boolean) {
    this.#sink = sink
    this.#limits = limits
    this.#isCancelled = isCancelled
  }

  /** Counts rows up to the limit and returns how many of them may be written. */
  take(count: number): number {
    const room = this.#limits.rows - this.rows
    if (count > room && this.#limits.overflow === 'throw') throw new ResultCut(this.#tooManyRows())
    const taken = Math.min(count, room)
    this.rows += taken
    if (count > room) this.isFull = true
    return taken
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#buffered.push(bytes)
    this.#bufferedBytes += bytes.length
    if (this.bytes + this.#bufferedBytes > this.#limits.resultBytes) {
      if (this.#limits.overflow === 'throw') throw new ResultCut(this.#tooManyBytes())
      this.isFull = true
    }
    if (this.#bufferedBytes >= pieceBytes) await this.flush()
  }

  /** Writes the format's footer, also after a result truncated on request. */
  async end(bytes: Uint8Array): Promise<void> {
    this.#buffered.push(bytes)
    this.#bufferedBytes += bytes.length
    await this.flush()
  }

  /** Checks the size of a result file; a truncated file would be useless. */
  allow(bytes: number): void {
    if (bytes > this.#limits.resultBytes) throw new ResultCut(this.#tooManyBytes())
  }

  async flush(): Promise<void> {
    if (this.#bufferedBytes === 0) return
    if (this.#isCancelled())
      throw new ResultCut(exception('QUERY_WAS_CANCELLED', 'the query was cancelled'))
    const pieces = this.#buffered
    const piece = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
    this.#buffered = []
    this.#bufferedBytes = 0
    this.bytes += piece.length
    await this.#sink.write(piece)
  }

  #tooManyRows(): QueryError {
    const { rows } = this.#limits
    return exception('TOO_MANY_ROWS', `the result has more than ${rows} rows; narrow it or LIMIT`)
  }

  #tooManyBytes(): QueryError {
    const { resultBytes } = this.#limits
    return exception('TOO_MANY_ROWS_OR_BYTES', `the result has more than ${resultBytes} bytes`)
  }
}

/** Writes the bytes of a file. */
async function sendFile(path: string, out: ResultWriter): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    out.allow(size)
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(pieceBytes), 0, pieceBytes)
      if (bytesRead === 0) return
      await out.write(buffer.subarray(0, bytesRead))
    }
  } finally {
    await file.close()
  }
}

// The query process: sandboxed, expendable and resource-limited. Thread: main of its own process
// (workers/index-query.ts). The query program calls it; results go to the gateway directly.
//
//   fd 3  frames: open, run, cancel          Unix socket of the gateway: bytes of results
//
// It connects, then drops privileges before it receives a customer's query: its user, its
// priority, and every path but the index's folder. Its memory is bounded by the kernel
// (RLIMIT_DATA, set by the program), by DuckDB, by itself, and by the program from outside.

const niceness = 10
const watchMs = 10

/** The calls of the process. */
export function queryService() {
  let runner: QueryRunner | null = null
  let database: QueryDatabase | null = null
  return {
    open: async (config: QueryProcessConfig): Promise<QueryGreeting> => {
      const { folder, scratch, results } = await settle(config)
      const { memoryBytes, threads } = config
      database = await QueryDatabase.open({ folder, scratch, memoryBytes, threads })
      runner = new QueryRunner(database, (ticket) => results.sinkOf(ticket))
      watchOwnMemory(config.rssBytesMax)
      // Last, because a query may be waiting for this process to be ready.
      // A process that was started even nicer may not raise its priority.
      setPriority(Math.max(niceness, getPriority()))
      return { version: database.version }
    },
    run: (job: QueryJob): Promise<QueryReport> => {
      if (runner === null) throw new Error('the process is not open')
      return runner.run(job)
    },
    /** Closes the files that are no longer in the snapshot. */
    refresh: async (snapshot: StoreSnapshot): Promise<null> => {
      await database?.refresh(snapshot).catch(() => {})
      return null
    },
    cancel: (): null => {
      runner?.cancel()
      return null
    },
  }
}

/** Drops privileges as far as the system allows; returns the folders' paths from then on. */
async function settle(
  config: QueryProcessConfig,
): Promise<{ folder: string; scratch: string; results: ResultConnection }> {
  const scratch = join(config.folder, config.scratch)
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  process.chdir(config.folder)
  // Only the server's user can connect. Without its reader the process has no use, and its query
  // is not the reason.
  const lost = () => void process.kill(process.pid, 'SIGKILL')
  const results = await ResultConnection.open(config.results, lost)
  // The reader may lack access to the parent folders, but not to its working directory.
  const here = '/proc/self/cwd'
  const reader = existsSync(here) ? await stepDownTo(config.folder) : null
  if (reader === null) return { folder: config.folder, scratch, results }
  await chown(scratch, reader, reader)
  process.setgroups?.([])
  process.setgid?.(reader)
  process.setuid?.(reader)
  return { folder: here, scratch: `${here}/${config.scratch}`, results }
}

/** Faster than the program's watch, and not blocked while DuckDB works on its own threads. */
function watchOwnMemory(rssBytesMax: number): void {
  setInterval(() => {
    if (process.memoryUsage.rss() > rssBytesMax) process.kill(process.pid, 'SIGKILL')
  }, watchMs).unref()
}
