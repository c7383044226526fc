// Random filters against random updates: the index, the groups and the frames on one side, the
// slow oracle on the other.
import { describe, expect, it } from 'vitest'
import type { Commitment } from '../../../../src/base/commitment.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import type { GrpcEncoding } from '../../../../src/base/transport/grpc-encoding.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { FanOut } from '../../../../src/streams/geyser/fan-out.ts'
import { compileFilters } from '../../../../src/streams/geyser/filter-compile.ts'
import type { Run, RunSink, SubscriberGroup } from '../../../../src/streams/geyser/frame.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../../../src/streams/geyser/meters.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { limits } from '../../../testkit/filter-limits.ts'
import { randomAsked, readFrames, requestOf } from '../../../testkit/geyser-asking.ts'
import { type Asked, type Expected, expectedOf } from '../../../testkit/geyser-oracle.ts'
import { framed, messagesIn } from '../../../testkit/raw-grpc.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const seeds = [1, 2, 3, 4].slice(0, caseCount(1, 4))

const codec = loadCodec()
const groupsPerTurnMin = 4

class Collector implements RunSink {
  readonly encoding: GrpcEncoding | null
  readonly asked: Asked
  readonly expected: Expected[] = []
  readonly #runs: Buffer[] = []
  /** The buffers as they came. */
  readonly taken: Buffer[] = []
  bytes = 0
  frames = 0

  constructor(asked: Asked, encoding: GrpcEncoding | null = null) {
    this.asked = asked
    this.encoding = encoding
  }

  take(runs: readonly Run[], bytes: number, frames: number): void {
    // Copied and given back at once, as a stream that has sent them would.
    for (const run of runs) {
      this.#runs.push(Buffer.from(run.bytes))
      this.taken.push(run.bytes)
      run.slab?.release()
    }
    this.bytes += bytes
    this.frames += frames
  }

