// A Sluice before another one, both as processes: the node is killed, restarted and stopped, and
// customers of the first one see neither a gap nor anything twice.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { newestShapes } from '../../src/chain/solana/version.ts'
import { Follower } from '../testkit/follower.ts'
import { openEverything, wordsIn } from '../testkit/geyser-everything.ts'
import { call, callBytes, codec, withToken } from '../testkit/grpc-stage.ts'
import { provision, type Server, sluice, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

let node: Server
let front: Server
let nodeToken: string
let token: string
const followers: Follower[] = []

/** A fast chain: a test sees hundreds of slots. */
const chain = ['--chain.slotMs=100', '--chain.traffic=40', '--metrics.enabled=false']
const targetOf = (server: Server) => `127.0.0.1:${server.doors.grpc!.port}`

const frontFlags = (set: string, server: Server, xToken: string) => [
  `--upstreams.${set}.nodes.0.rpc=${server.url('rpc')}`,
  `--upstreams.${set}.nodes.0.grpc=${server.url('grpc')}`,
  `--upstreams.${set}.nodes.0.xToken=${xToken}`,
]

beforeAll(async () => {
  node = await startServer({ flags: chain })
  nodeToken = (await provision(node.data, 'front', '--product=bundle', '--plan=unlimited')).token
  front = await startServer({
    flags: [
      '--chain.source=upstream',
      '--metrics.source=embedded',
      '--shredstream.enabled=false',
      '--tpu.enabled=false',
      ...frontFlags('default', node, nodeToken),
    ],
  })
  token = (await provision(front.data, 'customer', '--product=bundle', '--plan=unlimited')).token
  // A running server sees a new subscription within a second.
  for (const [server, xToken] of [
    [node, nodeToken],
    [front, token],
  ] as const) {
    const client = new Client(targetOf(server), credentials.createInsecure())
    const isKnown = async () => (await call(client, 'GetSlot', {}, withToken(xToken))).code === 0
    await until(isKnown, 'the subscription to be known')
    client.close()
  }
})

afterEach(() => {
  for (const follower of followers.splice(0)) follower.stop()
})

afterAll(async () => {
  await front?.dispose()
  await node?.dispose()
})

const follow = (server: Server, xToken: string, commitment: number) => {
  const follower = new Follower(targetOf(server), xToken, commitment)
  followers.push(follower)
  return follower
}

async function gapSlots(): Promise<number> {
  const text = await (await fetch(`${front.url('metrics')}/metrics`)).text()
  return Number(/^sluice_upstream_geyser_gap_slots_total\{set="default"\} (\d+)/m.exec(text)?.[1])
}

describe('a Sluice before a Sluice', () => {
  it('sends its customers the node’s bytes, block by block', async () => {
    const clients = [node, front].map(
      (server) => new Client(targetOf(server), credentials.createInsecure()),
    )
    const streams = await Promise.all(
      clients.map((client, at) =>
        openEverything(client, at === 0 ? nodeToken : token, { commitment: 1 }),
      ),
    )
    await until(() => streams.every((stream) => stream.of('blockMeta').length > 20), 'blocks')
    for (const client of clients) client.close()
    // From the first slot that both have whole to the last one.
    const slotsOf = (at: number) => streams[at]!.of('blockMeta').map(({ slot }) => Number(slot))
    const first = Math.max(slotsOf(0)[1]!, slotsOf(1)[1]!)
    const last = Math.min(slotsOf(0).at(-1)!, slotsOf(1).at(-1)!)
    expect(last - first).toBeGreaterThan(15)
    const within = (at: number) => {
      const kept = streams[at]!.raw.filter((bytes, index) => {
        const slot = slotIn(streams[at]!.updates[index])
        return bytes.length > 0 && slot >= first && slot < last
      })
      // Statuses of other slots fall where they fall.
      return wordsIn(kept).filter((words) => !words.includes(' 3:'))
    }
    expect(within(0).length).toBeGreaterThan(100)
    expect(within(1)).toEqual(within(0))
  })

  it('answers unary calls from the hub, with the node’s version', async () => {
    const client = new Client(targetOf(front), credentials.createInsecure())
    const version = JSON.parse(
      (await call(client, 'GetVersion', {}, withToken(token))).value.version,
    )
    expect(version.version).toMatchObject({
      package: 'sluice',
      solana: newestShapes.release['solana-core'],
    })
    const latest = (await call(client, 'GetLatestBlockhash', {}, withToken(token))).value
    const valid = await call(
      client,
      'IsBlockhashValid',
      { blockhash: latest.blockhash },
      withToken(token),
    )
    expect(valid.value).toMatchObject({ valid: true })
    client.close()
  })

  it('shows the operator whom it follows, by name and never by address', async () => {
    const shown = await sluice(front.data, 'status', '--output=json')
    const { geyser } = JSON.parse(shown.stdout) as { geyser: Record<string, object> }
    expect(geyser.default).toMatchObject({ isUp: true, node: 'default/1', gapSlots: 0 })
    expect(shown.stdout).not.toContain(nodeToken)
    expect(shown.stdout).not.toContain(String(node.doors.grpc!.port))
  })

  it('loses and duplicates nothing when the node is killed and restarted', async () => {
    const streams = [0, 1].map((commitment) => follow(front, token, commitment))
    for (const stream of streams) await stream.reaches(stream.newest + 10)
    for (let round = 0; round < 2; round++) {
      const before = streams[1]!.newest
      const ports = ['rpc', 'websocket', 'grpc'].map(
        (endpoint) => `--${endpoint}.port=${node.doors[endpoint]!.port}`,
      )
      await node.stop('SIGKILL')
      node = await startServer({ data: node.data, flags: [...chain, ...ports] })
      for (const stream of streams) await stream.reaches(before + 20)
    }
    expect(streams[1]!.gaps()).toEqual([])
    expect(streams.map(({ duplicates }) => duplicates)).toEqual([0, 0])
    expect(await gapSlots()).toBe(0)
    // Everything confirmed is what the node has now.
    const direct = follow(node, nodeToken, 1)
    await direct.reaches(streams[1]!.newest)
    for (const [slot, signatures] of direct.signatures)
      if (slot > Math.min(...direct.blocks.keys()) && streams[1]!.blocks.has(slot))
        expect([...(streams[1]!.signatures.get(slot) ?? [])].toSorted()).toEqual(
          [...signatures].toSorted(),
        )
  })

  it('times out a frozen node within seconds, and loses nothing when it resumes', async () => {
    const stream = follow(front, token, 1)
    await stream.reaches(stream.newest + 10)
    node.child.kill('SIGSTOP')
    await until(() => stream.ends.length > 0, 'word of it')
    expect(stream.ends[0]).toBe(14)
    const client = new Client(targetOf(front), credentials.createInsecure())
    const health = await callBytes(
      client,
      '/grpc.health.v1.Health/Check',
      Buffer.from(codec.encode('grpc.health.v1.HealthCheckRequest', {})),
      withToken(token),
      (bytes) => codec.decode('grpc.health.v1.HealthCheckResponse', bytes),
    )
    expect(health.value.status).toBe(2)
    expect((await call(client, 'GetSlot', {}, withToken(token))).code).toBe(14)
    client.close()
    const before = stream.newest
    node.child.kill('SIGCONT')
    await stream.reaches(before + 20)
    expect(stream.gaps()).toEqual([])
    expect(stream.duplicates).toBe(0)
    expect(await gapSlots()).toBe(0)
  })
})

describe('a dedicated node beside our own chain', () => {
  it('serves its subscription alone, and no other node replaces it when it is gone', async () => {
    const dedicated = await startServer({ flags: chain })
    const xToken = (await provision(dedicated.data, 'front', '--product=bundle')).token
    const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
    const config = `--config=${join(folder, 'sluice.yaml')}`
    const section = { rpc: dedicated.url('rpc'), grpc: dedicated.url('grpc'), xToken }
    const sets = {
      chain: { source: 'embedded' },
      metrics: { source: 'embedded' },
      shredstream: { feed: 'embedded' },
      upstreams: { acme: { nodes: [section] } },
    }
    writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify(sets))
    const mixed = await startServer({ flags: [config, ...chain] })
    try {
      const own = (await provision(mixed.data, 'everybody', '--product=bundle')).token
      const flags = [config, '--product=bundle,dedicated-node', '--upstream=acme']
      const bound = (await provision(mixed.data, 'acme', ...flags)).token
      const streams = [follow(mixed, own, 0), follow(mixed, bound, 0), follow(dedicated, xToken, 0)]
      for (const stream of streams) await stream.reaches(0)
      const last = Math.max(streams[1]!.newest, streams[2]!.newest) + 3
      for (const stream of streams.slice(1)) await stream.reaches(last)
      const hashes = streams.map((stream) => stream.blocks.get(last)?.blockhash)
      expect(hashes[1]).toBe(hashes[2])
      const others = [...streams[0]!.blocks.values()].map(({ blockhash }) => blockhash)
      expect(others).not.toContain(hashes[1])
      await dedicated.stop('SIGKILL')
      const { ends } = streams[1]!
      await until(() => ends.at(-1) === 14, 'the end of its stream')
      const client = new Client(targetOf(mixed), credentials.createInsecure())
      const answer = await call(client, 'GetSlot', {}, withToken(bound))
      expect(answer.code).toBe(14)
      expect(answer.details).not.toContain(String(dedicated.doors.grpc!.port))
      expect((await call(client, 'GetSlot', {}, withToken(own))).code).toBe(0)
      client.close()
      await streams[0]!.reaches(streams[0]!.newest + 10)
      expect(streams[0]!.gaps()).toEqual([])
      const written = mixed.stderr() + mixed.stdout()
      for (const secret of [xToken, dedicated.url('grpc'), dedicated.url('rpc')])
        expect(written).not.toContain(secret)
    } finally {
      await mixed.dispose()
      await dedicated.dispose()
      rmSync(folder, { recursive: true })
    }
  })
})

// biome-ignore lint/suspicious/noExplicitAny: updates are read field by field, as in a client.
function slotIn(update: any): number {
  for (const kind of ['account', 'transaction', 'transactionStatus', 'block', 'blockMeta', 'entry'])
    if (update[kind]) return Number(update[kind].slot)
  return -1
}
