// Asks the indexer in SQL with an unmodified @clickhouse/client: only the header is added.
//   TOKEN=… INDEXER_USER=… INDEXER_PASSWORD=… node examples/clickhouse.mjs
import { createClient } from '@clickhouse/client'

const client = createClient({
  url: process.env.INDEXER_URL ?? 'http://127.0.0.1:8123',
  username: process.env.INDEXER_USER,
  password: process.env.INDEXER_PASSWORD,
  http_headers: { 'x-token': process.env.TOKEN },
})

const result = await client.query({
  query: `
    SELECT program, count() AS calls, uniq(signature) AS transactions
    FROM instructions
    WHERE slot >= {from:UInt64}
    GROUP BY program
    ORDER BY calls DESC
    LIMIT 5`,
  query_params: { from: 0 },
  format: 'JSONEachRow',
})
console.table(await result.json())
await client.close()
