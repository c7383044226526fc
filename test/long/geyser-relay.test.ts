// The gateway in front of nodes: customers get the nodes' updates, byte for byte, once, whatever happens to
// the wire between.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { CertificatePair } from '../../src/base/transport/tls.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { openEverything, wordsIn } from '../testkit/geyser-everything.ts'
import { nodeSection, RelayStage } from '../testkit/geyser-relay.ts'
import { GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { randomOf, SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until, untilWithin } from '../testkit/until.ts'

const open: { close(): void | Promise<void> }[] = []
const keep = <T extends { close(): void | Promise<void> }>(part: T): T => {
  open.push(part)
  return part
}

afterEach(async () => {
  for (const part of open.splice(0).reverse()) await part.close()
})

/** Updates of a chain, with blocks as our own chain sends them: the last write of each account. */
function storyOf(slots: number, firstSlot = 1000): SolanaUpdate[][] {
  const chain = new SyntheticSolana({ seed: 21, finalizedAfter: 8, firstSlot })
  return Array.from({ length: slots }, () =>
    chain.next().map((update) => {
      if (update.kind !== 'block') return update
      const last = new Map(update.accounts.map((one) => [String(one.pubkey), one]))
      return { ...update, accounts: [...last.values()] }
    }),
  )
}

/** Updates without pings and pongs. */
const countIn = (stream: Subscription) =>
  stream.raw.length - stream.of('pong').length - stream.of('ping').length

async function wired(node: GrpcStage): Promise<{ cut: TcpCut; relay: RelayStage }> {
  const cut = keep(await TcpCut.open(node.target))
  const { token } = node.provision({ plan: 'unlimited' })
  const relay = keep(await RelayStage.open([nodeSection(`http://${cut.target}`, token)]))
  await relay.connected()
  await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
  return { cut, relay }
}

describe('a stream through the gateway', () => {
  it('carries the node’s own bytes in the node’s order, at every commitment', async () => {
    const node = keep(await GrpcStage.open())
    const relay = keep(await RelayStage.before(node))
    const unlimited = (stage: GrpcStage) => stage.provision({ plan: 'unlimited' }).token
    const requests = [0, 1, 2].map((commitment) => ({ commitment }))
    const sliced = { commitment: 0, accountsDataSlice: [{ offset: 1, length: 3 }] }
    const pairs = await Promise.all(
      [...requests, sliced].map(async (request) => ({
        direct: await openEverything(node.client(), unlimited(node), request),
        through: await openEverything(relay.endpoint.client(), unlimited(relay.endpoint), request),
      })),
    )
    for (const slot of storyOf(40)) node.publish(slot)
    for (const { direct, through } of pairs) {
      await direct.settled()
      await until(() => countIn(through) >= countIn(direct), 'as many updates')
      const words = wordsIn(direct.raw)
      expect(words.length).toBeGreaterThan(500)
      expect(wordsIn(through.raw)).toEqual(words)
    }
    expect(relay.counts).toMatchObject({ duplicates: 0, incompleteBlocks: 0, unreadable: 0 })
  })

  it('resumes without gap or duplicate when the connection breaks repeatedly', async () => {
    const node = keep(await GrpcStage.open())
    const { cut, relay } = await wired(node)
    const token = relay.endpoint.provision({ plan: 'unlimited' }).token
    const streams = await Promise.all(
      [0, 1, 2].map((commitment) => openEverything(relay.endpoint.client(), token, { commitment })),
    )
    const direct = await Promise.all(
      [0, 1, 2].map((commitment) =>
        openEverything(node.client(), node.provision({ plan: 'unlimited' }).token, { commitment }),
      ),
    )
    const random = randomOf(4)
    const story = storyOf(60).flat()
    for (let at = 0; at < story.length; ) {
      const next = at + 20 + Math.floor(random() * 200)
      node.publish(story.slice(at, next))
      at = next
      await new Promise((resolve) => setImmediate(resolve))
      if (at > story.length - 500 || random() < 0.5) continue
      const { connections, messages } = relay.counts
      cut.cut()
      const goesOn = () =>
        relay.counts.connections > connections && relay.counts.messages > messages
      await until(goesOn, 'another connection')
    }
    expect(relay.counts.connections).toBeGreaterThan(3)
    for (const commitment of [0, 1, 2] as const) {
      const said = direct[commitment]!
      const heard = streams[commitment]!
      await said.settled()
      await until(() => heard.of('blockMeta').length >= said.of('blockMeta').length, 'all metas')
      await heard.settled()
      // A status lost in a disconnect is derived from later ones, a little later than the node sent it.
      const withoutStatus = (words: string[]) => words.filter((one) => !one.includes(' 3:'))
      expect(withoutStatus(wordsIn(heard.raw))).toEqual(withoutStatus(wordsIn(said.raw)))
      expect(heard.status).toBeNull()
    }
    expect(relay.counts).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
  })

  it('resumes at another node of the set, with that node’s bytes', async () => {
    const nodes = [keep(await GrpcStage.open()), keep(await GrpcStage.open())]
    const story = storyOf(40)
    const sections = nodes.map((node, index) =>
      nodeSection(`http://${node.target}`, node.provision({ plan: 'unlimited' }).token, 2 - index),
    )
    const relay = keep(await RelayStage.open(sections))
    await relay.connected()
    expect(relay.chains.report()[0]).toMatchObject({ node: 'default/1', isUp: true })
    await until(async () => (await nodes[0]!.meter('sluice_grpc_groups')) > 0, 'its filters')
    const token = relay.endpoint.provision().token
    const stream = await openEverything(relay.endpoint.client(), token, { commitment: 1 })
    for (const slot of story.slice(0, 20)) for (const node of nodes) node.publish(slot)
    const half = story[20]!.slice(0, 12)
    for (const node of nodes) node.publish(half)
    await until(() => stream.of('blockMeta').length >= 19, 'nineteen metas')
    await nodes[0]!.running.stop()
    await relay.connected(2)
    expect(relay.chains.report()[0]!.node).toBe('default/2')
    nodes[1]!.publish(story[20]!.slice(12))
    for (const slot of story.slice(21)) nodes[1]!.publish(slot)
    await until(() => stream.of('blockMeta').length >= 39, 'all metas')
    expect(stream.of('blockMeta').map(({ slot }) => Number(slot))).toEqual(
      Array.from({ length: 39 }, (_, at) => 1000 + at),
    )
    const signatures = stream
      .of('transaction')
      .map(({ transaction }) => String(transaction.signature))
    expect(new Set(signatures).size).toBe(signatures.length)
    expect(signatures).toHaveLength(39 * 6)
    expect(relay.counts.gapSlots).toBe(0)
  })
})

describe.skipIf(!hasOpenssl)('a node with TLS', () => {
  it('is followed over https, and refused with an untrusted certificate', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
    keep({ close: () => rmSync(folder, { recursive: true }) })
    const certificates = new CertificatePair(makePair(folder, 'node'), silentLog)
    keep({ close: () => certificates.stop() })
    const node = keep(await GrpcStage.open({ certificates }))
    const { token } = node.provision({ plan: 'unlimited' })
    const nodes = [nodeSection(`https://${node.target}`, token)]
    const refused = keep(await RelayStage.open(nodes))
    await until(() => refused.counts.failures > 0, 'a refused certificate')
    expect(refused.counts.connections).toBe(0)
    // As NODE_EXTRA_CA_CERTS would, but for a process that runs already: for its next worker.
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    keep({ close: () => void delete process.env.NODE_TLS_REJECT_UNAUTHORIZED })
    const relay = keep(await RelayStage.open(nodes))
    await relay.connected()
    await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
    const story = storyOf(3)
    for (const slot of story) node.publish(slot)
    await relay.caughtUp(story[2]!)
    expect(relay.road.heads.at(0)?.slot).toBe(1002)
  })
})

