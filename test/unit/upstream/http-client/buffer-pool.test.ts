import { describe, expect, test } from 'vitest'
import { POOLED_BYTES, PooledBuffer } from '../../../../src/upstream/http-client/body-stream.ts'

const filled = (bytes: number, text: string) => {
  const buffer = new PooledBuffer(bytes)
  buffer.append(Buffer.from(text))
  return buffer
}

describe('a pooled buffer', () => {
  test('returns to the pool once', () => {
    const first = filled(POOLED_BYTES, 'first')
    const { buffer } = first.bytes
    first.release()
    const second = filled(POOLED_BYTES, 'second')
    expect(second.bytes.buffer === buffer).toBe(true)
    expect(() => first.release()).toThrow('invariant broken')
    // Were it in the pool again, this body would overwrite the second one.
    filled(POOLED_BYTES, 'third')
    expect(second.bytes.toString()).toBe('second')
    second.release()
  })

  test('throws on a second release before the buffer is used again, too', () => {
    const buffer = filled(POOLED_BYTES, 'x')
    buffer.release()
    expect(() => buffer.release()).toThrow('invariant broken')
    const next = filled(POOLED_BYTES, 'next')
    filled(POOLED_BYTES, 'other')
    expect(next.bytes.toString()).toBe('next')
  })

  test('of a short body has memory of its own', () => {
    const buffer = filled(100, 'x'.repeat(100))
    expect(buffer.bytes.length).toBe(100)
    buffer.release()
    expect(() => buffer.release()).toThrow('invariant broken')
  })

  test('gets another end in place where it has room for it', () => {
    const long = filled(POOLED_BYTES, '{"result":"value","id":7}')
    expect(long.endAt(17, ',"id":"äé"}\n')?.toString()).toBe('{"result":"value","id":"äé"}\n')
    expect(long.endAt(17, ','.repeat(POOLED_BYTES))).toBeNull()
    expect(() => long.endAt(26, 'x')).toThrow('invariant broken')
    long.release()
    const short = filled(25, '{"result":"value","id":7}')
    expect(short.endAt(17, ',"id":8}')?.toString()).toBe('{"result":"value","id":8}')
    expect(short.endAt(17, ',"id":10}')).toBeNull()
  })
})
