// The contract of one ring, writer and readers in one thread. Real threads: test/stress.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  allocateRing,
  chunks,
  leasePosition,
  loadPosition,
  openViews,
  publishedAt,
  type RingDescriptor,
  reclaimedAt,
  ringByteLength,
  storePosition,
} from '../../../../src/base/rings/layout.ts'
import { RingReader, RingWriter } from '../../../../src/base/rings/ring.ts'

const small = 4096

/** Reads whole messages, joined over their records, until the ring has no more. */
function drain(reader: RingReader): { tag: number; payload: Uint8Array }[] {
  const messages: { tag: number; payload: Uint8Array }[] = []
  let pieces: Uint8Array[] = []
  while (reader.poll() > 0) {
    while (reader.next()) {
      pieces.push(reader.bytes.slice(reader.offset, reader.offset + reader.length))
      if (reader.hasMore) continue
      messages.push({ tag: reader.tag, payload: Buffer.concat(pieces) })
      pieces = []
    }
    expect(reader.commit()).toBe(true)
  }
  return messages
}

const filled = (length: number, seed: number) =>
  Uint8Array.from({ length }, (_, index) => (seed * 31 + index) & 0xff)

/** Bytes after which the low word of a position repeats. */
const lowWordBytes = 2 ** 32 * 8

/** Moves a ring to a position as if its writer had written empty records up to there. */
function jump(at: RingDescriptor, position: number): void {
  const { words, chunkStarts, chunkBytes, capacity, data } = openViews(at)
  data.fill(0)
  for (let back = 0; back < chunks; back += 1) {
    const chunk = Math.floor(position / chunkBytes) - back
    chunkStarts[(chunk % chunks) * 2] = chunk * chunkBytes
    chunkStarts[(chunk % chunks) * 2 + 1] = chunk
  }
  storePosition(words, reclaimedAt, (Math.floor(position / chunkBytes) + 1) * chunkBytes - capacity)
  storePosition(words, publishedAt, position)
}

