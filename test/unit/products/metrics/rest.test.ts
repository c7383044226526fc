import { beforeEach, describe, expect, test } from 'vitest'
import { BlockRows, blocksMax } from '../../../../src/products/metrics/block-rows.ts'
import * as rest from '../../../../src/products/metrics/rest.ts'
import { readBody } from '../../../../src/products/metrics/rpc.ts'
import type { StoredFrame } from '../../../../src/streams/log/encoded.ts'
import { EventLog } from '../../../../src/streams/log/log.ts'
import {
  contentionOf,
  FakeExecution,
  HandClock,
  handOutSeqs,
} from '../../../testkit/fake-execution.ts'
import { expectShape } from '../../../testkit/golden.ts'

let clock: HandClock
let log: EventLog
let view: FakeExecution
let parts: rest.RestParts

beforeEach(() => {
  clock = new HandClock()
  log = new EventLog({ reserve: handOutSeqs(), clock })
  view = new FakeExecution(log, clock)
  const startMs = clock.monotonicMs()
  const history = new BlockRows({ tps: () => {}, block: () => {} })
  log.listen((frame) => history.update(frame))
  const uptimeMs = () => clock.monotonicMs() - startMs
  const ready = () => ({ ready: true, checks: [] })
  const source = { kind: 'recording', file: 'night.zst' } as const
  parts = { log, view, history, source, clients: () => 3, uptimeMs, ready }
})

const readBlocks = (last: number) =>
  JSON.parse(Buffer.concat([...rest.blocks(parts, last)]).toString())
const read = ({ status, body }: rest.Answer) => [status, JSON.parse(body.toString())]

describe('REST before the first block', () => {
  test('returns 0, an empty list, 404 and an empty buffer', () => {
    expect(read(rest.tps(parts))).toEqual([200, { tps: 0 }])
    expect(read(rest.contention(parts))).toEqual([404, { error: 'no contention data yet' }])
    expect(read(rest.top(parts))).toEqual([404, { error: 'no top accesses yet' }])
    expect(readBlocks(600)).toEqual({ blocks: [] })
    expect(read(rest.lifecycles(parts))).toEqual([200, []])
    expect(read(rest.status(parts))[1]).toMatchObject({ oldest_seqno: 0, newest_seqno: 0 })
  })

  test('names the chain and the kind of the source', () => {
    const names = { chain_id: 20143, source: 'recording', source_file: 'night.zst' }
    expect(read(rest.status(parts))[1]).toMatchObject(names)
    const ring = { ...parts, source: { kind: 'ring' } as const }
    expect(read(rest.status(ring))[1]).not.toHaveProperty('source_file')
  })

  test('counts the age from the start: degraded after 10 s, 503 at 30 s', () => {
    clock.advance(10_001)
    expect(read(rest.status(parts))[1]).toMatchObject({
      status: 'degraded',
      last_event_age_secs: 10,
    })
    clock.advance(19_998)
    expect(rest.health(parts).status).toBe(200)
    clock.advance(1)
    const [status, body] = read(rest.health(parts))
    expect(status).toBe(503)
    expect(body).toEqual({
      jsonrpc: '2.0',
      result: { healthy: false, number: 0, last_event_age_secs: 30 },
    })
    view.touch()
    expect(read(rest.status(parts))[1]).toMatchObject({ status: 'healthy' })
  })
})

