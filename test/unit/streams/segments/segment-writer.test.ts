// Files of the stream log that end anywhere: what was complete is found, and writing goes on.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { decodeBatch, decodeEra } from '../../../../src/streams/segments/segment-format.ts'
import { SegmentWriter, segmentFile } from '../../../../src/streams/segments/segment-writer.ts'

const bounds = { keepMs: 3_600_000, bytesMax: 1e9, compress: 'none' } as const
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'segments-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true })
})

function batchOf(number: number) {
  const table = new Float64Array(8).fill(number)
  return { table: new Uint8Array(table.buffer), bytes: Buffer.alloc(5 + number, number) }
}

/** Eras 1 to `count`, each of two batches. */
function write(writer: SegmentWriter, count: number, atMs = 1_000) {
  return Array.from({ length: count }, (_, index) => {
    for (const number of [2 * index, 2 * index + 1]) {
      const { table, bytes } = batchOf(number)
      writer.batch(table, bytes)
    }
    const finalized = { slot: index, blockhash: `hash ${index}` }
    return writer.era({ slot: index + 1, finalized, lists: [[], [], []] }, atMs + index).place
  })
}

describe('a log of which the end is missing', () => {
  it('has every era that was complete, wherever it was cut, and is continued', () => {
    const writer = new SegmentWriter(folder, bounds)
    writer.open(0)
    const places = write(writer, 3)
    writer.stop()
    const file = segmentFile(folder, 1)
    const whole = readFileSync(file)
    for (let length = 0; length <= whole.length; length++) {
      writeFileSync(file, whole.subarray(0, length))
      const again = new SegmentWriter(folder, bounds)
      const complete = places.filter(({ at, bytes }) => at + bytes <= length)
      expect(again.open(2_000)).toEqual(complete)
      // What no era follows is cut off: nothing of it is read as a record later.
      const [end] = complete.slice(-1).map(({ at, bytes }) => at + bytes)
      expect(statSync(file, { throwIfNoEntry: false })?.size).toBe(end)
      const [next] = write(again, 1)
      again.stop()
      const [last] = new SegmentWriter(folder, bounds).open(2_000).slice(-1)
      expect(last).toEqual(next)
      expect(last!.run).toBe(complete.length === 0 ? 1 : 2)
      for (const name of readdirSync(folder)) rmSync(join(folder, name))
    }
  })

  it('ends before the first damaged byte', () => {
    const writer = new SegmentWriter(folder, bounds)
    writer.open(0)
    const places = write(writer, 3)
    writer.stop()
    const file = segmentFile(folder, 1)
    const whole = readFileSync(file)
    for (let at = 0; at < whole.length; at += 3) {
      const damaged = Buffer.from(whole)
      damaged[at]! ^= 0x10
      writeFileSync(file, damaged)
      const found = new SegmentWriter(folder, bounds).open(2_000)
      // Unused bytes of a head may be anything that the checksum covers.
      expect(found).toEqual(places.filter((place) => place.at + place.bytes <= at))
      writeFileSync(file, whole)
    }
  })
})

describe('a record', () => {
  it('is read back, or refused', () => {
    const writer = new SegmentWriter(folder, { ...bounds, compress: 'zstd' })
    writer.open(0)
    const [place] = write(writer, 1)
    writer.stop()
    const whole = readFileSync(segmentFile(folder, 1))
    const era = decodeEra(whole.subarray(place!.at, place!.at + place!.bytes))!
    expect(era).toMatchObject({ slot: 1, run: 1, finalized: { slot: 0, blockhash: 'hash 0' } })
    for (const [number, [at, bytes]] of era.batches.entries()) {
      const record = Buffer.from(whole.subarray(at, at + bytes))
      const sent = batchOf(number)
      const { table, bytes: read } = decodeBatch(record)!
      expect([new Uint8Array(table.buffer), Buffer.from(read)]).toEqual([sent.table, sent.bytes])
      expect(decodeBatch(record.subarray(0, -1))).toBeNull()
      expect(decodeEra(record)).toBeNull()
    }
  })
})

describe('files', () => {
  it('are removed from the oldest when they are too old', () => {
    const writer = new SegmentWriter(folder, { ...bounds, keepMs: 100 })
    writer.open(0)
    const places = write(writer, 200, 1_000)
    writer.stop()
    const kept = new SegmentWriter(folder, { ...bounds, keepMs: 100 }).open(1_199)
    expect(kept.length).toBeGreaterThanOrEqual(100)
    expect(kept.length).toBeLessThan(120)
    expect(kept.at(-1)).toEqual(places.at(-1))
  })
})
