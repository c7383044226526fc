// The log of a hub with little memory against a hub that remembers everything: a replay from any
// slot, at any commitment, has the same updates in the same order.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { KnownBlocks } from '../../../../src/chain/solana/known-blocks.ts'
import { accountUpdate } from '../../../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import type { ReadableElement } from '../../../../src/streams/segments/kept-replay.ts'
import { SegmentWriter, segmentFile } from '../../../../src/streams/segments/segment-writer.ts'
import { type StreamLog, waitingBytesMax } from '../../../../src/streams/segments/stream-log.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import {
  chainOf,
  from,
  inBatches,
  read,
  rememberAll,
  withVoidBanks,
} from '../../../testkit/replayed-updates.ts'
import {
  hour,
  type LogServer,
  type Opening,
  serveLog,
  turn,
} from '../../../testkit/stream-log-server.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const commitments = [Commitment.processed, Commitment.confirmed, Commitment.finalized]
const logs: StreamLog[] = []
let parent: string
let folder: string

beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'stream-log-'))
  folder = join(parent, 'streams', 'default')
})

afterEach(async () => {
  vi.useRealTimers()
  for (const log of logs.splice(0)) await log.stop()
  rmSync(parent, { recursive: true })
})

async function serve(bounds = hour, memorySlots = 4, opening: Opening = {}): Promise<LogServer> {
  const server = await serveLog(folder, bounds, memorySlots, opening)
  logs.push(server.log)
  return server
}

