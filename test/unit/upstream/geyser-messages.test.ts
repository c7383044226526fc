import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { frameMessage, MessageSplitter } from '../../../src/upstream/geyser/messages.ts'

function split(chunks: readonly Buffer[]) {
  const found: Buffer[] = []
  const splitter = new MessageSplitter((message) => found.push(message as Buffer))
  return { found, isGood: chunks.every((chunk) => splitter.push(chunk)) }
}

describe('the messages of a gRPC stream', () => {
  it('come out whole, however the bytes are cut', () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 12 })
    fc.assert(
      fc.property(messages, fc.array(fc.integer({ min: 1, max: 60 })), (sent, cuts) => {
        const bytes = Buffer.concat(sent.map(frameMessage))
        const chunks: Buffer[] = []
        let at = 0
        for (const length of cuts) {
          chunks.push(bytes.subarray(at, at + length))
          at += length
        }
        chunks.push(bytes.subarray(at))
        const { found, isGood } = split(chunks)
        expect(isGood).toBe(true)
        expect(found.map((one) => one.toString('hex'))).toEqual(
          sent.map((one) => Buffer.from(one).toString('hex')),
        )
      }),
    )
  })

  it('are views of a chunk that contains them whole', () => {
    const chunk = Buffer.concat([
      frameMessage(Buffer.from('one')),
      frameMessage(Buffer.from('two')),
    ])
    const { found } = split([chunk])
    expect(found.map(String)).toEqual(['one', 'two'])
    for (const message of found) expect(message.buffer).toBe(chunk.buffer)
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
