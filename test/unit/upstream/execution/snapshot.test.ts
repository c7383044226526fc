import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import {
  blockEnd,
  blockFinalized,
  blockQc,
  blockStart,
  EventType,
  txnCallFrame,
  txnHeaderStart,
} from '../../../../src/chain/evm/event-payload.ts'
import { descriptor, oldSchemaHash, ringHeader } from '../../../../src/chain/evm/event-ring.ts'
import { hexOf } from '../../../../src/chain/evm/hex.ts'
import {
  differenceU64,
  readU64,
  readU64Exact,
  writeU16,
  writeU32,
  writeU64,
} from '../../../../src/chain/evm/words.ts'
import { Generator } from '../../../../src/upstream/execution/generator/generator.ts'
import { Playback, passesOf } from '../../../../src/upstream/execution/playback.ts'
import { loadRecording } from '../../../../src/upstream/execution/recording.ts'
import type {
  SnapshotOptions,
  SnapshotProgress,
} from '../../../../src/upstream/execution/snapshot.ts'
import { Snapshot } from '../../../../src/upstream/execution/snapshot.ts'
import { EventRingWriter, eventRingHeader } from '../../../testkit/event-ring-writer.ts'
import { SeenEvents } from '../../../testkit/execution-sink.ts'
import { realData } from '../../../testkit/real-data.ts'
import { VirtualPacer } from '../../../testkit/virtual-pacer.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-snapshot-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A raw ring with ten generated blocks in it. */
async function generatedRing(name: string): Promise<{ path: string; events: number }> {
  const path = join(folder, name)
  const writer = new EventRingWriter(path)
  const shape = { seed: 9, tps: 50, skew: 1.1, blockMs: 400, forkRate: 0, rejectRate: 0 }
  const source = new Generator(shape, new VirtualPacer())
  const seen = new SeenEvents()
  await source.run({
    event(bytes, payload) {
      if (seen.count(EventType.BlockEnd) === 10) return
      writer.event(bytes, payload)
      seen.event(bytes, payload)
      if (seen.count(EventType.BlockEnd) === 10) source.stop()
    },
    gap() {},
    flush() {},
  })
  writer.close()
  return { path, events: seen.total }
}

async function play(
  options: Partial<SnapshotOptions> & { path: string },
  stopAfter = Number.POSITIVE_INFINITY,
): Promise<{ seen: SeenEvents; progress: SnapshotProgress[]; tookMs: number }> {
  const pacer = new VirtualPacer()
  const progress: SnapshotProgress[] = []
  const source = new Snapshot(
    { speed: 'full', loop: false, blockMs: 400, ...options },
    pacer,
    (step) => progress.push(step),
  )
  const seen = new SeenEvents({ keep: true })
  seen.onEvent = () => {
    if (seen.total >= stopAfter) source.stop()
  }
  const beganMs = pacer.clock.monotonicMs()
  await source.run(seen)
  return { seen, progress, tookMs: pacer.clock.monotonicMs() - beganMs }
}