describe('a replay from the log', () => {
  it.each(['none', 'zstd'] as const)('is what was published, %s', async (compress) => {
    const updates = chainOf(40)
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve({ ...hour, compress })
    sink.opened(null)
    await feed(updates)
    expect(log.oldestSlot).toBe(1000)
    expect(log.hub.oldestSlot).toBe(1036)
    for (const commitment of commitments)
      for (const slot of [1000, 1001, 1017, 1034, 1036, 1039]) {
        const replayed = await read(log.replay(from(slot, commitment))!)
        expect(replayed).toEqual(expected(commitment, slot))
      }
    expect(log.replay(from(999, Commitment.processed))).toBeNull()
  })

  it('begins with the first slot that is whole, also after a restart', async () => {
    const updates = chainOf(40)
    // The node sends no replay: the first slot is there in part.
    const middle = updates.findIndex(({ slot, kind }) => slot === 1010 && kind === 'transaction')
    const first = await serve()
    first.sink.opened(null)
    await first.feed(updates.slice(middle + 1))
    expect(first.log.oldestSlot).toBe(1011)
    expect(first.log.replay(from(1010, Commitment.confirmed))).toBeNull()
    await first.log.stop()
    const second = await serve()
    const { resumeSlot } = second.log
    second.sink.opened(resumeSlot)
    await second.feed(updates.filter(({ slot }) => slot >= resumeSlot!))
    expect(second.log.oldestSlot).toBe(1011)
    // Statuses of the run before are not those of this one.
    const content = (texts: readonly string[]) => texts.filter((one) => !one.includes(' status '))
    const replayed = await read(second.log.replay(from(1011, Commitment.confirmed))!)
    expect(content(replayed)).toEqual(content(rememberAll(updates)(Commitment.confirmed, 1011)))
  })

  it('has the retractions where they were, with what they restate', async () => {
    const updates = withVoidBanks(chainOf(36))
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(updates)
    const all = expected(Commitment.processed, 1001)
    expect(all.filter((text) => / retraction /.test(text)).length).toBeGreaterThan(20)
    expect(all.some((text) => / retraction \S+ of .*transaction/.test(text))).toBe(true)
    for (const commitment of commitments)
      expect(await read(log.replay(from(1001, commitment))!)).toEqual(expected(commitment, 1001))
  })

  it('knows the block of what it reads, as memory does', async () => {
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(chainOf(24))
    for (const commitment of [Commitment.confirmed, Commitment.finalized]) {
      const replay = log.replay(from(1000, commitment, false))!
      const blocks = new KnownBlocks(commitment, () => replay.kept())
      const known = new Map<number, string>()
      await read(replay, Number.POSITIVE_INFINITY, ({ kind, slot }) => {
        const block = kind === 'transaction' ? blocks.of(slot) : null
        if (kind === 'transaction') known.set(slot, `${block?.meta.blockTime} ${block?.isWhole}`)
      })
      const slots = commitment === Commitment.confirmed ? 22 : 16
      expect([...known]).toEqual(
        Array.from({ length: slots }, (_, at) => {
          const slot = 1000 + at
          return [slot, `${Math.floor((1_700_000_000_000 + slot * 400) / 1000)} true`]
        }),
      )
    }
  })

  it('has no block where none is asked for, and the rest', async () => {
    const updates = chainOf(20)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(updates)
    const all = rememberAll(updates)(Commitment.confirmed, 1003)
    const replayed = await read(log.replay(from(1003, Commitment.confirmed, false))!)
    const inMemory = / block /
    expect(replayed.filter((text) => !inMemory.test(text))).toEqual(
      all.filter((text) => !inMemory.test(text)),
    )
  })

  it('passes over the items of slots that the reader has, without reading them', async () => {
    const updates = chainOf(40)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(updates)
    const reads = vi.spyOn(log, 'batches')
    const itemForm = / (account|transaction|entry) /
    const blockForm = / block /
    for (const commitment of commitments) {
      const isPassed = (slot: number) => slot < 1038 && slot !== 1020
      const expected = rememberAll(updates)(commitment, 1003).filter(
        (text) => !(itemForm.test(text) && isPassed(Number.parseInt(text, 10))),
      )
      const withoutBlocks = (texts: string[]) => texts.filter((text) => !blockForm.test(text))
      reads.mockClear()
      const replay = log.replay(from(1003, commitment))!
      replay.passes = isPassed
      expect(withoutBlocks(await read(replay))).toEqual(withoutBlocks(expected))
      // The batches of one slot in files, and of those around it where they share a batch.
      expect(reads.mock.calls.length).toBeGreaterThan(0)
      expect(reads.mock.calls.length).toBeLessThan(8)
    }
  })

  /** The first items of every other slot come before the last transaction of the one before. */
  function interleaved(updates: readonly SolanaUpdate[]): SolanaUpdate[] {
    const found = [...updates]
    const isOf = (slot: number) => (one: SolanaUpdate) =>
      one.slot === slot && one.kind === 'transaction'
    for (let slot = updates[0]!.slot; found.some(isOf(slot + 1)); slot += 2) {
      const last = found.findLastIndex(isOf(slot))
      const end = found.findIndex(isOf(slot + 1)) + 1
      const begin = found.findIndex((one) => one.slot === slot + 1)
      found.splice(last, 0, ...found.splice(begin, end - begin))
    }
    return found
  }

  const asWritten = (element: ReadableElement) => element
  /** Without its slots, but for the last one. */
  const asWrittenFirst = (element: ReadableElement): ReadableElement => {
    if (element.kind !== 'run') return element
    const { slots, ...run } = element
    return Object.assign(run, { slot: slots!.at(-1) })
  }

  it.each([
    ['as they are written', asWritten],
    ['of early releases', asWrittenFirst],
  ])('has all of a slot that shares batches with another, from files %s', async (_, written) => {
    const updates = interleaved(chainOf(14))
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve()
    const find = log.find.bind(log)
    vi.spyOn(log, 'find').mockImplementation((at) => {
      const found = find(at)
      if (!(found instanceof Promise)) return found
      return found.then((era) => {
        if (era === 'lost') return era
        return { ...era, list: (commitment) => era.list(commitment).map(written) }
      })
    })
    sink.opened(null)
    await feed(updates)
    const isPassed = (slot: number) => slot % 2 === 0
    const isItem = (text: string) => / (account|transaction|entry) /.test(text)
    const isRest = (text: string) => !isItem(text) || !isPassed(Number.parseInt(text, 10))
    // Those of slots that are passed over are read from memory alone.
    const withoutBlocks = (texts: string[]) => texts.filter((text) => !text.includes(' block '))
    for (const commitment of commitments)
      for (let slot = 1000; slot < 1014; slot++) {
        const all = expected(commitment, slot)
        expect(await read(log.replay(from(slot, commitment))!), `${slot}`).toEqual(all)
        const replay = log.replay(from(slot, commitment))!
        replay.passes = isPassed
        expect(withoutBlocks(await read(replay))).toEqual(withoutBlocks(all.filter(isRest)))
      }
  })

  it('goes on from the files when the memory of a slow reader is evicted', async () => {
    const updates = chainOf(60)
    const expected = rememberAll(updates)
    const { log, sink, feed } = await serve()
    sink.opened(null)
    let fed = 0
    const feedTo = (end: number) => {
      const begin = fed
      fed = updates.findIndex(({ slot }) => slot === end)
      return feed(updates.slice(begin, fed))
    }
    await feedTo(1022)
    for (const commitment of commitments) {
      const replay = log.replay(from(log.hub.oldestSlot! - 10, commitment))!
      const begin = log.hub.oldestSlot! - 10
      const first = await read(replay, 17)
      await feedTo(log.hub.newestSlot! + 12)
      const rest = await read(replay)
      const all = expected(commitment, begin)
      expect([...first, ...rest]).toEqual(all.slice(0, first.length + rest.length))
      expect(rest.length).toBeGreaterThan(50)
    }
  })

  it('waits for the disk at most three times per slot, however many batches it has', async () => {
    const updates = chainOf(40).filter(({ kind }) => kind !== 'block')
    const { log, sink, thread } = await serve()
    sink.opened(null)
    for (let at = 0; at < updates.length; at += 2) {
      sink.batch(batchFrom(updates.slice(at, at + 2).map((update) => messageOf(update))))
      await turn()
      thread.run()
    }
    const replay = log.replay(from(1000, Commitment.processed))!
    const next = replay.next.bind(replay)
    let waits = 0
    replay.next = () => {
      const update = next()
      if (update === 'loading') waits++
      return update
    }
    expect(await read(replay)).toEqual(rememberAll(updates)(Commitment.processed, 1000))
    const eras = log.hub.oldestSlot! - log.oldestSlot!
    expect(updates.length / 2 / 40).toBeGreaterThan(8)
    expect(waits).toBeLessThanOrEqual(3 * eras)
  })

  it('has a batch of several slots once on disk', async () => {
    const updates = chainOf(48).filter(({ kind }) => kind !== 'block')
    const perBatch = Math.ceil(updates.length / 8)
    const { log, sink, thread } = await serve()
    sink.opened(null)
    let bytes = 0
    for (let at = 0; at < updates.length; at += perBatch) {
      const part = updates.slice(at, at + perBatch).map((update) => messageOf(update))
      for (const { length } of part) bytes += length
      sink.batch(batchFrom(part))
      await turn()
      thread.run()
    }
    const lists = new SegmentWriter(folder, hour).open(0).reduce((sum, era) => sum + era.bytes, 0)
    // Beside their tables.
    expect(log.counts().bytes - lists).toBeLessThan(1.5 * bytes)
    for (const commitment of commitments) {
      const replayed = await read(log.replay(from(1000, commitment))!)
      expect(replayed).toEqual(rememberAll(updates)(commitment, 1000))
    }
  })

  it('reads eras that wait to be written', async () => {
    const updates = chainOf(30)
    const expected = rememberAll(updates)
    const { log, sink, thread } = await serve()
    sink.opened(null)
    for (const batch of inBatches(updates, 3))
      sink.batch(batchFrom(batch.map((update) => messageOf(update))))
    await turn()
    expect(thread.requests.length).toBeGreaterThan(20)
    for (const commitment of commitments)
      expect(await read(log.replay(from(1002, commitment))!)).toEqual(expected(commitment, 1002))
  })
})