describe('a node that is not there', () => {
  it('times out within seconds when it keeps its connection and sends nothing', async () => {
    const node = keep(await GrpcStage.open())
    const { cut, relay } = await wired(node)
    const story = storyOf(12)
    for (const slot of story.slice(0, 5)) node.publish(slot)
    await relay.caughtUp(story[4]!)
    cut.hold(true)
    node.publish(story[5]!)
    await untilWithin(8_000, () => relay.counts.failures > 0, 'the silence to be noticed')
    cut.hold(false)
    cut.cut()
    for (const slot of story.slice(6)) node.publish(slot)
    await relay.caughtUp(story[11]!)
    expect(relay.counts).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
  })

  it('ends streams with UNAVAILABLE after a grace, and takes them back with from_slot', async () => {
    const node = keep(await GrpcStage.open())
    const { cut, relay } = await wired(node)
    const story = storyOf(10)
    for (const slot of story.slice(0, 4)) node.publish(slot)
    await relay.caughtUp(story[3]!)
    const token = relay.endpoint.provision().token
    const stream = new Subscription(relay.endpoint.client(), withToken(token))
    stream.ask({ blocksMeta: { m: {} }, fromSlot: 1000 })
    await until(() => stream.of('blockMeta').length === 4, 'four metas')
    cut.refuse(true)
    await until(() => stream.status !== null, 'the end of the stream')
    expect(stream.status).toMatchObject({ code: 14 })
    expect(stream.status!.details).not.toContain(cut.target)
    expect(relay.road.isUp()).toBe(false)
    for (const slot of story.slice(4)) node.publish(slot)
    cut.refuse(false)
    await until(() => relay.road.isUp(), 'the road to be up again')
    const again = new Subscription(relay.endpoint.client(), withToken(token))
    again.ask({ blocksMeta: { m: {} }, fromSlot: 1003 })
    await until(() => again.of('blockMeta').length === 7, 'the rest')
    expect(again.of('blockMeta').map(({ slot }) => Number(slot))).toEqual([
      1003, 1004, 1005, 1006, 1007, 1008, 1009,
    ])
    expect(relay.counts.gapSlots).toBe(0)
  })

  it('leaves a gap that is counted when its replay does not reach back far enough', async () => {
    const node = keep(
      await GrpcStage.open({ hub: openSolanaHub({ replaySlots: 5, replayBytesMax: 1e9 }) }),
    )
    const { cut, relay } = await wired(node)
    const story = storyOf(40)
    for (const slot of story.slice(0, 10)) node.publish(slot)
    await relay.caughtUp(story[9]!)
    cut.refuse(true)
    await until(async () => (await node.meter('sluice_grpc_groups')) === 0, 'its end')
    for (const slot of story.slice(10, 30)) node.publish(slot)
    cut.refuse(false)
    await until(() => relay.counts.connections > 1, 'another connection')
    // The node has taken its request, so that what follows is for it.
    await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
    for (const slot of story.slice(30)) node.publish(slot)
    await relay.caughtUp(story[39]!)
    // 1009 was the last whole one; the node still had 1025 and later.
    expect(relay.counts.gapSlots).toBe(1025 - 1009)
  })

  it('is not up with a wrong token, and reveals neither the token nor the address', async () => {
    const node = keep(await GrpcStage.open())
    const relay = keep(await RelayStage.open([nodeSection(`http://${node.target}`, 'slu_wrong')]))
    await until(() => relay.counts.failures > 1, 'two refusals')
    expect(relay.chains.report()[0]).toMatchObject({ node: null, slot: null })
    const stream = new Subscription(
      relay.endpoint.client(),
      withToken(relay.endpoint.provision().token),
    )
    stream.ask({ slots: { s: {} } })
    await until(() => stream.status !== null, 'the end of the stream')
    expect(stream.status).toMatchObject({ code: 14 })
    expect(stream.status!.details).not.toMatch(/slu_wrong|127\.0\.0\.1/)
  })
})
