// Streams that resume: at a gateway that has just started, and with a small bound of unsent bytes.
import { expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import type { GrpcStream } from '../../../../src/base/transport/grpc-stream.ts'
import {
  framePrefixBytes,
  type GrpcStatus,
  grpcCode,
} from '../../../../src/base/transport/grpc-stream.ts'
import { FanOut } from '../../../../src/streams/geyser/fan-out.ts'
import {
  createdAtSuffix,
  FrameBatch,
  namePrefix,
  SlabPool,
  updateTag,
} from '../../../../src/streams/geyser/frame.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../../../src/streams/geyser/meters.ts'
import { encodePosition, PublishedSlots } from '../../../../src/streams/geyser/position.ts'
import { Subscriber, type SubscriberDeps } from '../../../../src/streams/geyser/subscriber.ts'
import { limits } from '../../../testkit/filter-limits.ts'
import { codec } from '../../../testkit/geyser-streams.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { until } from '../../../testkit/until.ts'

const type = codec.root.lookupType('geyser.SubscribeRequest')

/** A stream whose peer reads what it is given when it says so. */
class SlowStream implements GrpcStream {
  readonly encoding = null
  readonly #headers: Readonly<Record<string, string>>
  readonly frames: Buffer[] = []
  unsentBytes = 0
  status: GrpcStatus | null = null

  constructor(headers: Readonly<Record<string, string>> = {}) {
    this.#headers = headers
  }

  header(name: string): string | undefined {
    return this.#headers[name]
  }

  write(frames: Buffer): boolean {
    this.frames.push(Buffer.from(frames))
    this.unsentBytes += frames.length
    return false
  }

  end(status: GrpcStatus): void {
    this.status = status
  }
}

const replayed = { accounts: { a: {} }, transactions: { t: {} }, fromSlot: 1_000 }

function subscribe(
  stream: SlowStream,
  hub = openSolanaHub(),
  more: Partial<SubscriberDeps> = {},
  request: object = replayed,
) {
  const meters = declareGrpcMeters(new Meters())
  const subscriber = new Subscriber(stream, {
    ...{ hub, meters, codec, streamLog: null, clock: systemClock, backlogBytesMax: 65_536 },
    fanOut: new FanOut(hub, meters),
    limits: () => limits,
    meter() {},
    charge: () => null,
    ended() {},
    ...more,
  })
  subscriber.message(Buffer.from(type.encode(type.fromObject(request)).finish()))
  return subscriber
}

it('a consumer is told to try again by a gateway that has read nothing since its start', async () => {
  const hub = openSolanaHub()
  const stream = new SlowStream({ consumer: 'c' })
  const position = encodePosition({ commitment: 0, floor: 1_031, slots: [], parts: [] })
  subscribe(stream, hub, {
    published: new PublishedSlots(hub),
    consumers: { open: async () => ({ position, commit: async () => {}, close() {} }) },
    // What earlier starts kept.
    streamLog: { oldestSlot: 1_000, replay: () => openSolanaHubReplay() },
  })
  await until(() => stream.status !== null, 'the end')
  expect(stream.status!.code).toBe(grpcCode.unavailable)
})

it('a replay ends whose reader asks for more answers than it reads', async () => {
  const hub = openSolanaHub()
  const chain = new SyntheticSolana({ transactionsPerSlot: 40 })
  for (let slot = 0; slot < 12; slot++)
    for (const update of chain.next()) publishUpdate(hub, update)
  const stream = new SlowStream()
  const subscriber = subscribe(stream, hub)
  await until(() => stream.frames.length > 0, 'the first')
  const ask = (request: object, times: number) => {
    const bytes = Buffer.from(type.encode(type.fromObject(request)).finish())
    for (let asked = 0; asked < times; asked++) subscriber.message(bytes)
  }
  // Unread, though those before were handed over.
  stream.unsentBytes = 0
  ask({ ping: { id: 1 } }, 5_000)
  subscriber.drained()
  stream.unsentBytes = 2 ** 20
  ask({ ping: { id: 1 } }, 4_000)
  expect(stream.status).toBeNull()
  ask({ keys: { id: 2 } }, 97)
  expect(stream.status?.code).toBe(grpcCode.dataLoss)
  expect(stream.status?.details).toMatch(/^lagged: 4096 answers were waiting/)
})

it('a status never follows a part of a message', () => {
  const stream = new SlowStream()
  const subscriber = subscribe(stream, openSolanaHub(), {}, { slots: { s: {} } })
  const batch = new FrameBatch(new SlabPool())
  const suffix = createdAtSuffix(1_000)
  // Of the second no part is written.
  for (const size of [300_000, 300_000])
    batch.append(updateTag.block, namePrefix('b'), Buffer.alloc(size), suffix)
  const { bytes, frames } = batch
  subscriber.take(batch.take(), bytes, frames)
  subscriber.end('lagged', { code: grpcCode.dataLoss, details: 'lagged' })
  const written = Buffer.concat(stream.frames)
  expect(written.length).toBe(framePrefixBytes + written.readUInt32BE(1))
  expect(stream.status?.code).toBe(grpcCode.dataLoss)
})

function openSolanaHubReplay() {
  const hub = openSolanaHub()
  for (const update of new SyntheticSolana().next()) publishUpdate(hub, update)
  return hub.replay(0, 1_000)
}

it('a replay of more than the bound of unsent bytes waits for its reader', async () => {
  const hub = openSolanaHub()
  const chain = new SyntheticSolana({ transactionsPerSlot: 40 })
  let content = 0
  hub.listen((commitment, { kind }) => {
    if (commitment === 0 && (kind === 'account' || kind === 'transaction')) content++
  })
  for (let slot = 0; slot < 12; slot++)
    for (const update of chain.next()) publishUpdate(hub, update)
  const stream = new SlowStream()
  const subscriber = subscribe(stream, hub)
  await until(() => stream.frames.length > 0, 'the first')
  expect(subscriber.backlogBytes).toBeLessThan(4 * 65_536)
  const messages = () => {
    const bytes = Buffer.concat(stream.frames)
    let count = 0
    for (let at = 0; at < bytes.length; at += 5 + bytes.readUInt32BE(at + 1)) count++
    return count
  }
  await until(() => {
    stream.unsentBytes = 0
    subscriber.drained()
    return stream.status !== null || messages() === content
  }, 'everything')
  expect(stream.status).toBeNull()
})
