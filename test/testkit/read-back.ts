// Engines of the index, whose results are read back in the process of the test.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClickhouseEngineDeps } from '../../src/indexer/clickhouse-server/query-engine.ts'
import { type DuckdbEngineDeps, startDuckdbEngine } from '../../src/indexer/duckdb/query-pool.ts'
import type { Query, QueryEngine, SentQuery } from '../../src/indexer/engine.ts'
import {
  noTotals,
  type QueryAnswer,
  type ResultAddress,
} from '../../src/indexer/queries/protocol.ts'
import { QueryRelay, ResultSocket } from '../../src/indexer/queries/service.ts'
import type { ReadEngine } from './send-results.ts'

/** The gateway's end of results, in a folder of its own. */
export async function openResults(): Promise<{ results: ResultSocket; stop(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-results-'))
  const results = await ResultSocket.open(join(folder, 'results.sock'))
  const stop = async () => {
    await results.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return { results, stop }
}

/** The embedded engine, its results read back. */
export function openDuckdb(
  folder: string,
  deps: Omit<DuckdbEngineDeps, 'results'>,
): Promise<ReadEngine> {
  return readBack((results) => startDuckdbEngine(folder, { ...deps, results }))
}

/** The engine of a server, its results read back. */
export async function openClickhouse(
  url: string,
  deps: Omit<ClickhouseEngineDeps, 'results'>,
): Promise<ReadEngine> {
  // Imported here: what its HTTP client compiles would count to the memory of query processes.
  const engine = await import('../../src/indexer/clickhouse-server/query-engine.ts')
  const { startClickhouseEngine } = engine
  return readBack((results) => startClickhouseEngine(url, { ...deps, results }))
}

async function readBack(
  start: (results: ResultAddress) => Promise<QueryEngine>,
): Promise<ReadEngine> {
  const { results, stop } = await openResults()
  try {
    const engine = await start(results.address)
    const { run } = reading(engine, results)
    return {
      ...{ name: engine.name, version: engine.version, run },
      async stop() {
        await engine.stop()
        await stop()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function reading(engine: QueryEngine, results: ResultSocket): Pick<ReadEngine, 'run'> {
  const running = new Map<string, SentQuery>()
  const query = async (input: { ticket: string; query: Query }): Promise<QueryAnswer> => {
    const sent = engine.run(input.query, input.ticket)
    running.set(input.ticket, sent)
    const end = await sent.ended
    running.delete(input.ticket)
    return {
      ...{ ...end, queryId: input.query.id, reply: null, tail: null },
      ...{ isKilled: false, isRefused: false, isCompressed: false },
    }
  }
  const calls: Readonly<Record<string, (input: never) => unknown>> = {
    query,
    cancel: (ticket: string) => running.get(ticket)?.cancel(),
    slowed: ({ ticket, isSlow }: { ticket: string; isSlow: boolean }) =>
      running.get(ticket)?.slowed(isSlow),
  }
  const call = async <T>(name: string, input: unknown) => (await calls[name]!(input as never)) as T
  const relay = new QueryRelay({ call, steer: call }, results)
  relay.opened({ engine: '', tables: [] })
  return {
    run(asked) {
      // Reason for the cast: `query` above is all that reads it.
      const relayed = relay.run({ query: asked } as never, () => {})
      let answer: QueryAnswer | null = null
      void relayed.answer.then((answered) => {
        answer = answered
      })
      return {
        cancel: () => relayed.cancel(),
        started: relayed.started.then((found) =>
          found?.error
            ? { ok: false, error: found.error }
            : {
                ok: true,
                result: {
                  chunks: relayed.chunks,
                  failed: () => relayed.failed(),
                  totals: () => answer?.totals ?? { ...noTotals, bytes: relayed.received() },
                },
              },
        ),
      }
    },
  }
}
