// What the pubsub benches count: notifications, once each and in order, and nothing else.
import { describe, expect, it } from 'vitest'
import { SlotReader } from '../../../bench/lib/slot-reader.ts'

const text = (slot: number, padding = '') => {
  const body = Buffer.from(`{"context":{"slot":${slot}},"value":"${padding}"}`)
  if (body.length < 126) return Buffer.concat([Buffer.of(0x81, body.length), body])
  return Buffer.concat([Buffer.of(0x81, 126, body.length >> 8, body.length & 255), body])
}
const ping = Buffer.of(0x89, 0)

function reader() {
  const sent: Buffer[] = []
  return { sent, reader: new SlotReader((frame) => sent.push(frame)) }
}

describe('the counter of notifications', () => {
  it('leaves the pings of the server out, wherever they are, and answers them', () => {
    const frames = [ping, text(1), ping, text(2), ping]
    for (const chunks of [[Buffer.concat(frames)], frames]) {
      const { sent, reader: one } = reader()
      for (const chunk of chunks) one.read(chunk)
      expect(one).toMatchObject({ frames: 2, unordered: 0 })
      expect(sent).toEqual([1, 2, 3].map(() => Buffer.of(0x8a, 0x80, 0, 0, 0, 0)))
    }
  })

  it('reads frames that come byte by byte', () => {
    const { reader: one } = reader()
    const bytes = Buffer.concat([text(1), ping, text(2, 'x'.repeat(400)), ping, text(3)])
    for (const byte of bytes) one.read(Buffer.of(byte))
    expect(one).toMatchObject({ frames: 3, unordered: 0 })
  })

  it('sees a notification that comes twice or too late', () => {
    const { reader: one } = reader()
    one.read(Buffer.concat([text(1), text(2), text(2), text(4), text(3)]))
    expect(one).toMatchObject({ frames: 5, unordered: 2 })
  })
})
