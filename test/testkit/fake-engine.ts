// An engine scripted by its query, for tests of the endpoint: no SQL is run.
//
//   SELECT rows 5            five rows of n and text, in the format that was asked for
//   SELECT late 5            five rows, then exception 159
//   SELECT fail 60           no row, exception 60
//   SELECT refuse            exception 202: it does not run
//   SELECT wait              nothing until it is cancelled
//   SELECT slow 3            three rows, 100 ms apart
//   anything else            one row with the query's text
import type { QueryError } from '../../src/indexer/clickhouse/exceptions.ts'
import { formatOf } from '../../src/indexer/clickhouse/formats/formats.ts'
import type { Query } from '../../src/indexer/engine.ts'
import { renderSmall, type SmallResult } from '../../src/indexer/queries/answer-from-catalogue.ts'
import type { QueryOutcome, QueryResult, ReadEngine, RunningQuery } from './send-results.ts'

const CHUNK_ROWS = 1_000
const cancelledError: QueryError = {
  code: 394,
  name: 'QUERY_WAS_CANCELLED',
  message: 'Query was cancelled',
}
const lateError: QueryError = { code: 159, name: 'TIMEOUT_EXCEEDED', message: 'Too slow' }
const names: Readonly<Record<string, string>> = {
  60: 'UNKNOWN_TABLE',
  62: 'SYNTAX_ERROR',
  158: 'TOO_MANY_ROWS',
  159: 'TIMEOUT_EXCEEDED',
  241: 'MEMORY_LIMIT_EXCEEDED',
}

export class FakeEngine implements ReadEngine {
  readonly name: 'duckdb' | 'clickhouse' = 'duckdb'
  readonly version = '0.0.1'
  readonly queries: Query[] = []
  /** Rows that readers have taken so far, over all queries. */
  rowsGiven = 0
  cancelled = 0

  run(query: Query): RunningQuery {
    this.queries.push(query)
    const state = { isCancelled: false, wake: () => {} }
    const started = this.#begin(query, state)
    return {
      started,
      cancel: () => {
        if (state.isCancelled) return
        state.isCancelled = true
        this.cancelled++
        state.wake()
      },
    }
  }

  async stop(): Promise<void> {}

  async #begin(query: Query, state: State): Promise<QueryOutcome> {
    const text = query.statement.texts.join('?').replaceAll(/\s+/g, ' ')
    const [, verb = '', count = '0'] =
      /^SELECT (rows|late|fail|refuse|wait|slow)(?: (\d+))?$/.exec(text) ?? []
    if (verb === 'fail') {
      const code = Number(count)
      const error = { code, name: names[count] ?? 'OTHER_NAME', message: `As asked: ${code}` }
      return { ok: false, error }
    }
    if (verb === 'refuse') {
      const error = { code: 202, name: 'TOO_MANY_SIMULTANEOUS_QUERIES', message: 'As asked' }
      return { ok: false, error, isRefused: true }
    }
    if (verb === 'wait') {
      await new Promise<void>((wake) => {
        if (state.isCancelled) wake()
        else state.wake = wake
      })
      return { ok: false, error: cancelledError }
    }
    const rows = verb === '' ? -1 : Number(count)
    return { ok: true, result: this.#result(query, text, { rows, verb, state }) }
  }

  #result(
    query: Query,
    text: string,
    how: { readonly rows: number; readonly verb: string; readonly state: State },
  ): QueryResult {
    const began = performance.now()
    const totals = { rows: 0, bytes: 0 }
    let error: QueryError | null = null
    const give = (part: SmallResult): Uint8Array => {
      const bytes = Buffer.from(renderSmall(part, formatOf(query.format, 'clickhouse')!) ?? 'PAR1')
      totals.rows += part.rows.length
      totals.bytes += bytes.length
      this.rowsGiven += part.rows.length
      return bytes
    }
    async function* chunks(): AsyncGenerator<Uint8Array> {
      if (how.rows < 0) return yield give(said(query, text))
      const step = how.verb === 'slow' ? 1 : CHUNK_ROWS
      for (let from = 0; from < how.rows; from += step) {
        if (how.verb === 'slow') await new Promise((resolve) => setTimeout(resolve, 100))
        if (how.state.isCancelled) {
          error = cancelledError
          return
        }
        yield give(numbered(from, Math.min(step, how.rows - from)))
        await new Promise((resolve) => setImmediate(resolve))
      }
      if (how.verb === 'late') error = lateError
    }
    return {
      chunks: chunks(),
      failed: () => error,
      totals: () => ({ ...totals, elapsedMs: performance.now() - began }),
    }
  }
}

interface State {
  isCancelled: boolean
  wake: () => void
}

function numbered(from: number, count: number): SmallResult {
  return {
    columns: [
      { name: 'n', type: 'UInt32' },
      { name: 'text', type: 'String' },
    ],
    rows: Array.from({ length: count }, (_, index) => [from + index, `row ${from + index}`]),
  }
}

function said(query: Query, text: string): SmallResult {
  return {
    columns: [
      { name: 'text', type: 'String' },
      { name: 'values', type: 'String' },
    ],
    rows: [[text, JSON.stringify(query.statement.values)]],
  }
}
