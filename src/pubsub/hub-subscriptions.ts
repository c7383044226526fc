// Serves the subscriptions to one chain from its stream of updates. Thread: main.
//
//   subscribe -> registry -> feed of those params -> index by account, owner, mention, ...
//   hub -> (commitment, update) -> index -> matching feeds -> text, once each -> outbox
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { bytesOf } from '../solana/keys.ts'
import type { SolanaUpdate } from '../solana/updates.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import { AccountNotices } from './account-notices.ts'
import { BlockNotices } from './block-notices.ts'
import type { PubsubChain } from './chain.ts'
import type { Feed } from './feed.ts'
import { FeedIndex } from './feed-index.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Outbox } from './outbox.ts'
import { type Ids, type Refused, Registry } from './registry.ts'
import type { Session } from './session.ts'
import { SlotNotices } from './slot-notices.ts'
import { TransactionNotices } from './transaction-notices.ts'
import type { SignatureWanted, Wanted } from './wanted.ts'

export interface HubSubscriptionsDeps {
  readonly chain: PubsubChain
  readonly ids: Ids
  readonly outbox: Outbox
  readonly meters: SubscriptionMeters
  readonly clock: Clock
  readonly log: Log
}

/**
 * Between the answer to a signatureSubscribe and the notification that it has landed already. A
 * client that gets both in one read may not listen yet and lose the second (kit does).
 */
const LANDED_DELAY_MS = 20
/** A node that reports a lower commitment than the stream has seen is asked again so often. */
const LANDED_CHECKS_MAX = 5
const LANDED_CHECK_MS = 400

export class HubSubscriptions {
  readonly registry: Registry
  readonly #chain: PubsubChain
  readonly #outbox: Outbox
  readonly #accounts: AccountNotices
  readonly #transactions: TransactionNotices
  readonly #blocks: BlockNotices
  readonly #slots: SlotNotices
  readonly #unlisten: () => void

  constructor(deps: HubSubscriptionsDeps) {
    const { chain, ids, outbox, meters, clock, log } = deps
    const index = new FeedIndex()
    const registry = new Registry(index, ids)
    const parts = { index, registry, outbox, meters }
    this.registry = registry
    this.#chain = chain
    this.#outbox = outbox
    const readAccounts: PubsubChain['readAccounts'] = (keys) => chain.readAccounts(keys)
    this.#accounts = new AccountNotices({ ...parts, clock, readAccounts })
    this.#transactions = new TransactionNotices(parts)
    this.#blocks = new BlockNotices(parts)
    this.#slots = new SlotNotices({ ...parts, rootAtStart: () => chain.slot(Commitment.finalized) })
    const throttle = new LogThrottle()
    this.#unlisten = chain.hub.listen((commitment, update) => {
      try {
        this.#take(commitment, update)
      } catch (error) {
        // A bug of ours must not reach the stream or its other listeners.
        if (throttle.allows(update.kind, clock.monotonicMs()))
          log.error('notification failed', { kind: update.kind, reason: String(error) })
      }
    })
  }

  /** No notification reaches the connection before the answer made from this has been sent. */
  subscribe(session: Session, wanted: Wanted): Feed | Refused {
    if (!this.#chain.isUp()) return 'chain-down'
    const feed = this.registry.subscribe(session, wanted)
    if (typeof feed !== 'string' && feed.wanted.kind === 'signature')
      // Reason for the cast: the kind is checked above.
      void this.#joined(feed as Feed<SignatureWanted>, session)
    return feed
  }

  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean {
    return this.registry.unsubscribe(session, id)
  }

  stop(): void {
    this.#unlisten()
  }

  #take(commitment: Commitment, update: SolanaUpdate): void {
    switch (update.kind) {
      case 'account':
        if (!update.isStartup) this.#accounts.take(commitment, update)
        break
      case 'transaction':
        this.#transactions.take(commitment, update)
        break
      case 'block':
        this.#blocks.take(commitment, update)
        if (commitment === Commitment.processed) this.#slots.takeBlock(update)
        break
      case 'slot':
        if (commitment === Commitment.processed) this.#slots.take(update)
    }
  }

  /**
   * The stream notifies of what happens from now on. What it sent before this subscription is
   * looked up once per feed, and is not notified twice when the stream is faster.
   */
  async #joined(feed: Feed<SignatureWanted>, session: Session): Promise<void> {
    const { received } = feed
    const isFirst = feed.shares.size === 1
    await pause(LANDED_DELAY_MS)
    if (received !== null && feed.shares.has(session)) this.#outbox.sendTo(session, feed, received)
    if (isFirst) await this.#lookUp(feed)
  }

  async #lookUp(feed: Feed<SignatureWanted>): Promise<void> {
    const { key, commitment } = feed.wanted
    for (let checks = 0; checks < LANDED_CHECKS_MAX; checks++) {
      const status = await this.#chain.signatureStatus(bytesOf(key))
      if (status === null || feed.shares.size === 0) return
      this.#transactions.takeLanded(feed, status)
      // At a slot that the stream has not reached at that commitment, the stream will notify.
      if (feed.isOver || status.slot > this.#chain.slot(commitment)) return
      await pause(LANDED_CHECK_MS)
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
