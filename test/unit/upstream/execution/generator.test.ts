import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  AccessContext,
  blockEnd,
  blockFinalized,
  blockStart,
  blockVerified,
  EventType,
  storageAccess,
  txnHeaderStart,
} from '../../../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../../../src/chain/evm/event-ring.ts'
import { hexOf } from '../../../../src/chain/evm/hex.ts'
import {
  differenceU64,
  readU32,
  readU64,
  readU64Exact,
  readU256,
} from '../../../../src/chain/evm/words.ts'
import type { GeneratorOptions } from '../../../../src/upstream/execution/generator/generator.ts'
import { Generator } from '../../../../src/upstream/execution/generator/generator.ts'
import { Random, Zipf } from '../../../../src/upstream/execution/generator/traffic-plan.ts'
import { type SeenEvent, SeenEvents } from '../../../testkit/execution-sink.ts'
import { VirtualPacer } from '../../../testkit/virtual-pacer.ts'

const plain: GeneratorOptions = { seed: 1, tps: 515, skew: 1.1, blockMs: 400 }

async function generate(
  options: Partial<GeneratorOptions>,
  blocks: number,
  sink = new SeenEvents({ keep: true }),
  startMs?: number,
): Promise<SeenEvents> {
  const source = new Generator({ ...plain, ...options }, new VirtualPacer(startMs))
  let started = 0
  const inner = sink.onEvent
  sink.onEvent = (event) => {
    inner(event)
    if (event.type === EventType.BlockStart) started += 1
    // Stops inside the last block; earlier blocks are complete.
    if (started > blocks) source.stop()
  }
  await source.run(sink)
  return sink
}

/** Forty blocks of the plain options, for all tests that only look at them. */
let fortyBlocks: Promise<SeenEvents> | null = null
function plainBlocks(): Promise<SeenEvents> {
  fortyBlocks ??= generate({}, 40)
  return fortyBlocks
}

function digest(sink: SeenEvents): string {
  const hash = createHash('sha256')
  for (const event of sink.events) hash.update(event.descriptor).update(event.payload)
  return hash.digest('hex')
}

const of = (sink: SeenEvents, type: number) => sink.events.filter((event) => event.type === type)
const timeNs = (event: SeenEvent) => readU64Exact(event.descriptor, descriptor.timeNs)

