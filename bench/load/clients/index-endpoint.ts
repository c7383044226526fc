// The indexer's endpoint over an index that the bench has filled, with a query program of its own
// for DuckDB. Thread: a process of its own.

import { join } from 'node:path'
import { systemClock } from '../../../src/base/clock.ts'
import { initialOf } from '../../../src/base/fields.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { indexerSection } from '../../../src/indexer/config.ts'
import { QueryService } from '../../../src/indexer/queries/service.ts'
import { Bundle } from '../../../test/testkit/bundle.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { openClickhouse } from '../../../test/testkit/read-back.ts'

export interface EndpointPlace {
  readonly engine: 'duckdb' | 'clickhouse'
  /** The folder or the address. */
  readonly place: string
}

export interface OpenEndpoint {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

serveBench({
  open: async ({ engine, place }: EndpointPlace): Promise<OpenEndpoint> => {
    const bundle = new Bundle()
    process.once('exit', () => void bundle.dispose())
    const started =
      engine === 'duckdb'
        ? { queries: (await startQueries(place, bundle)).queries }
        : { engine: await openClickhouse(place, { log: silentLog }) }
    const { port } = await bundle.openIndexer(started)
    const { token, indexer } = bundle.issue({ products: ['indexer'] })
    const pair = Buffer.from(`${indexer!.user}:${indexer!.password}`).toString('base64')
    return {
      url: `http://127.0.0.1:${port}/`,
      headers: { authorization: `Basic ${pair}`, 'x-token': token },
    }
  },
})

function startQueries(folder: string, { meters }: Bundle): Promise<QueryService> {
  return QueryService.start(initialOf(indexerSection.fields), {
    ...{ folder, socket: join(folder, 'results.sock'), holder: 'bench' },
    ...{ meters, clock: systemClock, log: silentLog },
  })
}