describe('REST', () => {
  beforeEach(() => {
    for (let number = 1; number <= 5; number++) view.run(number)
  })

  test('has the shapes of the spec', () => {
    expectShape('metrics/tps', read(rest.tps(parts))[1])
    expectShape('metrics/contention', read(rest.contention(parts))[1])
    expectShape('metrics/top', read(rest.top(parts))[1])
    expectShape('metrics/blocks', readBlocks(5))
    expectShape('metrics/status', read(rest.status(parts))[1])
    expectShape('metrics/lifecycles', read(rest.lifecycles(parts))[1])
    expectShape('metrics/lifecycle', read(rest.lifecycle(parts, '5'))[1])
    expectShape('metrics/health', read(rest.health(parts))[1])
    expectShape('metrics/error', read(rest.lifecycle(parts, '99'))[1])
  })

  test('serves the newest ContentionData byte for byte', () => {
    expect(rest.contention(parts).body).toBe(log.latest('ContentionData')?.payload)
    expect(rest.top(parts).body).toBe(log.latest('TopAccesses')?.payload)
  })

  test('lists the newest blocks with their own TPS, oldest first', () => {
    const { blocks } = readBlocks(2)
    const frame = JSON.parse(log.latest('ContentionData')!.payload.toString())
    const { total_tx_time_ns, total_unique_slots, contention_ratio, ...scalars } = frame
    for (const list of ['top_contended_slots', 'top_contended_contracts', 'contract_edges'])
      delete scalars[list]
    expect(blocks[1]).toEqual({ ...scalars, tps: 405 })
    expect(blocks.map((row: { block_number: number }) => row.block_number)).toEqual([4, 5])
    expect(readBlocks(600).blocks).toHaveLength(5)
  })

  test('lists two proposals of one number by their hashes', () => {
    const [row] = readBlocks(1).blocks
    log.append('TPS', Buffer.from('7'))
    const other = { ...contentionOf(5), block_hash: `0x${'ab'.repeat(32)}` }
    log.append('ContentionData', Buffer.from(JSON.stringify(other)))
    const blocks = readBlocks(2).blocks
    expect(blocks).toEqual([row, { ...row, tps: 7, block_hash: other.block_hash }])
  })

  test('leaves out a block whose TPS is not known', () => {
    log.append('ContentionData', Buffer.from(JSON.stringify(contentionOf(6))))
    log.append('TPS', Buffer.from('7'))
    view.gap(1, 2)
    log.append('ContentionData', Buffer.from(JSON.stringify(contentionOf(7))))
    expect(readBlocks(600).blocks).toHaveLength(5)
  })

  /** What a start lists that reads the frames from there on first, and the others later. */
  async function listedFrom(cut: number, frames: readonly StoredFrame[]) {
    const shared = new EventLog({ reserve: () => null, clock, isShared: true })
    shared.restart('one', cut)
    let observed = 0
    const history = new BlockRows({ tps: () => {}, block: () => observed++ })
    const end = shared.listen((frame) => history.update(frame))
    shared.onRestart(() => history.restarted())
    const newer = frames.slice(cut)
    for (const [index, frame] of newer.entries()) shared.accept(cut + 1 + index, frame)
    let fill = () => {}
    shared.filling = new Promise((resolve) => {
      fill = resolve
    })
    history.follow(shared)
    const { filling } = history
    for (const [index, frame] of [...frames.slice(0, cut).entries()].reverse())
      shared.prepend(index + 1, frame)
    shared.filling = null
    fill()
    await filling
    expect(history.filling).toBe(null)
    end()
    return { history, shared, observed }
  }

  const textOf = (history: BlockRows) => [...history.newest(blocksMax)].join()

  test('lists the same blocks wherever the read of a start began', async () => {
    log.append('TPS', Buffer.from('7'))
    view.gap(1, 2)
    for (const number of [7, 8])
      log.append('ContentionData', Buffer.from(JSON.stringify(contentionOf(number))))
    view.run(9)
    const frames = [...log.after(0)]
    expect(parts.history.count).toBe(6)
    for (let cut = 1; cut < frames.length; cut++) {
      const { history, observed } = await listedFrom(cut, frames)
      expect(textOf(history), `read from frame ${cut + 1} on`).toBe(textOf(parts.history))
      const newer = frames.slice(cut).filter(({ kind }) => kind === 'ContentionData')
      expect(observed).toBe(newer.length)
    }
  })

  test('keeps the newest blocks when older ones come later', async () => {
    for (let number = 6; number <= blocksMax + 10; number++) view.run(number)
    const frames = [...log.after(0)]
    const { history, shared } = await listedFrom(frames.length - 70, frames)
    expect(textOf(history)).toBe(textOf(parts.history))
    expect([history.count, shared.frames]).toEqual([blocksMax, frames.length])
  })

  test('keeps its blocks where the shared log begins anew meanwhile', async () => {
    const frames = [...log.after(0)]
    const { history, shared } = await listedFrom(frames.length - 7, frames)
    const before = textOf(history)
    shared.restart('two', 1_000)
    for (const [index, frame] of frames.slice(-7).entries()) shared.accept(1_001 + index, frame)
    shared.filling = Promise.resolve()
    history.follow(shared)
    shared.filling = null
    await history.filling
    expect(textOf(history)).toBe(before)
  })

  test('keeps a bounded number of blocks', () => {
    for (let number = 6; number <= blocksMax + 10; number++) view.run(number)
    const { blocks } = readBlocks(blocksMax + 5)
    expect(blocks).toHaveLength(blocksMax)
    expect([blocks[0].block_number, blocks.at(-1).block_number]).toEqual([11, blocksMax + 10])
  })

  test.each([
    [null, 600],
    ['1', 1],
    ['3000', 3000],
    ['0600', 600],
  ])('takes %j as the number of blocks %d', (text, last) => {
    expect(rest.parseLast(text)).toEqual({ ok: true, value: last })
  })

  test.each(['0', '3001', '-1', '1.5', '1e3', '', 'all', ' 5', '99999'])(
    'refuses %j as a number of blocks',
    (text) => {
      expect(rest.parseLast(text)).toMatchObject({
        ok: false,
        refusal: { message: 'last must be a number from 1 to 3000' },
      })
    },
  )

  test.each([
    ['6', 404, 'block not found'],
    ['9007199254740993', 404, 'block not found'],
    ['18446744073709551615', 404, 'block not found'],
    ['18446744073709551616', 400, 'invalid block number'],
    ['-1', 400, 'invalid block number'],
    ['1e30', 400, 'invalid block number'],
    ['abc', 400, 'invalid block number'],
    ['', 400, 'invalid block number'],
  ])('answers block %s with %d %s', (number, status, message) => {
    expect(read(rest.lifecycle(parts, number))).toEqual([status, { error: message }])
  })
})