describe('a recorded snapshot', () => {
  test('is read whole from a raw ring, with or without its tail of zeros', async () => {
    const { path, events } = await generatedRing('raw')
    const { seen, progress } = await play({ path })
    expect(seen.total).toBe(events)
    expect(seen.lastSeqno).toBe(events)
    expect(seen.misshapen + seen.jumps + seen.gaps.length).toBe(0)
    expect(progress.at(-1)).toEqual({ pass: 0, events, eventsTotal: events })
    const recording = await loadRecording(path)
    const cut = join(folder, 'cut')
    const used =
      2 ** 21 + 2 ** 22 + 8 + readU64(recording.descriptors, (events - 1) * 64 + 24) + 400
    writeFileSync(cut, readFileSync(path).subarray(0, used))
    expect((await play({ path: cut })).seen.total).toBe(events)
  })

  test('of a ring that wrapped around is read from its oldest event on', async () => {
    const path = join(folder, 'round')
    // The payload buffer's physical end is in the middle of the written bytes.
    const writer = new EventRingWriter(path, { firstPayloadByte: 2 ** 27 - 1_000_008 })
    const head = new Uint8Array(descriptor.bytes)
    const payload = new Uint8Array(txnCallFrame.size + 40)
    writeU16(head, descriptor.type, EventType.TxnCallFrame)
    writeU32(head, descriptor.payloadSize, payload.length)
    writeU64(payload, txnCallFrame.inputLength, 40)
    for (let seqno = 1; seqno <= 70_000; seqno++) {
      writeU64(payload, txnCallFrame.gas, seqno)
      payload.fill(seqno, txnCallFrame.size)
      writer.event(head, payload)
    }
    writer.close()
    const { seen } = await play({ path })
    expect(seen.events[0]?.seqno).toBe(70_000 - 65_536 + 1)
    expect(seen.lastSeqno).toBe(70_000)
    expect({ gaps: seen.gaps, jumps: seen.jumps }).toEqual({ gaps: [], jumps: 0 })
    const wrong = seen.events.filter(
      (event) =>
        readU64(event.payload, txnCallFrame.gas) !== event.seqno ||
        event.payload.at(-1) !== (event.seqno & 255),
    )
    expect(wrong.length).toBe(0)
  })

  test('loops with increasing numbers and times and new ids, parents linked', async () => {
    const { path, events } = await generatedRing('loop')
    const { seen } = await play({ path, loop: true }, events * 3)
    const blocks = seen.events.filter(({ type }) => type === EventType.BlockStart)
    const numbers = blocks.map(({ payload }) => readU64(payload, blockStart.blockNumber))
    const first = numbers[0]!
    expect(numbers).toEqual(numbers.map((_, index) => first + index))
    expect(new Set(blocks.map(({ payload }) => hexOf(payload, 0, 32))).size).toBe(blocks.length)
    expect(seen.jumps).toBe(0)
    let parent = ''
    let block = 0
    let timeNs = 0n
    const known = new Map<string, number>()
    for (const { type, payload, descriptor: bytes, seqno } of seen.events) {
      if (type === EventType.BlockStart) {
        if (parent !== '') expect(hexOf(payload, blockStart.parentHash, 32)).toBe(parent)
        expect(readU64(bytes, descriptor.blockSeqno)).toBe(seqno)
        expect(readU64(payload, blockStart.number)).toBe(readU64(payload, blockStart.blockNumber))
        const now = readU64Exact(bytes, descriptor.timeNs)
        expect(now > timeNs).toBe(true)
        timeNs = now
        block = readU64(payload, blockStart.blockNumber)
        known.set(hexOf(payload, 0, 32), block)
      }
      if (type === EventType.BlockEnd) parent = hexOf(payload, blockEnd.ethHash, 32)
      if (type === EventType.BlockFinalized)
        expect(known.get(hexOf(payload, 0, 32))).toBe(readU64(payload, blockFinalized.blockNumber))
      if (type === EventType.BlockQc)
        expect(known.get(hexOf(payload, 0, 32))).toBe(readU64(payload, blockQc.blockNumber))
    }
    const hashes = seen.events
      .filter(({ type }) => type === EventType.TxnHeaderStart)
      .map(({ payload }) => hexOf(payload, txnHeaderStart.hash, 32))
    expect(new Set(hashes).size).toBe(hashes.length)
  })

  test('plays at recorded speed, at one block per 400 ms, or without pause', async () => {
    const { path } = await generatedRing('pace')
    expect((await play({ path, speed: 'full' })).tookMs).toBeLessThan(1)
    const recorded = await play({ path, speed: 'recorded' })
    expect(recorded.tookMs).toBeGreaterThan(9 * 400 - 10)
    expect(recorded.tookMs).toBeLessThan(10 * 400)
    const fixed = await play({ path, speed: 'fixed', blockMs: 1000 })
    expect(fixed.tookMs).toBe(9000)
    const starts = fixed.seen.events.filter(({ type }) => type === EventType.BlockStart)
    for (const [index, start] of starts.entries())
      expect(differenceU64(start.descriptor, 16, starts[0]!.descriptor, 16)).toBe(index * 1e9)
    expect(fixed.progress.length).toBe(11)
  })

  test('a block keeps its inner times at fixed speed', async () => {
    const { path } = await generatedRing('inner')
    const spans = async (speed: 'full' | 'fixed') => {
      const { seen } = await play({ path, speed, blockMs: 100 })
      let start: Uint8Array = new Uint8Array(64)
      const found: number[] = []
      for (const { type, descriptor: bytes } of seen.events) {
        if (type === EventType.BlockStart) start = bytes
        if (type === EventType.BlockEnd) found.push(differenceU64(bytes, 16, start, 16))
      }
      return found
    }
    expect(await spans('fixed')).toEqual(await spans('full'))
  })

  test('other files are rejected with a message that describes them', async () => {
    const file = (name: string, bytes: Uint8Array) => {
      const path = join(folder, name)
      writeFileSync(path, bytes)
      return path
    }
    const old = file('old', eventRingHeader({ schema: oldSchemaHash }))
    await expect(loadRecording(old)).rejects.toThrow(`old schema ${oldSchemaHash}`)
    await expect(loadRecording(file('text', Buffer.alloc(500, 'x')))).rejects.toThrow('RING01')
    await expect(loadRecording(file('short', Buffer.from('RING01')))).rejects.toThrow('ends inside')
    await expect(loadRecording(file('empty', Buffer.alloc(0)))).rejects.toThrow('ends inside')
    const zstd = Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), Buffer.alloc(40, 0xff)])
    await expect(loadRecording(file('bad.zst', zstd))).rejects.toThrow('does not decompress')
    await expect(loadRecording(join(folder, 'absent'))).rejects.toThrow('cannot open')
    const header = eventRingHeader()
    writeU64(header, ringHeader.lastSeqno, 2 ** 60)
    await expect(loadRecording(file('endless', header))).rejects.toThrow('last sequence number')
  })

  test('has a gap where a payload is too short for its type or not in the file', async () => {
    const path = join(folder, 'short-payloads')
    const writer = new EventRingWriter(path)
    const head = new Uint8Array(descriptor.bytes)
    writeU16(head, descriptor.type, EventType.BlockStart)
    writer.event(head, new Uint8Array(16))
    writer.event(head, new Uint8Array(16))
    writer.close()
    // The second one's would wrap around, in a ring that never did.
    const file = openSync(path, 'r+')
    const offset = new Uint8Array(8)
    writeU64(offset, 0, 2 ** 27 - 8)
    writeSync(
      file,
      offset,
      0,
      8,
      ringHeader.pageBytes + descriptor.bytes + descriptor.payloadOffset,
    )
    closeSync(file)
    const recording = await loadRecording(path)
    const passes = passesOf(recording, 400)
    for (const pass of [0, 1]) {
      const seen = new SeenEvents()
      new Playback(seen, recording, passes, pass).play(0, recording.count)
      expect({ events: seen.total, gaps: seen.gaps.length }).toEqual({ events: 0, gaps: 2 })
    }
  })
})

const real = realData('execution/emn-30b-15m.snapshot.zst')
describe.skipIf(real.isMissing)(real.title('the real recording'), () => {
  test('is read completely: every event, every payload size as its own fields state', async () => {
    const source = new Snapshot(
      { path: real.path, speed: 'full', loop: false, blockMs: 400 },
      new VirtualPacer(),
    )
    const seen = new SeenEvents()
    await source.run(seen)
    expect(seen.total).toBe(136_891)
    expect(seen.gaps).toEqual([])
    expect(seen.misshapen).toBe(0)
    expect(seen.jumps).toBe(0)
    expect(seen.count(EventType.BlockStart)).toBe(30)
    expect(seen.count(EventType.BlockEnd)).toBe(30)
    expect(seen.count(EventType.BlockVerified)).toBe(29)
    expect(seen.count(EventType.TxnHeaderStart)).toBe(6187)
    expect(seen.count(EventType.StorageAccess)).toBe(38_286)
    expect(seen.count(EventType.AccountAccess)).toBe(25_530)
    expect(seen.count(EventType.TxnLog)).toBe(8299)
    expect(seen.count(EventType.TxnCallFrame)).toBe(21_077)
  })
})
