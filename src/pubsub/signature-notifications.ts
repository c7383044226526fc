// Sends the notifications of signatures, each once, whether the stream or a node reports it first.
// Thread: main.
//
//   stream: transaction at a commitment ─┐
//   node: getSignatureStatuses, once ────┴─► 20 ms after the answer ─► received, landed ─► end
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { bytesOf, keyOf } from '../solana/keys.ts'
import { errText } from '../solana/ui-meta.ts'
import type { TransactionUpdate } from '../solana/updates.ts'
import type { PubsubChain } from './chain.ts'
import type { Feed } from './feed.ts'
import type { FeedIndex } from './feed-index.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Notifier } from './notifier.ts'
import type { Registry } from './registry.ts'
import type { Session } from './session.ts'
import type { SignatureParams } from './subscription-params.ts'

/**
 * Between the answer to a subscribe and the first notification. A client that gets both in one read
 * may not listen yet and lose the second (kit does), and a signature is notified only once.
 */
const AFTER_ANSWER_MS = 20
/** Lookups at a node that reports a lower commitment than the stream has reached. */
const LOOKUPS_MAX = 5
const LOOKUP_MS = 400

type SignatureFeed = Feed<SignatureParams>

interface SignatureState {
  /** When it was last subscribed to. */
  joinedMs: number
  /** Result of the `receivedSignature` notification once it was sent. */
  received: string | null
  /** Sends that wait until AFTER_ANSWER_MS, in order; null when none waits. */
  waiting: (() => void)[] | null
}

export interface SignatureNotificationsDeps {
  readonly chain: PubsubChain
  readonly index: FeedIndex
  readonly registry: Registry
  readonly notifier: Notifier
  readonly meters: SubscriptionMeters
  readonly clock: Clock
}

export class SignatureNotifications {
  readonly #deps: SignatureNotificationsDeps
  readonly #states = new WeakMap<SignatureFeed, SignatureState>()

  constructor(deps: SignatureNotificationsDeps) {
    this.#deps = deps
  }

  /** A connection has subscribed; its answer is sent after this returns. */
  joined(feed: SignatureFeed, session: Session): void {
    const { notifier, clock } = this.#deps
    const known = this.#states.get(feed)
    const state = known ?? { joinedMs: 0, received: null, waiting: null }
    state.joinedMs = clock.monotonicMs()
    this.#states.set(feed, state)
    const { received } = state
    if (received !== null)
      this.#send(feed, () => {
        if (feed.shares.has(session)) notifier.sendTo(session, feed, received)
      })
    // The stream notifies of all that follows, so one look at what was before is enough.
    if (known === undefined) void this.#lookUp(feed)
  }

  take(commitment: Commitment, update: TransactionUpdate): void {
    const { index, meters } = this.#deps
    const { signatures } = index.at(commitment)
    const isFirstSight = commitment === Commitment.processed && !index.received.isEmpty
    if (!isFirstSight && signatures.isEmpty) return
    const createdAtMs = commitment === Commitment.processed ? update.createdAtMs : null
    const { slot, err } = update
    const key = keyOf(update.signature)
    if (isFirstSight)
      for (const feed of index.received.find(key)) {
        meters.examined++
        this.#received(feed, slot, createdAtMs)
      }
    for (const feed of signatures.find(key)) {
      meters.examined++
      this.#landed(feed, { slot, err: errText(err) }, createdAtMs)
    }
  }

  async #lookUp(feed: SignatureFeed): Promise<void> {
    const { chain } = this.#deps
    const { key, commitment } = feed.params
    for (let lookups = 1; feed.shares.size > 0; lookups++) {
      const status = await chain.signatureStatus(bytesOf(key))
      if (status === null) return
      const { slot } = status
      if (feed.params.withReceived) this.#received(feed, slot, null)
      if (status.commitment >= commitment) {
        this.#landed(feed, { slot, err: JSON.stringify(status.err) }, null)
        return
      }
      // A slot that the stream has not reached at that commitment is notified by the stream.
      if (slot > chain.slot(commitment) || lookups === LOOKUPS_MAX) return
      await new Promise((resolve) => setTimeout(resolve, LOOKUP_MS))
    }
  }

  #received(feed: SignatureFeed, slot: number, createdAtMs: number | null): void {
    this.#send(feed, (state) => {
      if (state.received !== null) return
      state.received = `{"context":{"slot":${slot}},"value":"receivedSignature"}`
      this.#deps.notifier.send(feed, state.received, createdAtMs)
    })
  }

  #landed(
    feed: SignatureFeed,
    at: { slot: number; err: string },
    createdAtMs: number | null,
  ): void {
    this.#send(feed, () => {
      const result = `{"context":{"slot":${at.slot}},"value":{"err":${at.err}}}`
      this.#deps.notifier.send(feed, result, createdAtMs)
      this.#deps.registry.finish(feed)
    })
  }

  /** Sends now, or AFTER_ANSWER_MS after the newest answer; not for a feed that has ended. */
  #send(feed: SignatureFeed, send: (state: SignatureState) => void): void {
    const state = this.#states.get(feed)
    if (state === undefined) return
    const run = () => {
      if (feed.shares.size > 0) send(state)
    }
    if (state.waiting !== null) {
      state.waiting.push(run)
      return
    }
    const waitMs = state.joinedMs + AFTER_ANSWER_MS - this.#deps.clock.monotonicMs()
    if (waitMs <= 0) {
      run()
      return
    }
    state.waiting = [run]
    setTimeout(() => {
      const { waiting } = state
      state.waiting = null
      for (const one of waiting ?? []) one()
    }, Math.ceil(waitMs))
  }
}
