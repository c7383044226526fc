// Notifications of signatures: each once, after the answer, by the stream or by a node.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import {
  blockMetaUpdate,
  retractionUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { Subscriptions } from '../../../../src/products/websocket/handle.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../../../../src/streams/geyser/hub.ts'
import type { LandedSignature, PubsubChain } from '../../../../src/streams/pubsub/chain.ts'
import { declareSubscriptionMeters } from '../../../../src/streams/pubsub/notifier.ts'
import { budgetOn, type LooseSession, looseSession } from '../../../testkit/loose-session.ts'
import { idleChain } from '../../../testkit/pubsub-chain.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const at = { slot: 9, createdAtMs: 0 }
const content = new SyntheticSolana().transaction(0)
const transaction = { ...transactionUpdate(at, content), err: null }
const landed = { context: { slot: 9 }, value: { err: null } }
const received = { context: { slot: 9 }, value: 'receivedSignature' }

class Stage {
  /** Answers of the node, oldest first; the last one is repeated. */
  readonly statuses: (LandedSignature | 'unavailable' | null)[] = [null]
  /** What the node finds in its history. */
  history: LandedSignature | 'unavailable' | null = 'unavailable'
  streamSlot = 0
  lookups = 0
  readonly published: unknown[] = []
  readonly chain: PubsubChain
  readonly #subscriptions = new Subscriptions({
    meters: declareSubscriptionMeters(new Meters()),
    clock: { nowMs: Date.now, monotonicMs: () => performance.now() },
    log: silentLog,
  })

  constructor(hub?: SolanaHub) {
    this.chain = idleChain({
      ...(hub && { hub }),
      slot: () => this.streamSlot,
      signatureStatus: async (_, withHistory = false) => {
        this.lookups++
        if (withHistory) return this.history
        return this.statuses.length > 1 ? this.statuses.shift()! : this.statuses[0]!
      },
    })
    this.#subscriptions.usePublisher((_, message) =>
      this.published.push(JSON.parse(Buffer.from(message).toString()).params.result),
    )
  }

  connect(): LooseSession {
    return looseSession(budgetOn(), this.#subscriptions.engineOf(this.chain))
  }

  subscribe(session: LooseSession, commitment: keyof typeof Commitment, more = {}): void {
    const config = { commitment, enableReceivedNotification: true, ...more }
    const params = [encodeBase58(transaction.signature), config]
    const call = { method: '', params, paramsText: '', id: '1' }
    const answer = this.#subscriptions.methods.signatureSubscribe!(call, session)
    expect(answer).toMatchObject({ kind: 'text' })
  }

  /** The stream's transaction, then its slot at a commitment. */
  stream(commitment: Commitment | null = null): void {
    if (commitment === null) publishUpdate(this.chain.hub, transaction)
    else publishUpdate(this.chain.hub, slotUpdate(at, { parent: 8, status: commitment }))
  }

  /** A block above the transaction's, with that height, is confirmed. */
  block(slot: number, blockHeight: number): void {
    const moment = { slot, createdAtMs: 0 }
    const meta = {
      ...{ blockhash: '', parentBlockhash: '', parentSlot: slot - 1, blockHeight, blockTime: 0 },
      ...{ executedTransactionCount: 0, entriesCount: 0, rewards: [] },
    }
    publishUpdate(this.chain.hub, blockMetaUpdate(moment, meta))
    for (const status of [slotStatus.processed, slotStatus.confirmed])
      publishUpdate(this.chain.hub, slotUpdate(moment, { parent: slot - 1, status }))
  }

  retract(reason: 'handover' | 'fork', restated: readonly SolanaUpdate[] = []): void {
    publishUpdate(this.chain.hub, retractionUpdate(at, { bank: 1, reason, restated }))
  }

  stop(): void {
    this.#subscriptions.stop()
  }
}

let stage: Stage
beforeEach(() => {
  vi.useFakeTimers()
  stage = new Stage()
})
afterEach(() => {
  stage.stop()
  vi.useRealTimers()
})

const status = (commitment: Commitment): LandedSignature => ({ slot: 9, err: null, commitment })

