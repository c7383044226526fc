// Who may call a devnode: beside a gateway the holder of its secret alone; one that runs by itself
// serves everybody on this machine, but its cheat codes are not for web pages of other hosts.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { initialOf } from '../../src/base/fields.ts'
import { type Log, silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { chainSection } from '../../src/devnode/config.ts'
import { DevnodeProcess } from '../../src/devnode/process.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { rawCall } from '../testkit/raw-grpc.ts'
import { sendRaw } from '../testkit/raw-http.ts'

interface Asked {
  readonly verb?: string
  readonly path?: string
  readonly host?: string
  readonly headers?: readonly string[]
  readonly body?: string
}

function ask(port: number, { verb = 'POST', path = '/', host, headers = [], body = '' }: Asked) {
  const lines = [
    `${verb} ${path} HTTP/1.1`,
    `host: ${host ?? `127.0.0.1:${port}`}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    ...headers,
  ]
  return sendRaw(port, `${lines.join('\r\n')}\r\n\r\n${body}`)
}

const calling = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}","params":[]}`
const unknownMethod = '"code":-32601'

describe('a devnode with a secret', () => {
  const secret = randomBytes(32).toString('base64url')
  const token = `x-token: ${secret}`
  const wrong = [[], ['x-token: '], [`x-token: ${secret.slice(1)}`], [`x-token: ${secret}a`]]
  const folder = mkdtempSync(join(tmpdir(), 'sluice-devnode-'))
  const lines: string[] = []
  const note = (...line: unknown[]) => void lines.push(JSON.stringify(line))
  const log: Log = { ...silentLog, debug: note, info: note, warn: note, error: note }
  const noting: Log = { ...log, area: () => noting }
  let node: DevnodeProcess
  beforeAll(async () => {
    node = await DevnodeProcess.start(
      {
        ledger: join(folder, 'chain'),
        files: null,
        isReset: false,
        genesis: null,
        warpSlot: null,
        host: '127.0.0.1',
        rpcPort: 0,
        wsPort: 0,
        grpcPort: 0,
        secret,
        shreds: null,
        chain: { ...initialOf(chainSection.fields), slotMs: 100, traffic: 0 },
        version: '0.0.0',
      },
      { clock: systemClock, log: noting, meters: new Meters(), onDown: () => {} },
    )
  })
  afterAll(async () => {
    await node?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  it('refuses every HTTP request without it, and shows no page that it may ask', async () => {
    const { port } = node.addresses.rpc
    const requests: Asked[] = [
      { body: calling('getSlot') },
      { body: calling('surfnet_pauseClock'), path: '/any' },
      { body: '{"broken' },
      { verb: 'OPTIONS', headers: ['origin: http://localhost:3000'] },
      { verb: 'PUT' },
      { verb: 'GET', path: '/health' },
      { verb: 'GET', path: '/v0/total-supply' },
    ]
    for (const request of requests)
      for (const headers of wrong) {
        const all = [...(request.headers ?? []), ...headers]
        const answer = await ask(port, { ...request, headers: all })
        expect(answer.status, answer.text).toBe(401)
        expect(answer.text).not.toMatch(/access-control/i)
      }
  })

  it('answers with it, has no cheat codes and no CORS', async () => {
    const { port } = node.addresses.rpc
    const slot = await ask(port, { headers: [token], body: calling('getSlot') })
    expect(slot.body).toMatch(/"result":\d+/)
    const health = await ask(port, { verb: 'GET', path: '/health', headers: [token] })
    expect(health.body).toBe('ok')
    const options = await ask(port, { verb: 'OPTIONS', headers: [token] })
    const verb = await ask(port, { verb: 'PUT', headers: [token] })
    expect([options.status, verb.status]).toEqual([405, 405])
    const cheats = ['surfnet_pauseClock', 'surfnet_resetNetwork', 'surfnet_timeTravel']
    const answers = [slot, health, options, verb]
    for (const method of cheats) {
      const answer = await ask(port, { headers: [token], body: calling(method) })
      expect(answer.body).toContain(unknownMethod)
      answers.push(answer)
    }
    for (const { text } of answers) expect(text).not.toMatch(/access-control/i)
  })

  it('opens PubSub only with it', async () => {
    const { port } = node.addresses.ws
    const upgrade = [
      'upgrade: websocket',
      'connection: Upgrade',
      'sec-websocket-version: 13',
      `sec-websocket-key: ${randomBytes(16).toString('base64')}`,
    ]
    for (const headers of wrong) {
      const asked = { verb: 'GET', headers: [...upgrade, ...headers] }
      expect((await ask(port, asked)).status).toBe(401)
    }
    const head = `GET / HTTP/1.1\r\nhost: x\r\n${[...upgrade, token].join('\r\n')}\r\n\r\n`
    expect((await sendRaw(port, head)).status).toBe(101)
  })

  it('serves geyser only with it', async () => {
    const target = `127.0.0.1:${node.addresses.grpc.port}`
    const paths = ['GetVersion', 'GetSlot', 'Subscribe', 'SubscribeReplayInfo']
    for (const name of paths)
      for (const sent of [undefined, '', secret.slice(1), `${secret}, ${secret}`]) {
        const headers = sent === undefined ? {} : { 'x-token': sent }
        const got = await rawCall(target, { ':path': `/geyser.Geyser/${name}`, ...headers })
        const status = got.headers['grpc-status'] ?? got.trailers['grpc-status']
        expect(Number(status), `${name} with ${sent}`).toBe(7)
        expect(got.data).toHaveLength(0)
      }
    const path = '/geyser.Geyser/GetSlot'
    const got = await rawCall(target, { ':path': path, 'x-token': secret })
    expect(Number(got.trailers['grpc-status'])).toBe(0)
  })

  it('writes it nowhere: not into its command line, environment, log or files', () => {
    for (const file of ['cmdline', 'environ'])
      expect(readFileSync(`/proc/${node.pid}/${file}`, 'utf8')).not.toContain(secret)
    expect(lines.join('\n')).not.toContain(secret)
  })
})

describe('a devnode by itself', () => {
  let devnode: Devnode
  let port: number
  beforeAll(async () => {
    devnode = await startDevnode()
    port = Number(new URL(devnode.url('rpc')).port)
  })
  afterAll(() => devnode?.dispose())

  const foreign: readonly Asked[] = [
    { host: 'rebound.evil.example' },
    { host: 'rebound.evil.example:8899' },
    { host: 'localhost.evil.example' },
    { host: '' },
    { headers: ['origin: http://evil.example'] },
    { headers: ['origin: https://127.0.0.1.evil.example'] },
    { headers: ['origin: null'] },
  ]

  it('has no cheat codes for a foreign Host or Origin, alone or in a batch', async () => {
    for (const from of foreign) {
      const cheat = calling('surfnet_resumeClock')
      for (const body of [cheat, `[${cheat}]`]) {
        const answer = await ask(port, { ...from, body })
        // The native server refuses a request without a host by itself.
        if (from.host === '' && answer.status === 400) continue
        expect(answer.body, JSON.stringify(from)).toContain(unknownMethod)
      }
    }
  })

  it('answers them all other calls, with CORS, as a validator does', async () => {
    for (const from of foreign.filter(({ host }) => host !== '')) {
      const answer = await ask(port, { ...from, body: calling('getSlot') })
      expect(answer.body).toMatch(/"result":\d+/)
      expect(answer.text).toContain('access-control-allow-origin: *')
    }
    const preflight = await ask(port, { verb: 'OPTIONS', headers: ['origin: http://evil.example'] })
    expect(preflight.status).toBe(204)
  })

  it('has cheat codes for callers on this machine', async () => {
    const local: readonly Asked[] = [
      {},
      { host: 'localhost:8899' },
      { host: '[::1]:8899' },
      { headers: ['origin: http://localhost:3000'] },
      { headers: ['origin: http://127.0.0.1:5173'] },
    ]
    for (const from of local) {
      const answer = await ask(port, { ...from, body: calling('surfnet_resumeClock') })
      expect(answer.body, JSON.stringify(from)).toContain('"absoluteSlot"')
    }
  })
})
