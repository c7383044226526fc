// What an update costs, and who is told: on sessions without sockets.
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import type { AccountUpdate, TransactionUpdate } from '../../../../src/chain/ports.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/flows/solana.ts'
import { accountUpdate, transactionUpdate } from '../../../../src/flows/solana-update.ts'
import type { Answer } from '../../../../src/jsonrpc/build.ts'
import type { Session } from '../../../../src/products/websocket/handle.ts'
import { declareSubscriptionMeters } from '../../../../src/products/websocket/subscriptions/meters.ts'
import { Subscriptions } from '../../../../src/products/websocket/subscriptions/subscriptions.ts'
import { encodeBase58 } from '../../../../src/solana/base58.ts'
import { silentLog } from '../../../../src/telemetry/log.ts'
import { Meters } from '../../../../src/telemetry/meters.ts'
import { SyntheticSolana } from '../../../support/synthetic-solana.ts'

const key = (number: number) => {
  const bytes = new Uint8Array(32)
  new DataView(bytes.buffer).setUint32(0, number)
  return bytes
}

class Stage {
  readonly hub = openSolanaHub({ replaySlots: 0, replayBytesMax: 0 })
  readonly meters = declareSubscriptionMeters(new Meters())
  readonly published: { topic: string; text: string }[] = []
  readonly subscriptions = new Subscriptions({
    solana: {
      hub: this.hub,
      chain: { signatureStatus: () => null, slot: () => 0 },
      readAccount: () => null,
    },
    relayed: null,
    meters: this.meters,
    clock: systemClock,
    log: silentLog,
  })
  readonly #synthetic = new SyntheticSolana()

  constructor() {
    this.subscriptions.usePublisher((topic, message) =>
      this.published.push({ topic, text: Buffer.from(message).toString() }),
    )
  }

  subscribe(session: Session, topic: string, ...params: unknown[]): number {
    const call = { method: '', params, paramsText: '', id: '1' }
    const answer = this.subscriptions.methods[`${topic}Subscribe`]!(call, session) as Answer
    if (answer.kind !== 'text') throw new Error(JSON.stringify(answer))
    return Number(answer.text)
  }

  account(pubkey: Uint8Array, owner: Uint8Array): AccountUpdate {
    const content = { ...this.#synthetic.account(pubkey, null), owner }
    return accountUpdate({ slot: 1, createdAtMs: 0 }, content)
  }

  transaction(...keys: Uint8Array[]): TransactionUpdate {
    const content = this.#synthetic.transaction(0)
    const message = { ...content.message, accountKeys: keys }
    const update = transactionUpdate({ slot: 1, createdAtMs: 0 }, { ...content, message })
    return { ...update, keys, isVote: false }
  }

  /** Feeds compared and messages made for one update. */
  costOf(update: AccountUpdate | TransactionUpdate) {
    const [examined, published] = [this.meters.examined, this.published.length]
    publishUpdate(this.hub, update)
    return [this.meters.examined - examined, this.published.length - published]
  }
}

/** A connection that only keeps what it joined. */
function session(): Session & { topics: Set<string>; end(): void } {
  const topics = new Set<string>()
  const endings: (() => void)[] = []
  return {
    topics,
    // Reason for the casts: the room asks the budget for its plan and to meter, nothing else.
    subscription: {} as never,
    budget: { plan: { subscriptionsPerConnection: 100_000 }, meter() {} } as never,
    notify() {},
    join: (topic) => void topics.add(topic),
    leave: (topic) => void topics.delete(topic),
    checkUnsent() {},
    onEnd: (release) => void endings.push(release),
    end: () => {
      for (const release of endings) release()
    },
  }
}

const processed = { commitment: 'processed' }

describe('what an update costs', () => {
  it('grows with the subscriptions that match it, not with those that exist', () => {
    const stage = new Stage()
    const one = session()
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

  it('is one message for all subscribers of one wish', () => {
    const stage = new Stage()
    const sessions = Array.from({ length: 500 }, session)
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
    const [first, second] = [session(), session()]
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
