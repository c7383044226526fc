// Sends notifications of confirmed and finalized blocks.
// With a mention only the transactions that name it are shown, and a block without any is skipped.
import type { Commitment } from '../../base/commitment.ts'
import { encodeBase58, keyOf } from '../../chain/solana/base58.ts'
import {
  decodeDeadError,
  decodeEntryTransactions,
  decodeRewards,
  decodeTransactionInfo,
} from '../../chain/solana/geyser-decode.ts'
import type { TransactionView } from '../../chain/solana/ui-transaction.ts'
import {
  isShowable,
  rewardsText,
  uiTransactionText,
  versionOf,
} from '../../chain/solana/ui-transaction.ts'
import {
  type BlockUpdate,
  type SlotStatus,
  type SlotUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { PubsubChain } from './chain.ts'
import type { Feed, FeedIndex } from './feed.ts'
import type { Notify, SubscriptionMeters } from './notifier.ts'
import type { BlockParams } from './read-params.ts'

export interface NotificationDeps {
  readonly index: FeedIndex
  readonly notifier: Notify
  readonly meters: SubscriptionMeters
  readonly shapes: PubsubChain['shapes']
}

export class BlockNotifications {
  readonly #deps: NotificationDeps

  constructor(deps: NotificationDeps) {
    this.#deps = deps
  }

  take(commitment: Commitment, update: BlockUpdate): void {
    const { index, shapes } = this.#deps
    const { blocks, blocksByMention } = index.at(commitment)
    const texts = new BlockTexts(update, shapes())
    for (const feed of blocks) this.#send(feed, update.transactions, texts)
    if (blocksByMention.isEmpty) return
    const mentioning = new Map<Feed<BlockParams>, TransactionUpdate[]>()
    for (const transaction of update.transactions)
      for (const key of new Set(transaction.keys.map(keyOf)))
        for (const feed of blocksByMention.find(key)) {
          const found = mentioning.get(feed)
          if (found === undefined) mentioning.set(feed, [transaction])
          else found.push(transaction)
        }
    for (const [feed, transactions] of mentioning) this.#send(feed, transactions, texts)
  }

  #send(feed: Feed<BlockParams>, shown: readonly TransactionUpdate[], texts: BlockTexts): void {
    this.#deps.meters.examined++
    this.#deps.notifier.send(feed, texts.result(shown, feed.params.view), texts.slot)
  }
}

class BlockTexts {
  readonly #update: BlockUpdate
  readonly #shapes: Shapes
  /** A number is the version of a transaction that the view may not show. */
  readonly #shown = new Map<string, Map<TransactionUpdate, string | number>>()

  constructor(update: BlockUpdate, shapes: Shapes) {
    this.#update = update
    this.#shapes = shapes
  }

  get slot(): number {
    return this.#update.slot
  }

  result(transactions: readonly TransactionUpdate[], view: TransactionView): string {
    const { slot } = this
    const shown = this.#block(transactions, view)
    const [block, err] =
      typeof shown === 'string'
        ? [shown, 'null']
        : ['null', `{"UnsupportedTransactionVersion":${shown}}`]
    return `{"context":{"slot":${slot}},"value":{"slot":${slot},"block":${block},"err":${err}}}`
  }

  /** The version of the first transaction that may not be shown under the view, if there is one. */
  #block(transactions: readonly TransactionUpdate[], view: TransactionView): string | number {
    const { meta } = this.#update
    const parts = [
      `"previousBlockhash":"${meta.parentBlockhash}","blockhash":"${meta.blockhash}"`,
      `"parentSlot":${meta.parentSlot}`,
    ]
    if (view.details === 'signatures') {
      const signatures = transactions.map(({ signature }) => `"${encodeBase58(signature)}"`)
      parts.push(`"signatures":[${signatures.join(',')}]`)
    } else if (view.details !== 'none') {
      const texts: string[] = []
      for (const transaction of transactions) {
        const text = this.#transaction(transaction, view)
        if (typeof text === 'number') return text
        texts.push(text)
      }
      parts.push(`"transactions":[${texts.join(',')}]`)
    }
    if (view.showRewards) parts.push(`"rewards":${rewardsText(decodeRewards(meta.rewards), view)}`)
    parts.push(`"blockTime":${meta.blockTime},"blockHeight":${meta.blockHeight}`)
    return `{${parts.join(',')}}`
  }

  #transaction(transaction: TransactionUpdate, view: TransactionView): string | number {
    const name = JSON.stringify(view)
    const known = this.#shown.get(name) ?? new Map<TransactionUpdate, string | number>()
    this.#shown.set(name, known)
    let text = known.get(transaction)
    if (text === undefined) {
      const content = decodeTransactionInfo(transaction.info)
      text = isShowable(content, view)
        ? uiTransactionText(content, view, this.#shapes)
        : versionOf(content)
      known.set(transaction, text)
    }
    return text
  }
}

