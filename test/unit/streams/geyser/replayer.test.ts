// A replay of the hub's log: of each slot its content, its block meta, then its statuses.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { FanOut } from '../../../../src/streams/geyser/fan-out.ts'
import { compileFilters } from '../../../../src/streams/geyser/filter-compile.ts'
import { SlabPool } from '../../../../src/streams/geyser/frame.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../../../src/streams/geyser/meters.ts'
import { Replayer, type ReplayingStream } from '../../../../src/streams/geyser/replayer.ts'
import { Subscriber } from '../../../../src/streams/geyser/subscriber.ts'
import { limits } from '../../../testkit/filter-limits.ts'
import { readFrames, requestOf } from '../../../testkit/geyser-asking.ts'
import { type Asked, type Expected, expectedOf } from '../../../testkit/geyser-oracle.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const codec = loadCodec()
const everything: Omit<Asked, 'commitment'> = {
  accounts: { a: {} },
  slots: { s: { interslotUpdates: true } },
  transactions: {},
  transactionsStatus: {},
  blocks: {},
  blocksMeta: { m: {} },
  entry: {},
  accountsDataSlice: [],
}

const type = 'geyser.SubscribeRequest'
const pool = new SlabPool()

function encoded(asked: object): Uint8Array {
  const message = codec.root.lookupType(type)
  return message.encode(message.fromObject(asked)).finish()
}

function compiled(asked: Asked) {
  const bytes = encoded(requestOf(asked))
  const outcome = compileFilters(codec.decode<SubscribeRequest>(type, bytes)!, limits)
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  return outcome.value
}

/** Between what is handed to the socket and what stops a replay: all frames wait in the queue. */
const unread = {
  encoding: null,
  header: () => undefined,
  unsentBytes: 400_000,
  write: () => false,
  end() {},
}

afterEach(() => {
  vi.restoreAllMocks()
})

