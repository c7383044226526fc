// Calls that the stream of a set answers instead of its nodes, as a customer of rpc sees them.
import { afterEach, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { slotStatus } from '../../src/chain/solana/updates.ts'
import { StreamAnswers } from '../../src/streams/answers/stream-answers.ts'
import { readAccount } from '../../src/upstream/set-reads.ts'
import { ProxyStage, type SetOptions, type Told } from '../testkit/proxy-stage.ts'
import { error, result, type Script } from '../testkit/scripted-node.ts'
import { StreamChain, streamDeps } from '../testkit/stream-chain.ts'
import { until } from '../testkit/until.ts'

let stage: ProxyStage
afterEach(() => stage?.stop())

async function start(options: Partial<SetOptions> = {}) {
  const chain = new StreamChain()
  const read = (key: Uint8Array, minSlot: number) =>
    readAccount(stage.upstreams.set('default')!, key, minSlot)
  const accounts = { bytesMax: 1_000_000, read }
  const apiVersion = () => stage.upstreams.set('default')!.apiVersion()
  const answers = new StreamAnswers(chain.hub, { ...streamDeps, apiVersion, accounts })
  stage = await ProxyStage.start({ default: { nodes: 1, ...options } }, () => answers)
  const node = stage.node()
  const call = (method: string, params: unknown = [], token?: string) =>
    stage.call(method, JSON.stringify(params), token)
  return { chain, answers, node, call }
}

const confirmed = [{ commitment: 'confirmed' }]

describe('answers from the stream', () => {
  it('say so in x-sluice-source, in a batch only when all of them are', async () => {
    const { chain, node, call } = await start()
    node.scripts.getSlot = result('99')
    expect(await call('getSlot', confirmed)).toMatchObject({ source: 'node', json: { result: 99 } })
    chain.grow(100, 110)
    const given = await call('getSlot', confirmed)
    expect(given).toMatchObject({ source: 'stream', json: { result: 110, id: 'mine' } })
    expect(node.count('getSlot')).toBe(1)
    const item = (method: string) => ({ jsonrpc: '2.0', id: 1, method, params: confirmed })
    const batch = async (...methods: string[]) =>
      (await stage.post(JSON.stringify(methods.map(item)))).source
    expect(await batch('getSlot', 'getBlockHeight')).toBe('stream')
    expect(await batch('getSlot', 'getClusterNodes')).toBe('node')
    const counts = [...stage.tally.answers.read()].filter(([, , count]) => count > 0)
    expect(counts).toEqual([
      ['slots', 'stream', 4],
      ['slots', 'node', 1],
      ['other', 'node', 1],
    ])
  })

  it('never go back for a customer, whoever answered before', async () => {
    const { chain, node, call } = await start()
    node.scripts.getSlot = result('120')
    node.scripts.getBlockHeight = result('130')
    expect((await call('getSlot', confirmed)).json.result).toBe(120)
    chain.grow(100, 110)
    // The stream is at 110, and a node has shown 120.
    expect((await call('getSlot', confirmed)).json.result).toBe(120)
    const other = stage.bundle.issue().token
    expect((await call('getSlot', confirmed, other)).json.result).toBe(110)
    expect((await call('getSlot', [], other)).json.result).toBe(107)
    chain.grow(111, 121)
    expect((await call('getSlot', confirmed)).json.result).toBe(121)
    // Heights have no slot beside them, and do not go back either.
    chain.grow(122, 125, { height: null })
    const ahead = { commitment: 'confirmed', minContextSlot: 125 }
    expect((await call('getBlockHeight', [ahead])).json.result).toBe(130)
    expect((await call('getBlockHeight', confirmed)).json.result).toBe(130)
    expect((await call('getBlockHeight', confirmed, other)).json.result).toBe(121)
  })

  it('are given again to a customer whom a node has shown a slot that none is near', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 110)
    const slot = 4_000_000_000
    node.scripts.getBalance = result(`{"context":{"slot":${slot}},"value":1}`)
    node.scripts.getTransaction = result(`{"slot":${slot},"transaction":{},"blockTime":1}`)
    for (const method of ['getBalance', 'getTransaction']) {
      expect((await call(method, [key, confirmed[0]])).source).toBe('node')
      // The node has reported it itself: until its next probe it is believed.
      const isAnswered = async () => (await call('getSlot', confirmed)).source === 'stream'
      await until(isAnswered, 'an answer from the stream')
    }
  })

  it('learn the version in a context from the nodes', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 110)
    const context = { apiVersion: '4.0.3', slot: 105 }
    const value = { blockhash: 'x', lastValidBlockHeight: 1 }
    node.scripts.getLatestBlockhash = result(JSON.stringify({ context, value }))
    expect((await call('getLatestBlockhash', confirmed)).source).toBe('node')
    const given = await call('getLatestBlockhash', confirmed)
    expect(given).toMatchObject({
      source: 'stream',
      json: { result: { context: { apiVersion: '4.0.3', slot: 110 } } },
    })
  })

  it('are not given for a method that no node may serve', async () => {
    const { chain, call } = await start({ each: { deny: ['getSlot'] } })
    chain.grow(100, 110)
    expect((await call('getSlot', confirmed)).json.error.code).toBe(-32601)
    expect((await call('getBlockHeight', confirmed)).json.result).toBe(110)
  })
})