describe('a signature', () => {
  it('is not notified together with the answer, which some clients would lose', async () => {
    stage.subscribe(stage.connect(), 'processed')
    stage.stream()
    await vi.advanceTimersByTimeAsync(19)
    expect(stage.published).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    expect(stage.published).toEqual([received, landed])
  })

  it('is notified at once when the answer was sent before', async () => {
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    expect(stage.published).toEqual([received])
    stage.stream(Commitment.confirmed)
    expect(stage.published).toEqual([received, landed])
  })

  it('is notified when the stream had it before the subscription and no node has it yet', async () => {
    stage.connect()
    stage.stream()
    stage.subscribe(stage.connect(), 'processed')
    await vi.advanceTimersByTimeAsync(30)
    expect(stage.published).toEqual([received, landed])
  })

  it('is notified when the stream had it before the first connection', async () => {
    stage.stop()
    stage = new Stage(openSolanaHub())
    stage.stream()
    stage.subscribe(stage.connect(), 'processed')
    await vi.advanceTimersByTimeAsync(30)
    expect(stage.published).toEqual([received, landed])
  })

  it('is not notified from a slot that was abandoned', async () => {
    stage.connect()
    stage.stream()
    publishUpdate(stage.chain.hub, slotUpdate(at, { parent: 8, status: slotStatus.dead }))
    stage.subscribe(stage.connect(), 'processed')
    await vi.advanceTimersByTimeAsync(30)
    expect(stage.published).toEqual([])
  })

  it('is notified once when the stream and the node both report it', async () => {
    stage.statuses[0] = status(Commitment.confirmed)
    stage.subscribe(stage.connect(), 'confirmed')
    stage.stream()
    await vi.advanceTimersByTimeAsync(1)
    stage.stream(Commitment.confirmed)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(stage.published).toEqual([received, landed])
  })

  it('is notified as received once when the node reports it before the stream', async () => {
    stage.statuses[0] = status(Commitment.processed)
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(30)
    expect(stage.published).toEqual([received])
    stage.stream()
    stage.stream(Commitment.confirmed)
    expect(stage.published).toEqual([received, landed])
    expect(stage.lookups).toBe(1)
  })

  it('that is on a fork, too, is notified at once by the slot that was confirmed', async () => {
    stage.connect()
    stage.stream()
    publishUpdate(stage.chain.hub, { ...transaction, slot: 10 })
    const moment = { ...at, slot: 10 }
    const confirmed = slotUpdate(moment, { parent: 8, status: Commitment.confirmed })
    publishUpdate(stage.chain.hub, confirmed)
    stage.subscribe(stage.connect(), 'confirmed', { enableReceivedNotification: false })
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([{ ...landed, context: { slot: 10 } }])
  })

  it('is looked up again when the node lags the stream', async () => {
    stage.streamSlot = 20
    stage.statuses.splice(0, 1, ...[0, 0, 1].map((one) => status(one as Commitment)))
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(700)
    expect([stage.published, stage.lookups]).toEqual([[received], 2])
    await vi.advanceTimersByTimeAsync(200)
    expect([stage.published, stage.lookups]).toEqual([[received, landed], 3])
    await vi.advanceTimersByTimeAsync(5_000)
    expect(stage.lookups).toBe(3)
  })

  it('is notified when the stream had it at the commitment before, whatever the node answers', async () => {
    stage.connect()
    stage.stream()
    stage.stream(Commitment.confirmed)
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(30)
    expect([stage.published, stage.lookups]).toEqual([[received, landed], 0])
  })

  it('is not notified at a commitment that the slot it was seen in has not reached', async () => {
    stage.connect()
    stage.stream()
    stage.streamSlot = 20
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(stage.published).toEqual([received])
    stage.stream(Commitment.confirmed)
    expect(stage.published).toEqual([received, landed])
  })

  it('is not notified before the stream, which answers calls, has what the node reports', async () => {
    stage.streamSlot = 8
    stage.statuses[0] = status(Commitment.confirmed)
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(500)
    expect(stage.published).toEqual([received])
    stage.stream()
    stage.stream(Commitment.confirmed)
    expect(stage.published).toEqual([received, landed])
  })

  it('is notified when the stream has passed its slot without it', async () => {
    stage.streamSlot = 8
    stage.statuses[0] = status(Commitment.confirmed)
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(500)
    expect(stage.published).toEqual([received])
    stage.streamSlot = 10
    await vi.advanceTimersByTimeAsync(400)
    expect(stage.published).toEqual([received, landed])
  })

  it('is looked up again when no node answered', async () => {
    stage.streamSlot = 9
    stage.statuses.splice(0, 1, 'unavailable', status(Commitment.confirmed))
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(450)
    expect([stage.published, stage.lookups]).toEqual([[received, landed], 2])
  })

  it('is not notified together with the answer to a second subscriber either', async () => {
    stage.subscribe(stage.connect(), 'processed')
    await vi.advanceTimersByTimeAsync(10)
    stage.stream()
    await vi.advanceTimersByTimeAsync(9)
    stage.subscribe(stage.connect(), 'processed')
    await vi.advanceTimersByTimeAsync(19)
    expect(stage.published).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    expect(stage.published).toEqual([received, landed])
  })

  it('is not delayed without end by those who subscribe meanwhile', async () => {
    stage.subscribe(stage.connect(), 'processed')
    stage.stream()
    for (let passedMs = 0; passedMs < 99; passedMs += 11) {
      await vi.advanceTimersByTimeAsync(11)
      stage.subscribe(stage.connect(), 'processed')
    }
    expect(stage.published).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    expect(stage.published).toEqual([received, landed])
  })

  it('is notified when the node lags the stream for long', async () => {
    stage.streamSlot = 20
    stage.statuses[0] = status(Commitment.processed)
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(30_000)
    expect(stage.published).toEqual([received])
    stage.statuses[0] = status(Commitment.confirmed)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(stage.published).toEqual([received, landed])
  })

  it('is not looked up without end', async () => {
    stage.streamSlot = 20
    stage.statuses[0] = status(Commitment.processed)
    stage.subscribe(stage.connect(), 'confirmed')
    await vi.advanceTimersByTimeAsync(600_000)
    expect(stage.lookups).toBe(20)
  })

  it('is looked up once for all subscribers, and a later one alone gets what it missed', async () => {
    const [first, second] = [stage.connect(), stage.connect()]
    stage.subscribe(first, 'confirmed')
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    stage.subscribe(second, 'confirmed')
    await vi.advanceTimersByTimeAsync(50)
    const told = (session: LooseSession) =>
      session.told.map((text) => JSON.parse(text).params.result)
    expect([stage.published, told(first), told(second)]).toEqual([[received], [], [received]])
    stage.stream(Commitment.confirmed)
    expect([stage.published, stage.lookups]).toEqual([[received, landed], 1])
    expect([...first.topics, ...second.topics]).toEqual([])
  })
})