describe('a server that starts again', () => {
  /** By slot: how a seam lies between slots, their order among each other is another one. */
  function bySlot(texts: readonly string[]): Map<string, string[]> {
    const slots = new Map<string, string[]>()
    for (const text of texts) {
      const slot = text.slice(0, text.indexOf(' '))
      slots.set(slot, [...(slots.get(slot) ?? []), text])
    }
    return slots
  }

  it('continues what it published before, without a gap or a duplicate', async () => {
    const updates = chainOf(90)
    const expected = rememberAll(updates)
    let [low, high] = [1000, 1030]
    let server = await serve()
    server.sink.opened(null)
    // Three runs; each ends in the middle of a slot, and of what waits to be written.
    for (let run = 1; ; run++) {
      const begin = updates.findIndex(({ slot }) => slot === low)
      const end = updates.findIndex(({ slot, kind }) => slot === high && kind === 'transaction')
      const part = updates.slice(begin, end + 3).filter(({ slot }) => slot >= low)
      await server.feed(part, run)
      if (run === 3) break
      server = await serve()
      low = server.log.resumeSlot!
      high += 27
      expect(low).toBeGreaterThan(1010 + (run - 1) * 27)
      server.sink.opened(low)
    }
    const { log } = server
    expect(log.oldestSlot).toBe(1000)
    for (const commitment of commitments) {
      const replayed = bySlot(await read(log.replay(from(1005, commitment))!))
      const all = bySlot(expected(commitment, 1005))
      for (const [slot, texts] of replayed)
        if (Number(slot) < 1070) expect(texts, slot).toEqual(all.get(slot))
      expect(replayed.size).toBeGreaterThan(60)
    }
  })

  it.each(['ends', 'is damaged'])('has all that was whole where a file %s', async (how) => {
    const updates = chainOf(14, { accounts: 6, transactionsPerSlot: 1, finalizedAfter: 4 })
    const expected = rememberAll(updates)
    const first = await serve(hour, 2)
    first.sink.opened(null)
    await first.feed(updates)
    const whole = readFileSync(segmentFile(folder, 1))
    const places = new SegmentWriter(folder, hour).open(0)
    expect(places.length).toBeGreaterThan(8)
    const step = Math.ceil(whole.length / caseCount(12, 4_000))
    for (let at = randomOf(how.length)() * step; at < whole.length; at += step) {
      const place = Math.floor(at)
      const bytes = Buffer.from(how === 'ends' ? whole.subarray(0, place) : whole)
      if (how === 'is damaged') bytes[place]! ^= 1 << (place % 8)
      writeFileSync(segmentFile(folder, 1), bytes)
      const { log, sink, feed } = await serve(hour, 2)
      const kept = places.filter((era) => era.at + era.bytes <= place)
      // Nothing finalized: nothing to continue.
      const low = kept.at(-1)?.finalized?.slot ?? null
      expect(log.resumeSlot, `byte ${place}`).toBe(low)
      sink.opened(low)
      await feed(updates.filter(({ slot }) => slot >= (low ?? 0)))
      for (const commitment of commitments) {
        const replayed = bySlot(await read(log.replay(from(1000, commitment))!))
        expect(replayed, `byte ${place}`).toEqual(bySlot(expected(commitment, 1000)))
      }
      for (const name of readdirSync(folder)) rmSync(join(folder, name))
    }
  })

  it('keeps the runs before one that was killed before it finalized anything', async () => {
    const updates = chainOf(60)
    const expected = rememberAll(updates)
    const upTo = (low: number, high: number) =>
      updates.filter(({ slot }) => slot >= low && slot < high)
    const first = await serve()
    first.sink.opened(null)
    await first.feed(
      updates.slice(
        0,
        updates.findIndex(({ slot }) => slot === 1040),
      ),
    )
    const low = (await serve()).log.resumeSlot!
    expect(low).toBeGreaterThan(1025)
    // Killed twice, soon after the start.
    for (const slots of [3, 5]) {
      const { log, sink, feed } = await serve()
      expect(log.resumeSlot).toBe(low)
      sink.opened(low)
      await feed(upTo(low, low + slots), slots)
      expect(log.counts().writtenEras).toBeGreaterThan(1)
    }
    // And one more run over it, which finalizes.
    for (const high of [1050, 1060]) {
      const { log, sink, feed } = await serve()
      const from0 = log.resumeSlot!
      sink.opened(from0)
      await feed(upTo(from0, high), high)
      expect(log.counts().resets).toBe(0)
      expect(log.oldestSlot).toBe(1000)
      for (const commitment of commitments) {
        const replayed = bySlot(await read(log.replay(from(1000, commitment))!))
        const all = bySlot(expected(commitment, 1000))
        for (let slot = 1000; slot < high - 10; slot++)
          expect(replayed.get(String(slot)), `${slot}`).toEqual(all.get(String(slot)))
      }
    }
  })

  it('begins anew where the chain does so while the log is opened', async () => {
    const first = await serve()
    first.sink.opened(null)
    await first.feed(chainOf(20))
    const updates = chainOf(20, { firstSlot: 500 })
    const { log, sink, feed } = await serve(hour, 4, { meanwhile: (hub) => hub.restart() })
    expect(log.counts()).toMatchObject({ isUp: true, bytes: 0, resets: 1 })
    expect(log.resumeSlot).toBeNull()
    sink.opened(null)
    await feed(updates)
    expect(log.oldestSlot).toBe(500)
    const replayed = await read(log.replay(from(500, Commitment.processed))!)
    expect(replayed).toEqual(rememberAll(updates)(Commitment.processed, 500))
  })

  it('comes up after a thread that did not start at first', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const { log, thread } = await serve(hour, 4, { startFails: true })
    expect(log.counts().isUp).toBe(false)
    vi.advanceTimersByTime(10_000)
    await turn()
    thread.run()
    expect(log.counts().isUp).toBe(true)
  })

  it('repeats and leaves out nothing for who read before it came up', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    const updates = chainOf(50)
    const { log, sink, thread, feed } = await serve(hour, 4, { startFails: true })
    const feedSlots = (low: number, high: number) => {
      const at = (slot: number) => updates.findIndex((update) => update.slot === slot)
      return feed(updates.slice(at(low), at(high)))
    }
    sink.opened(null)
    await feedSlots(1000, 1012)
    const [slow, quick] = [1010, 1009].map((slot) => log.replay(from(slot, Commitment.processed))!)
    await read(slow!, 5)
    const texts = await read(quick!)
    vi.advanceTimersByTime(10_000)
    await turn()
    thread.run()
    expect(log.counts().isUp).toBe(true)
    await feedSlots(1012, 1015)
    texts.push(...(await read(quick!)))
    await feedSlots(1015, 1040)
    // What it has not read was published while nothing was written.
    await expect(read(slow!)).rejects.toThrow('lost')
    const before = texts.length
    texts.push(...(await read(quick!)))
    expect(texts.length).toBeGreaterThan(before + 100)
    const all = rememberAll(updates)(Commitment.processed, 1009)
    expect(texts).toEqual(all.slice(0, texts.length))
  })

  it('goes on in memory for who reads this chain while the earlier runs are removed', async () => {
    const updates = chainOf(60)
    const first = await serve()
    first.sink.opened(null)
    await first.feed(updates.filter(({ slot }) => slot < 1030))
    const { log, sink } = await serve()
    for (const batch of inBatches(updates, 3).filter(([one]) => one!.slot >= 1040))
      sink.batch(batchFrom(batch.map((update) => messageOf(update))))
    // Its era waits to be written, the next one is in memory.
    const slot = log.hub.oldestSlot! - 1
    const replay = log.replay(from(slot, Commitment.processed))!
    const texts = await read(replay, 3)
    log.started(null)
    expect(log.counts()).toMatchObject({ resets: 1, oldestSlot: slot + 1 })
    texts.push(...(await read(replay)))
    expect(texts).toEqual(rememberAll(updates)(Commitment.processed, slot))
  })

  it.each([500, 1000])('loses paused replays where the chain begins anew at %s', async (slot) => {
    const { log, sink, feed } = await serve()
    sink.opened(null)
    await feed(chainOf(20))
    const replays = [1002, 1018].map((from0) => log.replay(from(from0, Commitment.processed))!)
    for (const replay of replays) await read(replay, 3)
    sink.beginAnew()
    sink.opened(null)
    await feed(chainOf(3, { firstSlot: slot, seed: 9 }))
    for (const replay of replays) await expect(read(replay)).rejects.toThrow('lost')
  })

  it.each([
    ['no node replays from where it ended', 1060, 0],
    ['the node shows another block there', null, 99],
  ])('begins anew where %s', async (_, start, seed) => {
    const first = await serve()
    first.sink.opened(null)
    await first.feed(chainOf(40))
    const { log, sink, feed } = await serve()
    const resumeSlot = log.resumeSlot!
    sink.opened(start ?? resumeSlot)
    const firstSlot = start ?? resumeSlot
    await feed(chainOf(12, { firstSlot, seed: seed || 1 }))
    expect(log.oldestSlot).toBeGreaterThanOrEqual(firstSlot)
    expect(log.replay(from(1005, Commitment.processed))).toBeNull()
    expect(log.counts().resets).toBe(1)
  })

  it.each(['from there', 'elsewhere'])(
    'are continued by a connection, or begin anew, after one that brought a status alone: %s',
    async (where) => {
      const updates = chainOf(60)
      const first = await serve()
      first.sink.opened(null)
      await first.feed(updates.filter(({ slot }) => slot < 1_040))
      const { log, sink, feed } = await serve()
      const resumeSlot = log.resumeSlot!
      sink.opened(resumeSlot)
      await feed(updates.filter(({ slot }) => slot === resumeSlot).slice(0, 1))
      sink.closed()
      expect(sink.resumeFrom()).toBe(resumeSlot)
      const from1 = where === 'elsewhere' ? 1_048 : resumeSlot
      sink.opened(from1)
      await feed(updates.filter(({ slot }) => slot >= from1))
      const [oldestSlot, resets] = where === 'elsewhere' ? [1_048, 1] : [1_000, 0]
      expect([log.oldestSlot, log.counts().resets]).toEqual([oldestSlot, resets])
    },
  )

  it('begins anew where another stream is the first with content, of a later slot', async () => {
    const updates = chainOf(60)
    const first = await serve()
    first.sink.opened(null)
    await first.feed(updates.filter(({ slot }) => slot < 1_040))
    const { log, sink, feed } = await serve()
    sink.opened(log.resumeSlot, 1)
    sink.opened(null)
    expect(log.oldestSlot).toBe(1_000)
    await feed(updates.filter(({ slot }) => slot >= 1_048))
    expect(log.replay(from(1_005, Commitment.processed))).toBeNull()
    expect(log.counts().resets).toBe(1)
  })
})

