// Transactions into sets of nodes: to one, or to all; never twice to one.
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { type SetSender, transactionSenders } from '../../src/upstream/transaction-senders.ts'
import { FakeNode } from '../testkit/fake-node.ts'
import { until } from '../testkit/until.ts'
import { setSection } from '../testkit/upstream-sections.ts'

const deps = { clock: systemClock, log: silentLog }
const transaction = Uint8Array.of(1, 2, 3)
const fakes: FakeNode[] = []
let upstreams: Upstreams

afterEach(async () => {
  await upstreams.stop()
  await Promise.all(fakes.splice(0).map((fake) => fake.kill()))
})

async function start(count: number, changes: { broadcast?: boolean } = {}) {
  for (let index = 0; index < count; index++) {
    const fake = await new FakeNode().listen()
    fake.answers.set('sendTransaction', () => 'signature')
    fakes.push(fake)
  }
  const nodes = fakes.map(({ url }) => ({ rpc: url }))
  upstreams = new Upstreams({ main: setSection(nodes, changes) }, deps)
  await upstreams.start()
  const [sender] = transactionSenders(['main'], upstreams, deps)
  return sender as SetSender
}

const sends = () =>
  fakes.map(({ calls }) => calls.filter((call) => call === 'sendTransaction').length)

describe('a set as the way of transactions', () => {
  it('is named in tpu.upstreams beside addresses', async () => {
    await start(1)
    const [set, node] = transactionSenders(['main', fakes[0]!.url], upstreams, deps)
    expect(set?.name).toBe('main')
    expect(node?.name).toBe('upstream 2')
    await node?.warm()
    expect(node?.isUp()).toBe(true)
    expect((await node?.send(transaction))?.ok).toBe(true)
    expect(sends()).toEqual([1])
    await node?.stop()
  })

  it('gives each transaction to one node', async () => {
    const sender = await start(3)
    expect(sender.isUp()).toBe(true)
    for (let time = 0; time < 30; time++) expect((await sender.send(transaction)).ok).toBe(true)
    expect(sends().reduce((sum, count) => sum + count, 0)).toBe(30)
  })

  it('gives it to all with broadcast, and one that takes it is enough', async () => {
    const sender = await start(3, { broadcast: true })
    fakes[0]!.answers.delete('sendTransaction')
    await fakes[1]!.kill()
    expect(await sender.send(transaction)).toEqual({ ok: true, value: null })
    await until(() => sends()[0] === 1 && sends()[2] === 1, 'both to have it')
  })

  it('returns the error of the node', async () => {
    const sender = await start(1)
    fakes[0]!.answers.delete('sendTransaction')
    expect(await sender.send(transaction)).toMatchObject({
      ok: false,
      refusal: { kind: 'rejected', message: 'Method not found' },
    })
    fakes[0]!.status = 503
    expect(await sender.send(transaction)).toMatchObject({
      ok: false,
      refusal: { kind: 'unavailable' },
    })
  })

  it('never sends to a second node when the first one breaks', async () => {
    const sender = await start(2)
    for (const fake of fakes) fake.behaviour = 'break'
    expect((await sender.send(transaction)).ok).toBe(false)
    expect(sends().reduce((sum, count) => sum + count, 0)).toBe(1)
  })

  it('is down while no node is good', async () => {
    const sender = await start(2)
    await Promise.all(fakes.map((fake) => fake.kill()))
    await until(() => !sender.isUp(), 'the set to be down')
    expect(await sender.send(transaction)).toMatchObject({ refusal: { kind: 'unavailable' } })
    await fakes[1]!.listen()
    await until(() => sender.isUp(), 'the set to be up')
  })

  it('reports where they were confirmed, from another node when one fails', async () => {
    const sender = await start(2)
    const signatures = [1, 2, 3, 4, 5].map((byte) => new Uint8Array(64).fill(byte))
    expect(await sender.fates(signatures)).toEqual([null, null, null, null, null])
    const value = [
      { slot: 7, err: null, confirmationStatus: 'confirmed', confirmations: null },
      null,
      { slot: 8, err: null, confirmationStatus: 'processed' },
      { slot: 6, err: 'AccountNotFound', confirmationStatus: 'finalized', confirmations: null },
      // Without votes in blocks a confirmed transaction has no confirmations, for a moment.
      { slot: 9, err: null, confirmationStatus: 'confirmed', confirmations: 0 },
    ]
    fakes[1]!.answers.set('getSignatureStatuses', () => ({ value }))
    fakes[0]!.behaviour = 'break'
    expect(await sender.fates(signatures)).toEqual([
      { slot: 7, isSuccess: true },
      null,
      null,
      { slot: 6, isSuccess: false },
      { slot: 9, isSuccess: true },
    ])
  })
})
