// What an update costs, and who is told: on sessions without sockets.
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import type { Answer } from '../../../../src/base/jsonrpc/build.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import {
  accountUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import {
  type AccountUpdate,
  type SlotStatus,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../../../src/chain/solana/updates.ts'
import { Budget } from '../../../../src/customers/quota/budget.ts'
import type { PlanValues } from '../../../../src/customers/subscriptions/plans.ts'
import { type Session, Subscriptions } from '../../../../src/products/websocket/handle.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { declareSubscriptionMeters } from '../../../../src/streams/pubsub/notifier.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { budgetOn, type LooseSession, looseSession } from '../../../testkit/loose-session.ts'
import { idleChain } from '../../../testkit/pubsub-chain.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const key = (number: number) => {
  const bytes = new Uint8Array(32)
  new DataView(bytes.buffer).setUint32(0, number)
  return bytes
}

class Stage {
  readonly chain = idleChain()
  readonly hub = this.chain.hub
  readonly meters = declareSubscriptionMeters(new Meters())
  readonly published: { topic: string; text: string; isAtOnce: boolean }[] = []
  readonly subscriptions = new Subscriptions({
    meters: this.meters,
    clock: systemClock,
    log: silentLog,
  })
  readonly #synthetic = new SyntheticSolana()

  constructor() {
    this.subscriptions.usePublisher((topic, message, atOnce) => {
      const text = Buffer.from(message).toString()
      this.published.push({ topic, text, isAtOnce: atOnce !== undefined })
    })
  }

  /** A connection of a customer; of its own unless a budget is given. */
  session(of: Budget | Partial<PlanValues> = roomy): LooseSession {
    const budget = of instanceof Budget ? of : budgetOn(of)
    return looseSession(budget, this.subscriptions.engineOf(this.chain))
  }

  subscribe(session: Session, topic: string, ...params: unknown[]): number {
    const answer = this.ask(session, topic, ...params)
    if (answer.kind !== 'text') throw new Error(JSON.stringify(answer))
    return Number(answer.text)
  }

  ask(session: Session, topic: string, ...params: unknown[]): Answer {
    const call = { method: '', params, paramsText: '', id: '1' }
    return this.subscriptions.methods[`${topic}Subscribe`]!(call, session) as Answer
  }

