// A node that writes its address, keys and token into its errors: no customer and no log gets them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { type Log, silentLog } from '../../src/base/telemetry/log.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { SetSender, transactionSenders } from '../../src/upstream/transaction-senders.ts'
import { FakeSender } from '../testkit/fake-senders.ts'
import { LeakyNode, writings } from '../testkit/leaky-node.ts'
import { ProxyStage } from '../testkit/proxy-stage.ts'
import { newAddress, newPayer, sign, transfer } from '../testkit/tipped.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'
import { until } from '../testkit/until.ts'
import { setSection } from '../testkit/upstream-sections.ts'

let node: LeakyNode
beforeAll(async () => {
  node = await new LeakyNode().listen()
})
afterAll(() => node.close())

/** Asks with every secret in every writing; a text is what the customer read. */
async function expectRedacted(ask: () => Promise<string>): Promise<void> {
  for (const [writing, write] of Object.entries(writings))
    for (const [name, secret] of Object.entries(node.secrets)) {
      node.members = write(secret)
      const text = await ask()
      const what = `${name} ${writing}: ${text}`
      expect(text, what).toContain('Internal error')
      for (const form of [secret, encodeURIComponent(secret), '\\u0', '%'])
        expect(text.toLowerCase(), what).not.toContain(form.toLowerCase())
    }
}

describe("a node's error with its secrets in it", () => {
  it('reaches a customer of rpc as its code alone', async () => {
    const { rpc, xToken, ws } = node
    const stage = await ProxyStage.start({ default: { nodes: [rpc], each: { xToken, ws } } })
    try {
      await expectRedacted(async () => (await stage.call('getBalance', '["x"]')).text)
      node.members = '"message":"Invalid param: WrongSize","data":{"logs":["a%20b"]}'
      expect((await stage.call('getBalance', '["x"]')).json.error).toEqual({
        code: -32010,
        message: 'Invalid param: WrongSize',
        data: { logs: ['a%20b'] },
      })
    } finally {
      await stage.stop()
    }
  })

  describe('reaches the sender of a transaction with tpu.wait without them', () => {
    const tipAccounts = [newAddress()]
    const stage = new TpuStage()
    const upstreams = () =>
      new Upstreams(
        { main: setSection([{ rpc: node.rpc, ws: node.ws, xToken: node.xToken }]) },
        { clock: systemClock, log: silentLog },
      )
    let current = new FakeSender() as Pick<FakeSender, 'send'>
    beforeAll(() => {
      const relay = Object.assign(new FakeSender(), {
        send: (bytes: Uint8Array) => current.send(bytes),
      })
      return stage.start({ tipAccounts, wait: true }, [relay], {
        limits: { workMsPerSecond: 0, workMsBurst: 1, bytesPerSecond: 1_024, bytesBurst: 1_024 },
      })
    })
    afterAll(() => stage.dispose())

    let lamports = 1_000_000n
    const ask = async () => {
      const payer = await newPayer()
      const to = tipAccounts[0]!
      const bytes = await sign(payer, [transfer({ from: payer, to, lamports: lamports++ })])
      return JSON.stringify((await stage.send(bytes)).json)
    }

    it('through a set', async () => {
      const nodes = upstreams()
      await nodes.start()
      current = new SetSender(nodes.set('main')!)
      try {
        await expectRedacted(ask)
        node.members = '"message":"Blockhash not found","data":{"err":"BlockhashNotFound"}'
        expect(JSON.parse(await ask()).error).toMatchObject({
          code: -32002,
          message: 'the chain refuses it: Blockhash not found',
          data: { err: 'BlockhashNotFound' },
        })
      } finally {
        await nodes.stop()
      }
    })

    it('through an address, and the log does not get it either', async () => {
      const lines: string[] = []
      const keep = (msg: string, fields?: object) => void lines.push(JSON.stringify([msg, fields]))
      const log: Log = { debug: keep, info: keep, warn: keep, error: keep, area: () => log }
      // Such an address comes without a token.
      const { rpc, secrets } = { rpc: node.rpc, secrets: { ...node.secrets, xToken: node.rpc } }
      const senderOf = (address: string) =>
        transactionSenders([address], new Upstreams({}, { clock: systemClock, log }), {
          clock: systemClock,
          log,
        })[0]!
      const sender = senderOf(rpc)
      await sender.warm()
      current = sender
      for (const secret of Object.values(secrets)) {
        node.members = writings.plain!(secret)
        expect(await ask()).toContain('Internal error')
      }
      await sender.stop()
      await node.close()
      const lost = senderOf(rpc)
      await lost.warm()
      await until(() => lines.at(-1)?.includes('ECONNREFUSED') === true, 'a line of the fault')
      await lost.stop()
      for (const secret of Object.values(secrets)) expect(lines.join()).not.toContain(secret)
      node = await new LeakyNode().listen()
    })
  })
})
