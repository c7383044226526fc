// Sends notifications of logs and whole transactions.
import { Commitment } from '../../base/commitment.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import type { TransactionContent } from '../../chain/solana/geyser-content.ts'
import { decodeTransactionInfo } from '../../chain/solana/geyser-decode.ts'
import { runsAny } from '../../chain/solana/instruction-filter.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import { errText } from '../../chain/solana/ui-meta.ts'
import {
  isShowable,
  type TransactionView,
  uiTransactionText,
  versionOf,
} from '../../chain/solana/ui-transaction.ts'
import type { TransactionUpdate } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { PubsubChain } from './chain.ts'
import type { CommitmentFeeds, Feed, FeedIndex } from './feed.ts'
import type { SubscriptionMeters } from './meters.ts'
import type { Notify } from './notifier.ts'
import type { TransactionFilter, TransactionParams } from './read-params.ts'

export interface TransactionNotificationsDeps {
  readonly index: FeedIndex
  readonly notifier: Notify
  readonly meters: SubscriptionMeters
  readonly shapes: PubsubChain['shapes']
}

export class TransactionNotifications {
  readonly #deps: TransactionNotificationsDeps

  constructor(deps: TransactionNotificationsDeps) {
    this.#deps = deps
  }

  take(commitment: Commitment, update: TransactionUpdate): void {
    const { index, shapes } = this.#deps
    const feeds = index.at(commitment)
    const texts = new TransactionTexts(update, shapes())
    const createdAtMs = commitment === Commitment.processed ? update.createdAtMs : null
    if (feeds.wantsKeys || feeds.logsOfAll.size > 0) this.#takeLogs(feeds, texts, createdAtMs)
    this.#takeTransaction(feeds, texts, createdAtMs)
  }

  /** A transaction that never ran has no logs and is not notified, as on a validator. */
  #takeLogs(feeds: CommitmentFeeds, texts: TransactionTexts, createdAtMs: number | null): void {
    const { notifier, meters } = this.#deps
    for (const feed of feeds.logsOfAll) {
      meters.examined++
      const isHidden = texts.update.isVote && !feed.params.withVotes
      if (isHidden || texts.update.logs === null) notifier.pass(feed)
      else notifier.send(feed, texts.logs, texts.update.slot, createdAtMs)
    }
    if (feeds.logsByMention.isEmpty) return
    for (const key of texts.keys)
      for (const feed of feeds.logsByMention.find(key)) {
        meters.examined++
        if (texts.update.logs === null) notifier.pass(feed)
        else notifier.send(feed, texts.logs, texts.update.slot, createdAtMs)
      }
  }

  #takeTransaction(
    feeds: CommitmentFeeds,
    texts: TransactionTexts,
    createdAtMs: number | null,
  ): void {
    const { notifier, meters } = this.#deps
    const consider = (feed: Feed<TransactionParams>) => {
      meters.examined++
      if (takes(feed.params.filter, texts))
        notifier.send(feed, texts.shown(feed.params.view), texts.update.slot, createdAtMs)
      else notifier.pass(feed)
    }
    for (const feed of feeds.transactionsOfAll) consider(feed)
    if (!feeds.transactionsBySignature.isEmpty)
      for (const feed of feeds.transactionsBySignature.find(texts.signatureKey)) consider(feed)
    if (feeds.transactionsByKey.isEmpty) return
    // A feed that includes several keys of the transaction is found several times.
    const met = new Set<Feed<TransactionParams>>()
    for (const key of texts.keys)
      for (const feed of feeds.transactionsByKey.find(key)) {
        if (met.has(feed)) continue
        met.add(feed)
        consider(feed)
      }
  }
}

function takes(filter: TransactionFilter, texts: TransactionTexts): boolean {
  const { update } = texts
  if (filter.isVote !== null && filter.isVote !== update.isVote) return false
  if (filter.isFailed !== null && filter.isFailed !== (update.err !== null)) return false
  if (filter.signature !== null && filter.signature !== texts.signatureKey) return false
  const { keys } = texts
  if (!filter.required.every((key) => keys.has(key))) return false
  if (filter.exclude.some((key) => keys.has(key))) return false
  if (filter.include.length > 0 && !filter.include.some((key) => keys.has(key))) return false
  const { instructions } = filter
  return instructions.length === 0 || runsAny(instructions, update.keys, texts.content)
}

/** The texts of one transaction, each made at most once however many feeds show it. */
class TransactionTexts {
  readonly update: TransactionUpdate
  readonly #shapes: Shapes
  readonly #shown = new Map<string, string>()
  #signatureKey: string | null = null
  #keys: ReadonlySet<string> | null = null
  #logs: string | null = null
  #content: TransactionContent | null = null

  constructor(update: TransactionUpdate, shapes: Shapes) {
    this.update = update
    this.#shapes = shapes
  }

  get signatureKey(): string {
    this.#signatureKey ??= keyOf(this.update.signature)
    return this.#signatureKey
  }

  get keys(): ReadonlySet<string> {
    this.#keys ??= new Set(this.update.keys.map(keyOf))
    return this.#keys
  }

  get content(): TransactionContent {
    this.#content ??= decodeTransactionInfo(this.update.info)
    return this.#content
  }

  /** The result of a logs notification. */
  get logs(): string {
    const { slot, signature, err, logs } = this.update
    this.#logs ??=
      `{"context":{"slot":${slot}},"value":{"signature":"${encodeBase58(signature)}",` +
      `"err":${errText(err)},"logs":${JSON.stringify(logs)}}}`
    return this.#logs
  }

  /** The result of a transaction notification. */
  shown(view: TransactionView): string {
    const name = JSON.stringify(view)
    let text = this.#shown.get(name)
    if (text === undefined) {
      text = this.#show(view)
      this.#shown.set(name, text)
    }
    return text
  }

  #show(view: TransactionView): string {
    const { slot, signature, index } = this.update
    const name = encodeBase58(signature)
    const head = `{"signature":"${name}","slot":${slot},"transactionIndex":${index}`
    if (view.details === 'none' || view.details === 'signatures') return `${head}}`
    const { content } = this
    if (!isShowable(content, view)) {
      const version = versionOf(content)
      return `${head},"transaction":null,"err":{"UnsupportedTransactionVersion":${version}}}`
    }
    return `${head},"transaction":${uiTransactionText(content, view, this.#shapes)}}`
  }
}
