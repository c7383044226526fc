// Files of the stream log that end anywhere: what was complete is found, and writing goes on.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { allCommitments } from '../../../../src/base/commitment.ts'
import {
  BatchChunks,
  decodeBatch,
  decodeEra,
} from '../../../../src/streams/segments/segment-format.ts'
import { SegmentWriter, segmentFile } from '../../../../src/streams/segments/segment-writer.ts'
import { caseCount } from '../../../testkit/case-count.ts'

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

function add(writer: SegmentWriter, ...numbers: number[]) {
  const chunks = new BatchChunks((laidOut) => writer.batches(laidOut))
  for (const number of numbers) {
    const { table, bytes } = batchOf(number)
    expect(chunks.add(table, bytes)).toBe(true)
  }
  chunks.flush()
}

/** Eras 1 to `count`, each of two batches. */
function write(writer: SegmentWriter, count: number, atMs = 1_000) {
  return Array.from({ length: count }, (_, index) => {
    add(writer, 2 * index, 2 * index + 1)
    const finalized = { slot: index, blockhash: `hash ${index}` }
    const lists = [[], [{ kind: 'update', update: { slot: index } } as const], []]
    return writer.era({ slot: index + 1, finalized, lists }, atMs + index).place
  })
}

/** Every one of a file, or some and those about the ends of eras. */
function bytesOf(length: number, eras: readonly { at: number; bytes: number }[]): number[] {
  const every = caseCount(5, 1)
  const isNearEnd = (byte: number) => eras.some(({ at, bytes }) => Math.abs(at + bytes - byte) <= 2)
  return [...Array(length).keys()].filter((byte) => byte % every === 0 || isNearEnd(byte))
}

describe('a batch that an era shares with the one before', () => {
  it('lies once in a file, and is repeated in a new one', () => {
    const writer = new SegmentWriter(folder, bounds)
    writer.open(0)
    const era = (slot: number, atMs: number) =>
      writer.era({ slot, finalized: null, lists: [[], [], []] }, atMs).place
    add(writer, 7, 9)
    const first = era(1, 1_000)
    writer.again(1)
    // So late that its file ends with it.
    const second = era(2, 1_000 + bounds.keepMs / 16)
    writer.again(0)
    const third = era(3, 1_001 + bounds.keepMs / 16)
    writer.stop()
    expect([first, second, third].map(({ segment }) => segment)).toEqual([1, 1, 2])
    const [shared, repeated] = [second, third].map(({ segment, at, bytes }) => {
      const file = readFileSync(segmentFile(folder, segment))
      const place = decodeEra(file.subarray(at, at + bytes))!.batches[0]!
      const batch = decodeBatch(file.subarray(place[0], place[0] + place[1]))
      expect(batch?.bytes).toEqual(batchOf(9).bytes)
      return place[0]
    })
    expect(shared).toBeLessThan(first.at)
    expect(repeated).toBe(0)
    expect(new SegmentWriter(folder, bounds).open(0)).toEqual([first, second, third])
  })
})

