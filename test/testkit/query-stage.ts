// An embedded index with its engine: rows go in, SQL comes back as text.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { QueryError } from '../../src/indexer/clickhouse/exceptions.ts'
import type { DuckdbEngineDeps } from '../../src/indexer/duckdb/query-pool.ts'
import { type DuckdbSink, openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import type { Query, QueryLimits } from '../../src/indexer/engine.ts'
import type { QueryTotals } from '../../src/indexer/queries/protocol.ts'
import { openDuckdb } from './read-back.ts'
import type { ReadEngine } from './send-results.ts'
import { hangMs } from './until.ts'

/** A query that a busy machine is too slow for is killed, and the caller's next one is refused. */
const standardLimits: QueryLimits = {
  timeMs: hangMs,
  rows: 100_000,
  resultBytes: 64_000_000,
  memoryBytes: 512_000_000,
  overflow: 'throw',
}

export interface Answer {
  readonly text: string
  readonly bytes: Buffer
  readonly error: QueryError | null
  /** The error came after bytes. */
  readonly isLate: boolean
  readonly totals: QueryTotals | null
}

export type Asking = Partial<Omit<Query, 'limits'>> & { limits?: Partial<QueryLimits> }

let asked = 0

export function queryOf(sql: string, { limits, ...rest }: Asking = {}): Query {
  asked += 1
  return {
    id: `q${asked}`,
    subscription: 'sub_a',
    statement: { texts: [sql], values: [] },
    format: 'JSONCompactEachRow',
    output: { quotes64: true },
    ...rest,
    limits: { ...standardLimits, ...limits },
  }
}

export async function ask(engine: ReadEngine, sql: string, asking: Asking = {}): Promise<Answer> {
  const outcome = await engine.run(queryOf(sql, asking)).started
  if (!outcome.ok)
    return { text: '', bytes: Buffer.alloc(0), error: outcome.error, isLate: false, totals: null }
  const chunks: Uint8Array[] = []
  for await (const chunk of outcome.result.chunks) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  const error = outcome.result.failed()
  const totals = outcome.result.totals()
  return { text: bytes.toString(), bytes, error, isLate: error !== null, totals }
}

/** The rows of an answer, or its error thrown. */
export async function rowsOf(
  engine: ReadEngine,
  sql: string,
  asking: Asking = {},
): Promise<unknown[][]> {
  const { text, error } = await ask(engine, sql, asking)
  if (error !== null) throw new Error(`${error.code} ${error.name}: ${error.message}`)
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown[])
}

export class QueryStage {
  readonly folder: string
  readonly sink: DuckdbSink
  readonly engine: ReadEngine

  private constructor(folder: string, sink: DuckdbSink, engine: ReadEngine) {
    this.folder = folder
    this.sink = sink
    this.engine = engine
  }

  static async open(deps: Partial<DuckdbEngineDeps> = {}): Promise<QueryStage> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-query-'))
    const sink = await openDuckdbSink(folder, { retentionMs: 1e12, retentionBytes: 1e12 })
    return new QueryStage(folder, sink, await openDuckdb(folder, { log: silentLog, ...deps }))
  }

  async close(): Promise<void> {
    await this.engine.stop()
    await this.sink.stop()
    // A query process that was killed may still be writing its last file.
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 })
  }
}
