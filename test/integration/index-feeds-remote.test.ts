// The gateway's streams for indexers elsewhere: on a port, with a credential that can be revoked.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as tlsConnect } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { pack, unpack } from '../../src/base/threads/frames.ts'
import { Addresses } from '../../src/base/transport/address.ts'
import type { GrpcCertificates } from '../../src/base/transport/grpc-bind.ts'
import { CertificatePair } from '../../src/base/transport/tls.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { addressBudgetSection } from '../../src/customers/quota/config.ts'
import { AddressBudget } from '../../src/customers/quota/rates.ts'
import { factsMax } from '../../src/indexer/config.ts'
import type { Marks, Parcel } from '../../src/indexer/engine.ts'
import { FeedReader, type GatewayChange } from '../../src/indexer/feed/feed-reader.ts'
import { feedMethods } from '../../src/indexer/feed-items.ts'
import { type IndexFeeds, openIndexFeeds } from '../../src/products/indexer/feeds.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../../src/streams/geyser/hub.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import {
  GeyserClient,
  type GeyserEnd,
  type GeyserTarget,
  subscribeRequest,
} from '../../src/upstream/geyser/geyser-client.ts'
import { Bundle, noRefill } from '../testkit/bundle.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { handOutSeqs } from '../testkit/fake-execution.ts'
import { chainOf } from '../testkit/ingest-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-remote-'))
const bundle = new Bundle()
const clients: GeyserClient[] = []
const readers: FeedReader[] = []
/** Of all gateways, as in a cluster. */
const events = new EventLog({ reserve: handOutSeqs(0), clock: systemClock, isShared: true })
events.restart('shared', 0)
let feeds: IndexFeeds

const limits = { ...initialOf(addressBudgetSection.fields), workMsPerSecond: 1, workMsBurst: 20 }

function openFeeds(name: string, certificates: GrpcCertificates | null = null) {
  return openIndexFeeds(join(folder, `${name}.sock`), {
    ...{ events, version: '0', clock: systemClock, log: silentLog },
    remote: {
      ...{ host: '127.0.0.1', port: 0, certificates, connectionsPerAddressMax: 100 },
      ...{ gate: bundle.gate, addresses: new Addresses([]) },
      addressBudget: new AddressBudget(limits, noRefill),
    },
  })
}

const newHub = () => openSolanaHub({ replaySlots: 150, replayBytesMax: 64 << 20 })
const publish = (hubs: readonly SolanaHub[], updates: Iterable<SolanaUpdate>) => {
  for (const update of updates) for (const hub of hubs) publishUpdate(hub, update)
}

beforeAll(async () => {
  feeds = await openFeeds('first')
  feeds.serve(chainOf(newHub()))
})
afterAll(async () => {
  for (const client of clients) client.close()
  for (const reader of readers) reader.stop()
  await feeds.stop()
  await bundle.dispose()
  rmSync(folder, { recursive: true })
})

function enroll(name: string): string {
  const issued = bundle.store.enroll(name, [], { who: 'test' })
  if (!issued.ok) throw new Error(issued.refusal.message)
  bundle.directory.refresh()
  return issued.value.token
}

const connect = (xToken: string) => connectTo(`http://127.0.0.1:${feeds.address!.port}`, xToken)

function connectTo(address: string, xToken: string): GeyserClient {
  const client = new GeyserClient({ address, xToken }, systemClock)
  clients.push(client)
  return client
}

/** Opens a stream and gathers what it sends; `end` is how it ended. */
function open(client: GeyserClient, method: string, request: Uint8Array) {
  const got: { messages: unknown[]; end: GeyserEnd | null } = { messages: [], end: null }
  client.subscribe(
    request,
    {
      messages(bytes, offsets) {
        for (let at = 0; at < offsets.length; at += 2) {
          const message = bytes.subarray(offsets[at]!, offsets[at + 1]!)
          got.messages.push(method === 'Subscribe' ? message.length : unpack(message))
        }
      },
      ended: (end) => {
        got.end = end
      },
    },
    method,
    method !== 'Subscribe',
  )
  return got
}