describe('ring', () => {
  it('requires a capacity that is a power of two', () => {
    expect(() => ringByteLength(5000)).toThrow('power of two')
    expect(() => ringByteLength(1024)).toThrow('power of two')
    expect(() => ringByteLength(0)).toThrow('power of two')
    expect(ringByteLength(small)).toBeGreaterThan(small)
  })

  it('refuses memory that was never formatted', () => {
    expect(() => new RingReader(allocateRing(small), { from: 'oldest' })).toThrow('formatted')
  })

  it('returns every message in order, whatever the sizes, across many wraps', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 600 }), { maxLength: 60 }), (sizes) => {
        const at = allocateRing(small)
        const writer = RingWriter.create(at)
        const reader = new RingReader(at, { from: 'oldest' })
        for (const [index, size] of sizes.entries()) {
          writer.write(index, filled(size, index))
          writer.publish()
          const [message] = drain(reader)
          expect(message?.tag).toBe(index)
          expect(Buffer.from(message!.payload)).toEqual(Buffer.from(filled(size, index)))
        }
        expect(reader.lost).toBe(0)
        expect(reader.checkpoint.count).toBe(sizes.length)
      }),
      { numRuns: 60 },
    )
  })

  it('shows nothing before it is published', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    writer.write(1, filled(10, 1))
    expect(reader.poll()).toBe(0)
    writer.publish()
    expect(drain(reader)).toHaveLength(1)
  })

  it('accepts a new reader while a writer wraps around without publishing', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    for (let tag = 0; tag < 1000; tag += 1) writer.write(tag, filled(50, tag))
    const reader = new RingReader(at, { from: 'newest' })
    const before = reader.checkpoint.count
    expect(before).toBeGreaterThan(980)
    writer.publish()
    expect(
      drain(reader)
        .map(({ tag }) => tag)
        .at(-1),
    ).toBe(999)
    expect(reader.checkpoint.count).toBe(1000)
  })

  it('lets a record be built without a copy and shortened', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    const offset = writer.reserve(7, 100)
    expect(offset % 8).toBe(0)
    writer.bytes.set([1, 2, 3], offset)
    writer.commit(3)
    writer.publish()
    expect(drain(reader)).toEqual([{ tag: 7, payload: Buffer.from([1, 2, 3]) }])
  })

  it('continues a payload over 64 KiB in the next records', () => {
    const at = allocateRing(2 ** 21)
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    expect(writer.pieceBytesMax).toBe(65_536)
    const long = filled(200_001, 3)
    writer.write(5, long)
    writer.write(6, filled(65_536, 4))
    writer.publish()
    const seen: [number, boolean, boolean][] = []
    reader.poll()
    while (reader.next()) seen.push([reader.length, reader.isContinuation, reader.hasMore])
    expect(seen).toEqual([
      [65_536, false, true],
      [65_536, true, true],
      [65_536, true, true],
      [200_001 - 3 * 65_536, true, false],
      [65_536, false, false],
    ])
    const again = drain(new RingReader(at, { from: 'oldest' }))
    expect(again.map(({ tag }) => tag)).toEqual([5, 6])
    expect(Buffer.compare(again[0]!.payload, long)).toBe(0)
    expect(() => writer.write(1, new Uint8Array(2 ** 20 + 1))).toThrow('half a ring')
  })

  it('counts exactly what a slow reader lost and resumes it at the newest', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ size: fc.integer({ min: 0, max: 900 }), read: fc.boolean() }), {
          maxLength: 120,
        }),
        (steps) => {
          const at = allocateRing(small)
          const writer = RingWriter.create(at)
          const reader = new RingReader(at, { from: 'oldest' })
          let read = 0
          for (const [index, { size, read: reads }] of steps.entries()) {
            writer.write(index, filled(size, index))
            writer.publish()
            if (!reads) continue
            for (const { tag, payload } of drain(reader)) {
              expect(Buffer.compare(payload, filled(payload.length, tag))).toBe(0)
              read += 1
            }
          }
          read += drain(reader).length
          expect(read + reader.lost).toBe(steps.length)
          expect(reader.lost > 0).toBe(reader.overruns > 0)
        },
      ),
      { numRuns: 100 },
    )
  })

  it('reports to a reader that its open batch was overwritten', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    for (let tag = 0; tag < 10; tag += 1) writer.write(tag, filled(100, tag))
    writer.publish()
    reader.poll()
    reader.next()
    const first = reader.checkpoint.position
    expect(reader.isIntact(first)).toBe(true)
    for (let tag = 10; tag < 60; tag += 1) writer.write(tag, filled(100, tag))
    writer.publish()
    expect(reader.isIntact(first)).toBe(false)
    expect(reader.commit()).toBe(false)
    expect(reader.lost).toBe(60)
    expect(reader.overruns).toBe(1)
    writer.write(60, filled(8, 60))
    writer.publish()
    expect(drain(reader).map(({ tag }) => tag)).toEqual([60])
  })

  it('starts a reader at the oldest, the newest, a position or a checkpoint', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    const positions: number[] = []
    for (let tag = 0; tag < 100; tag += 1) positions.push(writer.write(tag, filled(88, tag)))
    writer.publish()
    const tags = (from: ConstructorParameters<typeof RingReader>[1]['from']) =>
      drain(new RingReader(at, { from })).map(({ tag }) => tag)
    expect(tags('newest')).toEqual([])
    const kept = tags('oldest')
    expect(kept.at(-1)).toBe(99)
    expect(kept.length).toBeGreaterThan(35)
    expect(kept).toEqual(Array.from(kept, (_, index) => 100 - kept.length + index))
    expect(tags(positions[90]!)).toEqual([90, 91, 92, 93, 94, 95, 96, 97, 98, 99])
    expect(tags({ position: positions[95]!, count: 95 })).toEqual([95, 96, 97, 98, 99])
    const late = new RingReader(at, { from: { position: positions[3]!, count: 3 } })
    expect(drain(late)).toEqual([])
    expect(late.lost).toBe(97)
    expect(new RingReader(at, { from: positions[3]! }).overruns).toBe(1)
  })

  it('takes over from a writer that died with records it had not published', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 240 }), { minLength: 1, maxLength: 80 }),
        fc.integer({ min: 0, max: 30 }),
        (sizes, unpublished) => {
          const at = allocateRing(small)
          let writer = RingWriter.create(at)
          const reader = new RingReader(at, { from: 'oldest' })
          for (const [index, size] of sizes.entries()) writer.write(index, filled(size, index))
          writer.publish()
          for (let extra = 0; extra < unpublished; extra += 1) writer.write(999, filled(40, 0))
          writer = RingWriter.resume(at)
          // A long batch becomes visible in pieces; what was not published is discarded.
          const taken = writer.count
          expect(taken).toBeGreaterThanOrEqual(sizes.length)
          expect(taken).toBeLessThanOrEqual(sizes.length + unpublished)
          for (let tag = 0; tag < 200; tag += 1) {
            writer.write(1000 + tag, filled(tag, tag))
            writer.publish()
            const fresh = new RingReader(at, { from: 'newest' })
            expect(fresh.checkpoint).toEqual({ position: writer.position, count: writer.count })
          }
          const read = drain(reader).length + drain(reader).length
          expect(read + reader.lost).toBe(taken + 200)
        },
      ),
      { numRuns: 30 },
    )
  })

  it('works at any offset inside a shared WebAssembly memory', () => {
    // Reason for the cast: the compiler's es2023 library does not name WebAssembly.
    const { WebAssembly } = globalThis as unknown as {
      WebAssembly: { Memory: new (about: object) => { buffer: SharedArrayBuffer } }
    }
    const { buffer } = new WebAssembly.Memory({ initial: 4, maximum: 4, shared: true })
    const at = { buffer, byteOffset: 65_536 + 8, byteLength: ringByteLength(small) }
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    writer.write(9, Uint8Array.of(42))
    writer.publish()
    reader.poll()
    reader.next()
    expect(new Uint8Array(buffer)[reader.dataOffset + reader.offset]).toBe(42)
    expect(new Uint8Array(buffer, 0, 65_536).every((byte) => byte === 0)).toBe(true)
  })

  it('applies backpressure for a reader with a lease, and lets a restarted one resume', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    let reader = new RingReader(at, { from: 'oldest', lease: 2 })
    let written = 0
    let read = 0
    for (let round = 0; round < 50; round += 1) {
      while (writer.fits(100)) {
        writer.write(written, filled(100, written))
        written += 1
      }
      writer.publish()
      expect(writer.waitFits(100, 1)).toBe(false)
      reader = new RingReader(at, { from: leasePosition(at, 2)!, lease: 2 })
      for (const { tag } of drain(reader)) {
        expect(tag).toBe(read)
        read += 1
      }
      expect(reader.lost + reader.overruns).toBe(0)
    }
    expect(read).toBe(written)
    expect(written).toBeGreaterThan(1000)
  })

  it('reports when the writer has closed and everything is read', async () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    const woken = reader.waitAsync(10_000)
    writer.write(1, filled(4, 1))
    writer.close()
    await woken
    expect(reader.isAtEnd).toBe(false)
    expect(drain(reader)).toHaveLength(1)
    expect(reader.isAtEnd).toBe(true)
    await reader.waitAsync(10_000)
  })

  it('notices a writer that is ahead by what a low word cannot show', () => {
    for (const ahead of [0, 64, -64]) {
      const at = allocateRing(small)
      RingWriter.create(at)
      const reader = new RingReader(at, { from: { position: 0, count: 0 } })
      jump(at, lowWordBytes + ahead)
      expect(reader.poll()).toBe(0)
      expect(reader.overruns).toBe(1)
      expect(reader.checkpoint.position).toBe(lowWordBytes + ahead)
    }
  })

  it('notices at commit that a writer went that far meanwhile', () => {
    const at = allocateRing(small)
    const writer = RingWriter.create(at)
    const reader = new RingReader(at, { from: 'oldest' })
    writer.write(7, filled(40, 7))
    writer.publish()
    expect(reader.poll()).toBeGreaterThan(0)
    expect(reader.next()).toBe(true)
    jump(at, lowWordBytes + writer.position)
    expect(reader.commit()).toBe(false)
    expect(reader.overruns).toBe(1)
  })

  it('shares positions up to 2^53 in two words', () => {
    const words = new Int32Array(new SharedArrayBuffer(8))
    const positions = [0, 8, 2 ** 21 - 8, 2 ** 21, 2 ** 34 + 8, 2 ** 35, 2 ** 48 + 16, 2 ** 53 - 8]
    for (const position of positions) {
      storePosition(words, 0, position)
      expect(loadPosition(words, 0)).toBe(position)
    }
    // The writer has stored the high word and not yet the low one: the old position is read.
    storePosition(words, 0, 2 ** 40 - 8)
    const low = words[0]!
    storePosition(words, 0, 2 ** 40 + 4096)
    words[0] = low
    expect(loadPosition(words, 0)).toBe(2 ** 40 - 8)
  })
})
