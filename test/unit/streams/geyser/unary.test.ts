import { describe, expect, it } from 'vitest'
import { slotStatus } from '../../../../src/chain/solana/updates.ts'
import { loadCodec } from '../../../../src/streams/geyser/codec.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { unaryMethods } from '../../../../src/streams/geyser/service.ts'
import { TestChain } from '../../../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const codec = loadCodec()

function open() {
  const chain = new TestChain()
  const { hub } = chain
  const methods = unaryMethods({ codec, version: '1.2.3' })
  const ask = (method: string, request: object = {}) => {
    const answer = methods[method]!(codec.encode(`geyser.${method}Request`, request), chain)
    if (!answer.ok) return { code: answer.status.code }
    const type = codec.root.lookupType(`geyser.${method}Response`)
    return type.toObject(type.decode(answer.bytes), { longs: Number, defaults: true })
  }
  return { hub, chain, ask, methods }
}

describe('the unary methods', () => {
  it('answer UNAVAILABLE before the first block', () => {
    const { ask } = open()
    for (const method of ['GetSlot', 'GetBlockHeight', 'GetLatestBlockhash', 'IsBlockhashValid'])
      expect(ask(method)).toEqual({ code: 14 })
    expect(ask('SubscribeReplayInfo')).toEqual({})
  })

  it('count a block as confirmed whose meta comes after that status', () => {
    const { hub, ask } = open()
    const updates = [...new SyntheticSolana({ confirmedAfter: 1, finalizedAfter: 4 }).next()]
    const meta = updates.find((update) => update.kind === 'blockMeta')!
    for (const update of updates) if (update !== meta) publishUpdate(hub, update)
    const status = updates.find((update) => update.kind === 'slot')!
    publishUpdate(hub, { ...status, status: slotStatus.confirmed })
    publishUpdate(hub, meta)
    const { slot, blockhash } = meta
    const valid = ask('IsBlockhashValid', { blockhash, commitment: 1 })
    expect([ask('GetSlot', { commitment: 1 }), valid]).toEqual([{ slot }, { slot, valid: true }])
  })

  it('return the head at each commitment', () => {
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

  it('do not call a blockhash expired that may be of a block before the first one here', () => {
    const { hub, ask } = open()
    const chain = new SyntheticSolana({ confirmedAfter: 1, finalizedAfter: 4 })
    const hashes: string[] = []
    const publish = (count: number, isMissed: boolean) => {
      for (let at = 0; at < count; at++)
        for (const update of chain.next()) {
          if (!isMissed) publishUpdate(hub, update)
          if (update.kind === 'blockMeta') hashes.push(update.blockhash)
        }
    }
    publish(60, true)
    publish(40, false)
    expect(ask('IsBlockhashValid', { blockhash: hashes[30] })).toEqual({ code: 14 })
    publish(112, false)
    expect(ask('IsBlockhashValid', { blockhash: hashes[30] })).toMatchObject({ valid: false })
    // Missed in the middle.
    publish(1, true)
    publish(40, false)
    expect(ask('IsBlockhashValid', { blockhash: hashes[212] })).toEqual({ code: 14 })
  })

  it('answer UNAVAILABLE where the node sends no block heights, instead of the slot', () => {
    const { hub, ask } = open()
    let blockhash = ''
    for (const update of new SyntheticSolana().next()) {
      if (update.kind === 'blockMeta') blockhash = update.blockhash
      publishUpdate(hub, update.kind === 'blockMeta' ? { ...update, blockHeight: null } : update)
    }
    expect(ask('GetSlot')).toEqual({ slot: 1000 })
    for (const method of ['GetBlockHeight', 'GetLatestBlockhash'])
      expect(ask(method)).toEqual({ code: 14 })
    expect(ask('IsBlockhashValid', { blockhash })).toEqual({ code: 14 })
  })

  it('refuse an unknown commitment, and bytes that are no request', () => {
    const { ask, chain, methods } = open()
    expect(ask('GetSlot', { commitment: 9 })).toEqual({ code: 3 })
    for (const method of ['GetSlot', 'Ping']) {
      const answer = methods[method]!(Buffer.from('ffff', 'hex'), chain)
      expect(answer.ok ? 0 : answer.status.code).toBe(3)
    }
  })

  it('answer UNAVAILABLE while the chain is down, and go on when it is back', () => {
    const { hub, chain, ask } = open()
    for (const update of new SyntheticSolana().next()) publishUpdate(hub, update)
    const methods = ['GetSlot', 'GetBlockHeight', 'GetLatestBlockhash', 'SubscribeReplayInfo']
    chain.turn(false)
    for (const method of methods) expect(ask(method)).toEqual({ code: 14 })
    chain.turn(true)
    expect(ask('GetSlot')).toEqual({ slot: 1000 })
  })
})
