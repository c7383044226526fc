import { describe, expect, it } from 'vitest'
import { ProtoReader } from '../../../src/base/protobuf.ts'

/** The fields of a message as [field, wire, number, bytes], and whether it is broken. */
function read(...message: number[]) {
  const reader = new ProtoReader(Uint8Array.from(message))
  const fields: [number, number, bigint, number[]][] = []
  while (reader.next()) fields.push([reader.field, reader.wire, reader.big, [...reader.bytes]])
  return { fields, isBroken: reader.isBroken }
}

const whole = (...fields: [number, number, bigint, number[]][]) => ({ fields, isBroken: false })

describe('ProtoReader', () => {
  it('reads numbers up to 2^64, and what lies behind them', () => {
    const nines = (count: number) => new Array<number>(count).fill(0xff)
    expect(read(0x08, 0x05, 0x10, 0x00)).toEqual(whole([1, 0, 5n, []], [2, 0, 0n, []]))
    expect(read(0x08, 0xac, 0x02, 0x10, 0x01)).toEqual(whole([1, 0, 300n, []], [2, 0, 1n, []]))
    expect(read(0x08, ...nines(4), 0x0f)).toEqual(whole([1, 0, 2n ** 32n - 1n, []]))
    expect(read(0x08, ...nines(4), 0x1f)).toEqual(whole([1, 0, 2n ** 33n - 1n, []]))
    expect(read(0x08, ...nines(9), 0x01)).toEqual(whole([1, 0, 2n ** 64n - 1n, []]))
    const reader = new ProtoReader(Uint8Array.of(0x08, ...nines(7), 0x0f))
    reader.next()
    expect([reader.number, reader.flag]).toEqual([2 ** 53 - 1, true])
  })

  it('reads bytes of short and long lengths and tags, and fixed numbers', () => {
    expect(read(0x0a, 0x02, 7, 8, 0x12, 0x00)).toEqual(whole([1, 2, 0n, [7, 8]], [2, 2, 0n, []]))
    const long = new Array<number>(200).fill(9)
    expect(read(0x0a, 0xc8, 0x01, ...long)).toEqual(whole([1, 2, 0n, long]))
    expect(read(0x9a, 0x3f, 0x01, 6)).toEqual(whole([1011, 2, 0n, [6]]))
    expect(read(0x0d, 1, 2, 3, 4, 0x10, 3)).toEqual(whole([1, 5, 0n, [1, 2, 3, 4]], [2, 0, 3n, []]))
    expect(read(0x09, 1, 2, 3, 4, 5, 6, 7, 8)).toEqual(whole([1, 1, 0n, [1, 2, 3, 4, 5, 6, 7, 8]]))
  })

  it('ends at bytes that are no message, and says so', () => {
    const over = new Array<number>(10).fill(0x80)
    const broken = [
      ...[[0x08], [0x08, 0x80], [0x0a], [0x0a, 0x01], [0x0a, 0x80], [0x80], [0x0d, 1, 2, 3]],
      ...[[0x0b], [0x0f], [0x09, 1], [0x08, ...over, 0x01], [...over, 0x01, 0x00]],
      [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1],
      [0x88, 0x80, 0x80, 0x80, 0x10, 0x01],
    ]
    for (const message of broken) {
      expect(read(...message), `${message}`).toEqual({ fields: [], isBroken: true })
      const after = read(0x10, 0x01, ...message)
      expect(after, `${message}`).toEqual({ fields: [[2, 0, 1n, []]], isBroken: true })
    }
  })

  it('reads within its range alone, and the numbers of a packed field', () => {
    const message = Uint8Array.of(0x08, 0x01, 0x12, 0x04, 0xac, 0x02, 0x07, 0x80, 0x01)
    const reader = new ProtoReader(message, 2, 8)
    expect(reader.next()).toBe(true)
    expect(reader.packed()).toEqual([300n, 7n])
    expect(reader.next()).toBe(false)
    expect(reader.isBroken).toBe(false)
    expect(new ProtoReader(message, 0, 1).next()).toBe(false)
  })
})
