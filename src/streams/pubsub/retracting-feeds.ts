// Serves the subscriptions with retractions: what was notified at processed and is void is taken
// back. They have an index of their own, because only they get again what a retraction restates.
//
//   notification of slot 9 ─► the feed remembers the slot ─► finalized: forgets it
//   retraction of slot 9 ───► `retracted` to the feeds that remember it ─► what it restates
import { Commitment } from '../../base/commitment.ts'
import {
  type RetractionUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import { AccountNotifications } from './account-notifications.ts'
import type { CursorFeedsDeps } from './cursor-feeds.ts'
import type { FeedIndex } from './feed.ts'
import type { Notify } from './notifier.ts'
import { SlotNotifications } from './slot-notifications.ts'
import { TransactionNotifications } from './transaction-notifications.ts'

const { processed } = Commitment

export class RetractingFeeds {
  readonly #index: FeedIndex
  readonly #notifier: Notify
  readonly #accounts: AccountNotifications
  readonly #transactions: TransactionNotifications
  readonly #slots: SlotNotifications

  constructor(deps: CursorFeedsDeps) {
    this.#index = deps.index
    this.#notifier = deps.notifier
    this.#accounts = new AccountNotifications(deps)
    this.#transactions = new TransactionNotifications(deps)
    this.#slots = new SlotNotifications(deps)
  }

  /** An update at processed. */
  take(update: SolanaUpdate): void {
    switch (update.kind) {
      case 'account':
        if (this.#index.all.size > 0 && !update.isStartup) this.#accounts.take(processed, update)
        break
      case 'transaction':
        if (this.#index.all.size === 0) break
        this.#accounts.takeTransaction(processed, update)
        this.#transactions.take(processed, update)
        break
      case 'block':
        this.#slots.takeBlock(update)
        break
      case 'slot':
        this.#takeSlot(update)
        break
      case 'retraction':
        this.#retract(update)
    }
  }

  restart(): void {
    this.#accounts.restart()
    this.#slots.restart()
    for (const { sentSlots } of this.#index.all) sentSlots?.clear()
  }

  #takeSlot(update: SlotUpdate): void {
    this.#slots.take(update)
    this.#accounts.takeSlot(processed, update)
    if (update.status !== slotStatus.finalized) return
    for (const { sentSlots } of this.#index.all) sentSlots?.delete(update.slot)
  }

  #retract(update: RetractionUpdate): void {
    const { slot, restated } = update
    this.#accounts.retract(slot)
    this.#slots.retract(slot)
    for (const feed of this.#index.all) {
      if (feed.sentSlots?.has(slot) !== true) continue
      this.#notifier.send(feed, retractedText(update), slot)
      feed.sentSlots.delete(slot)
    }
    for (const one of restated) this.take(one)
  }
}

/** The result of a notification that takes back those of the slot. */
export function retractedText({ slot, bank, reason }: RetractionUpdate): string {
  return `{"retracted":{"slot":${slot},"bank":${bank},"reason":"${reason}"}}`
}
