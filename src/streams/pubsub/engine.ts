// Serves the subscriptions to one chain from its stream of updates.
//
//   subscribe -> registry -> feed of those params -> index by account, owner, mention, ...
//   hub -> (commitment, update) -> index -> matching feeds -> text, once each -> notifier
//   subscribe with resume -> log, from the cursor on, to one connection -> the live feed
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import { AccountNotifications } from './account-notifications.ts'
import { BlockNotifications } from './block-notifications.ts'
import type { PubsubChain, Session } from './chain.ts'
import type { PubsubCursor } from './cursor.ts'
import { CursorFeeds } from './cursor-feeds.ts'
import { type Feed, FeedIndex, FeedRegistry, type Ids, type Refused } from './feed.ts'
import { FeedReplays, type ResumeProblem } from './feed-replay.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Notifier } from './notifier.ts'
import {
  hasCursor,
  hasRetractions,
  type SignatureParams,
  type SubscriptionParams,
} from './read-params.ts'
import { RetractingFeeds } from './retracting-feeds.ts'
import { SignatureNotifications } from './signature-notifications.ts'
import { SlotNotifications } from './slot-notifications.ts'
import { TransactionNotifications } from './transaction-notifications.ts'

export interface PubsubEngineDeps {
  readonly chain: PubsubChain
  readonly ids: Ids
  readonly notifier: Notifier
  readonly meters: SubscriptionMeters
  readonly clock: Clock
  readonly log: Log
}

export class PubsubEngine {
  readonly registry: FeedRegistry
  readonly #chain: PubsubChain
  readonly #accounts: AccountNotifications
  readonly #signatures: SignatureNotifications
  readonly #transactions: TransactionNotifications
  readonly #blocks: BlockNotifications
  readonly #slots: SlotNotifications
  readonly #retracting: RetractingFeeds
  readonly #cursors: CursorFeeds
  readonly #replays: FeedReplays
  readonly #unlisten: () => void

  constructor(deps: PubsubEngineDeps) {
    const { chain, ids, notifier, meters, clock, log } = deps
    const index = new FeedIndex()
    const retracting = new FeedIndex()
    const cursors = new FeedIndex()
    // A signature is notified once: it has no use for what a retraction restates to the others.
    const indexOf = (params: SubscriptionParams) => {
      if (params.kind === 'signature') return index
      if (hasCursor(params)) return cursors
      return hasRetractions(params) ? retracting : index
    }
    const registry = new FeedRegistry(indexOf, ids)
    const shared = { index, notifier, meters }
    this.registry = registry
    this.#chain = chain
    const readAccounts: PubsubChain['readAccounts'] = (keys) => chain.readAccounts(keys)
    const shapes = () => chain.shapes()
    this.#accounts = new AccountNotifications({ ...shared, shapes, clock, readAccounts })
    this.#signatures = new SignatureNotifications({ ...shared, registry, chain, clock })
    this.#transactions = new TransactionNotifications({ ...shared, shapes })
    this.#blocks = new BlockNotifications({ ...shared, shapes })
    const rootAtStart = () => chain.slot(Commitment.finalized)
    this.#slots = new SlotNotifications({ ...shared, rootAtStart })
    const reads = { clock, readAccounts, rootAtStart, shapes }
    this.#retracting = new RetractingFeeds({ ...shared, ...reads, index: retracting })
    this.#cursors = new CursorFeeds({ ...shared, ...reads, index: cursors })
    this.#replays = new FeedReplays({
      ...{ ...reads, meters, chain },
      live: this.#cursors,
      unsubscribe: (session, id) => registry.unsubscribe(session, id),
    })
    this.#prime()
    const throttle = new LogThrottle()
    const unwatch = chain.hub.onRestart(() => this.#restart())
    const unlisten = chain.hub.listen(
      (commitment, update) => {
        try {
          this.#take(commitment, update)
        } catch (error) {
          // A bug of ours must not reach the stream or its other listeners.
          if (throttle.allows(update.kind, clock.monotonicMs()))
            log.error('notification failed', { kind: update.kind, reason: String(error) })
        }
      },
      (commitment) => index.at(commitment).wantsItems || cursors.at(commitment).wantsItems,
    )
    this.#unlisten = () => {
      unlisten()
      unwatch()
    }
  }

  /** No notification reaches the connection before the answer made from this has been sent. */
  subscribe(session: Session, params: SubscriptionParams): Feed | Refused {
    if (!this.#chain.isUp()) return 'chain-down'
    const feed = this.registry.subscribe(session, params)
    if (typeof feed !== 'string' && feed.params.kind === 'signature')
      // Reason for the cast: the kind is checked above.
      this.#signatures.joined(feed as Feed<SignatureParams>, session)
    return feed
  }

  /** Subscribes, and sends what follows the cursor first. */
  resume(
    session: Session,
    params: SubscriptionParams,
    cursor: PubsubCursor,
  ): Feed | Refused | ResumeProblem {
    if (!this.#chain.isUp()) return 'chain-down'
    const problem = this.#replays.problemWith(cursor)
    if (problem !== null) return problem
    const feed = this.registry.subscribe(session, params, true)
    if (typeof feed !== 'string') this.#replays.start(session, feed, cursor)
    return feed
  }

  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean {
    return this.registry.unsubscribe(session, id)
  }

  stop(): void {
    this.#unlisten()
    this.#replays.stop()
  }

  /** The engine starts with the first connection: which of the newest slot is sent is known. */
  #prime(): void {
    const { hub } = this.#chain
    const open = hub.replay(Commitment.processed, hub.newestSlot ?? 0)
    for (let update = open?.next() ?? null; update !== null; update = open!.next())
      this.#cursors.take(Commitment.processed, update)
  }

  /** The subscriptions stay: their next notifications are of the chain that begins. */
  #restart(): void {
    this.#accounts.restart()
    this.#signatures.restart()
    this.#slots.restart()
    this.#retracting.restart()
    this.#cursors.restart()
  }

  #take(commitment: Commitment, update: SolanaUpdate): void {
    const isProcessed = commitment === Commitment.processed
    // Slots first: all accounts of the slot may follow.
    if (isProcessed && update.kind === 'slot') this.#slots.take(update)
    this.#cursors.take(commitment, update)
    if (isProcessed) this.#retracting.take(update)
    switch (update.kind) {
      case 'account':
        if (!update.isStartup) this.#accounts.take(commitment, update)
        break
      case 'transaction':
        this.#signatures.take(commitment, update)
        this.#transactions.take(commitment, update)
        break
      case 'block':
        this.#blocks.take(commitment, update)
        if (isProcessed) this.#slots.takeBlock(update)
        break
      case 'slot':
        this.#accounts.takeSlot(commitment, update)
        if (isProcessed) this.#signatures.takeSlot(update)
        break
      case 'blockMeta':
        if (commitment === Commitment.confirmed) this.#signatures.takeHeight(update)
        break
      case 'retraction':
        this.#signatures.retract(update)
    }
  }
}
