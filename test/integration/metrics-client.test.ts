// Tests `sluice/client` and `sluice tail` against a real endpoint.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WebSocket as UndiciSocket } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type Frame, MetricsClient, type SocketLike } from '../../src/client/client.ts'
import { NodeSocket } from '../../src/client/node-socket.ts'
import { type DataLock, lockData } from '../../src/customers/subscriptions/lock.ts'
import { runCommand } from '../testkit/command.ts'
import { openService, type Service } from '../testkit/metrics-service.ts'
import { runHere } from '../testkit/run-here.ts'
import { until } from '../testkit/until.ts'

let service: Service
let number = 1

beforeAll(async () => {
  service = await openService()
  for (; number <= 20; number++) service.execution.run(number)
})

afterAll(() => service.running.stop())

const constructors: [string, (url: string) => SocketLike][] = [
  ['its own socket', (url) => new NodeSocket(url)],
  ['ws', (url) => new WebSocket(url) as SocketLike],
  ['undici', (url) => new UndiciSocket(url) as unknown as SocketLike],
]

describe.each(constructors)('the client over %s', (_, open) => {
  test('gets the snapshot and every later frame', async () => {
    const client = new MetricsClient({ url: service.origin, open })
    const frames: Frame[] = []
    const loop = (async () => {
      for await (const frame of client) frames.push(frame)
    })()
    await until(() => frames.length >= 6, 'the snapshot')
    const from = service.events.newestSeq
    for (let count = 0; count < 10; count++) service.execution.run(number++)
    const due = [...service.events.after(from)]
    await until(() => frames.at(-1)?.seq === due.at(-1)?.seq, 'live frames')
    expect(frames.filter(({ seq }) => seq > from).map(({ seq }) => seq)).toEqual(
      due.map(({ seq }) => seq),
    )
    client.close()
    await loop
    expect(client.isOpen).toBe(false)
  })

  test('changes kinds', async () => {
    const client = new MetricsClient({ url: service.ws, open }).connect()
    const told: unknown[] = []
    client.on('Subscribed', (payload) => told.push(payload))
    let isReady = false
    client.on('Resume', () => {
      isReady = true
    })
    await until(() => isReady, 'the connection')
    client.subscribe(['Lifecycle'])
    await until(() => told.length === 1, 'the answer')
    expect(told).toEqual([{ events: ['Lifecycle'] }])
    client.close()
  })
})

test('reconnects and resumes without loss when the endpoint closes and reopens', async () => {
  const first = await openService()
  const { port } = first
  const client = new MetricsClient({
    url: first.origin,
    open: (url) => new NodeSocket(url),
    backoffMs: { first: 20, most: 100 },
  }).connect()
  const seqs: number[] = []
  const modes: string[] = []
  for (const kind of ['TPS', 'ContentionData', 'TopAccesses', 'Lifecycle'] as const)
    client.on(kind, (_, seq) => seqs.push(seq))
  client.on('Resume', ({ mode }) => modes.push(mode))
  await until(() => modes.length === 1, 'the connection')
  for (let block = 1; block <= 5; block++) first.execution.run(block)
  await until(() => seqs.at(-1) === first.events.newestSeq, 'the first frames')
  await first.running.stop()
  for (let block = 6; block <= 10; block++) first.execution.run(block)
  const second = await openService({ eventLog: first.events, section: { port } })
  await until(() => seqs.at(-1) === first.events.newestSeq, 'the frames in between')
  expect(modes).toEqual(['snapshot', 'resume'])
  expect(seqs).toEqual([...first.events.after(0)].map(({ seq }) => seq))
  client.close()
  await second.running.stop()
})

test('REST helpers call the real service', async () => {
  const client = new MetricsClient({ url: service.origin, open: (url) => new NodeSocket(url) })
  expect(await client.tps()).toBeGreaterThan(0)
  expect((await client.contention())?.block_number).toBe(service.execution.latestBlock())
  expect((await client.status()).status).toBe('healthy')
  expect((await client.lifecycles()).length).toBeGreaterThan(10)
  expect((await client.lifecycle(5))?.block_number).toBe(5)
  expect(await client.lifecycle(2n ** 64n - 1n)).toBeNull()
  expect((await client.health()).healthy).toBe(true)
  expect(await client.call('eth_chainId')).toBe('0x4eaf')
  await expect(client.call('nope')).rejects.toMatchObject({ code: -32601 })
})

