// Calls that the stream of a set answers instead of its nodes, as a customer of rpc sees them.
import { afterEach, describe, expect, it } from 'vitest'
import { StreamAnswers } from '../../src/answers/stream-answers.ts'
import { ProxyStage, type SetOptions } from '../testkit/proxy-stage.ts'
import { result } from '../testkit/scripted-node.ts'
import { StreamChain } from '../testkit/stream-chain.ts'

let stage: ProxyStage
afterEach(() => stage?.stop())

async function start(options: Partial<SetOptions> = {}) {
  const chain = new StreamChain()
  const answers = new StreamAnswers(chain.hub, { isLive: () => true })
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
