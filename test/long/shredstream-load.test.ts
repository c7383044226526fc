// ShredStream under load: two lossy sources, changes, garbage, deaths of the worker, collection.
import { afterEach, describe, expect, test } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { offsets } from '../../src/chain/solana/shred.ts'
import {
  makeShreds,
  publicKeyOfSeed,
  randomBytes,
  randomOf,
  shuffled,
  testLeader,
} from '../testkit/shreds.ts'
import { asTexts, ShredStage } from '../testkit/shredstream.ts'
import { until } from '../testkit/until.ts'

let stage: ShredStage | null = null

afterEach(async () => {
  await stage?.dispose()
  stage = null
})

const perSlot = 8 * 64
const shreds = makeShreds({ slots: 40, sets: 8 })

/** The slots in order, each shuffled, with losses. */
function asSent(seed: number, isLost: (place: number) => boolean): Uint8Array[] {
  const kept: Uint8Array[] = []
  for (let at = 0; at < shreds.length; at += perSlot) {
    const places = Array.from({ length: perSlot }, (_, place) => at + place)
    for (const place of shuffled(places, seed + at)) if (!isLost(place)) kept.push(shreds[place]!)
  }
  return kept
}

test('two lossy sources in different orders: every destination gets each shred once', async () => {
  stage = await ShredStage.open({
    sources: ['127.0.0.1', '127.0.0.2'],
    packetsPerSecondMax: 1e6,
    megabitsPerSecondMax: 100_000,
  })
  expect(shreds.length).toBeGreaterThan(20_000)
  const receivers = [await stage.receiver(), await stage.receiver()]
  for (const { port } of receivers) stage.subscribe(port)
  await stage.settled()
  const first = asSent(1, (place) => place % 20 === 3)
  const second = asSent(2, (place) => place % 20 === 11)
  const sources = [await stage.source('127.0.0.1'), await stage.source('127.0.0.2')]
  for (let at = 0; at < first.length; at += 250) {
    await stage.send(first.slice(at, at + 250), sources[0]!)
    await stage.send(second.slice(at, at + 250), sources[1]!)
    const goal = stage.totals().accepted!
    await until(() => receivers.every(({ packets }) => packets.length >= goal), 'receivers keep up')
  }
  for (const { packets } of receivers) expect(asTexts(packets)).toEqual(asTexts(shreds))
  expect(stage.product.report().kernelDrops).toBe(0)
})

test('a change of destination under load loses nothing until the new one is proven', async () => {
  stage = await ShredStage.open({ packetsPerSecondMax: 1e6, megabitsPerSecondMax: 100_000 })
  const [older, newer] = [await stage.receiver(), await stage.receiver()]
  const { label } = stage.subscribe(older.port)
  await stage.settled()
  const source = await stage.source()
  let at = 0
  const more = async (count: number) => {
    await stage!.send(shreds.slice(at, at + count), source, 50)
    at += count
  }
  await more(1000)
  stage.store.setDestination(label, `127.0.0.1:${newer.port}`, { who: 'test' })
  stage.directory.refresh()
  await until(async () => {
    await more(20)
    return newer.packets.length > 0
  }, 'a challenge')
  await until(() => older.packets.length >= at, 'the old one has all so far')
  expect(newer.packets.every((packet) => packet.length === 40)).toBe(true)
  newer.socket.send(newer.packets[0]!, stage.product.sourcePort, '127.0.0.1')
  const isActive = () => stage!.store.find(label)!.destination!.state === 'active'
  await until(async () => {
    await more(20)
    return isActive()
  }, 'proven')
  await stage.settled()
  await more(1000)
  const got = () => newer.packets.filter((packet) => packet.length > 40)
  await until(() => older.packets.length + got().length >= at, 'all shreds')
  expect(asTexts([...older.packets, ...got()])).toEqual(asTexts(shreds.slice(0, at)))
  expect(got().length).toBeGreaterThanOrEqual(1000)
})