describe('sluice tail', () => {
  let data: string
  let lock: DataLock

  beforeAll(async () => {
    data = mkdtempSync(join(tmpdir(), 'sluice-tail-'))
    const endpoint = { host: '127.0.0.1', port: service.port, tls: false }
    writeFileSync(join(data, 'doors.json'), JSON.stringify({ metrics: endpoint }))
    // As a server that runs on the folder does.
    const locked = await lockData(data)
    if (!locked.ok) throw new Error(locked.refusal.message)
    lock = locked.value
  })
  afterAll(async () => {
    await lock.release()
    rmSync(data, { recursive: true })
  })

  test('finds the endpoint and prints the efficiency band', async () => {
    const ran = await runCommand(['tail', 'contention', '--count', '1', '--data', data])
    expect(ran.stderr).toBe('')
    expect(ran.stdout).toMatch(/^block \d+ {2}txns 138 .*90 or more: excellent parallelization\n$/)
    expect(ran.code).toBe(0)
  })

  test('resumes after a frame, as JSON lines', async () => {
    const from = service.events.oldestSeq - 1
    const words = ['tail', 'tps', '--from-seq', `${from}`, '--count', '3', '--output', 'json']
    const ran = await runHere(...words, '--data', data)
    const due = [...service.events.after(from)].filter(({ kind }) => kind === 'TPS').slice(0, 3)
    expect(ran.stdout).toBe(due.map(({ json }) => `${json}\n`).join(''))
  })

  test.each(['top', 'lifecycle'])('prints %s', async (topic) => {
    const ran = await runHere('tail', topic, '--count', '1', '--url', service.origin)
    expect(ran.stderr).toBe('')
    expect(ran.stdout).not.toBe('')
    expect(ran.code).toBe(0)
  })

  test.each([
    [['all'], ['ContentionData', 'Lifecycle', 'TPS', 'TopAccesses']],
    [['tps,top'], ['TPS', 'TopAccesses']],
    [
      ['tps', 'lifecycle'],
      ['Lifecycle', 'TPS'],
    ],
  ])('follows the topics %j, as JSON with --json', async (words, due) => {
    const resume = ['--from-seq', `${service.events.oldestSeq - 1}`, '--count', '30']
    const ran = await runHere('tail', ...words, '--json', ...resume, '--data', data)
    const kinds = [...ran.stdout.matchAll(/^{"seq":\d+,"(\w+)"/gm)].map(([, kind]) => kind)
    expect(ran.stderr).toBe('')
    expect(kinds).toHaveLength(30)
    expect([...new Set(kinds)].sort()).toEqual(due)
  })

  test('prints the gaps with any topic, and nothing else with the topic gap', async () => {
    const from = service.events.newestSeq
    service.execution.run(number++)
    service.execution.gap(7, 9)
    service.execution.run(number++)
    const resume = ['--from-seq', `${from}`, '--data', data, '--json']
    const alone = await runHere('tail', 'gap', '--count', '1', ...resume)
    expect(alone.stdout).toMatch(/^{"seq":\d+,"Gap":{"from":7,"to":9,"at_ms":\d+}}\n$/)
    const beside = await runHere('tail', 'tps', '--count', '3', ...resume)
    const lines = beside.stdout.trim().split('\n')
    expect(lines.map((line) => Object.keys(JSON.parse(line))[1])).toEqual(['TPS', 'Gap', 'TPS'])
  })

  test('reports at once that the service requires a token', async () => {
    const gated = await openService({ section: { auth: 'token' } })
    const words = ['tail', 'tps', '--url', gated.origin]
    const without = await runHere(...words)
    expect([without.code, without.stdout]).toEqual([1, ''])
    expect(without.stderr).toMatch(/wants a token: .*--token-file/)
    const file = join(data, 'token')
    writeFileSync(file, 'slu_wrong')
    const wrong = await runHere(...words, '--token-file', file)
    expect([wrong.code, wrong.stderr]).toEqual([
      1,
      expect.stringContaining('not accept this token'),
    ])
    await gated.running.stop()
  })

  test('rejects an unknown topic or an invalid number', async () => {
    expect((await runHere('tail', 'blocks')).code).toBe(2)
    expect((await runHere('tail', 'tps', '--from-seq', '-1x')).code).toBe(2)
  })
})
