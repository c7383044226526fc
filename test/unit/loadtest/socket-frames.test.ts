import { describe, expect, test } from 'vitest'
import { clientFrame, FrameReader, opcodes } from '../../../src/loadtest/socket-session.ts'

/** A frame as a server sends it: not masked. */
function serverFrame(payload: Buffer, first = 0x80 | opcodes.text): Buffer {
  const { length } = payload
  if (length <= 125) return Buffer.concat([Buffer.from([first, length]), payload])
  const head = Buffer.alloc(length < 65_536 ? 4 : 10)
  head[0] = first
  head[1] = length < 65_536 ? 126 : 127
  if (length < 65_536) head.writeUInt16BE(length, 2)
  else head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

function readAll(bytes: Buffer, step: number): { messages: string[]; isValid: boolean } {
  const messages: string[] = []
  const reader = new FrameReader((opcode, payload) => messages.push(`${opcode}:${payload}`))
  let isValid = true
  for (let at = 0; at < bytes.length; at += step)
    isValid = reader.push(bytes.subarray(at, at + step)) && isValid
  return { messages, isValid }
}

describe('WebSocket frames of the load generator', () => {
  test.each([0, 1, 125, 126, 65_535, 65_536])('are masked for %d bytes', (length) => {
    const payload = Buffer.alloc(length, 'abc')
    const frame = clientFrame(payload)
    const extra = length <= 125 ? 0 : length < 65_536 ? 2 : 8
    const mask = frame.subarray(2 + extra, 6 + extra)
    const shown = Buffer.from(frame.subarray(6 + extra)).map(
      (byte, index) => byte ^ mask[index & 3]!,
    )
    expect(frame[0]).toBe(0x81)
    expect(frame[1]! & 0x80).toBe(0x80)
    expect(Buffer.from(shown).equals(payload)).toBe(true)
  })

  test.each([1, 7, 1_000, 1_000_000])('are read in pieces of %d bytes', (step) => {
    const long = 'x'.repeat(70_000)
    const bytes = Buffer.concat([
      serverFrame(Buffer.from('one')),
      serverFrame(Buffer.from('tw'), opcodes.text),
      serverFrame(Buffer.from('ping'), 0x80 | opcodes.ping),
      serverFrame(Buffer.from('o'), 0x80),
      serverFrame(Buffer.from(long)),
      serverFrame(Buffer.alloc(200, 'y'), 0x80 | opcodes.binary),
    ])
    const { messages, isValid } = readAll(bytes, step)
    expect(isValid).toBe(true)
    expect(messages).toEqual(['1:one', '9:ping', '1:two', `1:${long}`, `2:${'y'.repeat(200)}`])
  })

  test('are refused when masked, with unknown flags or too long', () => {
    expect(readAll(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0]), 100).isValid).toBe(false)
    expect(readAll(Buffer.from([0xc1, 0]), 100).isValid).toBe(false)
    const tooLong = Buffer.from([0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0])
    expect(readAll(tooLong, 100).isValid).toBe(false)
  })
})
