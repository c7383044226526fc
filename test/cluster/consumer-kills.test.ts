// Consumers over two gateways of a cluster, each killed in turn (SIGKILL) and started again, while
// clients on @grpc/grpc-js are cut at random: they have all that the node sent, once.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ConsumerClient, linesOf } from '../testkit/consumer-client.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { everything } from '../testkit/geyser-everything.ts'
import { Subscription, withToken } from '../testkit/grpc-stage.ts'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { spanMs } from '../testkit/slice.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const commitments = [0, 1, 2]
const stormMs = spanMs(600_000, 25_000)
const isHere = hasPostgres()
/** What a gateway passes on byte for byte, live and from what is kept. */
const kinds = { ...everything, blocks: {}, entry: {}, slots: { s: {} } }
const folder = mkdtempSync(join(tmpdir(), 'consumer-kills-'))
const config = join(folder, 'sluice.yaml')
let postgres: Postgres
let devnode: Devnode
const gateways: Server[] = []
const clients: Client[] = []
let token: string

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  devnode = await startDevnode({ slotMs: 200 })
  await SolanaNode.of(devnode)
  const nodes = [{ rpc: devnode.url('rpc'), grpc: devnode.url('grpc'), xToken: '' }]
  const off = { enabled: false }
  const products = { metrics: off, tpu: off, shredstream: off, websocket: off, rpc: off }
  const sections = { chain: { source: 'upstream' }, upstreams: { default: { nodes } }, ...products }
  writeFileSync(config, JSON.stringify(sections))
  for (const number of [0, 1]) gateways.push(await start(number))
  const issued = await provision(gateways[0]!.data, 'a', '--product=bundle', '--plan=unlimited')
  token = issued.token
})

afterAll(async () => {
  for (const client of clients) client.close()
  for (const gateway of gateways) await gateway.dispose()
  await devnode?.dispose()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
  rmSync(folder, { recursive: true })
})

function start(number: number): Promise<Server> {
  const data = join(folder, String(number))
  const cluster = [`--cluster.url=${postgres.url}`, `--cluster.gateway=g${number}`]
  return startServer({ data, flags: [`--config=${config}`, ...cluster] })
}

function clientOf(server: Pick<Server, 'url'>): Client {
  const client = new Client(new URL(server.url('grpc')).host, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  })
  clients.push(client)
  return client
}

const newestIn = (stream: Subscription) =>
  Math.max(0, ...stream.of('slot').map(({ slot }) => Number(slot)))

/** Reads and commits, is cut and comes back at either gateway, until it is told to stop. */
async function roam(reader: ConsumerClient, seedNumber: number, isOver: () => boolean) {
  const random = randomOf(seedNumber)
  while (!isOver()) {
    const gateway = gateways[random() < 0.5 ? 0 : 1]!
    const client = clientOf(gateway)
    reader.open(client, token)
    const commits = 1 + Math.floor(random() * 6)
    for (let count = 0; count < commits && reader.stream.status === null; count++)
      await reader.commit()
    if (reader.stream.status === null) await reader.cut()
    else reader.ended()
    client.close()
  }
}

describe.skipIf(!isHere)('consumers of two gateways that are killed in turn', () => {
  it('have everything of the node, once', async () => {
    const whole = commitments.map((commitment) => {
      const stream = new Subscription(clientOf(devnode), withToken('none'))
      stream.ask({ ...kinds, commitment })
      return stream
    })
    await until(() => whole.every((stream) => newestIn(stream) > 0), 'slots')
    const fromSlot = Math.max(...whole.map(newestIn)) + 2
    await until(() => whole.every((stream) => newestIn(stream) > fromSlot), 'a later slot')
    const request = (commitment: number) => ({ ...kinds, commitment, fromSlot })
    const readers = commitments.map((at) => new ConsumerClient(`at-${at}`, request(at)))
    let isOver = false
    const endMs = performance.now() + stormMs
    const roaming = readers.map((reader, at) => roam(reader, 7 + at, () => isOver))
    let kills = 0
    while (performance.now() < endMs || kills < 2) {
      const number = kills++ % 2
      await gateways[number]!.stop('SIGKILL')
      gateways[number] = await start(number)
    }
    const lastSlot = Math.max(...whole.map(newestIn))
    isOver = true
    await Promise.all(roaming)
    const isFinal = (stream: Subscription) =>
      stream.of('slot').some(({ slot, status }) => Number(slot) > lastSlot && Number(status) === 2)
    await until(() => whole.every(isFinal), 'the last slot to be final')
    const within = (lines: readonly string[]) =>
      lines.filter((line) => {
        const slot = Number.parseInt(line, 10)
        return slot >= fromSlot && slot <= lastSlot
      })
    for (const [at, reader] of readers.entries()) {
      const expected = within(linesOf(whole[at]!)).toSorted()
      reader.open(clientOf(gateways[0]!), token)
      await until(async () => {
        await reader.commit()
        expect(reader.stream.status).toBeNull()
        return within(reader.committed).length >= expected.length
      }, 'everything')
      const got = within(reader.committed).toSorted()
      expect(got.length).toBe(expected.length)
      expect(got).toEqual(expected)
      await reader.cut()
    }
  })
})