  account(pubkey: Uint8Array, owner: Uint8Array, dataBytes?: number, slot = 1): AccountUpdate {
    const whole = { ...this.#synthetic.account(pubkey, null), owner }
    const content = dataBytes === undefined ? whole : { ...whole, data: Buffer.alloc(dataBytes) }
    return accountUpdate({ slot, createdAtMs: 0 }, content)
  }

  /** Publishes writes of accounts, by the size of their data. */
  write(slot: number, pubkey: Uint8Array, owner: Uint8Array, ...sizes: number[]): void {
    for (const size of sizes) publishUpdate(this.hub, this.account(pubkey, owner, size, slot))
  }

  /** Slot and data size of each notification so far; forgets them. */
  taken(): [slot: number, space: number][] {
    return this.published.splice(0).map(({ text }) => {
      const { context, value } = JSON.parse(text).params.result
      return [context.slot, (value.account ?? value).space]
    })
  }

  transaction(...keys: Uint8Array[]): TransactionUpdate {
    const content = this.#synthetic.transaction(0)
    const message = { ...content.message, accountKeys: keys }
    const update = transactionUpdate({ slot: 1, createdAtMs: 0 }, { ...content, message })
    return { ...update, keys, isVote: false }
  }

  reach(slot: number, status: SlotStatus): void {
    publishUpdate(this.hub, slotUpdate({ slot, createdAtMs: 0 }, { parent: null, status }))
  }

  /** Feeds compared and messages made for one update. */
  costOf(update: AccountUpdate | TransactionUpdate) {
    const [examined, published] = [this.meters.examined, this.published.length]
    publishUpdate(this.hub, update)
    // Accounts are notified when their slot is complete.
    this.reach(update.slot, slotStatus.processed)
    return [this.meters.examined - examined, this.published.length - published]
  }
}

const roomy = { subscriptionsPerConnection: 100_000, distinctSubscriptions: 0 }

const processed = { commitment: 'processed' }
const base64 = { ...processed, encoding: 'base64' }
const slice = (offset: number, length: number) => ({ dataSlice: { offset, length } })

describe('slotSubscribe', () => {
  it('is told a slot again with its new parent when another bank replaces the first', () => {
    const stage = new Stage()
    stage.subscribe(stage.session(), 'slot')
    const sink = new SolanaUpstream(stage.hub, { log: silentLog })
    const solana = new SyntheticSolana()
    const send = (updates: readonly SolanaUpdate[]) => {
      for (const update of updates)
        if (update.kind !== 'block') sink.batch(batchFrom([messageOf(update)]))
    }
    sink.opened(1_000)
    send([...solana.next(), ...solana.next()])
    const status = slotStatus.createdBank
    const old = slotUpdate({ slot: 1_002, createdAtMs: 0 }, { parent: 1_000, status })
    const item = stage.account(key(1), key(2), 5, 1_002)
    const [first, created, ...rest] = solana.next()
    send([first!, old, item, created!, ...rest])
    const told = stage.published.map(({ text }) => JSON.parse(text).params.result)
    expect(told.map(({ slot, parent }) => [slot, parent])).toEqual([
      [1_000, 999],
      [1_001, 1_000],
      [1_002, 1_000],
      [1_002, 1_001],
    ])
    stage.subscriptions.stop()
  })

  it('is told each slot above the root once, also one that a replay shows after a later one', () => {
    const stage = new Stage()
    stage.subscribe(stage.session(), 'slot')
    stage.reach(10, slotStatus.processed)
    stage.reach(12, slotStatus.createdBank)
    stage.reach(11, slotStatus.processed)
    stage.reach(12, slotStatus.processed)
    stage.reach(11, slotStatus.finalized)
    stage.reach(9, slotStatus.processed)
    const told = stage.published.map(({ text }) => JSON.parse(text).params.result.slot)
    expect(told).toEqual([10, 12, 11])
    stage.subscriptions.stop()
  })
})

describe('what an update costs', () => {
  it('is no notification of logs for a transaction that never ran', () => {
    const stage = new Stage()
    const one = stage.session()
    stage.subscribe(one, 'logs', 'all', processed)
    stage.subscribe(one, 'logs', { mentions: [encodeBase58(key(7))] }, processed)
    const ran = stage.transaction(key(7))
    expect(stage.costOf(ran)).toEqual([2, 2])
    expect(stage.costOf({ ...ran, logs: null })).toEqual([2, 0])
    stage.subscriptions.stop()
  })

  it('grows with the subscriptions that match it, not with those that exist', () => {
    const stage = new Stage()
    const one = stage.session()
    for (let at = 0; at < 3000; at++) {
      stage.subscribe(one, 'account', encodeBase58(key(at)), processed)
      stage.subscribe(one, 'program', encodeBase58(key(10_000 + at)), processed)
      stage.subscribe(one, 'logs', { mentions: [encodeBase58(key(at))] }, processed)
      const filter = { accountRequired: [encodeBase58(key(at)), encodeBase58(key(at + 1))] }
      stage.subscribe(one, 'transaction', filter, processed)
      const signature = new Uint8Array(64)
      signature.set(key(at))
      stage.subscribe(one, 'signature', encodeBase58(signature), processed)
    }
    expect(stage.meters.subscriptions()).toMatchObject({ count: 15_000, distinct: 15_000 })
    const stranger = key(999_999)
    expect(stage.costOf(stage.account(stranger, stranger))).toEqual([0, 0])
    expect(stage.costOf(stage.account(key(5), stranger))).toEqual([1, 1])
    expect(stage.costOf(stage.account(key(5), key(10_007)))).toEqual([2, 2])
    expect(stage.costOf(stage.transaction(stranger))).toEqual([0, 0])
    // One logs feed each; two transaction feeds stand under these keys, one of them has both.
    expect(stage.costOf(stage.transaction(key(7), key(8)))).toEqual([4, 3])
    stage.subscriptions.stop()
  })

  it('is one message for all subscribers with the same params', () => {
    const stage = new Stage()
    const sessions = Array.from({ length: 500 }, () => stage.session())
    const ids = sessions.map((one) =>
      stage.subscribe(one, 'account', encodeBase58(key(1)), processed),
    )
    expect(new Set(ids).size).toBe(1)
    expect(stage.costOf(stage.account(key(1), key(2)))).toEqual([1, 1])
    expect(stage.published[0]).toMatchObject({ topic: String(ids[0]) })
    expect(JSON.parse(stage.published[0]!.text).params.subscription).toBe(ids[0])
    stage.subscriptions.stop()
  })

  it('is nothing once the last subscriber is gone', () => {
    const stage = new Stage()
    const [first, second] = [stage.session(), stage.session()]
    for (const one of [first, second]) stage.subscribe(one, 'account', encodeBase58(key(1)))
    stage.subscribe(first, 'block', 'all')
    first.end()
    expect(stage.meters.subscriptions()).toMatchObject({ count: 1, distinct: 1 })
    second.end()
    expect(stage.meters.subscriptions()).toMatchObject({ count: 0, distinct: 0 })
    expect([...first.topics, ...second.topics]).toEqual([])
    expect(stage.costOf(stage.account(key(1), key(2)))).toEqual([0, 0])
    stage.subscriptions.stop()
  })
})

describe('a written account', () => {
  const [account, program, other] = [key(1), key(2), key(3)]
  const at = (commitment: string) => ({ commitment, encoding: 'base64' })

  it('is notified once per slot, with its last write, when the slot gets there', () => {
    const stage = new Stage()
    const one = stage.session()
    stage.subscribe(one, 'account', encodeBase58(account), at('processed'))
    stage.subscribe(one, 'program', encodeBase58(program), at('confirmed'))
    stage.subscribe(one, 'program', encodeBase58(program), at('finalized'))
    stage.write(5, account, program, 10, 20, 30)
    stage.write(6, account, program, 40)
    expect(stage.taken()).toEqual([])
    stage.reach(5, slotStatus.processed)
    expect(stage.taken()).toEqual([[5, 30]])
    stage.reach(5, slotStatus.confirmed)
    expect(stage.taken()).toEqual([[5, 30]])
    stage.reach(5, slotStatus.finalized)
    expect(stage.taken()).toEqual([[5, 30]])
    // A source may leave processed out.
    stage.reach(6, slotStatus.confirmed)
    expect(stage.taken()).toEqual([
      [6, 40],
      [6, 40],
    ])
    stage.subscriptions.stop()
  })

  it('is not notified to a program that it left in the same slot, nor in a dead slot', () => {
    const stage = new Stage()
    stage.subscribe(stage.session(), 'program', encodeBase58(program), at('processed'))
    stage.write(5, account, program, 10)
    stage.write(5, account, other, 20)
    stage.reach(5, slotStatus.processed)
    stage.write(6, account, program, 30)
    stage.reach(6, slotStatus.dead)
    stage.reach(6, slotStatus.processed)
    expect(stage.taken()).toEqual([])
    stage.subscriptions.stop()
  })
})

describe('slots', () => {
  it('are sent at once, before all that their status brings to others', () => {
    const stage = new Stage()
    stage.subscribe(stage.session(), 'account', encodeBase58(key(1)), processed)
    stage.subscribe(stage.session(), 'transaction', {}, { commitment: 'finalized' })
    const slots = ['slot', 'root', 'slotsUpdates']
    for (const topic of slots) stage.subscribe(stage.session(), topic)
    publishUpdate(stage.hub, stage.account(key(1), key(2)))
    publishUpdate(stage.hub, stage.transaction(key(9)))
    stage.reach(1, slotStatus.processed)
    stage.reach(1, slotStatus.finalized)
    const kinds = stage.published.map(({ text, isAtOnce }) => [
      JSON.parse(text).method.replace('Notification', ''),
      isAtOnce,
    ])
    expect(kinds).toEqual([
      ['slot', true],
      ['account', false],
      ['root', true],
      ['slotsUpdates', true],
      ['transaction', false],
    ])
    stage.subscriptions.stop()
  })
})

describe('equal subscriptions of one connection', () => {
  it('are one: the same id, one of the limit, ended by one unsubscribe', () => {
    const stage = new Stage()
    const one = stage.session({ subscriptionsPerConnection: 1 })
    const id = stage.subscribe(one, 'account', encodeBase58(key(1)), processed)
    expect(stage.subscribe(one, 'account', encodeBase58(key(1)), processed)).toBe(id)
    const engine = stage.subscriptions.engineOf(stage.chain)
    expect(engine.unsubscribe(one, id)).toBe(true)
    expect(engine.unsubscribe(one, id)).toBe(false)
    expect(stage.costOf(stage.account(key(1), key(2)))).toEqual([0, 0])
    stage.subscriptions.stop()
  })
})

const refusal = (answer: unknown) => (answer as { error: { code: number; data: object } }).error

describe('what one customer may cost', () => {
  it('is one feed for 150 subscriptions that differ in what has no effect', () => {
    const stage = new Stage()
    const one = stage.session({ subscriptionsPerConnection: 1000 })
    const ids = new Set<number>()
    for (let at = 1; at <= 150; at++) {
      const config = { maxSupportedTransactionVersion: at, commitment: 'processed' }
      ids.add(stage.subscribe(one, 'transaction', {}, config))
      ids.add(stage.subscribe(one, 'account', encodeBase58(key(1)), slice(20_000_000, at)))
    }
    expect(ids.size).toBe(2)
    expect(stage.meters.subscriptions()).toMatchObject({ count: 2, distinct: 2 })
    expect(stage.costOf(stage.transaction(key(9)))).toEqual([1, 1])
    stage.subscriptions.stop()
  })

  it('is bounded in distinct feeds over all its connections; others do not feel it', () => {
    const stage = new Stage()
    const budget = budgetOn({ distinctSubscriptions: 10 })
    const [first, second] = [stage.session(budget), stage.session(budget)]
    const account = (at: number) => [encodeBase58(key(at)), processed] as const
    for (let at = 0; at < 5; at++) stage.subscribe(first, 'account', ...account(at))
    for (let at = 5; at < 10; at++) stage.subscribe(second, 'account', ...account(at))
    expect(refusal(stage.ask(second, 'account', ...account(10)))).toEqual({
      code: -32429,
      message: 'Too many requests: the plan has 10 distinct subscriptions',
      data: { reason: 'distinct-subscriptions', limit: 10 },
    })
    // What the customer has already is no other feed, and another customer has its own bound.
    stage.subscribe(second, 'account', ...account(0))
    const other = stage.session({ distinctSubscriptions: 10 })
    stage.subscribe(other, 'account', ...account(10))
    expect(stage.costOf(stage.account(key(0), key(99)))).toEqual([1, 1])
    // Given back when the last connection of the customer has left it, and not before.
    first.end()
    for (let at = 1; at < 5; at++) stage.subscribe(second, 'account', ...account(20 + at))
    expect(refusal(stage.ask(second, 'account', ...account(30)))).toMatchObject({ code: -32429 })
    stage.subscriptions.stop()
  })

  it('is bounded in what its notifications cost: the expensive feed ends, the others go on', () => {
    let nowMs = 0
    const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
    const stage = new Stage()
    const budget = budgetOn({ notificationBytesPerSecond: 10_000 }, clock)
    const [one, other] = [stage.session(budget), stage.session()]
    const [large, small] = [encodeBase58(key(1)), encodeBase58(key(2))]
    const ended = stage.subscribe(one, 'account', large, base64)
    stage.subscribe(one, 'account', small, base64)
    stage.subscribe(other, 'account', large, { ...processed, encoding: 'base64+zstd' })
    // About 4,300 and 16,300 bytes: each fits into two seconds' worth of 10,000, both do not.
    const [huge, little] = [stage.account(key(1), key(9), 9_000), stage.account(key(2), key(9), 1)]
    stage.costOf(little)
    expect(one.told).toEqual([])
    stage.costOf(huge)
    expect(one.told.map((text) => JSON.parse(text))).toEqual([
      {
        jsonrpc: '2.0',
        error: {
          code: -32429,
          message: `Too many requests: subscription ${ended} has ended, its notifications cost too much`,
          data: {
            reason: 'notification-bytes',
            retryAfterMs: expect.any(Number),
            subscription: ended,
          },
        },
        id: null,
      },
    ])
    expect(one.topics.has(String(ended))).toBe(false)
    expect(stage.meters.ended).toBe(1)
    // The cheap one goes on, no new one is opened until the cost has flowed back, and the other
    // customer notices nothing.
    expect(stage.costOf(little)).toEqual([1, 1])
    expect(refusal(stage.ask(one, 'account', large, base64))).toMatchObject({
      code: -32429,
      data: { reason: 'notification-bytes', retryAfterMs: expect.any(Number) },
    })
    expect(stage.costOf(huge)).toEqual([1, 1])
    expect(other.told).toEqual([])
    nowMs += 10_000
    expect(stage.subscribe(one, 'account', large, base64)).not.toBe(ended)
    stage.subscriptions.stop()
  })

  it('is shared by the customers of a feed', () => {
    const stage = new Stage()
    const plan = { notificationBytesPerSecond: 10_000 }
    const clock = { nowMs: () => 0, monotonicMs: () => 0 }
    const customers = [1, 2, 3].map(() => stage.session(budgetOn(plan, clock)))
    for (const one of customers) stage.subscribe(one, 'account', encodeBase58(key(1)), base64)
    // Four notifications fit into a budget, so twelve into three.
    for (let at = 0; at < 12; at++) stage.costOf(stage.account(key(1), key(9), 1))
    expect(customers.flatMap(({ told }) => told)).toEqual([])
    for (let at = 0; at < 3; at++) stage.costOf(stage.account(key(1), key(9), 1))
    expect(customers.map(({ told }) => told.length)).toEqual([1, 1, 1])
    expect(stage.meters.subscriptions()).toMatchObject({ count: 0, distinct: 0 })
    stage.subscriptions.stop()
  })

  it('counts the updates that its filters turn away', () => {
    const stage = new Stage()
    const clock = { nowMs: () => 0, monotonicMs: () => 0 }
    const one = stage.session(budgetOn({ notificationBytesPerSecond: 10_000 }, clock))
    const filters = [{ dataSize: 7 }]
    stage.subscribe(one, 'program', encodeBase58(key(9)), { ...processed, filters })
    const update = stage.account(key(1), key(9), 1)
    let updates = 0
    while (one.told.length === 0 && updates < 10_000) {
      stage.costOf(update)
      updates++
    }
    // 32 bytes each, 20,000 in all, charged 256 at a time.
    expect(updates).toBe(768)
    expect(stage.published).toEqual([])
    stage.subscriptions.stop()
  })
})
