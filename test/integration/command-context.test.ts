// Contexts: a server and its credentials under a name, for query, tail and call. Credentials go
// to the server of their context and to no other.
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type DataLock, lockData } from '../../src/customers/subscriptions/lock.ts'
import { runCommand } from '../testkit/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-context-'))
const credentials = join(folder, 'credentials')
const data = join(folder, 'data')
let home: string
let servers: readonly { readonly url: string; readonly seen: string[]; close(): void }[]
let lock: DataLock

/** Answers every JSON-RPC call and keeps the headers that it got. */
async function listen() {
  const seen: string[] = []
  const server: Server = createServer((request, response) => {
    seen.push(JSON.stringify(request.headers))
    response.end('{"jsonrpc":"2.0","id":1,"result":"fine"}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, seen, close: () => server.close() }
}

beforeAll(async () => {
  servers = [await listen(), await listen()]
  writeFileSync(credentials, 'TOKEN=hush-token\nINDEXER_USER=me\nINDEXER_PASSWORD=hush-password\n')
  const locked = await lockData(data)
  if (!locked.ok) throw new Error(locked.refusal.message)
  lock = locked.value
  const rpc = { host: '127.0.0.1', port: Number(new URL(servers[0]!.url).port), tls: false }
  writeFileSync(join(data, 'doors.json'), JSON.stringify({ rpc }))
})
afterAll(async () => {
  await lock.release()
  for (const server of servers) server.close()
  rmSync(folder, { recursive: true })
})
beforeEach(() => {
  home = mkdtempSync(join(folder, 'home-'))
  for (const { seen } of servers) seen.length = 0
})

const run = (words: string, env: Record<string, string> = {}) =>
  runCommand(words.split(' '), { HOME: home, ...env })
const file = (name: string) => join(home, '.sluice', 'contexts', `${name}.json`)

describe('contexts', () => {
  test('are saved on request, readable by their owner alone, and shown without secrets', async () => {
    const saved = await run(`context save demo --credentials ${credentials} --data ${data}`)
    expect([saved.code, saved.stderr]).toEqual([0, ''])
    expect(saved.stdout).toMatch(/^demo was saved in .*demo\.json, readable by you alone/)
    expect(statSync(file('demo')).mode & 0o777).toBe(0o600)
    expect(statSync(join(home, '.sluice', 'contexts')).mode & 0o777).toBe(0o700)
    const shown = await run('context show demo --json')
    expect(shown.json()).toEqual({
      name: 'demo',
      data,
      endpoints: {},
      user: 'me',
      tokenLast4: 'oken',
      isUsed: true,
    })
    for (const { stdout } of [saved, shown]) expect(stdout).not.toMatch(/hush/)
  })

  test('are listed, used, and removed with their secrets', async () => {
    await run(`context save one --credentials ${credentials} --data ${data}`)
    await run(`context save two --credentials ${credentials} --endpoint rpc=${servers[1]!.url}`)
    const names = async () => (await run('context list --json')).json().contexts
    expect(await names()).toEqual([
      { name: 'one', isUsed: true },
      { name: 'two', isUsed: false },
    ])
    expect((await run('context use two')).stdout).toContain('two is in use.')
    expect((await run('context remove two')).stdout).toContain('two was removed.')
    expect(() => readFileSync(file('two'))).toThrow()
    expect(await names()).toEqual([{ name: 'one', isUsed: false }])
    expect((await run('context use two')).code).toBe(3)
  })

  test('give commands their server and credentials', async () => {
    await run(`context save demo --credentials ${credentials} --data ${data}`)
    const ran = await run('call rpc getHealth')
    expect([ran.code, ran.stdout]).toEqual([0, 'fine\n'])
    expect(servers[0]!.seen[0]).toContain('hush-token')
    await run(`context save far --credentials ${credentials} --endpoint rpc=${servers[1]!.url}`)
    expect((await run('call rpc getHealth --context far')).code).toBe(0)
    expect(servers[1]!.seen[0]).toContain('hush-token')
  })

  test('send their credentials to no other server', async () => {
    await run(`context save far --credentials ${credentials} --endpoint rpc=${servers[1]!.url}`)
    for (const other of [`--url ${servers[0]!.url}`, `--data ${data}`]) {
      expect((await run(`call rpc getHealth ${other}`)).code).toBe(0)
      expect((await run(`query x ${other} --context far`)).code).toBeGreaterThan(0)
    }
    expect(servers[0]!.seen).toHaveLength(2)
    expect(servers[0]!.seen.join()).not.toContain('hush')
    expect(servers[1]!.seen).toEqual([])
  })

  test('are refused when other users can read them', async () => {
    await run(`context save demo --credentials ${credentials} --data ${data}`)
    chmodSync(file('demo'), 0o644)
    const ran = await run('call rpc getHealth')
    expect([ran.code, ran.stderr]).toEqual([1, expect.stringContaining('chmod 600')])
    expect(servers[0]!.seen).toEqual([])
  })

  test.each([
    ['context save demo', 'a token is missing'],
    ['context save ../x', '<name> must be'],
    [`context save x --credentials ${credentials} --endpoint door=http://h`, '--endpoint must be'],
    [`context save x --credentials ${credentials} --endpoint rpc=h`, '--endpoint must be'],
  ])('%s is a usage error', async (words, message) => {
    const ran = await run(words)
    expect([ran.code, ran.stderr]).toEqual([2, expect.stringContaining(message)])
  })
})

describe('SLUICE_CREDENTIALS', () => {
  test('names the file of the credentials, and is no key of the configuration', async () => {
    const ran = await run(`call rpc getHealth --data ${data}`, { SLUICE_CREDENTIALS: credentials })
    expect([ran.code, ran.stderr]).toEqual([0, ''])
    expect(servers[0]!.seen[0]).toContain('hush-token')
  })
})
