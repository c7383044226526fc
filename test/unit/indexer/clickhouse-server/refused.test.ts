// What a ClickHouse server refuses for its own limits costs its customer nothing.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { startClickhouseEngine } from '../../../../src/indexer/clickhouse-server/query-engine.ts'
import type { QueryEngine } from '../../../../src/indexer/engine.ts'
import { queryOf } from '../../../testkit/query-stage.ts'

const errors: Readonly<Record<string, string>> = {
  quota: 'Code: 201. DB::Exception: Quota for user is exceeded. (QUOTA_EXCEEDED)',
  busy: 'Code: 202. DB::Exception: Too many. (TOO_MANY_SIMULTANEOUS_QUERIES)',
  memory: 'Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)',
}
const asked: URLSearchParams[] = []
let server: Server
let engine: QueryEngine

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const sql = Buffer.concat(await request.toArray()).toString()
    const [, word = ''] = /^SELECT '(\w+)'/.exec(sql) ?? []
    if (word !== '') asked.push(new URL(request.url!, 'http://here').searchParams)
    const text = errors[word]
    if (text !== undefined) response.writeHead(500).end(text)
    else if (sql.includes('version()')) response.end('{"version":"24.8.1.1"}\n')
    else if (sql.includes('system.settings'))
      response.end('{"name":"allow_custom_error_code_in_throwif"}\n')
    else response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // Reason for the cast: it listens on a port.
  const { port } = server.address() as AddressInfo
  const results = { path: '/nowhere', secret: '' }
  engine = await startClickhouseEngine(`http://127.0.0.1:${port}`, { log: silentLog, results })
})
afterAll(async () => {
  await engine.stop()
  server.close()
})

test.each([
  ['quota', 201, true],
  ['busy', 202, true],
  ['memory', 241, false],
])("an exception of '%s' before the first byte: %i, free %s", async (word, code, isRefused) => {
  const end = await engine.run(queryOf(`SELECT '${word}'`), '').ended
  expect([end.error?.code, end.isRefused === true]).toEqual([code, isRefused])
})

test('a query cannot choose its own exception, which would be free', async () => {
  await engine.run(queryOf("SELECT 'quota'"), '').ended
  expect(asked.at(-1)?.get('allow_custom_error_code_in_throwif')).toBe('0')
})
