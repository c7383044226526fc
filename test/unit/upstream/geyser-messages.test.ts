import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { frameMessage, MessageBatcher } from '../../../src/upstream/geyser/http2-reader.ts'

function split(chunks: readonly Buffer[], flushes = false) {
  const found: Buffer[] = []
  const batcher = new MessageBatcher((bytes, offsets) => {
    for (let at = 0; at < offsets.length; at += 2)
      found.push(bytes.subarray(offsets[at], offsets[at + 1]))
  })
  const isGood = chunks.every((chunk) => {
    const isWhole = batcher.push(chunk)
    if (flushes) batcher.flush()
    return isWhole
  })
  batcher.flush()
  return { found, isGood }
}

describe('the messages of a gRPC stream', () => {
  it('come out whole, however the bytes are cut', () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 })
    const lengths = fc.array(fc.integer({ min: 1, max: 60 }))
    fc.assert(
      fc.property(messages, lengths, fc.boolean(), (sent, cuts, flushes) => {
        const bytes = Buffer.concat(sent.map(frameMessage))
        const chunks: Buffer[] = []
        let at = 0
        for (const length of cuts) {
          chunks.push(bytes.subarray(at, at + length))
          at += length
        }
        chunks.push(bytes.subarray(at))
        const { found, isGood } = split(chunks, flushes)
        expect(isGood).toBe(true)
        expect(found.map((one) => one.toString('hex'))).toEqual(
          sent.map((one) => Buffer.from(one).toString('hex')),
        )
      }),
    )
  })

  it('fill batches of their own memory, from a few bytes to more than a batch has', () => {
    const sent = [10, 5_000, 300_000, 20, 4_000, 1_000_000].map((length, index) =>
      Buffer.alloc(length, index + 1),
    )
    const chunks = sent.map(frameMessage)
    const { found } = split(chunks)
    expect(found.map((one) => one.toString('hex'))).toEqual(sent.map((one) => one.toString('hex')))
    // A batch moves to another thread, so nothing else may lie in its memory.
    for (const message of found)
      for (const chunk of chunks) expect(message.buffer).not.toBe(chunk.buffer)
  })

  it('keep little memory that they do not use', () => {
    const kept: number[] = []
    const batcher = new MessageBatcher((bytes) => kept.push(bytes.buffer.byteLength))
    batcher.push(frameMessage(Buffer.alloc(200_000)))
    batcher.flush()
    for (let index = 0; index < 3; index++) {
      batcher.push(frameMessage(Buffer.alloc(100)))
      batcher.flush()
    }
    expect(kept[0]).toBeLessThan(410_000)
    for (const bytes of kept.slice(1)) expect(bytes).toBeLessThanOrEqual(210)
  })

  it('are refused when compressed or beyond all size, whole or in pieces', () => {
    const compressed = frameMessage(Buffer.from('x'))
    compressed[0] = 1
    const huge = Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1])
    for (const bytes of [compressed, huge]) {
      expect(split([bytes]).isGood).toBe(false)
      expect(split([bytes.subarray(0, 3), bytes.subarray(3)]).isGood).toBe(false)
    }
  })
})
