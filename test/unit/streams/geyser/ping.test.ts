import { describe, expect, it } from 'vitest'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { pingIn } from '../../../../src/streams/geyser/subscriber.ts'
import { randomOf } from '../../../testkit/synthetic-solana.ts'

const codec = loadCodec()
const encode = (value: object) => codec.encode('geyser.SubscribeRequest', value)

function idIn(bytes: Uint8Array): number | null {
  const ping = pingIn(bytes)
  if (ping === null) return null
  return codec.decode<{ id: number }>('geyser.SubscribeRequestPing', ping)?.id ?? null
}

describe('the ping of a request', () => {
  it('is found among everything else, and null when absent', () => {
    const rest = { slots: { a: {} }, commitment: 1, accountsDataSlice: [{ offset: 1, length: 2 }] }
    expect(idIn(encode({ ping: { id: 7 } }))).toBe(7)
    expect(idIn(encode({ ping: { id: -7 } }))).toBe(-7)
    expect(idIn(encode({ ping: {} }))).toBe(0)
    expect(idIn(encode({ ...rest, ping: { id: 300 }, fromSlot: 5 }))).toBe(300)
    expect(idIn(encode(rest))).toBeNull()
    expect(idIn(Buffer.alloc(0))).toBeNull()
    // Bytes inside a filter that look like a ping are ignored.
    expect(idIn(encode({ slots: { '\x4a\x02\x08\x07': {} } }))).toBeNull()
    // The field number in more bytes than it needs.
    expect(idIn(Buffer.from([0xca, 0x80, 0x00, 0x02, 0x08, 0x07]))).toBe(7)
  })

  it('agrees with the decoder on random, truncated and joined requests', () => {
    const random = randomOf(11)
    const byte = () => Math.floor(random() * 256)
    const whole = encode({ accounts: { x: { account: ['a'] } }, ping: { id: 9 }, commitment: 2 })
    for (let round = 0; round < 20_000; round++) {
      const bytes =
        round % 2 === 0
          ? Buffer.from(Array.from({ length: round % 24 }, byte))
          : Buffer.from(whole.subarray(0, round % (whole.length + 1)))
      if (round % 4 === 1 && bytes.length > 0) bytes[round % bytes.length] = byte()
      const found = pingIn(bytes)
      const decoded = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)
      // Groups and damaged requests are left to the decoder.
      if (decoded !== null && found !== null) expect(decoded.ping).toBeTruthy()
      if (decoded?.ping && !hasGroup(bytes)) expect(found).not.toBeNull()
    }
  })
})

/** Some tag of a group may be among the bytes. */
function hasGroup(bytes: Uint8Array): boolean {
  return bytes.some((one) => (one & 7) === 3 || (one & 7) === 4)
}
