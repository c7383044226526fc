// Streams lose nothing: PubSub, gRPC and event clients over two gateways of a cluster, cut at random,
// while each gateway in turn is killed (SIGKILL) and started again. What they have is compared with
// what the node itself has, slot by slot.
//
//   SLUICE_LONG_MINUTES=60 npx vitest run --config vitest.long.config.ts test/cluster/stream-kills
//   SLUICE_LONG_KINDS=consumer,from-slot  only such clients; all: pubsub, consumer, from-slot, event
//   SLUICE_LONG_KILL_SECONDS=10           between two kills
//
//   30 PubsubClients ─┐                  ┌─► devnode ─► its geyser streams and getBlock: the audit
//   15 consumers     ─┼─► two gateways ─┤
//   15 from_slot     ─┤                  └─► PostgreSQL ─► its event frames: the audit
//   30 event clients ─┘
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials } from '@grpc/grpc-js'
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { decodeFrame } from '../../src/streams/log/shared-events.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { Subscription, withToken } from '../testkit/grpc-stage.ts'
import {
  ConsumerReader,
  commitments,
  comparedKinds,
  FromSlotReader,
  feedsOf,
  type Place,
  PubsubReader,
  systemProgram,
} from '../testkit/roaming-readers.ts'
import { provision, type Server, startServer } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'
import { NodeContent, SlotAudit } from '../testkit/slot-audit.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'
import { Rover } from './rover.ts'

const isHere = hasPostgres()
const minutes = Number(process.env.SLUICE_LONG_MINUTES ?? (isSlice ? 0.5 : 10))
/** Of PubSub and of events; half as many each with a consumer and with from_slot. */
const clients = Number(process.env.SLUICE_LONG_CLIENTS ?? (isSlice ? 6 : 30))
const killEveryMs = Number(process.env.SLUICE_LONG_KILL_SECONDS ?? (minutes < 5 ? 5 : 60)) * 1_000
const stayMs = killEveryMs < 30_000 ? 1_500 : 15_000
const clientKinds = process.env.SLUICE_LONG_KINDS ?? 'pubsub,consumer,from-slot,event'
const has = (kind: string) => clientKinds.split(',').includes(kind)
const consumersPerSubscription = 8

const folder = mkdtempSync(join(tmpdir(), 'stream-kills-'))
const random = randomOf(11)
const gateways: Server[] = []
const grpcClients: Client[] = []
const rovers: Rover[] = []
const pubsub: PubsubReader[] = []
let postgres: Postgres
let devnode: Devnode
let node: SolanaNode

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  devnode = await startDevnode({ slotMs: 800, flags: ['--traffic=3'] })
  node = await SolanaNode.of(devnode)
  const nodes = [{ rpc: devnode.url('rpc'), grpc: devnode.url('grpc'), xToken: '' }]
  const config = {
    chain: { source: 'upstream' },
    upstreams: { default: { nodes } },
    metrics: { source: 'embedded', connectionsPerAddress: 0, generator: { tps: 5 } },
    // All clients have one address.
    addressBudget: { workMsPerSecond: 0 },
    ...{ tpu: { enabled: false }, shredstream: { enabled: false }, rpc: { enabled: false } },
  }
  writeFileSync(join(folder, 'sluice.yaml'), JSON.stringify(config))
  for (const number of [0, 1]) gateways.push(await start(number))
})

afterAll(async () => {
  for (const reader of pubsub) reader.close()
  for (const rover of rovers) rover.end()
  for (const client of grpcClients) client.close()
  for (const gateway of gateways) await gateway.dispose()
  await devnode?.dispose()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
  rmSync(folder, { recursive: true, force: true })
})

function start(number: number): Promise<Server> {
  const cluster = [`--cluster.url=${postgres.url}`, `--cluster.gateway=g${number}`]
  const flags = [`--config=${join(folder, 'sluice.yaml')}`, ...cluster]
  return startServer({ data: join(folder, String(number)), flags })
}

const urls = (endpoint: string) =>
  gateways
    .filter(({ child }) => child.exitCode === null && child.signalCode === null)
    .map((gateway) => gateway.url(endpoint))

async function placeOf(label: string): Promise<Place> {
  const { token } = await provision(
    gateways[0]!.data,
    label,
    '--product=bundle',
    '--plan=unlimited',
  )
  return { urls, token, random, stayMs }
}

