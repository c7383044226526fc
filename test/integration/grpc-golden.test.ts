// The shapes of every update, answer and status of the gRPC endpoint, in golden files: inside v1
// fields are only added, and a condition keeps its code.
import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { retractionUpdate } from '../../src/chain/solana/received-batch.ts'
import { builtInPlans } from '../../src/customers/subscriptions/plans.ts'
import { expectShape } from '../testkit/golden.ts'
import { call, codec, GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(() => stage.close())

/** As JSON: 64-bit numbers and bytes as texts, zeros shown, messages that are absent left out. */
function plain(type: string, bytes: Uint8Array): unknown {
  const message = codec.root.lookupType(type)
  const options = { longs: String, bytes: String, defaults: true }
  return withoutNull(message.toObject(message.decode(bytes), options))
}

function withoutNull(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNull)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, child]) => child !== null)
  return Object.fromEntries(entries.map(([name, child]) => [name, withoutNull(child)]))
}

const keys = { accountInclude: [], accountExclude: [], accountRequired: [] }

describe('golden shapes of gRPC', () => {
  it('contain every kind of update', async () => {
    stage = await GrpcStage.open({ section: { pingMs: 100 } })
    const metadata = withToken(stage.provision().token)
    metadata.set('x-retractions', 'true')
    const stream = new Subscription(stage.client(), metadata)
    stream.ask({
      accounts: { a: { account: [], owner: [], filters: [], nonemptyTxnSignature: true } },
      slots: { s: {} },
      transactions: { t: { ...keys, vote: false, failed: true } },
      transactionsStatus: { u: { ...keys, vote: false, failed: true } },
      // Transactions have a file of their own.
      blocks: { b: { includeTransactions: false, includeAccounts: true, includeEntries: true } },
      blocksMeta: { m: {} },
      entry: { e: {} },
    })
    await stream.settled()
    const chain = new SyntheticSolana({ seed: 4 })
    for (let slot = 0; slot < 8; slot++) stage.publish(chain.next())
    const moment = { slot: chain.slot - 1, createdAtMs: 1_700_000_000_000 }
    stage.publish([retractionUpdate(moment, { bank: 1, reason: 'fork', restated: [] })])
    const kinds = [
      'account',
      'slot',
      'transaction',
      'transactionStatus',
      'block',
      'blockMeta',
      'entry',
      'ping',
      'pong',
      'retraction',
    ]
    await until(() => kinds.every((kind) => stream.of(kind).length > 0), 'every kind')
    for (const kind of kinds) {
      const at = stream.updates.findIndex((update) => update[kind])
      expectShape(`grpc/update-${kind}`, plain('geyser.SubscribeUpdate', stream.raw[at]!))
    }
  })

  it('contain the answers of the unary methods', async () => {
    stage = await GrpcStage.open()
    const chain = new SyntheticSolana()
    for (let slot = 0; slot < 3; slot++) stage.publish(chain.next())
    const client = stage.client()
    const metadata = withToken(stage.provision().token)
    const methods = [
      'GetSlot',
      'GetBlockHeight',
      'GetLatestBlockhash',
      'SubscribeReplayInfo',
      'IsBlockhashValid',
    ]
    const { blockhash } = (await call(client, 'GetLatestBlockhash', {}, metadata)).value
    for (const method of methods) {
      const { value } = await call(client, method, { blockhash }, metadata)
      const type = `geyser.${method}Response`
      expectShape(`grpc/${method}`, plain(type, codec.encode(type, value)))
    }
  })

  it('contain the status of every condition, with its exact code', async () => {
    const poor = { ...builtInPlans.standard!, creditsPerSecond: 1, burst: 2, streams: 1 }
    stage = await GrpcStage.open({ plans: { ...builtInPlans, standard: poor } })
    const chain = new SyntheticSolana()
    const early = await call(stage.client(), 'GetSlot', {}, withToken(stage.provision().token))
    for (let slot = 0; slot < 3; slot++) stage.publish(chain.next())
    const token = stage.provision({ plan: 'unlimited' }).token
    const ended = async (request: object | null, with_ = token, path = 'Subscribe') => {
      const stream = new Subscription(stage.client(), withToken(with_), `/geyser.Geyser/${path}`)
      if (request !== null) stream.ask(request)
      await until(() => stream.status !== null, 'a status')
      return stream.status!
    }
    const spender = stage.provision().token
    const unary = (of: string) => call(stage.client(), 'GetSlot', { commitment: 7 }, withToken(of))
    // A slow machine regains a credit a second.
    let spent = await unary(spender)
    while (spent.code !== 8) spent = await unary(spender)
    const seen = {
      'no-token': await unary('none'),
      'bad-commitment': await unary(token),
      'no-block': early,
      'rate-spent': spent,
      'bad-filter': await ended({ accounts: { a: { account: ['x'] } } }),
      'from-slot-too-old': await ended({ slots: { s: {} }, fromSlot: 1 }),
      'coming-soon': await ended(null, token, 'SubscribeDeshred'),
      'unknown-method': await ended(null, token, 'Nothing'),
      'chain-down': await downed(() => ended({ slots: { s: {} } })),
    }
    const statuses = Object.fromEntries(
      Object.entries(seen).map(([name, { code, details }]) => [name, { code, details }]),
    )
    expectShape('grpc/statuses', statuses)
    const path = new URL('../golden/grpc/statuses.json', import.meta.url)
    const golden = JSON.parse(readFileSync(path, 'utf8')) as typeof statuses
    const codes = (all: typeof statuses) =>
      Object.fromEntries(Object.entries(all).map(([name, { code }]) => [name, code]))
    expect(codes(statuses)).toEqual(codes(golden))
  })
})

async function downed<T>(run: () => Promise<T>): Promise<T> {
  stage.chain!.turn(false)
  return run()
}
