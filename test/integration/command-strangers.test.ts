// `sluice query` and `sluice tail` on a folder without a running server, beside a stranger that
// listens where the server would be: it gets neither a connection nor a credential.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { lockData } from '../../src/customers/subscriptions/lock.ts'
import { runCommand } from '../testkit/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-strangers-'))
const doorsFile = join(folder, 'doors.json')
const tokenFile = join(folder, 'token')
const credentials = join(folder, 'credentials')
const received: string[] = []
let connections = 0
let port = 0
const stranger: Server = createServer((request, response) => {
  received.push(JSON.stringify(request.headers))
  response.writeHead(500).end()
})

beforeAll(async () => {
  stranger.on('connection', () => {
    connections++
  })
  stranger.on('upgrade', (request, socket) => {
    received.push(JSON.stringify(request.headers))
    socket.end('HTTP/1.1 500 No\r\n\r\n')
  })
  stranger.listen(0, '127.0.0.1')
  await once(stranger, 'listening')
  port = (stranger.address() as AddressInfo).port
  writeFileSync(tokenFile, 'hush-token\n')
  writeFileSync(credentials, 'TOKEN=hush-token\nINDEXER_USER=me\nINDEXER_PASSWORD=hush-password\n')
})
afterAll(() => {
  stranger.closeAllConnections()
  stranger.close()
  rmSync(folder, { recursive: true })
})

/** Where the server of the folder would be is where the stranger listens. */
const settings = (product: string) => ({
  SLUICE_DATA: folder,
  [`SLUICE_${product}__PORT`]: `${port}`,
})
const query = (...words: string[]) =>
  runCommand(['query', 'SELECT 1', '--credentials', credentials, ...words], settings('INDEXER'))
const tail = (...words: string[]) =>
  runCommand(
    ['tail', 'tps', '--count', '1', '--token-file', tokenFile, ...words],
    settings('METRICS'),
  )

async function expectRefused(message: RegExp): Promise<void> {
  for (const run of [query, tail]) {
    const ran = await run()
    expect([ran.code, ran.stdout]).toEqual([1, ''])
    expect(ran.stderr).toMatch(message)
  }
  expect([connections, received]).toEqual([0, []])
}

describe('query and tail without a running server', () => {
  it('are refused and never receive the credentials', async () => {
    rmSync(doorsFile, { force: true })
    await expectRefused(/no server runs on .*--url/)
  })

  it('are refused when a killed server left a stale address file', async () => {
    const endpoint = { host: '127.0.0.1', port, tls: false }
    writeFileSync(doorsFile, JSON.stringify({ indexer: endpoint, metrics: endpoint }))
    await expectRefused(/no server runs on .*--url/)
  })

  it('are refused while it starts, and when it does not serve the product', async () => {
    const locked = await lockData(folder)
    if (!locked.ok) throw new Error(locked.refusal.message)
    try {
      rmSync(doorsFile, { force: true })
      await expectRefused(/starting or stopping/)
      writeFileSync(doorsFile, '{}')
      await expectRefused(/does not serve (indexer|metrics)/)
    } finally {
      await locked.value.release()
    }
  })

  it('send credentials to the server of --url', async () => {
    const url = `--url=http://127.0.0.1:${port}`
    expect((await query(url)).code).toBe(1)
    expect(received.at(-1)).toContain('hush-token')
  })
})
