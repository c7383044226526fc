// Subscriptions to our own chain, fed by the hub. Thread: main. Made by subscriptions.ts.
//
//   subscribe -> registry -> feed of that wish -> index by account, owner, mention, ...
//   hub -> (commitment, update) -> index -> matching feeds -> text, once each -> outbox
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { accountParser } from '../solana/json-parsed/account-parser.ts'
import type { ReadAccount } from '../solana/json-parsed/parsed.ts'
import { bytesOf } from '../solana/keys.ts'
import type { SolanaChain, SolanaUpdate } from '../solana/updates.ts'
import type { Hub } from '../stream/hub.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import { AccountNotices } from './account-notices.ts'
import { BlockNotices } from './block-notices.ts'
import type { Asked, Engine } from './engine.ts'
import type { Feed } from './feed.ts'
import { FeedIndex } from './feed-index.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Outbox } from './outbox.ts'
import { type Ids, Registry } from './registry.ts'
import type { Session } from './session.ts'
import { SlotNotices } from './slot-notices.ts'
import { receivedResult, TransactionNotices } from './transaction-notices.ts'
import type { SignatureWanted, Wanted } from './wanted.ts'

/** The chain that is subscribed to. */
export interface Subscribed {
  readonly hub: Hub<SolanaUpdate>
  readonly chain: Pick<SolanaChain, 'signatureStatus' | 'slot'>
  /** Finds the mint of a token account, for `jsonParsed`. */
  readonly readAccount: ReadAccount
}

export interface HubSubscriptionsDeps extends Subscribed {
  readonly ids: Ids
  readonly outbox: Outbox
  readonly meters: SubscriptionMeters
  readonly clock: Clock
  readonly log: Log
}

/**
 * Between the answer to a signatureSubscribe and the news that it has landed already. A client
 * that gets both in one read may not listen yet and lose the second (kit does).
 */
export const LANDED_DELAY_MS = 20

export class HubSubscriptions implements Engine {
  readonly registry: Registry
  readonly #chain: Subscribed['chain']
  readonly #outbox: Outbox
  readonly #accounts: AccountNotices
  readonly #transactions: TransactionNotices
  readonly #blocks: BlockNotices
  readonly #slots: SlotNotices
  readonly #unlisten: () => void

  constructor(deps: HubSubscriptionsDeps) {
    const { hub, chain, readAccount, ids, outbox, meters, clock, log } = deps
    const index = new FeedIndex()
    const registry = new Registry(index, ids)
    const parts = { index, registry, outbox, meters, parse: accountParser(readAccount) }
    this.registry = registry
    this.#chain = chain
    this.#outbox = outbox
    this.#accounts = new AccountNotices(parts)
    this.#transactions = new TransactionNotices(parts)
    this.#blocks = new BlockNotices(parts)
    this.#slots = new SlotNotices({ ...parts, rootAtStart: () => chain.slot(Commitment.finalized) })
    const throttle = new LogThrottle()
    this.#unlisten = hub.listen((commitment, update) => {
      try {
        this.#take(commitment, update)
      } catch (error) {
        // Our bug, but neither the chain that tells nor the other listeners shall feel it.
        if (throttle.allows(update.kind, clock.monotonicMs()))
          log.error('an update could not be told', { kind: update.kind, reason: String(error) })
      }
    })
  }

  subscribe(session: Session, wanted: Wanted): Asked {
    const feed = this.registry.subscribe(session, wanted)
    if (typeof feed !== 'string') this.#joined(feed, session)
    return feed
  }

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

  #joined(feed: Feed, session: Session): void {
    if (feed.wanted.kind !== 'signature') return
    const status = this.#chain.signatureStatus(bytesOf(feed.wanted.key))
    if (status === null) return
    // Reason for the cast: the kind is checked above.
    const landed = feed as Feed<SignatureWanted>
    setTimeout(() => {
      if (landed.isOver || !landed.shares.has(session)) return
      if (landed.wanted.wantsReceived)
        this.#outbox.sendTo(session, landed, receivedResult(status.slot))
      if (status.commitment >= landed.wanted.commitment)
        this.#transactions.takeLanded(landed, status)
    }, LANDED_DELAY_MS)
  }
}
