import { describe, expect, it } from 'vitest'
import { openSolanaHub, publishUpdate } from '../../../../src/flows/solana.ts'
import { loadCodec } from '../../../../src/products/grpc/codec.ts'
import { unaryMethods } from '../../../../src/products/grpc/handle.ts'
import { Heads } from '../../../../src/products/grpc/heads.ts'
import { SyntheticSolana } from '../../../support/synthetic-solana.ts'

const codec = loadCodec()

function open() {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e8 })
  const heads = new Heads(hub)
  const chain = { heads, oldestSlot: () => hub.oldestSlot }
  const methods = unaryMethods({ codec, version: '1.2.3', chain })
  const ask = (method: string, request: object = {}) => {
    const answer = methods[method]!(codec.encode(`geyser.${method}Request`, request))
    if (!answer.ok) return { code: answer.status.code }
    const type = codec.root.lookupType(`geyser.${method}Response`)
    return type.toObject(type.decode(answer.bytes), { longs: Number, defaults: true })
  }
  return { hub, ask, methods }
}

describe('the unary methods', () => {
  it('answer UNAVAILABLE before the first block', () => {
    const { ask } = open()
    for (const method of ['GetSlot', 'GetBlockHeight', 'GetLatestBlockhash', 'IsBlockhashValid'])
      expect(ask(method)).toEqual({ code: 14 })
    expect(ask('SubscribeReplayInfo')).toEqual({})
  })

  it('tell the head at each commitment', () => {
    const { hub, ask } = open()
    const chain = new SyntheticSolana({ confirmedAfter: 1, finalizedAfter: 4 })
    const hashes: string[] = []
    for (let count = 0; count < 200; count++)
      for (const update of chain.next()) {
        publishUpdate(hub, update)
        if (update.kind === 'blockMeta') hashes.push(update.blockhash)
      }
    expect([0, 1, 2].map((commitment) => ask('GetSlot', { commitment }))).toEqual([
      { slot: 1199 },
      { slot: 1198 },
      { slot: 1195 },
    ])
    expect(ask('GetSlot')).toEqual({ slot: 1199 })
    expect(ask('GetBlockHeight', { commitment: 2 })).toEqual({ blockHeight: 195 })
    expect(ask('GetLatestBlockhash', { commitment: 1 })).toEqual({
      slot: 1198,
      blockhash: hashes[198],
      lastValidBlockHeight: 198 + 150,
    })
    const valid = (blockhash: string | undefined, commitment: number) =>
      ask('IsBlockhashValid', { blockhash, commitment })
    expect(valid(hashes[199], 0)).toEqual({ slot: 1199, valid: true })
    expect(valid(hashes[199], 1)).toEqual({ slot: 1198, valid: false })
    expect(valid(hashes[49], 0)).toEqual({ slot: 1199, valid: true })
    expect(valid(hashes[48], 0)).toEqual({ slot: 1199, valid: false })
    expect(valid(hashes[48], 1)).toEqual({ slot: 1198, valid: true })
    expect(valid('nothing', 0)).toEqual({ slot: 1199, valid: false })
    expect(ask('SubscribeReplayInfo')).toEqual({ firstAvailable: 1050 })
  })

  it('refuse a commitment that is none, and bytes that are no request', () => {
    const { ask, methods } = open()
    expect(ask('GetSlot', { commitment: 9 })).toEqual({ code: 3 })
    for (const method of ['GetSlot', 'Ping']) {
      const answer = methods[method]!(Buffer.from('ffff', 'hex'))
      expect(answer.ok ? 0 : answer.status.code).toBe(3)
    }
  })
})
