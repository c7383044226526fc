import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  frameFlag,
  frameMessage,
  frameOf,
  frameType,
  Http2Reader,
  settingsFrame,
} from '../../../../src/upstream/geyser/http2-reader.ts'

const inPlace = 3
const { data, ping, settings } = frameType

/** What a reader of these bytes reports, in pieces of these lengths in turn. */
function readAll(bytes: Buffer, pieces: readonly number[]) {
  const found: Buffer[] = []
  const batches: { used: number; kept: number }[] = []
  const others: Buffer[] = []
  const frames: number[] = []
  const ends: { stream: number; bytes: number; isLast: boolean }[] = []
  const broken: string[] = []
  let arrived = 0
  const reader = new Http2Reader({
    frame: ({ type }) => void frames.push(type),
    data: (_, part) => void others.push(Buffer.from(part)),
    arrived: (count) => {
      arrived += count
    },
    messages: (batch, offsets) => {
      batches.push({ used: batch.length, kept: batch.buffer.byteLength })
      for (let at = 0; at < offsets.length; at += 2)
        found.push(batch.subarray(offsets[at], offsets[at + 1]))
    },
    dataEnd: (stream, count, isLast) => void ends.push({ stream, bytes: count, isLast }),
    malformed: (what) => void broken.push(what),
  })
  reader.inPlace = inPlace
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const room = reader.room()
    expect(room.length).toBeGreaterThan(0)
    const piece = pieces.length === 0 ? room.length : pieces[turn % pieces.length]!
    const count = bytes.copy(room, 0, at, Math.min(at + piece, bytes.length))
    at += count
    reader.read(count)
  }
  const hex = (list: Buffer[]) => list.map((one) => one.toString('hex'))
  const other = Buffer.concat(others).toString('hex')
  return { found: hex(found), batches, other, frames, ends, broken, arrived }
}

/** DATA frames of the bytes, cut at these lengths, some padded, with others between them. */
function dataOf(bytes: Buffer, cuts: readonly number[]): Buffer {
  const parts: Buffer[] = [settingsFrame([])]
  const head = { type: data, flags: 0, stream: inPlace }
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const cut = cuts.length === 0 ? bytes.length : cuts[turn % cuts.length]!
    const part = bytes.subarray(at, at + cut)
    at += part.length
    if (turn % 3 === 1) {
      const padding = Buffer.alloc(cut % 200)
      const padded = Buffer.concat([Buffer.of(padding.length), part, padding])
      parts.push(frameOf({ ...head, flags: frameFlag.padded }, padded))
    } else parts.push(frameOf(head, part))
    if (turn % 4 === 2) parts.push(frameOf({ type: ping, flags: 0, stream: 0 }, Buffer.alloc(8)))
    if (turn % 5 === 3) parts.push(frameOf({ ...head, stream: 5 }, Buffer.of(turn % 256)))
  }
  return Buffer.concat(parts)
}

const lengthsOf = (max: number) => fc.array(fc.integer({ min: 1, max }), { maxLength: 20 })

describe('the frames of an HTTP/2 connection', () => {
  it('give the messages of a stream whole, however frames and reads cut them', () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 40 })
    fc.assert(
      fc.property(messages, lengthsOf(400), lengthsOf(900), (sent, cuts, pieces) => {
        const stream = Buffer.concat(sent.map(frameMessage))
        const result = readAll(dataOf(stream, cuts), pieces)
        expect(result.broken).toEqual([])
        expect(result.found).toEqual(sent.map((one) => Buffer.from(one).toString('hex')))
        expect(result.arrived).toBe(stream.length)
        const turns = result.ends.filter((end) => end.stream === inPlace).length
        const other = Array.from({ length: turns }, (_, turn) => turn).filter(
          (turn) => turn % 5 === 3,
        )
        expect(result.other).toBe(Buffer.from(other).toString('hex'))
      }),
    )
  })

  it('keep each batch in memory of its own, from a few bytes to several megabytes', () => {
    const sent = [10, 5_000, 700_000, 20, 4_000, 3_000_000, 64, 90_000, 90_000].map(
      (length, index) => Buffer.alloc(length, index + 1),
    )
    const bytes = dataOf(Buffer.concat(sent.map(frameMessage)), [16_384])
    for (const pieces of [[], [65_536], [200_000, 1_000]]) {
      const { found, batches, broken } = readAll(bytes, pieces)
      expect(broken).toEqual([])
      // What was handed over stays as it was while more is read.
      expect(found).toEqual(sent.map((one) => one.toString('hex')))
      for (const { used, kept } of batches) expect(kept).toBeLessThanOrEqual(2 * used)
    }
  })

  it('keep little memory with a few messages', () => {
    const { batches } = readAll(dataOf(frameMessage(Buffer.alloc(100)), []), [])
    expect(batches).toEqual([{ used: 105, kept: 105 }])
  })

  it('report the end of a stream, and empty frames of it', () => {
    const last = { type: data, flags: frameFlag.endStream, stream: inPlace }
    const frames = [frameOf({ ...last, flags: 0 }), frameOf(last)]
    const { ends } = readAll(Buffer.concat([settingsFrame([]), ...frames]), [])
    expect(ends.map(({ isLast }) => isLast)).toEqual([false, true])
  })

  it('are malformed without settings first, with too long frames, wrong padding or messages', () => {
    const start = settingsFrame([])
    const head = { type: data, flags: 0, stream: inPlace }
    const long = frameOf({ type: ping, flags: 0, stream: 0 }, Buffer.alloc(70_000))
    const padded = frameOf({ ...head, flags: frameFlag.padded }, Buffer.of(9, 1))
    const compressed = frameOf(head, Buffer.of(1, 0, 0, 0, 1, 7))
    const huge = frameOf(head, Buffer.of(0, 0xff, 0xff, 0xff, 0xff))
    const broken = (...parts: Buffer[]) => readAll(Buffer.concat(parts), []).broken
    expect(broken(Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'))).toEqual(['frames'])
    expect(broken(frameOf(head))).toEqual(['frames'])
    expect(broken(start, long)).toEqual(['frames'])
    expect(broken(start, padded)).toEqual(['frames'])
    expect(broken(start, compressed)).toEqual(['messages'])
    expect(broken(start, huge)).toEqual(['messages'])
    expect(broken(start, start)).toEqual([])
    expect(readAll(Buffer.concat([start, start]), [1]).frames).toEqual([settings, settings])
  })
})
