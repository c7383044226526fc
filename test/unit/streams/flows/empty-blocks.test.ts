// Blocks without a transaction, as a chain without votes in its blocks has them: as a stream, as
// notifications, as answers and as rows.
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { framePrefixBytes } from '../../../../src/base/transport/grpc-stream.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { SlotSource } from '../../../../src/indexer/feed/slot-source.ts'
import { Subscriptions } from '../../../../src/products/websocket/handle.ts'
import { StreamAnswers } from '../../../../src/streams/answers/stream-answers.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { FanOut } from '../../../../src/streams/geyser/fan-out.ts'
import { compileFilters } from '../../../../src/streams/geyser/filter-compile.ts'
import type { Run } from '../../../../src/streams/geyser/frame.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../../../src/streams/geyser/meters.ts'
import { declareSubscriptionMeters } from '../../../../src/streams/pubsub/notifier.ts'
import { limits } from '../../../testkit/filter-limits.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { budgetOn, looseSession } from '../../../testkit/loose-session.ts'
import { idleChain } from '../../../testkit/pubsub-chain.ts'
import { streamDeps } from '../../../testkit/stream-chain.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const firstSlot = 1_000
const slots = 8
const confirmedUpTo = firstSlot + slots - 2

/** Readers of a hub, and the chain of empty blocks that a node sends to it. */
function stage() {
  const chain = idleChain({ hub: openSolanaHub() })
  const { hub } = chain
  const solana = new SyntheticSolana({ firstSlot, transactionsPerSlot: 0 })
  const updates: SolanaUpdate[] = Array.from({ length: slots }, () => solana.next()).flat()
  const metas = updates.flatMap((one) => (one.kind === 'blockMeta' ? [one] : []))
  const sink = new SolanaUpstream(hub, { log: silentLog })
  const run = () => {
    sink.opened(firstSlot)
    for (const update of updates)
      if (update.kind !== 'block') sink.batch(batchFrom([messageOf(update)]))
    expect(sink.counts()).toMatchObject({ incompleteBlocks: 0, gapSlots: 0, duplicates: 0 })
  }
  return { chain, hub, metas, run }
}

describe('blocks without a transaction', () => {
  it('are blocks of a gRPC stream', async () => {
    const codec = loadCodec()
    const { hub, metas, run } = stage()
    const type = 'geyser.SubscribeRequest'
    const request = codec.root.lookupType(type)
    const blocks = { b: { includeTransactions: true, includeEntries: true } }
    const bytes = request.encode(request.fromObject({ blocks, commitment: 1 })).finish()
    const filters = compileFilters(codec.decode<SubscribeRequest>(type, bytes)!, limits)
    if (!filters.ok) throw new Error(filters.refusal.message)
    const received: Buffer[] = []
    const take = (runs: readonly Run[]) => {
      for (const { bytes: sent } of runs) received.push(Buffer.from(sent))
    }
    new FanOut(hub, declareGrpcMeters(new Meters())).join({ encoding: null, take }, filters.value)
    run()
    await new Promise((resolve) => setImmediate(resolve))
    type Update = { block: { blockhash: string; transactions: unknown[]; entries: unknown[] } }
    const found = messagesIn(Buffer.concat(received)).map(
      (message) => codec.decode<Update>('geyser.SubscribeUpdate', message)!.block,
    )
    expect(
      found.map((block) => [block.blockhash, block.transactions.length, block.entries.length]),
    ).toEqual(metas.slice(0, -1).map(({ blockhash }) => [blockhash, 0, 1]))
  })

  it('are notified by blockSubscribe, and not where an account is named', () => {
    const { chain, metas, run } = stage()
    const meters = declareSubscriptionMeters(new Meters())
    const subscriptions = new Subscriptions({ meters, clock: systemClock, log: silentLog })
    const published: { params: { result: { value: object } } }[] = []
    subscriptions.usePublisher((_, text) => published.push(JSON.parse(String(text))))
    const session = looseSession(budgetOn(), subscriptions.engineOf(chain))
    const config = {
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 0,
      showRewards: true,
    }
    for (const filter of ['all', { mentionsAccountOrProgram: '1'.repeat(32) }]) {
      const call = { method: '', params: [filter, config], paramsText: '', id: '1' }
      subscriptions.methods.blockSubscribe!(call, session)
    }
    run()
    expect(published.map(({ params }) => params.result.value)).toEqual(
      metas.slice(0, -1).map((meta) => ({
        slot: meta.slot,
        err: null,
        block: {
          blockHeight: meta.blockHeight,
          blockTime: meta.blockTime,
          blockhash: meta.blockhash,
          parentSlot: meta.parentSlot,
          previousBlockhash: meta.parentBlockhash,
          rewards: [],
          transactions: [],
        },
      })),
    )
    subscriptions.stop()
  })

  it('are answered by getBlock', () => {
    const { hub, metas, run } = stage()
    const answers = new StreamAnswers(hub, streamDeps)
    run()
    const ask = (details: string) => {
      const params = [confirmedUpTo, { commitment: 'confirmed', transactionDetails: details }]
      const call = { method: 'getBlock', params, paramsText: JSON.stringify(params), id: '1' }
      const found = answers.answer(call)?.answer
      return found?.kind === 'text' ? JSON.parse(found.text) : null
    }
    const { blockHeight, blockTime, blockhash, parentSlot, parentBlockhash } = metas.at(-2)!
    const head = { blockHeight, blockTime, blockhash, parentSlot, rewards: [] }
    const none = { ...head, previousBlockhash: parentBlockhash }
    expect(ask('none')).toEqual(none)
    expect(ask('signatures')).toEqual({ ...none, signatures: [] })
    expect(ask('full')).toEqual({ ...none, transactions: [] })
  })

  it('are rows of the index', () => {
    const { hub, metas, run } = stage()
    const source = new SlotSource(undefined, { lost() {}, clock: systemClock })
    hub.listen((commitment, update) => {
      if (commitment === 1) source.take(update)
    })
    run()
    for (const { slot, parentSlot, blockhash, blockHeight } of metas.slice(0, -1)) {
      const block = { parentSlot, blockhash, height: blockHeight, txCount: 0 }
      expect(source.next()?.content).toMatchObject({ slot, transactions: [], block })
    }
    expect(source.next()).toBeNull()
  })
})

/** Without their frames. */
function messagesIn(bytes: Buffer): Buffer[] {
  const messages: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + framePrefixBytes + bytes.readUInt32BE(at + 1)
    messages.push(bytes.subarray(at + framePrefixBytes, end))
    at = end
  }
  return messages
}