describe('a log of which the end is missing', () => {
  it('has every era that was complete, wherever it was cut, and is continued', () => {
    const writer = new SegmentWriter(folder, bounds)
    writer.open(0)
    const places = write(writer, 3)
    writer.stop()
    const file = segmentFile(folder, 1)
    const whole = readFileSync(file)
    for (const length of bytesOf(whole.length + 1, places)) {
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
    const bits = caseCount(1, 8)
    for (const at of bytesOf(whole.length, places))
      for (let bit = 0; bit < bits; bit++) {
        const damaged = Buffer.from(whole)
        damaged[at]! ^= 1 << ((at + bit) % 8)
        writeFileSync(file, damaged)
        const found = new SegmentWriter(folder, bounds).open(2_000)
        expect(found).toEqual(places.filter((place) => place.at + place.bytes <= at))
        writeFileSync(file, whole)
      }
  })
})

describe('a log with a fault', () => {
  /** Files of three eras each, and the places of all. */
  function writeFiles(count: number) {
    const writer = new SegmentWriter(folder, bounds)
    writer.open(0)
    const places = Array.from({ length: count }, () => {
      const own = write(writer, 3)
      writer.stop()
      return own
    }).flat()
    return { writer, places, from: (segment: number) => places.filter((p) => p.segment >= segment) }
  }

  const damages: [string, (file: string) => void][] = [
    ['missing', (file) => rmSync(file)],
    ['cut', (file) => writeFileSync(file, readFileSync(file).subarray(0, -3))],
    ['empty', (file) => writeFileSync(file, '')],
    [
      'unreadable',
      (file) => {
        rmSync(file)
        mkdirSync(file)
      },
    ],
  ]

  it.each(damages)('loses a file that is %s with those before, and no later one', (_, damage) => {
    const { from } = writeFiles(5)
    damage(segmentFile(folder, 3))
    expect(new SegmentWriter(folder, bounds).open(2_000)).toEqual(from(4))
    expect(readdirSync(folder)).toHaveLength(2)
  })

  it('is continued behind the last era that was reported, with what is before it', () => {
    const { writer, places } = writeFiles(3)
    for (const last of [places[8]!, places[7]!, places[5]!]) {
      const left = writer.resume({ run: 1, last, isFull: false, mayDrop: false })
      expect(left).toEqual(places.slice(0, places.indexOf(last) + 1))
      const size = statSync(segmentFile(folder, last.segment)).size
      expect(size).toBe(last.at + last.bytes)
    }
    const [next] = write(writer, 1)
    expect(next).toMatchObject({ run: 1, segment: 3, at: expect.any(Number) })
    writer.stop()
    expect(new SegmentWriter(folder, bounds).open(2_000)).toEqual([...places.slice(0, 6), next])
  })

  it('keeps what cannot be read after a fault, until it may be dropped', () => {
    const { writer, places, from } = writeFiles(5)
    const [last, path] = [places.at(-1)!, segmentFile(folder, 3)]
    const content = readFileSync(path)
    rmSync(path)
    mkdirSync(path)
    const end = { run: 1, last, isFull: false, mayDrop: false }
    expect(() => writer.resume(end)).toThrow('EISDIR')
    expect(readdirSync(folder)).toHaveLength(5)
    rmSync(path, { recursive: true })
    writeFileSync(path, content)
    expect(writer.resume(end)).toEqual(places)
    rmSync(path)
    mkdirSync(path)
    expect(writer.resume({ ...end, mayDrop: true })).toEqual(from(4))
  })

  it('has nothing where its last era is gone, and the newer half on a full disk', () => {
    const { writer, places, from } = writeFiles(5)
    const last = places.at(-1)!
    expect(writer.resume({ run: 1, last, isFull: true, mayDrop: true })).toEqual(from(4))
    expect(readdirSync(folder)).toHaveLength(2)
    rmSync(segmentFile(folder, 5))
    expect(writer.resume({ run: 1, last, isFull: false, mayDrop: false })).toEqual([])
    expect(readdirSync(folder)).toEqual([])
    expect(writer.bytes).toBe(0)
  })
})

describe('a log that begins anew', () => {
  it('removes its files, and no folder: it may be a link or a mount point', () => {
    const link = join(folder, 'link')
    const disk = join(folder, 'disk')
    mkdirSync(join(disk, 'lost+found'), { recursive: true })
    symlinkSync(disk, link)
    const writer = new SegmentWriter(link, bounds)
    writer.open(0)
    write(writer, 3)
    mkdirSync(segmentFile(disk, 2))
    writer.reset()
    expect(readdirSync(disk)).toEqual(['lost+found'])
    const places = write(writer, 2)
    writer.stop()
    expect(new SegmentWriter(disk, bounds).open(0)).toEqual(places)
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
    const update = { kind: 'update', update: { slot: 0 } }
    expect(allCommitments.map((one) => era.list(one))).toEqual([[], [update], []])
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
