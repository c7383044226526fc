// Answers and frames of the built server are as docs/openapi.json and docs/asyncapi.json describe.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectDescribed, expectFrame, problems } from '../testkit/api-schemas.ts'
import { Listener } from '../testkit/metrics-service.ts'
import { realData } from '../testkit/real-data.ts'
import { onlyMetrics, type Server, startServer } from '../testkit/server.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const recording = realData('execution/emn-30b-15m.snapshot.zst')
/** Of the generator, and of a recording in place of its own. */
const quickBlocks = ['--metrics.generator.blockMs=50']
const sources = [
  { name: 'the generator', flags: [], isMissing: false, blocks: 6 },
  {
    name: recording.title('a recording'),
    flags: ['--metrics.source=snapshot', `--metrics.path=${recording.path}`],
    isMissing: recording.isMissing,
    blocks: 30,
  },
]

describe.each(sources)('with $name', ({ flags, isMissing, blocks }) => {
  let server: Server
  let origin: string

  beforeAll(async () => {
    if (isMissing) return
    server = await startServer({ flags: [...onlyMetrics, ...quickBlocks, ...flags] })
    const { host, port } = server.doors.metrics!
    origin = `http://${host}:${port}`
    await until(
      async () => (await get('/v1/blocks')).body.blocks.length >= blocks,
      `${blocks} blocks`,
    )
  })
  afterAll(() => server?.dispose())

  const read = async (response: Response) => ({
    status: response.status,
    body: JSON.parse(await response.text()),
  })
  const get = async (path: string) => read(await fetch(origin + path))
  const post = async (path: string, body: unknown) =>
    read(await fetch(origin + path, { method: 'POST', body: JSON.stringify(body) }))
  const call = (method: string, ...params: unknown[]) => ({ jsonrpc: '2.0', id: 1, method, params })

  test.skipIf(isMissing)('every answer of REST is as described', async () => {
    const { body: status } = await get('/v1/status')
    const asked: [path: string, described: string, status: number][] = [
      ['/v1/tps', '/v1/tps', 200],
      ['/v1/contention', '/v1/contention', 200],
      ['/v1/top', '/v1/top', 200],
      ['/v1/blocks', '/v1/blocks', 200],
      ['/v1/blocks?last=0', '/v1/blocks', 400],
      ['/v1/status', '/v1/status', 200],
      ['/v1/blocks/lifecycle', '/v1/blocks/lifecycle', 200],
      [`/v1/blocks/${status.block_number}/lifecycle`, '/v1/blocks/{number}/lifecycle', 200],
      ['/v1/blocks/x/lifecycle', '/v1/blocks/{number}/lifecycle', 400],
      ['/v1/blocks/1/lifecycle', '/v1/blocks/{number}/lifecycle', 404],
      ['/v1/solana', '/v1/solana', 200],
      ['/health', '/health', 200],
      ['/v1/ws', '/v1/ws', 426],
      ['/', '/', 426],
    ]
    for (const [path, described, expected] of asked) {
      const answer = await get(path)
      expect([path, answer.status]).toEqual([path, expected])
      expectDescribed('get', described, answer)
    }
    expectDescribed('post', '/v1/ticket', await post('/v1/ticket', {}))
  })

  test.skipIf(isMissing)('every answer of POST / is as described', async () => {
    const { blocks: rows } = (await get('/v1/blocks')).body
    const full = rows.findLast((row: { total_txn_count: number }) => row.total_txn_count > 0)
    const number = `0x${full.block_number.toString(16)}`
    const block = call('eth_getBlockByNumber', number, true)
    const hashes = call('eth_getBlockByNumber', 'earliest', false)
    const unknown = call('eth_getBlockByNumber', '0x0')
    const bodies = [
      ...[block, hashes, unknown, call('eth_blockNumber'), call('eth_chainId')],
      ...[call('net_version'), call('web3_clientVersion'), call('eth_call'), [], 7],
      [hashes, call('eth_chainId'), call('nope')],
    ]
    for (const body of bodies) expectDescribed('post', '/', await post('/', body))
    const { body } = await post('/', block)
    expect(body.result.transactions.length).toBeGreaterThan(0)
    for (const transaction of body.result.transactions)
      expect(problems('openapi', '/components/schemas/Transaction', transaction)).toEqual([])
  })

  test.skipIf(isMissing)('every frame of the stream is as described', async () => {
    const { body: status } = await get('/v1/status')
    const from = status.oldest_seqno - 1
    const listener = new Listener(`${origin.replace('http', 'ws')}/v1/ws?resume_from=${from}`)
    await listener.has(status.newest_seqno - from + 1)
    listener.socket.send('{"subscribe":["TPS"]}')
    listener.socket.send('{"subscribe":[]}')
    const has = (kind: string) => () => listener.kinds.includes(kind)
    await until(has('Subscribed'), 'the answer to a message')
    await until(has('Error'), 'the answer to a bad message')
    for (const frame of listener.frames) expectFrame(frame)
    for (const kind of ['TPS', 'Lifecycle', 'TopAccesses', 'ContentionData'])
      expect([kind, has(kind)()]).toEqual([kind, true])
    listener.socket.terminate()
  })

  test.skipIf(isMissing)('both documents are served as they are in docs/', async () => {
    for (const name of ['openapi.json', 'asyncapi.json']) {
      const response = await fetch(`${origin}/${name}`)
      expect(response.headers.get('content-type')).toBe('application/json')
      expect(await response.text()).toBe(readFileSync(join(root, 'docs', name), 'utf8'))
    }
  })
})