describe('the embedded generator', () => {
  test('produces the same bytes for the same seed and clock, others for another seed', async () => {
    const first = digest(await generate({}, 5))
    expect(digest(await generate({}, 5))).toBe(first)
    expect(digest(await generate({ seed: 2 }, 5))).not.toBe(first)
  })

  test('has the statistics of the real recording', async () => {
    const sink = await plainBlocks()
    const txns = sink.count(EventType.TxnHeaderStart)
    const per = (type: number) => sink.count(type) / txns
    expect(sink.misshapen).toBe(0)
    expect(sink.jumps).toBe(0)
    expect(txns / 40).toBeGreaterThan(180)
    expect(txns / 40).toBeLessThan(235)
    expect(per(EventType.StorageAccess)).toBeCloseTo(6.2, 0)
    expect(per(EventType.AccountAccess)).toBeCloseTo(4.1, 0)
    expect(per(EventType.TxnLog)).toBeCloseTo(1.34, 0)
    expect(per(EventType.TxnCallFrame)).toBeCloseTo(3.4, 0)
    for (const type of [
      EventType.TxnAccessListEntry,
      EventType.TxnAuthListEntry,
      EventType.BlockQc,
      EventType.BlockFinalized,
      EventType.BlockVerified,
      EventType.BlockPerfEvmExit,
    ])
      expect(sink.count(type)).toBeGreaterThan(0)
  })

  test('shares storage slots as the recording does, a slot at most once per transaction', async () => {
    const sink = await plainBlocks()
    let unique = 0
    let contended = 0
    let accesses = 0
    let transient = 0
    let repeated = 0
    let slots = new Map<string, Set<number>>()
    for (const { type, payload, descriptor: bytes } of sink.events) {
      if (type === EventType.BlockStart) slots = new Map()
      if (type === EventType.BlockEnd) {
        unique += slots.size
        for (const txns of slots.values()) if (txns.size > 1) contended += 1
      }
      if (type !== EventType.StorageAccess) continue
      transient += payload[storageAccess.isTransient]!
      if (payload[storageAccess.context] !== AccessContext.Transaction) continue
      if (payload[storageAccess.isTransient] === 1) continue
      const key = hexOf(payload, storageAccess.address, 20) + hexOf(payload, storageAccess.key, 32)
      const txns = slots.get(key) ?? new Set<number>()
      const txn = readU32(bytes, descriptor.txn)
      if (txns.has(txn)) repeated += 1
      slots.set(key, txns.add(txn))
      accesses += 1
    }
    expect(repeated).toBe(0)
    expect(unique / accesses).toBeGreaterThan(0.7)
    expect(unique / accesses).toBeLessThan(0.9)
    expect(contended / unique).toBeGreaterThan(0.035)
    expect(contended / unique).toBeLessThan(0.09)
    expect(transient).toBeGreaterThan(0)
  })

  test('links each block to its parent by hash and counts up', async () => {
    const sink = await generate({ tps: 20, forkRate: 0.2, rejectRate: 0.2 }, 300)
    const winners = new Map<number, string>()
    for (const { payload } of of(sink, EventType.BlockFinalized))
      winners.set(readU64(payload, blockFinalized.blockNumber), hexOf(payload, 0, 32))
    const ethHashes = new Map<string, string>()
    const parents = new Map<string, string>()
    let id = ''
    let last = 0
    const ids = new Set<string>()
    for (const { type, payload } of sink.events) {
      if (type === EventType.BlockStart) {
        id = hexOf(payload, blockStart.id, 32)
        expect(ids.has(id)).toBe(false)
        ids.add(id)
        const number = readU64(payload, blockStart.blockNumber)
        expect(readU64(payload, blockStart.number)).toBe(number)
        expect(last === 0 || number === last || number === last + 1).toBe(true)
        last = number
        parents.set(id, hexOf(payload, blockStart.parentHash, 32))
        expect(readU256(payload, blockStart.chainId)).toBe(20143n)
      }
      if (type === EventType.BlockEnd) ethHashes.set(id, hexOf(payload, blockEnd.ethHash, 32))
    }
    expect(winners.size).toBeGreaterThan(180)
    for (const [number, winner] of winners) {
      const child = winners.get(number + 1)
      if (child !== undefined) expect(parents.get(child)).toBe(ethHashes.get(winner))
    }
    expect(sink.count(EventType.BlockReject)).toBeGreaterThan(20)
    expect(sink.count(EventType.BlockReject) + sink.count(EventType.BlockEnd)).toBe(300)
    expect(sink.count(EventType.TxnReject)).toBe(sink.count(EventType.BlockReject))
  })

  test('votes, finalizes and verifies at +400, +800 and +1,200 ms', async () => {
    const sink = await generate({ tps: 50, forkRate: 0, rejectRate: 0 }, 20)
    const starts = new Map<number, SeenEvent>()
    for (const event of of(sink, EventType.BlockStart))
      starts.set(readU64(event.payload, blockStart.blockNumber), event)
    const check = (type: number, at: number, ageNs: number) => {
      const events = of(sink, type)
      expect(events.length).toBeGreaterThan(10)
      for (const event of events) {
        const start = starts.get(readU64(event.payload, at))!
        expect(differenceU64(event.descriptor, 16, start.descriptor, 16)).toBe(ageNs)
        expect(readU64(event.descriptor, descriptor.blockSeqno)).toBe(0)
      }
    }
    check(EventType.BlockQc, 32, 400_000_000)
    check(EventType.BlockFinalized, blockFinalized.blockNumber, 800_000_000)
    check(EventType.BlockVerified, blockVerified.blockNumber, 1_200_000_000)
  })

  test('interleaves transactions and occasionally steps back in time, as engines do', async () => {
    const sink = await plainBlocks()
    let backward = 0
    let previous = 0n
    let order: number[] = []
    let outOfOrder = 0
    let interleaved = 0
    let openTxn = 0
    for (const event of sink.events) {
      const at = timeNs(event)
      if (at < previous) backward += 1
      previous = at
      const txn = readU32(event.descriptor, descriptor.txn)
      if (event.type === EventType.BlockStart) order = []
      if (event.type === EventType.TxnPerfEvmEnter) {
        if (txn < (order.at(-1) ?? 0)) outOfOrder += 1
        order.push(txn)
      }
      if (event.type === EventType.TxnHeaderStart) {
        if (openTxn !== 0) interleaved += 1
        openTxn = txn
      }
      if (event.type === EventType.TxnEnd && txn === openTxn) openTxn = 0
    }
    expect(backward / sink.total).toBeGreaterThan(0.003)
    expect(backward / sink.total).toBeLessThan(0.05)
    expect(outOfOrder).toBeGreaterThan(20)
    expect(interleaved).toBeGreaterThan(20)
  })

  test('touches system storage before the first and after the last transaction', async () => {
    const sink = await plainBlocks()
    const contexts = of(sink, EventType.StorageAccess).map((event) => {
      return event.payload[storageAccess.context]
    })
    expect(contexts.filter((context) => context === AccessContext.Prologue).length).toBeGreaterThan(
      39,
    )
    expect(contexts.filter((context) => context === AccessContext.Epilogue).length).toBeGreaterThan(
      39,
    )
  })

  test('numbers increase across restarts', async () => {
    const numbers = (sink: SeenEvents) =>
      of(sink, EventType.BlockStart).map(({ payload }) => readU64(payload, blockStart.number))
    const first = numbers(await generate({ tps: 5 }, 5, undefined, 1_700_000_000_000))
    const later = numbers(await generate({ tps: 5 }, 5, undefined, 1_700_000_003_000))
    expect(Math.min(...later)).toBeGreaterThan(Math.max(...first))
  })

  test('keeps up to 10,000 transactions per second and none at all', async () => {
    const busy = await generate({ tps: 10_000 }, 4, new SeenEvents())
    expect(busy.count(EventType.TxnHeaderStart)).toBeGreaterThan(6000)
    expect(busy.misshapen).toBe(0)
    const idle = await generate({ tps: 0 }, 10)
    expect(idle.count(EventType.TxnHeaderStart)).toBe(0)
    expect(idle.count(EventType.BlockEnd)).toBeGreaterThanOrEqual(10)
  })

  test('every transaction has its own hash and all of its events', async () => {
    const sink = await plainBlocks()
    const hashes = of(sink, EventType.TxnHeaderStart).map(({ payload }) =>
      hexOf(payload, txnHeaderStart.hash, 32),
    )
    expect(new Set(hashes).size).toBe(hashes.length)
    for (const type of [EventType.TxnPerfEvmExit, EventType.TxnEvmOutput, EventType.TxnHeaderEnd])
      expect(Math.abs(sink.count(type) - hashes.length)).toBeLessThanOrEqual(2)
  })
})

describe('random samples', () => {
  test('Zipf samples follow their weights', () => {
    const random = new Random()
    random.seed(1, 2, 3)
    const zipf = new Zipf(100, 1)
    const counts = new Array<number>(100).fill(0)
    for (let draw = 0; draw < 200_000; draw++) {
      const rank = zipf.draw(random)
      counts[rank] = counts[rank]! + 1
    }
    let total = 0
    for (let rank = 1; rank <= 100; rank++) total += 1 / rank
    for (const rank of [1, 2, 5, 20])
      expect(counts[rank - 1]! / 200_000).toBeCloseTo(1 / rank / total, 2)
    expect(new Zipf(1, 2).draw(random)).toBe(0)
  })
})