describe('the bounds', () => {
  it('remove the oldest files, and end a replay that was in them', async () => {
    const bounds = { ...hour, bytesMax: 3e6 }
    const updates = chainOf(150, { dataBytes: 16_000, accounts: 20 })
    const { log, sink, feed } = await serve(bounds)
    sink.opened(null)
    await feed(
      updates.slice(
        0,
        updates.findIndex(({ slot }) => slot === 1008),
      ),
    )
    const replay = log.replay(from(1001, Commitment.processed))!
    await read(replay, 10)
    await feed(updates.slice(updates.findIndex(({ slot }) => slot === 1008)))
    const bytes = readdirSync(folder).reduce(
      (sum, name) => sum + statSync(join(folder, name)).size,
      0,
    )
    expect(bytes).toBeLessThan(3e6 + 1.5 * 1024 * 1024)
    expect(log.counts().bytes).toBe(bytes)
    expect(log.oldestSlot).toBeGreaterThan(1050)
    await expect(read(replay)).rejects.toThrow('lost')
    const oldest = log.oldestSlot!
    const kept = await read(log.replay(from(oldest, Commitment.confirmed))!)
    expect(kept).toEqual(rememberAll(updates)(Commitment.confirmed, oldest))
  })

  it('of what waits for a slow disk: the log begins anew, the hub never waits', async () => {
    const { log, sink, thread } = await serve()
    sink.opened(2000)
    const slots = 40
    const data = Buffer.alloc(20 * 1024 * 1024)
    const [key] = new SyntheticSolana().keys
    let fed = 0
    for (let slot = 2000; fed < slots && log.counts().resets === 0; slot++, fed++) {
      const account = new SyntheticSolana().account(key!, null)
      const update = accountUpdate({ slot, createdAtMs: 0 }, { ...account, data })
      sink.batch(batchFrom([messageOf(update)]))
    }
    expect(fed).toBeLessThan(slots)
    expect(waitingBytesMax).toBe(256 * 1024 * 1024)
    thread.run()
    expect(log.counts()).toMatchObject({ isUp: true, resets: 1 })
  })
})