const fromOldest = pack({ after: null, run: '' })
const usage = { subscription: 's', queryId: 'q', elapsedMs: 1, rows: 2, bytes: 3, code: 0 }

test('an enrolled indexer reads the feeds, and counts as no customer', async () => {
  const client = connect(enroll('north'))
  const got = open(client, feedMethods.usage, fromOldest)
  feeds.usage({ ...usage, atMs: 7 })
  await until(() => got.messages.length === 2, 'the start and the fact')
  expect(got.messages[1]).toMatchObject({ seq: 1, content: { atMs: 7, rows: 2 } })
  const answer = await client.call('GetVersion', new Uint8Array(0), 5_000)
  expect(answer.ok).toBe(true)
  const { body } = await bundle.meters.render('text')
  expect(body).not.toMatch(/^sluice_quota_refused_total.* [1-9]/m)
  expect(bundle.store.usage(bundle.store.enrolled()[0]!.id)?.days).toEqual([])
})

test('a revoked credential ends its streams at once, and those of others go on', async () => {
  const client = connect(enroll('east'))
  const other = open(connect(enroll('west')), feedMethods.tips, fromOldest)
  const streams = [
    open(client, feedMethods.tips, fromOldest),
    open(client, feedMethods.events, fromOldest),
    open(client, 'Subscribe', subscribeRequest(null, 1)),
  ]
  await until(() => streams.slice(0, 2).every(({ messages }) => messages.length > 0), 'the starts')
  bundle.store.revoke('east', { who: 'test' })
  bundle.directory.refresh()
  await until(() => streams.every(({ end }) => end !== null), 'the end of its streams')
  expect(streams.map(({ end }) => [end?.kind, end?.code])).toEqual(streams.map(() => ['status', 7]))
  const again = open(client, feedMethods.tips, fromOldest)
  await until(() => again.end !== null, 'the refusal')
  expect(again.end).toMatchObject({ kind: 'status', code: 7 })
  await until(() => other.messages.length > 0, 'the other stream')
  expect(other.end).toBeNull()
})

test('a credential has so many streams open, and no more', async () => {
  const token = enroll('crowd')
  const client = connect(token)
  const streams = Array.from({ length: 40 }, () => open(client, feedMethods.tips, fromOldest))
  const isSettled = ({ messages, end }: (typeof streams)[number]) =>
    messages.length > 0 || end !== null
  await until(() => streams.every(isSettled), 'answers')
  const refused = streams.filter(({ end }) => end !== null)
  expect(refused.map(({ end }) => end)).toMatchObject(Array(8).fill({ kind: 'status', code: 8 }))
  client.close()
  const more = () => open(connect(token), feedMethods.tips, fromOldest)
  await until(async () => {
    const again = more()
    await until(() => isSettled(again), 'an answer')
    return again.end === null
  }, 'room for another')
})

test('a malformed request ends its stream alone', async () => {
  const client = connect(enroll('south'))
  for (const request of [pack({ after: 'x', run: '' }), pack(7), Buffer.from([0xc1])]) {
    const bad = open(client, feedMethods.usage, request)
    await until(() => bad.end !== null, 'its end')
    expect(bad.end).toMatchObject({ kind: 'status', code: 3 })
  }
  const good = open(client, feedMethods.usage, fromOldest)
  await until(() => good.messages.length > 0, 'an answer')
})

const addressOf = ({ address }: IndexFeeds, scheme = 'http') =>
  `${scheme}://127.0.0.1:${address!.port}`

/** What an indexer with these marks reads of these gateways. */
function read(gateways: readonly GeyserTarget[], marks: Marks = {}, stalledMs = 30_000) {
  const parcels: Parcel[] = []
  const lost: [string, number][] = []
  const changes: GatewayChange[] = []
  const reader = new FeedReader({
    ...{ gateways, marks, cursors: {}, clock: systemClock, stalledMs },
    take: (parcel) => void parcels.push(parcel),
    lost: (feed, count) => void lost.push([feed, count]),
    changed: (change) => void changes.push(change),
  })
  readers.push(reader)
  const of = (feed: string) => parcels.filter((one) => one.feed === feed)
  const marksOf = (feed: string) => of(feed).flatMap(({ mark }) => mark ?? [])
  return { reader, lost, changes, of, marksOf }
}

