// The geyser client of a gateway behind the HTTP/2 proxies of others, nginx and haproxy: customers get
// the node's own bytes, once, over reloads, broken connections and pauses.
//
//   node ◄── relay of the test ◄── nginx | haproxy ◄── gateway ◄── customer, compared with the node's
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { GeyserClient, type GeyserEnd } from '../../src/upstream/geyser/geyser-client.ts'
import { openEverything, wordsIn } from '../testkit/geyser-everything.ts'
import { nodeSection, RelayStage } from '../testkit/geyser-relay.ts'
import { codec, GrpcStage, type Subscription } from '../testkit/grpc-stage.ts'
import { hasProxy, openProxy, type ProxyName } from '../testkit/http2-proxies.ts'
import { isSlice } from '../testkit/slice.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { hangMs, until } from '../testkit/until.ts'

const mebibyte = 1024 * 1024
const streamBytesMin = (isSlice ? 3 : 12) * mebibyte
const reloads = isSlice ? 1 : 5

const open: { close(): void | Promise<void> }[] = []
const keep = <T extends { close(): void | Promise<void> }>(part: T): T => {
  open.push(part)
  return part
}

afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close()
})

/** Endless updates of a chain whose accounts are longer than a frame of HTTP/2. */
function* slots(): Generator<SolanaUpdate[]> {
  const chain = new SyntheticSolana({ seed: 5, dataBytes: 20_000, finalizedAfter: 8 })
  for (;;)
    yield chain.next().map((update) => {
      if (update.kind !== 'block') return update
      const last = new Map(update.accounts.map((one) => [String(one.pubkey), one]))
      return { ...update, accounts: [...last.values()] }
    })
}

const bytesOf = ({ raw }: Subscription) => raw.reduce((sum, { length }) => sum + length, 0)
/** Updates without pings and pongs. */
const updatesIn = (stream: Subscription) =>
  stream.raw.length - stream.of('pong').length - stream.of('ping').length
const metas = (stream: Subscription) => stream.of('blockMeta').length
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** A customer of this test may be slow. */
const patient = { backlogBytesMax: 256 * mebibyte }

async function behind(name: ProxyName) {
  const node = keep(await GrpcStage.open({ section: patient }))
  const cut = keep(await TcpCut.open(node.target))
  const proxy = keep(await openProxy(name, cut.target))
  const { token } = node.provision({ plan: 'unlimited' })
  const address = `http://${proxy.target}`
  return { node, cut, proxy, token, address }
}

async function relayed(name: ProxyName) {
  const { node, cut, proxy, token, address } = await behind(name)
  const relay = keep(await RelayStage.open([nodeSection(address, token)], { section: patient }))
  await relay.connected()
  await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
  const request = { commitment: 0 }
  const customer = relay.endpoint.provision({ plan: 'unlimited' }).token
  const through = await openEverything(relay.endpoint.client(), customer, request)
  const direct = await openEverything(node.client(), token, request)
  return { node, cut, proxy, relay, direct, through }
}

/** The next slot, until this stream has it. */
async function publishTo(
  stream: Subscription,
  node: GrpcStage,
  story: Generator<SolanaUpdate[]>,
): Promise<void> {
  const before = metas(stream)
  node.publish(story.next().value as SolanaUpdate[])
  await until(() => metas(stream) > before, 'the next slot')
}

/** Slots one after the other, each after the customer has the one before. */
async function publishSlots(
  { node, through }: Awaited<ReturnType<typeof relayed>>,
  story: Generator<SolanaUpdate[]>,
  count: number,
): Promise<void> {
  for (let at = 0; at < count; at++) await publishTo(through, node, story)
}

for (const name of ['nginx', 'haproxy'] as const)
  describe.skipIf(!hasProxy(name))(`geyser through ${name}`, () => {
    it('carries the node’s own bytes, and stays connected when nothing is sent', async () => {
      const stage = await relayed(name)
      const { node, direct, through, relay } = stage
      const story = slots()
      await publishSlots(stage, story, 3)
      // Longer than the time after which a silent peer is given up: pings are answered.
      await pause(4_500)
      while (bytesOf(direct) < streamBytesMin) await publishTo(direct, node, story)
      await direct.settled()
      await until(() => updatesIn(through) >= updatesIn(direct), 'as many updates')
      expect(wordsIn(through.raw)).toEqual(wordsIn(direct.raw))
      expect(relay.counts).toMatchObject({ connections: 1, failures: 0, unreadable: 0 })
    })

    it('resumes without gap or duplicate over reloads and broken connections', async () => {
      const stage = await relayed(name)
      const { proxy, cut, relay, direct, through } = stage
      const story = slots()
      const reconnects = async (fault: () => void) => {
        const { connections } = relay.counts
        fault()
        await until(() => relay.counts.connections > connections, 'another connection')
        await publishSlots(stage, story, 3)
      }
      await publishSlots(stage, story, 3)
      for (let round = 0; round < reloads; round++) {
        await reconnects(() => proxy.reload())
        await reconnects(() => cut.cut())
      }
      await direct.settled()
      await through.settled()
      // A status lost in a disconnect is derived from later ones, a little later.
      const withoutStatus = (words: string[]) => words.filter((one) => !one.includes(' 3:'))
      expect(withoutStatus(wordsIn(through.raw))).toEqual(withoutStatus(wordsIn(direct.raw)))
      expect(through.status).toBeNull()
      expect(relay.counts).toMatchObject({ gapSlots: 0, incompleteBlocks: 0, unreadable: 0 })
    })

    it('holds the node back while nothing is read, and loses nothing', async () => {
      const { node, token, address } = await behind(name)
      const client = keep(new GeyserClient({ address, xToken: token }, systemClock))
      const messages: Buffer[] = []
      const ends: GeyserEnd[] = []
      const request = codec.encode('geyser.SubscribeRequest', {
        accounts: { a: { account: [], owner: [], filters: [] } },
        blocksMeta: { m: {} },
        commitment: 0,
      })
      const stream = client.subscribe(request, {
        messages: (bytes, offsets) => {
          for (let at = 0; at < offsets.length; at += 2)
            messages.push(bytes.subarray(offsets[at], offsets[at + 1]))
        },
        ended: (end) => void ends.push(end),
      })
      await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
      const direct = await openEverything(node.client(), token, {
        ...{ slots: {}, transactions: {}, transactionsStatus: {}, blocks: {}, entry: {} },
        commitment: 0,
      })
      const story = slots()
      stream.pause()
      while (bytesOf(direct) < streamBytesMin) await publishTo(direct, node, story)
      // A paused stream is not a silent one.
      await pause(3_500)
      const held = messages.length
      stream.resume()
      await direct.settled()
      const last = direct.raw.findLast((one) => wordsIn([one]).length === 1)!
      await until(() => messages.some((one) => one.equals(last)), 'the last update')
      expect(held).toBeLessThan(messages.length / 2)
      expect(wordsIn(messages)).toEqual(wordsIn(direct.raw))
      expect(ends).toEqual([])
      // A call beside the stream, on the same connection.
      const answer = await client.call('GetVersion', new Uint8Array(0), hangMs)
      expect(answer.ok).toBe(true)
    })
  })
