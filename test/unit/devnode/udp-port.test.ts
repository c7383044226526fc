import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { versionNegotiation } from '../../../src/devnode/node.ts'

/** The first packet of a QUIC connection: both ids, then anything up to 1,200 bytes. */
function initial(destination: Buffer, source: Buffer, version = 1): Buffer {
  const packet = Buffer.alloc(1200)
  packet[0] = 0xc3
  packet.writeUInt32BE(version, 1)
  packet[5] = destination.length
  packet.set(destination, 6)
  packet[6 + destination.length] = source.length
  packet.set(source, 7 + destination.length)
  return packet
}

describe('the UDP port of the node', () => {
  it('answers a QUIC client with its own ids and no version that it knows', () => {
    const destination = randomBytes(8)
    const source = randomBytes(20)
    const expected = Buffer.concat([
      Buffer.from('8000000000', 'hex'),
      Uint8Array.of(20),
      source,
      Uint8Array.of(8),
      destination,
      Buffer.from('1a2a3a4a', 'hex'),
    ])
    expect(versionNegotiation(initial(destination, source))?.equals(expected)).toBe(true)
  })

  it('drops everything else, and never answers with more than it got', () => {
    const packet = initial(randomBytes(8), randomBytes(8))
    expect(versionNegotiation(packet.subarray(0, 1199))).toBeNull()
    expect(versionNegotiation(initial(randomBytes(8), randomBytes(8), 0))).toBeNull()
    expect(versionNegotiation(Buffer.concat([Uint8Array.of(0x40), packet]))).toBeNull()
    for (let round = 0; round < 1000; round++) {
      const noise = randomBytes(1200 + (round % 300))
      noise[5] = 255
      expect(versionNegotiation(noise)?.length ?? 0).toBeLessThan(noise.length)
    }
  })
})