test('slots and events go on at the next gateway when one dies, facts come from each', async () => {
  const xToken = enroll('several')
  const both = [await openFeeds('a'), await openFeeds('b')] as const
  const hubs = both.map((one) => {
    const hub = newHub()
    one.serve(chainOf(hub))
    return hub
  })
  const gateways = both.map((one) => ({ address: addressOf(one), xToken }))
  const solana = new SyntheticSolana({ firstSlot: 10 })
  for (let slots = 20; slots > 0; slots--) publish(hubs, solana.next())
  for (const seq of [1, 2]) accept(seq)
  both[0].usage({ ...usage, atMs: 1 })
  both[1].usage({ ...usage, atMs: 2 })
  const { reader, lost, changes, of, marksOf } = read(gateways)
  const atMs = () =>
    of('usage')
      .map(({ content }) => ('atMs' in content ? content.atMs : 0))
      .toSorted()
  await until(() => marksOf('slots').length === 19 && of('usage').length === 2, 'what there is')
  expect(atMs()).toEqual([1, 2])
  await both[0].stop()
  for (let slots = 5; slots > 0; slots--) publish(hubs, solana.next())
  accept(3)
  both[1].usage({ ...usage, atMs: 3 })
  await until(() => marksOf('slots').at(-1) === 33 && marksOf('events').length === 3, 'the rest')
  await until(() => of('usage').length === 3, 'the fact of the other one')
  // What the first one had sent is compared, and not written twice.
  const fresh = of('slots').filter((one) => one.feed === 'slots' && one.cut === null)
  const slots = fresh.flatMap(({ mark }) => mark ?? [])
  expect(slots).toEqual(Array.from({ length: 24 }, (_, at) => 10 + at))
  expect(marksOf('events')).toEqual([1, 2, 3])
  expect(lost).toEqual([])
  expect(
    changes.map(({ gateway, state }) => [
      gateways.findIndex((one) => one.address === gateway),
      state,
    ]),
  ).toEqual(
    expect.arrayContaining([
      [0, 'read'],
      [1, 'read'],
      [0, 'lost'],
    ]),
  )
  reader.stop()
  await both[1].stop()
})

test('a gateway whose slots stand still is left for the next one', async () => {
  const xToken = enroll('patient')
  const both = [await openFeeds('still'), await openFeeds('lively')] as const
  const [still, lively] = both.map((one) => {
    const hub = newHub()
    one.serve(chainOf(hub))
    return hub
  }) as [SolanaHub, SolanaHub]
  const solana = new SyntheticSolana({ firstSlot: 10 })
  for (let slots = 5; slots > 0; slots--) publish([still, lively], solana.next())
  const gateways = both.map((one) => ({ address: addressOf(one), xToken }))
  const { reader, lost, marksOf } = read(gateways, {}, 300)
  await until(() => marksOf('slots').at(-1) === 13, 'what both have')
  for (let slots = 5; slots > 0; slots--) publish([lively], solana.next())
  await until(() => marksOf('slots').at(-1) === 18, 'what one has')
  expect(lost).toEqual([])
  reader.stop()
  for (const one of both) await one.stop()
})

test('a gateway that lags behind the index is passed over for one that does not', async () => {
  const xToken = enroll('hasty')
  const both = [await openFeeds('lagging'), await openFeeds('current')] as const
  const [lagging, current] = both.map((one) => {
    const hub = newHub()
    one.serve(chainOf(hub))
    return hub
  }) as [SolanaHub, SolanaHub]
  const solana = new SyntheticSolana({ firstSlot: 10 })
  for (let slots = 5; slots > 0; slots--) publish([lagging, current], solana.next())
  for (let slots = 20; slots > 0; slots--) publish([current], solana.next())
  const gateways = both.map((one) => ({ address: addressOf(one), xToken }))
  const { reader, lost, of, marksOf } = read(gateways, { slots: 25 })
  await until(() => marksOf('slots').at(-1) === 33, 'what one has')
  expect(lost).toEqual([])
  const read25 = of('slots').filter((one) => one.feed === 'slots' && one.content.slot <= 25)
  // Each slot that the index has came once, to be compared: of the one gateway alone.
  expect(new Set(read25.map((one) => one.feed === 'slots' && one.content.slot)).size).toBe(
    read25.length,
  )
  reader.stop()
  for (const one of both) await one.stop()
})

