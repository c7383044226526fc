// Engines as tests write and read them: they return the bytes of a result, with backpressure. This
// sends them to the gateway as an engine of the index does, one connection per result.
import { messageOf } from '../../src/base/errors.ts'
import { codeOf, exception, type QueryError } from '../../src/indexer/clickhouse/exceptions.ts'
import type { Query, QueryEnd, QueryEngine } from '../../src/indexer/engine.ts'
import {
  noTotals,
  type QueryTotals,
  type ResultAddress,
} from '../../src/indexer/queries/protocol.ts'
import { type ByteSink, ResultConnection } from '../../src/indexer/queries/result-connection.ts'

/** A result whose first bytes are available. */
export interface QueryResult {
  /**
   * The result with backpressure. Ends early with `failed()` set when the query failed after the
   * first bytes.
   */
  readonly chunks: AsyncIterable<Uint8Array>
  /** The error after the first bytes; null when complete. Valid once `chunks` ended. */
  failed(): QueryError | null
  totals(): QueryTotals
}

export interface RunningQuery {
  /** Resolves with the first bytes or when the query failed. Never rejects. */
  readonly started: Promise<QueryOutcome>
  /** Cancels the query; `started` or `failed()` then return 394 QUERY_WAS_CANCELLED. */
  cancel(): void
}
export type QueryOutcome =
  | { readonly ok: true; readonly result: QueryResult }
  | { readonly ok: false; readonly error: QueryError; readonly isRefused?: boolean }

/** An engine that returns its results to whoever asks. */
export interface ReadEngine {
  readonly name: QueryEngine['name']
  readonly version: string
  run(query: Query): RunningQuery
  stop(): Promise<void>
}

export function sendResults(engine: ReadEngine, address: ResultAddress): QueryEngine {
  return {
    name: engine.name,
    version: engine.version,
    run(query, ticket) {
      const running = engine.run(query)
      let sink: ByteSink | null = null
      let totals = () => noTotals
      const send = async (result: QueryResult): Promise<QueryEnd> => {
        totals = () => result.totals()
        let isOver = false
        const connection = await ResultConnection.open(address, () => {
          if (!isOver) running.cancel()
        })
        try {
          sink = connection.sinkOf(ticket)
          let sent = 0
          for await (const chunk of result.chunks) {
            await sink.write(chunk)
            sent += chunk.length
          }
          const error = result.failed()
          const isCut = error?.code === codeOf.QUERY_WAS_CANCELLED
          return { error, sent: isCut ? null : sent, totals: result.totals() }
        } finally {
          isOver = true
          connection.end()
        }
      }
      return {
        ended: endOf(running, send),
        cancel() {
          running.cancel()
          sink?.wake()
        },
        slowed() {},
        totals: () => totals(),
      }
    },
    stop: () => engine.stop(),
  }
}

async function endOf(
  running: RunningQuery,
  send: (result: QueryResult) => Promise<QueryEnd>,
): Promise<QueryEnd> {
  const outcome = await running.started
  if (!outcome.ok) {
    const { error, isRefused = false } = outcome
    return { error, sent: 0, totals: noTotals, isRefused }
  }
  try {
    return await send(outcome.result)
  } catch (error) {
    running.cancel()
    const lost = exception('NETWORK_ERROR', `the result could not be sent: ${messageOf(error)}`)
    return { error: lost, sent: null, totals: noTotals }
  }
}