  got(): Expected[] {
    const bytes = Buffer.concat(this.#runs)
    expect(bytes.length).toBe(this.bytes)
    const messages = messagesIn(bytes, this.encoding)
    return readFrames(codec, Buffer.concat(messages.map(({ message }) => framed(message))))
  }
}

function compiled(asked: Asked) {
  const type = 'geyser.SubscribeRequest'
  const message = codec.root.lookupType(type)
  const bytes = message.encode(message.fromObject(requestOf(asked))).finish()
  const outcome = compileFilters(codec.decode<SubscribeRequest>(type, bytes)!, limits)
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  return outcome.value
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** All that was published is sent: some groups in a turn. */
async function turns(groups: number): Promise<void> {
  for (let count = 0; count <= groups / groupsPerTurnMin; count++) await turn()
}

describe('live streams', () => {
  it.each(seeds)('get what the oracle expects, seed %i', async (seed) => {
    const chain = new SyntheticSolana({ seed, accounts: 30 })
    const random = randomOf(seed * 77)
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const live = new Map<Collector, SubscriberGroup>()
    const all: Collector[] = []
    hub.listen((commitment, update) => {
      for (const sink of live.keys())
        if (sink.asked.commitment === commitment)
          sink.expected.push(...expectedOf(sink.asked, update))
    })
    for (let slot = 0; slot < 12; slot++) {
      for (const update of chain.next()) {
        // Streams come and go in the middle of slots, some with filters that exist already.
        if (random() < 0.2 && live.size < 30) {
          const known = [...live.keys()][Math.floor(random() * live.size)]
          const asked = known && random() < 0.4 ? known.asked : randomAsked(chain, random)
          const encodings = [null, null, 'gzip', 'zstd'] as const
          const sink = new Collector(asked, encodings[Math.floor(random() * encodings.length)])
          all.push(sink)
          live.set(sink, fanOut.join(sink, compiled(asked)))
        } else if (random() < 0.1 && live.size > 5) {
          const [sink, group] = [...live][Math.floor(random() * live.size)]!
          fanOut.leave(sink, group)
          live.delete(sink)
        }
        publishUpdate(hub, update)
        if (random() < 0.1) await turn()
      }
    }
    await turns(all.length)
    const sum = all.reduce((total, sink) => total + sink.expected.length, 0)
    expect(sum).toBeGreaterThan(500)
    for (const sink of all) expect(sink.got()).toEqual(sink.expected)
    for (const [sink, group] of live) fanOut.leave(sink, group)
  })

  it('with equal filters share one group, whatever the order of their fields', () => {
    const chain = new SyntheticSolana()
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const asked = randomAsked(chain, randomOf(5))
    asked.accounts = {
      a: { account: ['11111111111111111111111111111112', '11111111111111111111111111111113'] },
      b: {},
    }
    const turned = {
      ...asked,
      accounts: {
        b: {},
        a: { account: ['11111111111111111111111111111113', '11111111111111111111111111111112'] },
      },
    }
    const [one, two] = [new Collector(asked), new Collector(turned)]
    const group = fanOut.join(one, compiled(asked))
    expect(fanOut.join(two, compiled(turned))).toBe(group)
    const other = { ...asked, commitment: ((asked.commitment + 1) % 3) as Commitment }
    expect(fanOut.join(new Collector(other), compiled(other))).not.toBe(group)
  })

  it('of slots alone are served before the others of the turn', async () => {
    const chain = new SyntheticSolana()
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const order: string[] = []
    const join = (name: string, changes: Partial<Asked>) => {
      const asked: Asked = {
        ...{ commitment: 0, accounts: {}, slots: {}, transactions: {}, transactionsStatus: {} },
        ...{ blocks: {}, blocksMeta: {}, entry: {}, accountsDataSlice: [], ...changes },
      }
      const sink = new Collector(asked)
      const take = sink.take.bind(sink)
      sink.take = (...taken) => {
        order.push(name)
        take(...taken)
      }
      fanOut.join(sink, compiled(asked))
    }
    join('metas', { blocksMeta: { a: {} } })
    join('metas and slots', { blocksMeta: { a: {} }, slots: { a: {} } })
    join('slots', { slots: { a: {} } })
    for (const update of chain.next()) publishUpdate(hub, update)
    await turn()
    expect(order).toEqual(['slots', 'metas', 'metas and slots'])
  })

  it('of other keys get one copy of what differs by the names of filters alone', async () => {
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const chain = new SyntheticSolana()
    const sinks = ['a', 'a', 'b', 'b'].map((name, index) => {
      const account = [encodeBase58(Buffer.alloc(32, index + 1))]
      const asked: Asked = {
        ...{ commitment: 0, transactions: {}, transactionsStatus: {}, entry: {}, blocks: {} },
        ...{ accountsDataSlice: [], blocksMeta: { m: {} }, slots: { [name]: {} } },
        accounts: { k: { account } },
      }
      const sink = new Collector(asked)
      fanOut.join(sink, compiled(asked))
      return sink
    })
    hub.listen((commitment, update) => {
      if (commitment !== 0) return
      for (const { expected, asked } of sinks) expected.push(...expectedOf(asked, update))
    })
    for (const update of chain.next()) publishUpdate(hub, update)
    await turn()
    expect(fanOut.groups).toBe(4)
    const [first, second, third, fourth] = sinks.map(({ taken }) => taken[0])
    expect(second).toBe(first)
    expect(fourth).toBe(third)
    expect(third).not.toBe(first)
    for (const sink of sinks) expect(sink.got()).toEqual(sink.expected)
  })

  it('of many groups are served in several turns, each with everything', async () => {
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const served = new Map<string, number>()
    for (let index = 0; index < 200; index++) {
      const asked: Asked = {
        ...{ commitment: 0, accounts: {}, slots: {}, transactions: {}, transactionsStatus: {} },
        ...{ blocks: {}, entry: {}, accountsDataSlice: [], blocksMeta: { [`m${index}`]: {} } },
      }
      const sink = new Collector(asked)
      sink.take = (_runs, _bytes, frames) => {
        served.set(`m${index}`, (served.get(`m${index}`) ?? 0) + frames)
        // Slow enough to take longer than a turn may.
        for (const startMs = performance.now(); performance.now() < startMs + 0.1; );
      }
      fanOut.join(sink, compiled(asked))
    }
    const chain = new SyntheticSolana()
    for (const update of chain.next()) publishUpdate(hub, update)
    await turn()
    expect(served.size).toBeGreaterThan(0)
    expect(served.size).toBeLessThan(200)
    for (const update of chain.next()) publishUpdate(hub, update)
    await turns(2 * 200)
    expect(served.size).toBe(200)
    expect(new Set(served.values())).toEqual(new Set([2]))
  })

  it.each([
    [0, { transactions: { t: {} } }],
    [2, { transactions: { t: {} }, transactionsStatus: { s: {} } }],
  ])('have %i statuses encoded for two transactions with %j', (count, changes) => {
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const asked: Asked = {
      ...{ commitment: 0, accounts: {}, slots: {}, transactions: {}, transactionsStatus: {} },
      ...{ blocks: {}, blocksMeta: {}, entry: {}, accountsDataSlice: [], ...changes },
    }
    fanOut.join(new Collector(asked), compiled(asked))
    let encoded = 0
    for (const update of new SyntheticSolana({ transactionsPerSlot: 2 }).next())
      if (update.kind === 'transaction') {
        const { statusBody } = update
        const counted = Object.defineProperty({ ...update }, 'statusBody', {
          get: () => {
            encoded++
            return statusBody
          },
        })
        publishUpdate(hub, counted)
      }
    expect(encoded).toBe(count)
  })

  it('of one group share one compression for each algorithm', async () => {
    const chain = new SyntheticSolana({ dataBytes: 2_000 })
    const hub = openSolanaHub({ replaySlots: 10, replayBytesMax: 1e8 })
    const fanOut = new FanOut(hub, declareGrpcMeters(new Meters()))
    const asked = { ...randomAsked(chain, randomOf(5)), commitment: 0 as const }
    asked.accounts = { all: {} }
    const encodings = ['gzip', null, 'zstd', 'gzip', 'zstd'] as const
    const sinks = encodings.map((encoding) => new Collector(asked, encoding))
    for (const sink of sinks) fanOut.join(sink, compiled(asked))
    for (const update of chain.next()) publishUpdate(hub, update)
    await turn()
    const [gzip, plain, zstd, gzipToo, zstdToo] = sinks.map(({ taken }) => taken) as Buffer[][]
    expect(gzip!.length).toBeGreaterThan(0)
    for (const [at, run] of gzip!.entries()) expect(gzipToo![at]).toBe(run)
    for (const [at, run] of zstd!.entries()) expect(zstdToo![at]).toBe(run)
    const lengths = [gzip, zstd].map((runs) => Buffer.concat(runs!).length)
    for (const length of lengths) expect(length).toBeLessThan(Buffer.concat(plain!).length)
    const contents = sinks.map((sink) => sink.got())
    for (const content of contents) expect(content).toEqual(contents[0])
  })
})