/** Streams of the node itself, one per commitment. */
function openNode(): Subscription[] {
  return commitments.map((_, commitment) => {
    const client = new Client(new URL(devnode.url('grpc')).host, credentials.createInsecure())
    grpcClients.push(client)
    const stream = new Subscription(client, withToken('none'))
    stream.ask({ ...comparedKinds, commitment })
    return stream
  })
}

const slotNow = async () => Number((await node.call('getSlot', { commitment: 'processed' })).result)

/** A busy node may drop a connection of ours; asking it is not what is tested. */
async function again<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await work()
    } catch (error) {
      if (tries === 20) throw error
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
}

/** Sends transactions whose signatures clients wait for, until it is told to stop. */
async function sendSignatures(isOver: () => boolean): Promise<number> {
  const payer = await node.funded()
  let sent = 0
  for (; !isOver(); sent++) {
    const instruction = transfer(payer, Keypair.generate().publicKey, 1_000_000 + sent)
    const bytes = await again(() => node.signed([instruction], [payer]))
    const signature = encodeBase58(bytes.subarray(1, 65))
    const reader = pubsub[sent % pubsub.length]!
    const wait = () => reader.confirm(signature, commitments[sent % 3]!)
    // Some are waited for before they are sent, some after.
    if (sent % 2 === 0) wait()
    const text = bytes.toString('base64')
    await again(() => node.call('sendTransaction', text, { encoding: 'base64' }))
    if (sent % 2 === 1) wait()
    await new Promise((resolve) => setTimeout(resolve, random() * 4_000))
  }
  return sent
}

const megabytes = ({ child }: Server) => {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))!
  return Math.round(Number(kilobytes) / 1024)
}

/** The frames of the shared log are those that the clients have, one for each number. */
async function checkFrames(contents: ReadonlyMap<number, string>): Promise<void> {
  const first = Math.min(...rovers.map((rover) => rover.first))
  const numbers = [...contents.keys()].filter((seq) => seq >= first)
  const rows = await postgres.sql<{ seq: string; frame: Buffer }>(
    'SELECT seq, frame FROM sluice.event_frames WHERE seq BETWEEN $1 AND $2 ORDER BY seq',
    [first, Math.max(...numbers)],
  )
  expect(rows.length).toBe(numbers.length)
  for (const { seq, frame } of rows) {
    const { kind, payload } = decodeFrame(frame, 0)!
    expect(contents.get(Number(seq))).toBe(`{"seq":${seq},"${kind}":${payload}}`)
  }
}

/** Opens all clients; each begins at a slot of which the node's streams have everything. */
async function begin() {
  const streams = openNode()
  const seen = () => streams[0]!.of('account').map(({ account }) => account)
  await until(() => seen().length > 60, 'accounts')
  const isPaid = (owner: Uint8Array) => encodeBase58(owner) === systemProgram
  const accounts = new Set(
    seen().flatMap(({ pubkey, owner }) => (isPaid(owner) ? [encodeBase58(pubkey)] : [])),
  )
  const fromSlot = (await slotNow()) + 2
  await until(async () => (await slotNow()) > fromSlot, 'a later slot')
  const audit = new SlotAudit(node, new NodeContent(streams), fromSlot)
  const place = await placeOf('pubsub')
  for (let index = 0; has('pubsub') && index < clients; index++)
    pubsub.push(new PubsubReader(place, feedsOf(index, [...accounts])))
  const geyser: (ConsumerReader | FromSlotReader)[] = []
  const places: Place[] = []
  for (let index = 0; index < clients / 2; index++) {
    const request = { ...comparedKinds, commitment: index % 3, fromSlot }
    const number = Math.floor(index / consumersPerSubscription)
    if (index % consumersPerSubscription === 0) places.push(await placeOf(`grpc-${number}`))
    if (has('consumer')) geyser.push(new ConsumerReader(places[number]!, `c${index}`, request))
    if (has('from-slot')) geyser.push(new FromSlotReader(places[number]!, `f${index}`, request))
  }
  const contents = new Map<number, string>()
  const events = () => urls('metrics').map((url) => url.replace('http', 'ws'))
  for (let index = 0; has('event') && index < clients; index++)
    rovers.push(new Rover({ urls: events, contents, random, stayMs }))
  return { audit, geyser, contents, feeds: pubsub.flatMap((reader) => reader.feeds) }
}

