// Sends the results of an engine whose bytes arrive in this process, a ClickHouse server's, to the
// gateway: one connection per result, at the pace of its reader.
import { messageOf } from '../../base/errors.ts'
import { codeOf, exception } from '../clickhouse/exceptions.ts'
import type { QueryEnd, QueryEngine, QueryResult, RunningQuery, SendingEngine } from '../engine.ts'
import { noTotals, type ResultAddress } from './protocol.ts'
import { type ByteSink, ResultConnection } from './result-connection.ts'

export function sendResults(engine: QueryEngine, address: ResultAddress): SendingEngine {
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
  if (!outcome.ok) return { error: outcome.error, sent: 0, totals: noTotals }
  try {
    return await send(outcome.result)
  } catch (error) {
    running.cancel()
    const lost = exception('NETWORK_ERROR', `the result could not be sent: ${messageOf(error)}`)
    return { error: lost, sent: null, totals: noTotals }
  }
}
