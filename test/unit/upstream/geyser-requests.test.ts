import { describe, expect, it } from 'vitest'
import { loadCodec, type SubscribeRequest } from '../../../src/streams/geyser/codec.ts'
import {
  firstAvailableIn,
  pingRequest,
  slotIn,
  solanaVersionIn,
  subscribeRequest,
} from '../../../src/upstream/geyser/geyser-client.ts'

const codec = loadCodec()
const decode = (bytes: Uint8Array) => {
  const type = codec.root.lookupType('geyser.SubscribeRequest')
  return type.toObject(type.decode(bytes), { longs: Number }) as unknown as SubscribeRequest
}

describe('the subscribe request to a node', () => {
  it('is everything once, as it is processed, and no blocks', () => {
    const request = decode(subscribeRequest(null))
    expect(request).toEqual({
      accounts: { s: {} },
      slots: { s: { interslotUpdates: true } },
      transactions: { s: {} },
      blocksMeta: { s: {} },
      entry: { s: {} },
      commitment: 0,
    })
    expect(decode(subscribeRequest(2 ** 33))).toEqual({ ...request, fromSlot: 2 ** 33 })
  })

  it('is a ping alone when a ping is answered', () => {
    expect(decode(pingRequest(1))).toEqual({ ping: { id: 1 } })
  })
})

describe('what a node answers', () => {
  it('is read from its messages', () => {
    const replay = codec.encode('geyser.SubscribeReplayInfoResponse', { firstAvailable: 77 })
    expect(firstAvailableIn(replay)).toBe(77)
    expect(firstAvailableIn(new Uint8Array(0))).toBeNull()
    expect(slotIn(codec.encode('geyser.GetSlotResponse', { slot: 99 }))).toBe(99)
    const versionOf = (version: string) =>
      solanaVersionIn(codec.encode('geyser.GetVersionResponse', { version }))
    expect(versionOf('{"version":{"package":"yellowstone","solana":"3.1.8"}}')).toBe('3.1.8')
    expect(versionOf('{"version":{"solana":"<script>"}}')).toBe('')
    expect(versionOf('')).toBe('')
  })
})
