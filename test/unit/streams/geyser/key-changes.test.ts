// Streams that change keys of their filters, against an oracle that picks the keys by the slot.
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import type { GrpcStream } from '../../../../src/base/transport/grpc-stream.ts'
import { decodeKey, encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { loadCodec } from '../../../../src/streams/geyser/codec.ts'
import { FanOut } from '../../../../src/streams/geyser/fan-out.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../../../src/streams/geyser/meters.ts'
import { Subscriber } from '../../../../src/streams/geyser/subscriber.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { randomAsked, readFrames, requestOf } from '../../../testkit/geyser-asking.ts'
import { type Asked, type Expected, expectedOf } from '../../../testkit/geyser-oracle.ts'
import { turns } from '../../../testkit/geyser-streams.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const seeds = [1, 2].slice(0, caseCount(1, 2))

const codec = loadCodec()
const type = codec.root.lookupType('geyser.SubscribeRequest')
const limits = {
  filtersMax: 10,
  accountsMax: 200,
  ownersMax: 100,
  dataSlicesMax: 10,
  cuckooBytesMax: 10_000,
  any: true,
  accountReject: new Set([encodeBase58(new Uint8Array(32).fill(5))]),
  ownerReject: new Set<string>(),
}
/** The lists by their number on the wire. */
const lists = [
  ['accounts', 'account'],
  ['accounts', 'owner'],
  ['transactions', 'accountInclude'],
  ['transactions', 'accountExclude'],
  ['transactionsStatus', 'accountInclude'],
  ['transactionsStatus', 'accountExclude'],
  ['blocks', 'accountInclude'],
] as const
/** For the oracle, to which a list without keys is no condition: in no update. */
const nobody = encodeBase58(new Uint8Array(32).fill(6))

class Stage {
  readonly hub = openSolanaHub({ replaySlots: 1_000, replayBytesMax: 1e9 })
  readonly meters = declareGrpcMeters(new Meters())
  readonly fanOut = new FanOut(this.hub, this.meters)
  credits = 0

  open(first: object): Stream {
    const stream = new Stream()
    stream.subscriber = new Subscriber(stream, {
      hub: this.hub,
      streamLog: null,
      fanOut: this.fanOut,
      codec,
      limits: () => limits,
      backlogBytesMax: 1e9,
      clock: systemClock,
      meters: this.meters,
      meter() {},
      charge: (credits) => {
        this.credits += credits
        return null
      },
      ended() {},
    })
    stream.send(first)
    return stream
  }
}

/** A stream whose reader takes everything at once. */
class Stream implements GrpcStream {
  readonly encoding = null
  readonly unsentBytes = 0
  readonly frames: Buffer[] = []
  subscriber!: Subscriber
  /** The keys from each slot on. */
  readonly versions: { from: number; asked: Asked }[] = []
  readonly expected: Expected[] = []
  ended: string | null = null

  send(request: object): void {
    this.subscriber.message(Buffer.from(type.encode(type.fromObject(request)).finish()))
  }

  /** Sends a change of keys and returns the answer. */
  change(id: number, ...changes: object[]): Answer {
    const before = this.frames.length
    this.send({ keys: { id, changes } })
    for (const frame of this.frames.slice(before)) {
      const update = codec.decode<{ keys?: Answer }>('geyser.SubscribeUpdate', frame.subarray(5))
      if (update?.keys) return update.keys
    }
    throw new Error(`no answer: ${this.ended}`)
  }

  askedAt(slot: number): Asked {
    return this.versions.filter(({ from }) => from <= slot).at(-1)!.asked
  }

  got(): Expected[] {
    const read = readFrames(codec, Buffer.concat(this.frames))
    return read.filter(({ field }) => field !== 'keys')
  }

  header(): undefined {}

  write(bytes: Buffer, sent?: () => void): boolean {
    this.frames.push(Buffer.from(bytes))
    sent?.()
    return true
  }

  end({ details }: { readonly details: string }): void {
    this.ended = details
  }
}

interface Answer {
  readonly id: number
  readonly fromSlot: { readonly low: number }
  readonly error: string | null
}

/** Two slots, the second of which begins before the first is complete. */
function* mixed(chain: SyntheticSolana, random: () => number): Generator<SolanaUpdate> {
  const [first, second] = [chain.next(), chain.next()]
  for (const [at, update] of first.entries()) {
    if (at > first.length / 2) while (second.length > 8 && random() < 0.5) yield second.shift()!
    yield update
  }
  yield* second
}

/** A random change that the filters allow, and the filters after it. */
function randomChange(asked: Asked, chain: SyntheticSolana, random: () => number) {
  const list = Math.floor(random() * lists.length)
  const [kind, member] = lists[list]!
  // Reason for the cast: each member is one of its kind.
  const filters = asked[kind] as Record<string, Record<string, string[] | undefined>>
  const names = Object.keys(filters)
  const filter = names[Math.floor(random() * names.length)]
  if (filter === undefined) return null
  const before = filters[filter]![member] ?? []
  if (before.length === 0 && member !== 'accountExclude') return null
  const from = member === 'owner' ? chain.owners : chain.keys
  const texts = from.map((key) => encodeBase58(key))
  const add = texts.filter(() => random() < 0.08)
  const remove = [...texts, ...before].filter((key) => key !== nobody && random() < 0.3)
  const left = before.filter((key) => !remove.includes(key) && !add.includes(key))
  const after = [...left, ...add]
  const isEmpty = after.length === 0 && member !== 'accountExclude'
  return {
    change: { filter, list, add: add.map(bytes), remove: remove.map(bytes) },
    asked: {
      ...asked,
      [kind]: {
        ...filters,
        [filter]: { ...filters[filter], [member]: isEmpty ? [nobody] : after },
      },
    } as Asked,
  }
}

function bytes(text: string): Uint8Array {
  return decodeKey(text)!
}

describe('keys that change', () => {
  it.each(seeds)('match whole slots, as the oracle does, seed %i', async (seed) => {
    // Two slots of ten: so that changes are settled within few blocks.
    const isSkipped = (slot: number) => slot % 10 > 1
    const chain = new SyntheticSolana({ seed, accounts: 30, isSkipped })
    const random = randomOf(seed * 31)
    const stage = new Stage()
    const streams: Stream[] = []
    stage.hub.listen((commitment, update) => {
      for (const stream of streams)
        if (stream.versions[0]!.asked.commitment === commitment)
          stream.expected.push(...expectedOf(stream.askedAt(update.slot), update))
    })
    let changes = 0
    for (let pair = 0; pair < 30; pair++) {
      for (const update of mixed(chain, random)) {
        if (random() < 0.05 && streams.length < 10) {
          // Some share a group until they change something.
          const known = random() < 0.4 ? streams[0]?.versions[0]?.asked : undefined
          const commitment = random() < 0.6 ? { commitment: 0 as const } : {}
          const asked = known ?? { ...randomAsked(chain, random), ...commitment }
          const stream = stage.open(requestOf(asked))
          stream.versions.push({ from: 0, asked })
          streams.push(stream)
        }
        for (const stream of streams) {
          if (random() > 0.02) continue
          const changed = randomChange(stream.versions.at(-1)!.asked, chain, random)
          if (changed === null) continue
          const answer = stream.change(++changes, changed.change)
          expect(answer).toMatchObject({ id: changes, error: null })
          stream.versions.push({ from: answer.fromSlot.low, asked: changed.asked })
        }
        publishUpdate(stage.hub, update)
      }
      // Not all of it is sent in one turn, the rest of it before the keys change again.
      await turns(1)
    }
    await turns()
    expect(changes).toBeGreaterThan(50)
    expect(streams.reduce((sum, { expected }) => sum + expected.length, 0)).toBeGreaterThan(1_000)
    for (const stream of streams) expect(stream.got()).toEqual(stream.expected)
    for (const { subscriber } of streams) subscriber.closed()
    expect(stage.fanOut.groups).toBe(0)
  })

  it('match the rest of a slot that has begun by the keys before', async () => {
    const stage = new Stage()
    const chain = new SyntheticSolana({ accounts: 4, transactionsPerSlot: 20 })
    const [one, two] = [chain.keys[0]!, chain.keys[1]!]
    const asked = (key: Uint8Array) => ({
      ...randomAsked(chain, () => 0),
      accounts: { a: { account: [encodeBase58(key)] } },
      transactions: { t: { accountInclude: [encodeBase58(key)] } },
    })
    const stream = stage.open(requestOf(asked(one)))
    const [first, second] = [chain.next(), chain.next()]
    const half = first.length / 2
    for (const update of first.slice(0, half)) publishUpdate(stage.hub, update)
    const { fromSlot } = stream.change(
      1,
      { filter: 'a', add: [two], remove: [one] },
      { filter: 't', list: 2, add: [two], remove: [one] },
    )
    for (const update of [...first.slice(half), ...second]) publishUpdate(stage.hub, update)
    await turns()
    const isChosen = ({ field }: Expected) => field === 'account' || field === 'transaction'
    const expected = (updates: SolanaUpdate[], key: Uint8Array) =>
      updates.flatMap((update) => expectedOf(asked(key), update)).filter(isChosen)
    expect(fromSlot.low).toBe(1001)
    expect(expected(first.slice(half), one)).not.toEqual(expected(first.slice(half), two))
    expect(stream.got().filter(isChosen)).toEqual([
      ...expected(first, one),
      ...expected(second, two),
    ])
  })

  it.each([0, 1, 2] as const)('begin with the slot after the newest of commitment %i', (at) => {
    const stage = new Stage()
    const chain = new SyntheticSolana()
    for (let slot = 0; slot < 10; slot++)
      for (const update of chain.next()) publishUpdate(stage.hub, update)
    const stream = stage.open({ commitment: at, accounts: { a: { account: [nobody] } } })
    const { fromSlot } = stream.change(1, { filter: 'a', add: [chain.keys[0]] })
    // Slots 1000 to 1009 are processed, those before the last confirmed, and the first six finalized.
    expect(fromSlot.low).toBe([1010, 1009, 1006][at])
  })

  it('of a replay count from its slot on, also once it is live', async () => {
    const stage = new Stage()
    const chain = new SyntheticSolana()
    const published: SolanaUpdate[] = []
    stage.hub.listen((commitment, update) => void (commitment === 0 && published.push(update)))
    const publish = () => {
      for (const update of chain.next()) publishUpdate(stage.hub, update)
    }
    for (let slot = 0; slot < 60; slot++) publish()
    const [one, two] = [chain.keys[0]!, chain.keys[1]!]
    const asked = (key: Uint8Array) => ({
      ...randomAsked(chain, () => 0),
      accounts: { a: { account: [encodeBase58(key)] } },
    })
    const before = stage.open(requestOf(asked(one)))
    const stream = stage.open({ ...requestOf(asked(one)), fromSlot: 1000 })
    await turns(1)
    const { fromSlot } = stream.change(7, { filter: 'a', add: [two], remove: [one] })
    expect(fromSlot.low).toBeGreaterThan(1000)
    expect(fromSlot.low).toBeLessThan(1060)
    while (stage.fanOut.groups < 2) await turns()
    for (let slot = 0; slot < 10; slot++) publish()
    await turns()
    const keyAt = (slot: number) => (slot < fromSlot.low ? one : two)
    const isContent = ({ field }: Expected) => field !== 'slot'
    expect(stream.got().filter(isContent)).toEqual(
      published
        .flatMap((update) => expectedOf(asked(keyAt(update.slot)), update))
        .filter(isContent),
    )
    expect(before.got().length).toBeGreaterThan(0)
  })

  it('of a chain that begins anew count at once', async () => {
    const stage = new Stage()
    const old = new SyntheticSolana({ firstSlot: 5_000 })
    for (const update of old.next()) publishUpdate(stage.hub, update)
    const stream = stage.open({ accounts: { a: { account: [nobody] } } })
    const chain = new SyntheticSolana({ firstSlot: 10 })
    stream.change(1, { filter: 'a', add: chain.keys, remove: [bytes(nobody)] })
    stage.hub.restart()
    for (const update of chain.next()) publishUpdate(stage.hub, update)
    await turns()
    expect(stream.got().length).toBeGreaterThan(5)
  })

  it('are all changed or none: a refused change names the field and ends no stream', () => {
    const stage = new Stage()
    const chain = new SyntheticSolana()
    const key = chain.keys[0]!
    const stream = stage.open({
      accounts: { a: { account: [nobody] }, all: {} },
      transactions: { t: {} },
    })
    const many = Array.from({ length: 200 }, (_, at) => Buffer.alloc(32, 9).fill(at, 0, 4))
    const rows: [object[], string][] = [
      [[{ filter: 'b', add: [key] }], 'accounts["b"].account: the stream has no such filter'],
      [[{ filter: 'a', add: [Buffer.alloc(31)] }], 'accounts["a"].account: a key has 32 bytes'],
      [[{ filter: 'a', add: [Buffer.alloc(32, 5)] }], 'is not allowed in filters'],
      [[{ filter: 'a', list: 9, add: [key] }], 'list: 9 is no list of keys'],
      [[{ filter: 'all', add: [key] }], 'accounts["all"].account: the filter was sent without'],
      [[{ filter: 't', list: 2, add: [key] }], 'transactions["t"].account_include: the filter was'],
      [[{ filter: 'a', add: many }], 'at most 200 keys are allowed'],
      [
        [
          { filter: 'a', add: [key] },
          { filter: 'a', remove: [key] },
        ],
        '"a": a list is changed twice',
      ],
      [
        [
          { filter: 'a', add: [key] },
          { filter: 'b', add: [key] },
        ],
        'no such filter',
      ],
    ]
    for (const [changes, error] of rows) {
      expect(stream.change(3, ...changes).error).toContain(`failed to change keys: `)
      expect(stream.change(3, ...changes).error).toContain(error)
    }
    for (const update of chain.next()) publishUpdate(stage.hub, update)
    stream.send({ keys: { id: 4 }, slots: { s: {} } })
    const fresh = stage.open({ ping: { id: 1 } })
    expect(fresh.change(5, { filter: 'a', add: [key] }).error).toContain('has no filters')
    expect(stream.got().every(({ filters }) => !filters.includes('a'))).toBe(true)
    expect(stream.ended).toBeNull()
  })

  it('are bounded also while the slots before the changes may still come', () => {
    const stage = new Stage()
    const stream = stage.open({ accounts: { a: { account: [nobody] } } })
    const key = (at: number) => Buffer.alloc(32, 9).fill(at, 0, 4)
    const keys = (from: number) => Array.from({ length: 99 }, (_, at) => key(from + at))
    expect(stream.change(1, { filter: 'a', add: keys(0) }).error).toBeNull()
    expect(stream.change(2, { filter: 'a', remove: keys(0) }).error).toBeNull()
    expect(stream.change(3, { filter: 'a', add: keys(100) }).error).toContain('within 150 slots')
    const chain = new SyntheticSolana({ firstSlot: 151 })
    for (const update of chain.next()) publishUpdate(stage.hub, update)
    expect(stream.change(4, { filter: 'a', add: keys(100) }).error).toBeNull()
  })

  it('cost a credit, one more per 1,000 keys, and the keys of a group that is left', () => {
    const stage = new Stage()
    const account = Array.from({ length: 150 }, (_, at) => encodeBase58(Buffer.alloc(32, at + 10)))
    const request = {
      accounts: Object.fromEntries(
        Array.from({ length: 10 }, (_, at) => [`f${at}`, { account: account.slice(0, 101) }]),
      ),
    }
    const [one] = [stage.open(request), stage.open(request)]
    stage.credits = 0
    one.change(1, { filter: 'f0', add: [bytes(nobody)] })
    expect(stage.credits).toBe(2)
    one.change(2, { filter: 'f0', remove: [bytes(nobody)] })
    expect(stage.credits).toBe(3)
    expect(stage.fanOut.groups).toBe(2)
  })
})
