import { describe, expect, it } from 'vitest'
import { encodeHeaders, HeaderBlocks } from '../../../../src/upstream/geyser/hpack.ts'
import { frameFlag, frameType } from '../../../../src/upstream/geyser/http2-reader.ts'

const { headers, continuation } = frameType
const { endHeaders } = frameFlag
const frame = (type: number, flags = 0) => ({ type, flags, stream: 1 })
const empty = Buffer.alloc(0)

describe('a header block', () => {
  it('is put together from many frames, whose bytes are reused', () => {
    const blocks = new HeaderBlocks()
    const bytes = encodeHeaders([['x-one', 'a'.repeat(200)]])
    const shared = Buffer.alloc(8)
    for (let at = 0; at < bytes.length; at += 8) {
      const length = bytes.copy(shared, 0, at)
      const type = at === 0 ? headers : continuation
      const isLast = at + 8 >= bytes.length
      const block = blocks.take(frame(type, isLast ? endHeaders : 0), shared.subarray(0, length))
      if (!isLast) expect(block).toBeNull()
      else expect(block).toMatchObject({ stream: 1, fields: new Map([['x-one', 'a'.repeat(200)]]) })
    }
  })

  it('has a bound of frames, also of empty ones, and of bytes', () => {
    const blocks = new HeaderBlocks()
    expect(blocks.take(frame(headers), empty)).toBeNull()
    for (let count = 2; count <= 64; count++)
      expect(blocks.take(frame(continuation), empty)).toBeNull()
    expect(blocks.take(frame(continuation), empty)).toBe('malformed')
    const long = new HeaderBlocks()
    expect(long.take(frame(headers), Buffer.alloc(60_000))).toBeNull()
    expect(long.take(frame(continuation, endHeaders), Buffer.alloc(6_000))).toBe('malformed')
  })
})