type Campaign = Awaited<ReturnType<typeof begin>>

function report({ audit, geyser, feeds }: Campaign, { kills = 0, sinceMs = 0 }): void {
  const readers = [...feeds, ...geyser]
  const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0)
  const last = Math.min(...readers.map((one) => (one.first === null ? 0 : one.settled)))
  const late = readers.filter((one) => one.first === null || one.settled <= last + 1)
  const ends = geyser.filter((one) => late.includes(one)).map(({ lastEnd }) => lastEnd)
  console.info(
    `${new Date().toISOString()} ${((performance.now() - sinceMs) / 60_000).toFixed(1)} min: ` +
      `${kills} kills, ${sum([...geyser, ...pubsub].map(({ cuts }) => cuts))} cuts, ` +
      `${sum(rovers.map(({ connections }) => connections))} event connections; ` +
      `${audit.slots} slots, ${audit.messages} messages, ${sum(rovers.map(({ frames }) => frames))} ` +
      `frames, ${audit.lost} lost, ${audit.repeated} repeated; ` +
      `RSS ${gateways.map(megabytes).join(' and ')} MB; ` +
      `slot ${last}: ${[...new Set(late.map(({ name }) => name))].slice(0, 3)} ${ends}`,
    ...audit.problems,
  )
}

/** Kills the gateways in turn, and compares meanwhile. */
async function killInTurn(campaign: Campaign, sinceMs: number): Promise<number> {
  const { audit, feeds, geyser } = campaign
  let kills = 0
  let reportedMs = sinceMs
  while (performance.now() - sinceMs < minutes * 60_000 || kills < 2) {
    const killAtMs = performance.now() + killEveryMs
    while (performance.now() < killAtMs) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(2_000, killEveryMs)))
      await audit.compare([...feeds, ...geyser])
    }
    const number = kills++ % 2
    await gateways[number]!.stop('SIGKILL')
    gateways[number] = await start(number)
    if (performance.now() - reportedMs < 60_000) continue
    reportedMs = performance.now()
    report(campaign, { kills, sinceMs })
  }
  return kills
}

async function storm(): Promise<void> {
  const campaign = await begin()
  const { audit, geyser, feeds, contents } = campaign
  let last = Number.MAX_SAFE_INTEGER
  let isOver = false
  const roaming = Promise.all([
    ...geyser.map((reader) => reader.roam(() => last)),
    ...pubsub.map((reader) => reader.roam()),
  ])
  const sending = has('pubsub') ? sendSignatures(() => isOver) : Promise.resolve(0)
  const sinceMs = performance.now()
  const kills = await Promise.race([
    killInTurn(campaign, sinceMs),
    // Only a fault ends it before.
    roaming.then(() => 0),
  ])
  isOver = true
  const sent = await sending
  last = await slotNow()
  for (const reader of [...geyser, ...pubsub]) reader.isOver = true
  for (const rover of rovers) rover.settle()
  await roaming
  const readers = [...feeds, ...geyser]
  await until(async () => {
    await audit.compare(readers, last)
    return audit.next > last
  }, `slot ${last} of every reader`).catch((error: Error) => {
    const late = readers.filter(({ settled }) => settled < last).map(({ name }) => name)
    throw new Error(`${error.message}: ${[...new Set(late)].join(', ')}`)
  })
  const waited = pubsub.flatMap(({ signatures }) => [...signatures.values()])
  await until(() => waited.every(({ told }) => told > 0), 'every signature')
  const newest = Math.max(0, ...contents.keys())
  await until(() => rovers.every(({ cursor }) => cursor >= newest), 'all event clients')
  report(campaign, { kills, sinceMs })
  expect(audit.problems).toEqual([])
  expect(audit.lost + audit.repeated).toBe(0)
  expect(pubsub.flatMap(({ problems }) => problems)).toEqual([])
  expect(waited.map(({ told }) => told)).toEqual(Array.from({ length: sent }, () => 1))
  expect([...new Set(rovers.flatMap(({ problems }) => problems))]).toEqual([])
  expect(rovers.reduce((sum, one) => sum + one.snapshots, 0)).toBe(0)
  for (const rover of rovers) rover.end()
  if (has('event')) await checkFrames(contents)
}

const hangMs = minutes * 60_000 + 900_000

it.skipIf(!isHere)(`two gateways lose and repeat nothing in ${minutes} minutes`, storm, hangMs)
