// Sends notifications of confirmed and finalized blocks.
// With a mention only the transactions that name it are shown, and a block without any is skipped.
import type { Commitment } from '../../base/commitment.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import { decodeRewards, decodeTransactionInfo } from '../../chain/solana/geyser-decode.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import { rewardsText } from '../../chain/solana/ui-meta.ts'
import {
  isShowable,
  type TransactionView,
  uiTransactionText,
  versionOf,
} from '../../chain/solana/ui-transaction.ts'
import type { BlockUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { PubsubChain } from './chain.ts'
import type { Feed, FeedIndex } from './feed.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Notify } from './notifier.ts'
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
    if (view.details === 'signatures') parts.push(`"signatures":${signaturesText(transactions)}`)
    else if (view.details !== 'none') {
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
    let known = this.#shown.get(name)
    if (known === undefined) {
      known = new Map()
      this.#shown.set(name, known)
    }
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

function signaturesText(transactions: readonly TransactionUpdate[]): string {
  return `[${transactions.map(({ signature }) => `"${encodeBase58(signature)}"`).join(',')}]`
}
