// The indexer's endpoint over an engine that the bench has filled. Thread: a process of its own.

import { silentLog } from '../../../src/base/telemetry/log.ts'
import { Bundle } from '../../../test/testkit/bundle.ts'
import { openClickhouse, openDuckdb } from '../../../test/testkit/local-queries.ts'
import { serveBench } from '../../../test/testkit/process.ts'

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
    const deps = { log: silentLog }
    const start = engine === 'duckdb' ? openDuckdb : openClickhouse
    const bundle = new Bundle()
    process.once('exit', () => void bundle.dispose())
    const { port } = await bundle.openIndexer({ engine: await start(place, deps) })
    const { token, indexer } = bundle.issue({ products: ['indexer'] })
    const pair = Buffer.from(`${indexer!.user}:${indexer!.password}`).toString('base64')
    return {
      url: `http://127.0.0.1:${port}/`,
      headers: { authorization: `Basic ${pair}`, 'x-token': token },
    }
  },
})