// Sends notifications of slots: begun, rooted, and every stage between.
// Reads processed updates only: each status of a slot is published there exactly once.

/** Slots above the root; a chain that roots nothing for longer forgets the oldest. */
const BEGUN_MAX = 1_024

interface SlotNotificationsDeps extends Omit<NotificationDeps, 'shapes'> {
  /** The root until the stream has reported one. */
  readonly rootAtStart: () => number
}

export class SlotNotifications {
  readonly #deps: SlotNotificationsDeps
  /** Slots above the root that were told. */
  readonly #begun = new Set<number>()
  #root: number | null = null

  constructor(deps: SlotNotificationsDeps) {
    this.#deps = deps
  }

  take(update: SlotUpdate): void {
    const { slot, status, parent } = update
    // Every new bank, as a validator does: a slot whose bank is replaced comes twice. Not every
    // source reports banks; all report processed slots, and a replay those below a later one.
    const isNew = slot > (this.#root ?? -1) && !this.#begun.has(slot)
    if (status === slotStatus.createdBank || (status === slotStatus.processed && isNew)) {
      this.#begun.add(slot)
      if (this.#begun.size > BEGUN_MAX) this.#begun.delete(this.#begun.values().next().value!)
      const root = this.#root ?? this.#deps.rootAtStart()
      this.#send('slot', `{"parent":${parent ?? 0},"root":${root},"slot":${slot}}`, update)
    }
    if (status === slotStatus.finalized && slot > (this.#root ?? -1)) {
      this.#root = slot
      for (const one of this.#begun) if (one <= slot) this.#begun.delete(one)
      this.#send('root', String(slot), update)
    }
    const type = stages[status]?.(update)
    if (type !== undefined) this.#send('slotsUpdates', stageText(update, type), update)
  }

  restart(): void {
    this.#begun.clear()
    this.#root = null
  }

  /** What was told of the slot is taken back: its next bank is told, however it is reported. */
  retract(slot: number): void {
    this.#begun.delete(slot)
  }

  /** The block of a slot is complete: `frozen`. */
  takeBlock(update: BlockUpdate): void {
    if (this.#deps.index.slotsUpdates.size === 0) return
    const failed = update.transactions.filter(({ err }) => err !== null).length
    const entries = update.entries.map(({ body }) => decodeEntryTransactions(body))
    const most = entries.reduce((one, other) => Math.max(one, other), 0)
    const stats =
      `{"numTransactionEntries":${entries.filter((count) => count > 0).length},` +
      `"numSuccessfulTransactions":${update.transactions.length - failed},` +
      `"numFailedTransactions":${failed},"maxTransactionsPerEntry":${most}}`
    this.#send('slotsUpdates', stageText(update, `"frozen","stats":${stats}`), update)
  }

  #send(
    topic: 'slot' | 'slotsUpdates' | 'root',
    result: string,
    { slot, createdAtMs }: { readonly slot: number; readonly createdAtMs: number },
  ): void {
    const { index, meters, notifier } = this.#deps
    for (const feed of index[topic]) {
      meters.examined++
      notifier.send(feed, result, slot, createdAtMs)
    }
  }
}

function stageText(at: { slot: number; createdAtMs: number }, type: string): string {
  return `{"slot":${at.slot},"timestamp":${Math.floor(at.createdAtMs)},"type":${type}}`
}

/** The `type` and the members after it, of the statuses that are notified. */
const stages: Partial<Record<SlotStatus, (update: SlotUpdate) => string>> = {
  [slotStatus.firstShredReceived]: () => '"firstShredReceived"',
  [slotStatus.completed]: () => '"completed"',
  [slotStatus.createdBank]: ({ parent }) => `"createdBank","parent":${parent ?? 0}`,
  [slotStatus.confirmed]: () => '"optimisticConfirmation"',
  [slotStatus.finalized]: () => '"root"',
  [slotStatus.dead]: ({ body }) => `"dead","err":${JSON.stringify(decodeDeadError(body))}`,
}
