import { describe, expect, it, vi } from 'vitest'
import { loadCodec } from '../../../../src/streams/geyser/codec.ts'
import {
  createdAtSuffix,
  FrameBatch,
  frameOf,
  namePrefix,
  SlabPool,
  slabBytesMax,
  updateTag,
} from '../../../../src/streams/geyser/frame.ts'

const codec = loadCodec()

describe('slabs', () => {
  it('return to the pool when the writer and every reader released them, and not before', () => {
    const pool = new SlabPool()
    const slab = pool.take(slabBytesMax, 0)
    slab.retain(2)
    slab.release()
    slab.release()
    expect(pool.take(slabBytesMax, 0).bytes === slab.bytes).toBe(false)
    slab.release()
    expect(pool.take(slabBytesMax, 0).bytes === slab.bytes).toBe(true)
    expect(pool.take(slabBytesMax, 0).bytes === slab.bytes).toBe(false)
  })

  it('throw on one release too many, and never enter the pool twice', () => {
    const pool = new SlabPool()
    const slab = pool.take(slabBytesMax, 0)
    slab.release()
    expect(slab.release).toThrow('invariant broken')
    expect(() => slab.retain(1)).toThrow('invariant broken')
    const writers = [pool.take(slabBytesMax, 0), pool.take(slabBytesMax, 0)]
    expect(writers[0]!.bytes === writers[1]!.bytes).toBe(false)
  })

  it('cannot be released by a reader of their former content', () => {
    const pool = new SlabPool()
    const before = pool.take(slabBytesMax, 0)
    before.release()
    const now = pool.take(slabBytesMax, 0)
    expect(now.bytes === before.bytes).toBe(true)
    expect(before.release).toThrow('invariant broken')
    // The current writer still has it.
    expect(pool.take(slabBytesMax, 0).bytes === now.bytes).toBe(false)
    now.release()
  })

  it('throw on one release too many also when they are too small for the pool', () => {
    const slab = new SlabPool().take(10, 0)
    slab.release()
    expect(slab.release).toThrow('invariant broken')
  })

  it('grow with their group, and odd sizes are never kept', () => {
    const pool = new SlabPool()
    expect(pool.take(10, 0).bytes.length).toBe(4096)
    expect(pool.take(10, 4096).bytes.length).toBe(8192)
    expect(pool.take(10, slabBytesMax).bytes.length).toBe(slabBytesMax)
    const odd = pool.take(slabBytesMax + 1, 0)
    odd.release()
    expect(pool.take(slabBytesMax, 0).bytes === odd.bytes).toBe(false)
  })
})

it('a group has slabs by its rate, however much it has been sent in all', () => {
  let nowMs = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  const batch = new FrameBatch(new SlabPool())
  const body = Buffer.alloc(1_000)
  /** The largest slab at the end of so many kilobytes. */
  const sent = (kilobytes: number, perSecond: number) => {
    let slabBytes = 0
    for (let count = 0; count < kilobytes; count++) {
      nowMs += 1_000 / perSecond
      batch.append(updateTag.account, namePrefix('n'), body, createdAtSuffix(1_000))
      const [run] = batch.take()
      if (count > kilobytes / 2) slabBytes = Math.max(slabBytes, run!.bytes.buffer.byteLength)
    }
    return slabBytes
  }
  expect(sent(2_000, 10)).toBeLessThanOrEqual(32 * 1024)
  expect(sent(2_000, 1_000)).toBe(slabBytesMax)
  expect(sent(2_000, 10)).toBeLessThanOrEqual(32 * 1024)
  clock.mockRestore()
})

describe('frames', () => {
  it('are what protobufjs would write, after the prefix of gRPC', () => {
    const type = codec.root.lookupType('geyser.SubscribeUpdate')
    const value = { filters: ['a', 'ü'], entry: { slot: 5, index: 300 } }
    const createdAt = { seconds: 1_700_000_000, nanos: 250_000 }
    const expected = type.encode(type.fromObject({ ...value, createdAt })).finish()
    const body = codec.encode('geyser.SubscribeUpdateEntry', value.entry)
    const batch = new FrameBatch(new SlabPool())
    const names = Buffer.concat([namePrefix('a'), namePrefix('ü')])
    batch.append(updateTag.entry, names, body, createdAtSuffix(1_700_000_000_000.25))
    const frame = Buffer.concat(batch.take().map(({ bytes }) => bytes))
    expect(frame[0]).toBe(0)
    expect(frame.readUInt32BE(1)).toBe(frame.length - 5)
    expect(frame.subarray(5).equals(expected)).toBe(true)
  })

  it('join in runs that stay as they are, with large bodies passed on uncopied', () => {
    const batch = new FrameBatch(new SlabPool())
    const suffix = createdAtSuffix(1_000)
    const sizes = [0, 1, 127, 128, 3_000, 32 * 1024, 32 * 1024 + 1, 200_000, 5, 40_000, 63_000]
    const taken: { run: Buffer; copy: Buffer }[] = []
    let bytes = 0
    for (const [index, size] of [...sizes, ...sizes].entries()) {
      const data = Buffer.alloc(size, index + 1)
      const body = codec.encode('geyser.SubscribeUpdateAccount', { account: { data } })
      batch.append(updateTag.account, namePrefix('n'), body, suffix)
      if (index % 3 !== 0) continue
      bytes += batch.bytes
      const runs = batch.take().map(({ bytes: run }) => run)
      if (body.length > 32 * 1024) expect(runs.some((run) => run.buffer === body.buffer)).toBe(true)
      taken.push(...runs.map((run) => ({ run, copy: Buffer.from(run) })))
      expect(batch.frames).toBe(0)
    }
    bytes += batch.bytes
    taken.push(...batch.take().map(({ bytes: run }) => ({ run, copy: Buffer.from(run) })))
    for (const { run, copy } of taken) expect(run.equals(copy)).toBe(true)
    const all = Buffer.concat(taken.map(({ run }) => run))
    expect(all.length).toBe(bytes)
    const read: number[] = []
    for (let at = 0; at < all.length; at += 5 + all.readUInt32BE(at + 1)) {
      const length = all.readUInt32BE(at + 1)
      const message = codec.root
        .lookupType('geyser.SubscribeUpdate')
        .decode(all.subarray(at + 5, at + 5 + length))
      expect(message).toMatchObject({ filters: ['n'], account: {} })
      read.push(length)
    }
    expect(read).toHaveLength(sizes.length * 2)
  })

  it('carry a time to the nanosecond, and none below a second as nothing', () => {
    expect(createdAtSuffix(5_000).toString('hex')).toBe('5a020805')
    expect(createdAtSuffix(5_000.000001).toString('hex')).toBe('5a0408051001')
    expect(frameOf(updateTag.ping, Buffer.alloc(0), 5_000).toString('hex')).toBe(
      '00000000063200' + '5a020805',
    )
  })
})