test('garbage is counted by reason and never forwarded; good shreds still flow', async () => {
  stage = await ShredStage.open()
  const receiver = await stage.receiver()
  stage.subscribe(receiver.port)
  await stage.settled()
  const good = shreds.slice(0, 1000)
  const next = randomOf(17)
  const garbage = (place: number): Uint8Array => {
    const shred = Uint8Array.from(good[place % good.length]!)
    const view = new DataView(shred.buffer)
    const kind = place % 5
    if (kind === 0) return randomBytes(Math.floor(next() * 2001), place + 1)
    if (kind === 1) view.setUint16(offsets.version, 1, true)
    if (kind === 2) view.setBigUint64(offsets.slot, BigInt(1000 + 1e9), true)
    if (kind === 3) view.setBigUint64(offsets.slot, 1n, true)
    return kind === 4 ? shred.subarray(0, place % 1203) : shred
  }
  // The window is settled by the first good shreds; from then on nothing else moves it.
  const source = await stage.source()
  await stage.send(good.slice(0, 64), source)
  const mixed = good.slice(64).flatMap((shred, place) => {
    const noise = Array.from({ length: 20 }, (_, index) => garbage(place * 20 + index))
    return [...noise, shred]
  })
  await stage.send(mixed, source, 500)
  await until(() => receiver.packets.length >= good.length, 'all good shreds')
  expect(asTexts(receiver.packets)).toEqual(asTexts(good))
  const { size, variant, version, slot, received } = stage.totals()
  const noise = 20 * (good.length - 64)
  expect(received).toBe(noise + good.length)
  expect(slot).toBe((2 * noise) / 5)
  // A few of the random ones look right up to their version.
  expect(version).toBeGreaterThanOrEqual(noise / 5)
  expect(size! + variant! + version!).toBe((3 * noise) / 5)
})

describe('the worker', () => {
  test.each(['throw', 'exit'] as const)(
    'ended by %s under load restarts: none lost, no duplicates',
    async (how) => {
      stage = await ShredStage.open()
      const receiver = await stage.receiver()
      stage.subscribe(receiver.port)
      await stage.settled()
      const source = await stage.source()
      const part = shreds.slice(0, 2000)
      await stage.send(part.slice(0, 1000), source)
      stage.strike(how)
      for (const shred of part.slice(1000)) source.send(shred, stage.port, '127.0.0.1')
      await until(() => stage!.product.restarts() === 1, 'a restart')
      await until(() => receiver.packets.length >= part.length, 'all shreds')
      expect(asTexts(receiver.packets)).toEqual(asTexts(part))
      await until(() => stage!.destinations()[0]!.packets === part.length, 'all are counted')
    },
  )

  test('keeps the buffers of the kernel alive while garbage is collected', async () => {
    stage = await ShredStage.open()
    const receiver = await stage.receiver()
    stage.subscribe(receiver.port)
    await stage.settled()
    const source = await stage.source()
    for (let at = 0; at < 4000; at += 100) {
      stage.strike('collect')
      await stage.send(shreds.slice(at, at + 100), source)
    }
    await until(() => receiver.packets.length >= 4000, 'all shreds')
    expect(asTexts(receiver.packets)).toEqual(asTexts(shreds.slice(0, 4000)))
  })
})

/** Keys of other leaders before the real one: with many of them, it has to be searched. */
const others = (count: number) =>
  Array.from({ length: count }, (_, place) => publicKeyOfSeed(new Uint8Array(32).fill(place + 99)))

test.each([
  { io: 'batch', keys: 0 },
  { io: 'batch', keys: 40 },
  { io: 'dgram', keys: 40 },
] as const)(
  'verify and recover by $io, $keys other leaders: forged out, lost rebuilt',
  async ({ io, keys }) => {
    stage = await ShredStage.open({
      io,
      verify: true,
      leaders: [...others(keys), testLeader].map((key) => encodeBase58(key)),
      recover: true,
    })
    const receiver = await stage.receiver()
    stage.subscribe(receiver.port)
    await stage.settled()
    const set = shreds.slice(0, 512)
    const forged = set.map((shred) => {
      const copy = Uint8Array.from(shred)
      copy[300]! ^= 1
      return copy
    })
    const source = await stage.source()
    await stage.send(forged, source)
    const arrived = set.filter((_, place) => place % 64 < 20 || place % 64 >= 50)
    await stage.send(arrived, source)
    await until(() => receiver.packets.length >= set.length, 'all of every set')
    expect(asTexts(receiver.packets)).toEqual(asTexts(set))
    await until(() => stage!.totals().signature! >= 512, 'the last forged ones are judged')
    const { signature, rebuilt, accepted } = stage.totals()
    expect(signature).toBe(512)
    expect(accepted! + rebuilt!).toBe(set.length)
    expect(rebuilt).toBeGreaterThanOrEqual(8 * 30)
  },
)