describe('a replay', () => {
  it.each([
    ['256 updates where they take no time', 0, 100, 256],
    ['16 where those take a millisecond', 1, 1, 16],
  ])('leaves the turn to others after %s', async (_, msPerLook, least, most) => {
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => {
      nowMs += msPerLook
      return nowMs
    })
    const hub = openSolanaHub()
    const chain = new SyntheticSolana({ transactionsPerSlot: 200 })
    for (let slot = 0; slot < 3; slot++)
      for (const update of chain.next()) publishUpdate(hub, update)
    const perTurn: number[] = []
    await new Promise<void>((resolve, reject) => {
      const stream: ReplayingStream = {
        ...{ encoding: null, backlogBytes: 0, aheadMax: 1, isAhead: false, caughtUp: resolve },
        take: (_runs, _bytes, frames) => void perTurn.push(frames),
        lostReplay: () => reject(new Error('lost')),
      }
      const asked: Asked = { ...everything, transactions: { t: {} }, commitment: 0 }
      new Replayer(hub.replay(0, 1000)!, compiled(asked), { pool, hub }, stream)
    })
    expect(perTurn.length).toBeGreaterThan(2)
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(most)
    expect(Math.max(...perTurn)).toBeGreaterThanOrEqual(least)
  })

  it('asks for its turns with the pace of the slots that it has passed', async () => {
    const hub = openSolanaHub()
    const ask = vi.spyOn(hub.turns, 'ask')
    for (const update of new SyntheticSolana().next()) publishUpdate(hub, update)
    await new Promise<void>((resolve, reject) => {
      const stream: ReplayingStream = {
        ...{
          encoding: null,
          backlogBytes: 0,
          aheadMax: 1,
          isAhead: false,
          caughtUp: resolve,
          take: () => {},
        },
        lostReplay: () => reject(new Error('lost')),
      }
      new Replayer(
        hub.replay(0, 1000)!,
        compiled({ ...everything, commitment: 0 }),
        { pool, hub },
        stream,
      )
    })
    const pace = ask.mock.lastCall![1]!
    const first = pace.restShare(0)
    // It has come to a slot, and no further in ten seconds.
    expect(pace.restShare(10_000)).toBeLessThan(first)
  })

  it.each([0, 1, 2] as const)('has the statuses of a slot after its block, at %i', async (at) => {
    const hub = openSolanaHub()
    const asked: Asked = { ...everything, commitment: at }
    const published: Expected[] = []
    hub.listen((commitment, update) => {
      if (commitment === at) published.push(...expectedOf(asked, update))
    })
    const chain = new SyntheticSolana({ confirmedAfter: 2, finalizedAfter: 5 })
    for (let slot = 0; slot < 12; slot++)
      for (const update of chain.next()) publishUpdate(hub, update)
    const runs: Buffer[] = []
    await new Promise<void>((resolve, reject) => {
      const stream: ReplayingStream = {
        ...{ encoding: null, backlogBytes: 0, aheadMax: 1, isAhead: false },
        take: (taken) => void runs.push(...taken.map(({ bytes }) => Buffer.from(bytes))),
        caughtUp: resolve,
        lostReplay: () => reject(new Error('lost')),
      }
      new Replayer(hub.replay(at, 1000)!, compiled(asked), { pool, hub }, stream)
    })
    const replayed = readFrames(codec, Buffer.concat(runs))
    const isStatus = ({ field }: Expected) => field === 'slot'
    const content = (all: Expected[]) => all.filter((one) => !isStatus(one))
    expect(content(replayed)).toEqual(content(published))
    const marks = (all: Expected[]) => all.filter(isStatus).map(({ mark }) => mark)
    expect(marks(replayed).toSorted()).toEqual(
      marks(published)
        .filter((mark) => /\/[012]$/.test(mark))
        .toSorted(),
    )
    // Each block meta is followed by all statuses of its slot up to that commitment, in order.
    const metas = replayed.flatMap(({ field }, index) => (field === 'blockMeta' ? [index] : []))
    for (const [nth, index] of metas.entries()) {
      const statuses = replayed.slice(index + 1, index + 2 + at).map(({ mark }) => mark)
      expect(statuses).toEqual([0, 1, 2].slice(0, at + 1).map((one) => `${1000 + nth}/${one}`))
      const before = marks(replayed.slice(0, index))
      expect(before.filter((mark) => mark.startsWith(`${1000 + nth}/`))).toEqual([])
    }
    expect(metas.length).toBe([12, 10, 7][at])
  })

  it('that nobody reads pauses, and leaves no group behind when its stream is closed', async () => {
    const hub = openSolanaHub()
    const chain = new SyntheticSolana()
    for (const update of [...chain.next(), ...chain.next()]) publishUpdate(hub, update)
    const meters = declareGrpcMeters(new Meters())
    const fanOut = new FanOut(hub, meters)
    let ended = 0
    const paid = { meter() {}, charge: () => null, ended: () => void ended++ }
    const deps = {
      hub,
      streamLog: null,
      fanOut,
      codec,
      limits: () => limits,
      backlogBytesMax: 1,
      clock: systemClock,
      meters,
    }
    const subscriber = new Subscriber(unread, { ...deps, ...paid })
    subscriber.message(
      Buffer.from(encoded({ ...requestOf({ ...everything, commitment: 0 }), fromSlot: 1000 })),
    )
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    expect([ended, fanOut.groups]).toEqual([0, 0])
    expect(subscriber.backlogBytes).toBeGreaterThan(0)
    subscriber.closed()
    expect([ended, fanOut.groups]).toEqual([1, 0])
  })

  it('of new filters, whose batched frames end the stream, leaves no group behind', async () => {
    const hub = openSolanaHub()
    const meters = declareGrpcMeters(new Meters())
    const fanOut = new FanOut(hub, meters)
    let ended = 0
    const deps = {
      hub,
      streamLog: null,
      fanOut,
      codec,
      limits: () => limits,
      backlogBytesMax: 1,
      clock: systemClock,
      meters,
    }
    const paid = { meter() {}, charge: () => null, ended: () => void ended++ }
    const subscriber = new Subscriber(unread, { ...deps, ...paid })
    subscriber.message(Buffer.from(encoded(requestOf({ ...everything, commitment: 0 }))))
    // Batched until the end of the turn: leaving for other filters sends them, which is too much.
    for (const update of new SyntheticSolana().next()) publishUpdate(hub, update)
    subscriber.message(Buffer.from(encoded(requestOf({ ...everything, commitment: 1 }))))
    expect(ended).toBe(1)
    expect(fanOut.groups).toBe(0)
  })
})