describe('a signature with retractions', () => {
  const asked = { enableReceivedNotification: false, retractions: true }
  const retracted = { retracted: { slot: 9, bank: 1, reason: 'handover' } }

  it('stays until it is confirmed, and lands again where its bank was void', async () => {
    const session = stage.connect()
    stage.subscribe(session, 'processed', asked)
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    stage.retract('handover')
    expect(stage.published).toEqual([landed, retracted])
    publishUpdate(stage.chain.hub, later)
    const again = { ...landed, context: { slot: 10 } }
    expect(stage.published).toEqual([landed, retracted, again])
    expect(session.topics.size).toBe(1)
    const { confirmed } = slotStatus
    publishUpdate(
      stage.chain.hub,
      slotUpdate({ ...at, slot: 10 }, { parent: 9, status: confirmed }),
    )
    expect(stage.published).toEqual([landed, retracted, again])
    expect(session.topics.size).toBe(0)
  })

  /** Slot 10 is on another fork than slot 9, and wins. */
  const later = { ...transaction, slot: 10 }
  const landedLater = { ...landed, context: { slot: 10 } }
  const forked = { retracted: { slot: 9, bank: 1, reason: 'fork' } }
  const confirm = () => {
    const { confirmed } = slotStatus
    const moment = { ...at, slot: 10 }
    publishUpdate(stage.chain.hub, slotUpdate(moment, { parent: 8, status: confirmed }))
  }

  it('that landed on two forks has landed on the one that stays, and ends', async () => {
    const session = stage.connect()
    stage.subscribe(session, 'processed', asked)
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    publishUpdate(stage.chain.hub, later)
    confirm()
    expect([stage.published, session.topics.size]).toEqual([[landed], 1])
    stage.retract('fork')
    expect(stage.published).toEqual([landed, forked, landedLater])
    expect(session.topics.size).toBe(0)
  })

  it('that landed on two forks of which the other is taken back first ends when confirmed', async () => {
    const session = stage.connect()
    stage.subscribe(session, 'processed', asked)
    await vi.advanceTimersByTimeAsync(50)
    publishUpdate(stage.chain.hub, later)
    stage.stream()
    stage.retract('fork')
    confirm()
    expect([stage.published, session.topics.size]).toEqual([[landedLater], 0])
  })

  it('is told to a later subscriber, too, who gets its end with the others', async () => {
    const [first, second] = [stage.connect(), stage.connect()]
    stage.subscribe(first, 'processed', asked)
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    stage.subscribe(second, 'processed', asked)
    await vi.advanceTimersByTimeAsync(50)
    expect(second.told.map((text) => JSON.parse(text).params.result)).toEqual([landed])
    expect(first.told).toEqual([])
    // One who comes while it is taken back is not told what does not hold any more.
    const third = stage.connect()
    stage.subscribe(third, 'processed', asked)
    stage.retract('fork')
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([landed, forked])
    expect(third.told.length).toBeLessThan(2)
  })

  it('is notified again when the next bank has it, in order even before the answer', async () => {
    stage.subscribe(stage.connect(), 'processed', asked)
    stage.stream()
    stage.retract('handover', [transaction])
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([landed, retracted, landed])
  })

  it('ends at once when the node reports it as confirmed', async () => {
    stage.streamSlot = 20
    stage.statuses[0] = status(Commitment.confirmed)
    const session = stage.connect()
    stage.subscribe(session, 'processed', asked)
    await vi.advanceTimersByTimeAsync(50)
    expect([stage.published, session.topics.size]).toEqual([[landed], 0])
  })

  it('has not landed where only a node has it at processed, until that has confirmed it', async () => {
    stage.streamSlot = 20
    stage.statuses.unshift(status(Commitment.processed), status(Commitment.processed))
    stage.statuses[2] = status(Commitment.confirmed)
    const [session, without] = [stage.connect(), stage.connect()]
    stage.subscribe(session, 'processed', asked)
    await vi.advanceTimersByTimeAsync(450)
    expect([stage.lookups, stage.published, session.topics.size]).toEqual([2, [], 1])
    await vi.advanceTimersByTimeAsync(400)
    expect([stage.published, session.topics.size]).toEqual([[landed], 0])
    // A landing that is not retracted is notified as soon as a node has it.
    stage.statuses[0] = status(Commitment.processed)
    stage.subscribe(without, 'processed', { ...asked, retractions: false })
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([landed, landed])
  })

  it('does not change one without: it ends with its notification', async () => {
    const session = stage.connect()
    stage.subscribe(session, 'processed')
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    stage.retract('handover', [transaction])
    expect([stage.published, session.topics.size]).toEqual([[received, landed], 0])
  })

  it('has not landed for a later subscriber where a fork was abandoned', async () => {
    stage.connect()
    stage.stream()
    stage.retract('fork')
    stage.subscribe(stage.connect(), 'processed')
    await vi.advanceTimersByTimeAsync(30)
    expect(stage.published).toEqual([])
  })
})

