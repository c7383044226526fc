// Frames over a pipe, with the stream split at arbitrary points.
import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FrameLink, FrameSplitter, frameBytesMax } from '../../../../src/base/threads/frames.ts'

function framed(body: Uint8Array): Buffer {
  const header = Buffer.alloc(4)
  header.writeUInt32LE(body.length)
  return Buffer.concat([header, body])
}

describe('frames', () => {
  it('come out whole, however the stream is split', () => {
    const bodies = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 })
    const cuts = fc.array(fc.integer({ min: 1, max: 17 }), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(bodies, cuts, (frames, sizes) => {
        const stream = Buffer.concat(frames.map(framed))
        const seen: Uint8Array[] = []
        const splitter = new FrameSplitter((frame) => seen.push(Uint8Array.from(frame)))
        for (let at = 0, cut = 0; at < stream.length; cut += 1) {
          const size = sizes[cut % sizes.length]!
          expect(splitter.push(stream.subarray(at, at + size))).toBe(true)
          at += size
        }
        expect(seen).toEqual(frames.map((frame) => Uint8Array.from(frame)))
      }),
    )
  })

  it('refuse a length over the limit', () => {
    const header = Buffer.alloc(4)
    header.writeUInt32LE(frameBytesMax + 1)
    expect(new FrameSplitter(() => {}).push(header)).toBe(false)
  })

  it('carry values both ways, in order, with bytes and big numbers', async () => {
    const pipe = new PassThrough()
    const seen: unknown[] = []
    const link = new FrameLink(pipe, (value) => seen.push(value))
    const values = [1, 'two', { three: [3, null, true] }, 2n ** 63n - 1n, 2 ** 53 - 1]
    for (const value of values) link.send(value)
    link.send(Buffer.from([1, 2, 3]))
    await expect.poll(() => seen.length).toBe(6)
    expect(seen.slice(0, 5)).toEqual(values)
    expect(Buffer.from(seen[5] as Uint8Array)).toEqual(Buffer.from([1, 2, 3]))
    expect(link.unsentBytes).toBe(0)
  })

  it('close the pipe when the peer sends invalid msgpack', async () => {
    const pipe = new PassThrough()
    let fault: Error | null = null
    pipe.on('error', (error) => {
      fault = error
    })
    new FrameLink(pipe, () => {})
    pipe.write(framed(Uint8Array.of(0xda, 0xff, 0xff, 0x41)))
    await expect.poll(() => fault).not.toBeNull()
    expect(pipe.destroyed).toBe(true)
  })
})
