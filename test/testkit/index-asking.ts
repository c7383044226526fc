// Asks an engine of the index as its endpoint does: the statement is read, its parameters are bound.

import type { QueryError } from '../../src/indexer/clickhouse/exceptions.ts'
import { bindParameters } from '../../src/indexer/clickhouse/sql/parameters.ts'
import { readStatement } from '../../src/indexer/clickhouse/sql/reading.ts'
import type { Query, QueryLimits } from '../../src/indexer/engine.ts'
import type { QueryTotals } from '../../src/indexer/queries/protocol.ts'
import type { ReadEngine } from './send-results.ts'
import { hangMs } from './until.ts'

export interface AskOptions {
  readonly format?: string
  readonly params?: Readonly<Record<string, string>>
  readonly limits?: Partial<QueryLimits>
  readonly quotes64?: boolean
  readonly subscription?: string
}

export interface Asked {
  readonly text: string
  readonly bytes: Buffer
  readonly totals: QueryTotals
}

const limitsUsual: QueryLimits = {
  timeMs: hangMs,
  rows: 2_000_000,
  resultBytes: 1_000_000_000,
  memoryBytes: 2_000_000_000,
  overflow: 'throw',
}
let count = 0

export function queryOf(engine: ReadEngine, sql: string, options: AskOptions = {}): Query {
  const reading = readStatement(sql)
  const statement = reading.ok
    ? bindParameters(reading.value, new Map(Object.entries(options.params ?? {})), engine.name)
    : null
  return {
    id: `test-${process.pid}-${++count}`,
    subscription: options.subscription ?? 'sub-alice',
    // What the endpoint itself refuses is handed over as it is: an engine has to refuse it as well.
    statement: statement?.ok ? statement.value : { texts: [sql], values: [] },
    format: options.format ?? 'JSONEachRow',
    limits: { ...limitsUsual, ...options.limits },
    output: { quotes64: options.quotes64 ?? true },
  }
}

/** The whole result; throws what the engine says instead. */
export async function ask(
  engine: ReadEngine,
  sql: string,
  options: AskOptions = {},
): Promise<Asked> {
  const asked = await tryAsk(engine, sql, options)
  if (asked.error !== null) throw new Error(`${asked.error.code} ${asked.error.message} for ${sql}`)
  return asked
}

export async function tryAsk(
  engine: ReadEngine,
  sql: string,
  options: AskOptions = {},
): Promise<Asked & { readonly error: QueryError | null }> {
  const outcome = await engine.run(queryOf(engine, sql, options)).started
  const nothing = { text: '', bytes: Buffer.alloc(0), totals: { rows: 0, bytes: 0, elapsedMs: 0 } }
  if (!outcome.ok) return { ...nothing, error: outcome.error }
  const parts: Uint8Array[] = []
  for await (const chunk of outcome.result.chunks) parts.push(Uint8Array.from(chunk))
  const bytes = Buffer.concat(parts)
  const totals = outcome.result.totals()
  return { text: bytes.toString(), bytes, totals, error: outcome.result.failed() }
}