describe('a signature whose transaction expires', () => {
  const config = { lastValidBlockHeight: 100 }
  const expired = {
    context: { slot: 21 },
    value: { expired: { lastValidBlockHeight: 100, blockHeight: 101 } },
  }

  it('ends with a notification once a higher block is confirmed without it', async () => {
    const session = stage.connect()
    stage.subscribe(session, 'finalized', config)
    await vi.advanceTimersByTimeAsync(50)
    stage.block(20, 100)
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([])
    stage.block(21, 101)
    await vi.advanceTimersByTimeAsync(50)
    expect([stage.published, session.topics.size]).toEqual([[expired], 0])
    stage.block(22, 102)
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toHaveLength(1)
  })

  it('does not expire where it has landed, and is notified at its commitment', async () => {
    stage.subscribe(stage.connect(), 'finalized', config)
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    stage.stream(Commitment.processed)
    stage.stream(Commitment.confirmed)
    stage.block(21, 101)
    await vi.advanceTimersByTimeAsync(50)
    stage.stream(Commitment.finalized)
    expect(stage.published).toEqual([received, landed])
  })

  it('expires where it has landed on a fork only', async () => {
    stage.subscribe(stage.connect(), 'confirmed', config)
    await vi.advanceTimersByTimeAsync(50)
    stage.stream()
    stage.block(21, 101)
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([received])
    publishUpdate(stage.chain.hub, slotUpdate(at, { parent: 8, status: slotStatus.dead }))
    stage.block(22, 102)
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published.at(-1)).toMatchObject({ value: { expired: { blockHeight: 102 } } })
  })

  it('does not expire while no node answers', async () => {
    stage.statuses.splice(0, 1, 'unavailable')
    stage.subscribe(stage.connect(), 'confirmed', config)
    stage.block(21, 101)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(stage.published).toEqual([])
    stage.history = null
    stage.block(22, 102)
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toMatchObject([{ value: { expired: { blockHeight: 102 } } }])
  })

  it('is notified at once where the history of a node has it', async () => {
    stage.history = status(Commitment.finalized)
    stage.streamSlot = 20
    stage.subscribe(stage.connect(), 'finalized', config)
    stage.block(21, 101)
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([received, landed])
  })
})

describe('a signature that landed while its client was away', () => {
  beforeEach(() => {
    stage.stop()
    stage = new Stage(openSolanaHub())
    const before = { ...at, slot: 8 }
    publishUpdate(stage.chain.hub, slotUpdate(before, { parent: 7, status: slotStatus.processed }))
    stage.stream()
    for (const commitment of [0, 1, 2] as const) stage.stream(commitment)
    for (let slot = 10; slot < 60; slot++) stage.block(slot, slot)
    stage.streamSlot = 59
  })

  it('is found in the log from the slot on that it names', async () => {
    stage.subscribe(stage.connect(), 'finalized', { resume: 8 })
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([received, landed])
  })

  it('is not found there without a slot, or from a later one on', async () => {
    stage.subscribe(stage.connect(), 'finalized')
    stage.subscribe(stage.connect(), 'finalized', { resume: 10 })
    await vi.advanceTimersByTimeAsync(50)
    expect(stage.published).toEqual([])
  })
})