const pubkey = new Uint8Array(32).fill(7)
const key = encodeBase58(pubkey)
const owner = '1'.repeat(32)
const wide = `"lamports":9007199254740993,"owner":"${owner}","rentEpoch":18446744073709551615`

/** As agave writes an account; lamports and rent epoch are no safe integers. */
function accountAt(slot: number, data = Buffer.from('hello')): Script {
  const space = data.length
  const members = `"data":["${data.toString('base64')}","base64"],"executable":false,${wide}`
  const context = `{"apiVersion":"4.0.0","slot":${slot}}`
  return result(`{"context":${context},"value":{${members},"space":${space}}}`)
}

describe('accounts from the stream', () => {
  type Call = (method: string, params: unknown[], token?: string) => Promise<Told>
  const ask = (call: Call, method: string, token?: string) =>
    call(method, [key, { commitment: 'confirmed', encoding: 'base64' }], token)

  it('are read from a node once, then kept current', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 110)
    node.scripts.getAccountInfo = accountAt(110)
    expect((await ask(call, 'getAccountInfo')).source).toBe('node')
    expect((await ask(call, 'getAccountInfo')).source).toBe('node')
    await until(async () => (await ask(call, 'getAccountInfo')).source === 'stream', 'the account')
    const asked = node.count('getAccountInfo')
    const config = '{"commitment":"confirmed","encoding":"base64","minContextSlot":110}'
    expect(node.asked.map(({ paramsText }) => paramsText)).toContain(`["${key}",${config}]`)
    const given = await ask(call, 'getAccountInfo')
    expect(given.text).toContain('"lamports":9007199254740993')
    expect(given.text).toContain('"rentEpoch":18446744073709551615')
    expect(given.json.result.value.data).toEqual([
      Buffer.from('hello').toString('base64'),
      'base64',
    ])
    chain.grow(111, 111, { writes: [{ pubkey, lamports: 5 }] })
    const { json, source } = await ask(call, 'getBalance')
    expect([source, json.result]).toEqual([
      'stream',
      { context: { apiVersion: '4.0.0', slot: 111 }, value: 5 },
    ])
    expect(node.count('getAccountInfo')).toBe(asked)
    // Not finalized before that is at the slot of the read.
    const sources = async (config: object) => (await call('getAccountInfo', [key, config])).source
    expect(await sources({ commitment: 'processed' })).toBe('stream')
    expect(await sources({ commitment: 'confirmed', encoding: 'base64+zstd' })).toBe('stream')
    expect(await sources({ commitment: 'confirmed', minContextSlot: 112 })).toBe('node')
    expect(await sources({})).toBe('node')
    chain.grow(112, 114)
    chain.reach(110, slotStatus.finalized)
    expect(await sources({})).toBe('stream')
  })

  it('never go back for a customer that a node has shown a later slot', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 110)
    node.scripts.getAccountInfo = accountAt(110)
    await until(async () => (await ask(call, 'getAccountInfo')).source === 'stream', 'the account')
    // Long answers are read for their slot, too, whether they are whole or streamed.
    node.scripts.getAccountInfo = accountAt(200)
    for (const bytes of [10, 50_000, 400_000]) {
      const { token } = stage.bundle.issue()
      const read = async () => (await ask(call, 'getAccountInfo', token)).source
      expect(await read()).toBe('stream')
      node.scripts.getMultipleAccounts = accountAt(200, Buffer.alloc(bytes, 'x'))
      const params = [[key, owner], { commitment: 'confirmed' }]
      expect((await call('getMultipleAccounts', params, token)).source).toBe('node')
      expect(await read()).toBe('node')
    }
  })

  it('are as new as the transactions that a node has shown', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 110)
    node.scripts.getAccountInfo = accountAt(110)
    await until(async () => (await ask(call, 'getAccountInfo')).source === 'stream', 'the account')
    node.scripts.getAccountInfo = accountAt(200)
    const status = { confirmationStatus: 'confirmed', confirmations: 1, err: null, slot: 111 }
    const context = { apiVersion: '4.0.0', slot: 300 }
    const shows: Readonly<Record<string, unknown>> = {
      getSignatureStatuses: { context, value: [null, { ...status, status: { Ok: null } }] },
      getSignaturesForAddress: [{ ...status, signature: 'x' }],
      getTransaction: { blockTime: 1, meta: { err: null }, slot: 111, transaction: {} },
      getTokenSupply: { context: { ...context, slot: 111 }, value: {} },
    }
    for (const [method, shown] of Object.entries(shows)) {
      const { token } = stage.bundle.issue()
      const read = async () => (await ask(call, 'getAccountInfo', token)).source
      expect([method, await read()]).toEqual([method, 'stream'])
      node.scripts[method] = result(JSON.stringify(shown))
      await call(method, ['x', { commitment: 'confirmed' }], token)
      expect([method, await read()]).toEqual([method, 'node'])
    }
    const { token } = stage.bundle.issue()
    await call('getBlock', [111, { commitment: 'confirmed' }], token)
    expect((await ask(call, 'getAccountInfo', token)).source).toBe('node')
  })

  it('are left to a node at processed until the stream is past what a customer has sent', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 1010)
    node.scripts.getAccountInfo = accountAt(1010)
    const other = stage.bundle.issue().token
    const read = async (token?: string) =>
      (await call('getBalance', [key, { commitment: 'processed' }], token)).source
    node.scripts.getBalance = result('{"context":{"apiVersion":"4.0.0","slot":1010},"value":1}')
    await until(async () => (await read()) === 'stream', 'the account')
    node.scripts.sendTransaction = result('"x"')
    await call('sendTransaction', ['x'])
    expect([await read(), await read(other)]).toEqual(['node', 'stream'])
    expect((await call('getSlot', [{ commitment: 'processed' }])).source).toBe('stream')
    chain.grow(1011, 1020)
    expect(await read()).toBe('stream')
  })

  it('are asked for again after a node refused', async () => {
    const { chain, node, call } = await start()
    chain.grow(100, 110)
    node.scripts.getAccountInfo = error(-32016, 'Minimum context slot has not been reached')
    await ask(call, 'getAccountInfo')
    await ask(call, 'getAccountInfo')
    node.scripts.getAccountInfo = accountAt(111)
    chain.grow(111, 111)
    await until(async () => (await ask(call, 'getAccountInfo')).source === 'stream', 'the account')
  })
})
