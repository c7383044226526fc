// Which error responses make the writer retry an insert, and which reject its rows for good.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ClickhouseClient } from '../../../../src/indexer/clickhouse-server/schema.ts'

let answer: readonly [status: number, text: string] = [200, '']
let server: Server
let client: ClickhouseClient

beforeAll(async () => {
  server = createServer((_, response) => response.writeHead(answer[0]).end(answer[1]))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // Reason for the cast: it listens on a port.
  const { port } = server.address() as AddressInfo
  client = new ClickhouseClient(`http://127.0.0.1:${port}`, { connections: 1 })
})
afterAll(async () => {
  await client.stop()
  server.close()
})

test.each([
  ['a full disk', 500, 'Code: 243. DB::Exception: Cannot reserve 1 MiB. (NOT_ENOUGH_SPACE)', 243],
  ['a failed write', 500, 'Code: 75. DB::ErrnoException: errno: 28. (CANNOT_WRITE_TO_FILE)', 75],
  ['no coordination', 500, 'Code: 999. Coordination::Exception: Loss. (KEEPER_EXCEPTION)', 999],
  ['a wrong password', 401, 'Code: 193. DB::Exception: Wrong password. (WRONG_PASSWORD)', 193],
  ['no access', 403, 'Code: 497. DB::Exception: Not enough privileges. (ACCESS_DENIED)', 497],
  ['a new code', 500, 'Code: 9999. DB::Exception: Something new. (NEW)', 9_999],
  ['an error of a library', 500, 'Poco::Exception. Code: 1000, e.code() = 28, no space', 1_002],
  ["a proxy's 400", 400, '<html>Bad Request</html>', 1_002],
  ["a proxy's 401", 401, '<html>Unauthorized</html>', 516],
  ["a proxy's 429", 429, '<html>Too Many Requests</html>', 1_002],
  ["a proxy's 502", 502, '<html>Bad Gateway</html>', 502],
  ["a proxy's 503", 503, '', 503],
  ["a proxy's 504", 504, '<html>Gateway Timeout</html>', 504],
])('%s is reported and retried', async (...row) => {
  const [, status, text, code] = row
  answer = [status, text]
  const message = expect.stringContaining(` ${code}`)
  await expect(client.run({ sql: 'SELECT 1' })).rejects.toMatchObject({ retryable: true, message })
})

test.each([
  ['a value of another type', 400, 'Code: 27. DB::ParsingException: Cannot parse. (X)', 27],
  ['a missing table', 404, 'Code: 60. DB::Exception: Table is missing. (UNKNOWN_TABLE)', 60],
  // The writer then sends each delivery alone, which is shorter.
  ["a proxy's limit of the length", 413, '<html>Request Entity Too Large</html>', 307],
])('%s is not retried', async (...row) => {
  const [, status, text, code] = row
  answer = [status, text]
  const message = expect.stringContaining(` ${code} `)
  await expect(client.run({ sql: 'SELECT 1' })).rejects.toMatchObject({ retryable: false, message })
})