describe('JSON-RPC', () => {
  const ask = (request: object) => {
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, ...request }))
    const pieces = [...readBody(body, { view, version: '1.2.3' }).pieces()]
    return JSON.parse(Buffer.concat(pieces).toString())
  }
  const call = (method: string, ...params: unknown[]) => ask({ method, params })

  beforeEach(() => {
    for (let number = 1; number <= 300; number++) view.run(number)
  })

  test('charges a body that cannot be parsed like a call', () => {
    const costOf = (text: string) => readBody(Buffer.from(text), { view, version: '' }).cost
    expect(costOf('{')).toEqual(costOf('{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}'))
  })

  test('returns a block by number and by tag', () => {
    const latest = call('eth_getBlockByNumber', 'latest', false)
    expectShape('metrics/rpc-block', latest.result)
    expect(latest).toMatchObject({ result: { number: '0x12c' } })
    expect(call('eth_getBlockByNumber', '0x12c')).toEqual(latest)
    expect(call('eth_getBlockByNumber', '0x12C')).toEqual(latest)
    expect(call('eth_getBlockByNumber', 'earliest')).toMatchObject({ result: { number: '0xad' } })
    const full = call('eth_getBlockByNumber', 'latest', true)
    expect(full).toMatchObject({ result: { transactions: [{ nonce: '0x1' }] } })
  })

  test.each(['0x1', '0x12d', '0x20000000000001', '0xffffffffffffffff'])('%s is null', (number) => {
    expect(call('eth_getBlockByNumber', number)).toMatchObject({ result: null })
  })

  test.each([
    [[]],
    [[0]],
    [[-1]],
    [[1e30]],
    [['abc']],
    [['0x']],
    [['0x01']],
    [['300']],
    [['0x10000000000000000']],
    [['pending']],
    [[null]],
    [['latest', 'yes']],
    [['latest', false, 1]],
  ])('eth_getBlockByNumber %j is invalid', (params) => {
    expect(ask({ method: 'eth_getBlockByNumber', params })).toMatchObject({
      error: { code: -32602 },
    })
  })

  test('answers the small methods', () => {
    expect(call('eth_blockNumber')).toMatchObject({ result: '0x12c' })
    expect(call('eth_chainId')).toMatchObject({ result: '0x4eaf' })
    expect(call('net_version')).toMatchObject({ result: '20143' })
    expect(call('web3_clientVersion')).toMatchObject({
      result: expect.stringMatching(/^sluice\/v1/),
    })
    expect(ask({ method: 'eth_chainId' })).toMatchObject({ result: '0x4eaf' })
    expect(ask({ method: 'eth_chainId', params: { a: 1 } })).toMatchObject({
      error: { code: -32602 },
    })
  })

  test('refuses any other method', () => {
    expect(call('eth_call')).toMatchObject({
      error: { code: -32601, message: 'Method not found' },
    })
    expect(call('__proto__')).toMatchObject({ error: { code: -32601 } })
  })
})