test('an indexer that takes over reads facts after the marks of their run, and counts the gone', async () => {
  const own = await openFeeds('facts')
  const gateways = [{ address: addressOf(own), xToken: enroll('successor') }]
  for (let atMs = 1; atMs <= 4; atMs++) own.usage({ ...usage, atMs })
  const first = read(gateways)
  await until(() => first.of('usage').length === 4, 'all')
  first.reader.stop()
  const { run } = first.of('usage')[0]!.cursor!
  const second = read(gateways, { [`usage ${run}`]: 3, 'usage another': 9 })
  await until(() => second.of('usage').length === 1, 'the last')
  expect(second.of('usage')[0]!.cursor).toEqual({ run, seq: 4 })
  second.reader.stop()
  for (let atMs = 5; atMs <= factsMax + 6; atMs++) own.usage({ ...usage, atMs })
  const late = read(gateways, { [`usage ${run}`]: 4 })
  await until(() => late.of('usage').length === factsMax, 'what is kept')
  expect(late.lost).toEqual([['usage', 2]])
  late.reader.stop()
  await own.stop()
})

test('a refused indexer says so once, and reads as soon as it is enrolled', async () => {
  const own = await openFeeds('refusing')
  const xToken = enroll('returning')
  bundle.store.suspend('returning', { who: 'test' })
  bundle.directory.refresh()
  const { reader, changes, of } = read([{ address: addressOf(own), xToken }])
  await until(() => changes.length === 1, 'the refusal')
  own.usage({ ...usage, atMs: 1 })
  bundle.store.resume('returning', { who: 'test' })
  bundle.directory.refresh()
  await until(() => of('usage').length === 1, 'the fact')
  expect(changes.map(({ state }) => state)).toEqual(['refused', 'read'])
  reader.stop()
  await own.stop()
})

test.skipIf(!hasOpenssl)('with a certificate the port speaks TLS alone', async () => {
  const { certPath, keyPath } = makePair(folder, 'feeds')
  const pair = new CertificatePair({ certPath, keyPath }, silentLog)
  const own = await openFeeds('tls', pair)
  const xToken = enroll('secure')
  const plain = connectTo(addressOf(own), xToken)
  expect((await plain.call('GetVersion', new Uint8Array(0), 5_000)).ok).toBe(false)
  expect(own.address).toMatchObject({ tls: true })
  const socket = tlsConnect({
    ...{ host: '127.0.0.1', port: own.address!.port, rejectUnauthorized: false },
    ALPNProtocols: ['h2'],
  })
  await once(socket, 'secureConnect')
  expect(socket.alpnProtocol).toBe('h2')
  socket.destroy()
  pair.stop()
  await own.stop()
})

function accept(seq: number): void {
  const payload = Buffer.from(String(seq))
  events.accept(seq, { kind: 'TPS', payload, sinceMs: performance.now(), facts: null })
}

// Last: it uses up the budget of this address.
test('a wrong credential is refused, and attempts of an address are limited', async () => {
  const customer = bundle.issue({ products: ['bundle', 'indexer'] }).token
  const codes: (number | undefined)[] = []
  for (const xToken of ['', feeds.gateways[0].xToken, customer, `slu_${'0'.repeat(38)}`]) {
    const got = open(connect(xToken), feedMethods.tips, fromOldest)
    await until(() => got.end !== null, 'the refusal')
    codes.push(got.end?.code)
  }
  expect(codes).toEqual([7, 7, 7, 7])
  const guesser = connect('guess')
  const exhausted = 8
  await until(async () => {
    const got = open(guesser, feedMethods.tips, fromOldest)
    await until(() => got.end !== null, 'the refusal')
    return got.end?.code === exhausted
  }, 'the end of its budget')
  const good = open(connect(enroll('late')), feedMethods.usage, fromOldest)
  await until(() => good.messages.length > 0, 'whoever is enrolled')
})
