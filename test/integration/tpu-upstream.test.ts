// The TPU Sender in front of JSON-RPC nodes: parallel sends, keep-alive, failure and recovery.
import type { KeyPairSigner } from '@solana/kit'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { transactionSenders } from '../../src/upstream/transaction-senders.ts'
import { NodeStub } from '../testkit/node-stub.ts'
import { newAddress, newPayer, sign, transfer } from '../testkit/tipped.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'
import { until } from '../testkit/until.ts'

const deps = { clock: systemClock, log: silentLog }
const tipAccounts = [newAddress()]
let payer: KeyPairSigner
let lamports = 1_000_000n
let stage: TpuStage
const nodes: NodeStub[] = []

beforeAll(async () => {
  payer = await newPayer()
})
afterEach(async () => {
  await stage.dispose()
  await Promise.all(nodes.splice(0).map((node) => node.close()))
})

async function start(count: number, section: object = {}) {
  stage = new TpuStage()
  const senders = []
  for (let index = 0; index < count; index++) {
    const node = new NodeStub()
    nodes.push(node)
    const address = `http://127.0.0.1:${await node.listen()}/path?key=secret`
    const [sender] = transactionSenders([address], new Upstreams({}, deps), deps)
    await sender!.warm()
    senders.push(sender!)
  }
  await stage.start({ tipAccounts, ...section }, senders)
  return { senders, nodes: [...nodes] }
}

const tipped = () =>
  sign(payer, [transfer({ from: payer, to: tipAccounts[0]!, lamports: lamports++ })])

describe('upstreams', () => {
  it('all get every transaction, without preflight and retries of their own', async () => {
    const { nodes } = await start(2)
    const bytes = await tipped()
    expect((await stage.send(bytes)).json.result).toBeTypeOf('string')
    await until(() => nodes.every(({ sent }) => sent.length === 1), 'both to get it')
    expect(nodes[0]!.sent[0]).toEqual({
      transaction: Buffer.from(bytes).toString('base64'),
      options: { encoding: 'base64', skipPreflight: true, maxRetries: 0 },
    })
    for (let times = 0; times < 10; times++) await stage.send(await tipped())
    // On a busy machine some of them are resent meanwhile.
    const differing = (sent: NodeStub['sent']) =>
      new Set(sent.map(({ transaction }) => transaction)).size
    await until(() => nodes.every(({ sent }) => differing(sent) === 11), 'both to get all')
    if (nodes[0]!.sent.length === 11) expect(nodes[0]!.connections.size).toBeLessThanOrEqual(3)
  })

  it('report what landed', async () => {
    const { nodes } = await start(1)
    nodes[0]!.status = { slot: 77, err: null, confirmationStatus: 'confirmed' }
    await stage.send(await tipped())
    await until(() => stage.tpu.report(1).landed === 1, 'it to be seen')
    expect(stage.tpu.report(1).last).toMatchObject([{ outcome: 'landed', landedSlot: 77 }])
    expect(nodes[0]!.sent).toHaveLength(1)
  })

  it('that are down or lagging are not sent to: -32005', async () => {
    const { nodes, senders } = await start(1)
    nodes[0]!.isHealthy = false
    await until(() => !senders[0]!.isUp(), 'the node to be found unhealthy')
    const answer = await stage.send(await tipped())
    expect(answer).toMatchObject({
      status: 200,
      json: { error: { code: -32005, data: { reason: 'NO_UPSTREAM' } } },
    })
    expect((await fetch(`${stage.url}/health`)).status).toBe(503)
    expect((await stage.call('getHealth')).json.error.code).toBe(-32005)
    expect(nodes[0]!.sent).toHaveLength(0)
    nodes[0]!.isHealthy = true
    await until(() => senders[0]!.isUp(), 'the node to be found healthy')
    expect((await stage.send(await tipped())).json.result).toBeTypeOf('string')
  })

  it('that are down fill the queue with whenDown, and get it when they recover', async () => {
    const { nodes, senders } = await start(1, { whenDown: 'queue' })
    nodes[0]!.isHealthy = false
    await until(() => !senders[0]!.isUp(), 'the node to be found unhealthy')
    const all = await Promise.all(Array.from({ length: 5 }, tipped))
    for (const bytes of all) expect((await stage.send(bytes)).json.result).toBeTypeOf('string')
    nodes[0]!.isHealthy = true
    // In any order, and some twice where the machine is slow.
    const sent = () => new Set(nodes[0]!.sent.map(({ transaction }) => transaction))
    await until(() => sent().size === 5, 'the queue to be sent')
    expect(sent()).toEqual(new Set(all.map((bytes) => Buffer.from(bytes).toString('base64'))))
  })

  it('decide the answer with `wait`', async () => {
    const { nodes } = await start(1, { wait: true })
    expect((await stage.send(await tipped())).json.result).toBeTypeOf('string')
    const data = { err: 'BlockhashNotFound' }
    nodes[0]!.error = { code: -32002, message: 'Blockhash not found', data }
    expect((await stage.send(await tipped())).json.error).toMatchObject({
      code: -32002,
      data: { reason: 'CHAIN_REJECTED', err: 'BlockhashNotFound' },
    })
    expect(stage.tpu.report(1)).toMatchObject({ accepted: 2, failed: 1 })
  })
})
