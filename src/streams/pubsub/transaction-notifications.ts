// Sends notifications of logs and whole transactions.
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { encodeBase58, keyOf, keyText } from '../../chain/solana/base58.ts'
import type { TransactionContent } from '../../chain/solana/geyser-decode.ts'
import { decodeAccountInfo, decodeTransactionInfo } from '../../chain/solana/geyser-decode.ts'
import { runsAny } from '../../chain/solana/instruction-filter.ts'
import type { KnownBlocks } from '../../chain/solana/known-blocks.ts'
import { uiAccountText } from '../../chain/solana/ui-account.ts'
import type { TransactionView } from '../../chain/solana/ui-transaction.ts'
import {
  errText,
  isShowable,
  uiTransactionText,
  versionOf,
} from '../../chain/solana/ui-transaction.ts'
import type { SolanaUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import { BankChain, JoinedStates, type JoinedWrite } from '../geyser/joined-states.ts'
import type { NotificationDeps } from './block-notifications.ts'
import type { CommitmentFeeds, Feed, KeyedFeeds } from './feed.ts'
import type { LogsParams, TransactionFilter, TransactionParams } from './read-params.ts'

/** Of all subscriptions of a commitment; and as much of writes whose transaction has not come. */
const statesBytesMax = 32 * 1024 * 1024

export interface TransactionNotificationsDeps extends NotificationDeps {
  blocksOf(commitment: Commitment): KnownBlocks
}

export class TransactionNotifications {
  readonly #deps: TransactionNotificationsDeps
  /** By commitment, while some subscription has the states of accounts. */
  readonly #states: (WatchedStates | null)[] = [null, null, null]

  constructor(deps: TransactionNotificationsDeps) {
    this.#deps = deps
  }

  /** Every update but transactions: of states of accounts, and of the chain they are on. */
  track(commitment: Commitment, update: SolanaUpdate): void {
    const { index, blocksOf } = this.#deps
    const { watched, unwatched } = index.at(commitment)
    if (update.kind === 'transaction') return
    if (watched.isEmpty) {
      this.#states[commitment] = null
      unwatched.clear()
      return
    }
    this.#states[commitment] ??= new WatchedStates(commitment, blocksOf(commitment))
    this.#states[commitment].take(update, watched, unwatched)
  }

  /** What a replay has seen of the same updates. */
  adopt(replay: TransactionNotifications, commitment: Commitment): void {
    const [own, theirs] = [this.#states[commitment], replay.#states[commitment]]
    if (theirs == null) return
    this.#states[commitment] ??= new WatchedStates(commitment, this.#deps.blocksOf(commitment))
    this.#states[commitment].adopt(theirs, own == null)
  }

  restart(): void {
    this.#states.fill(null)
  }

  take(commitment: Commitment, update: TransactionUpdate): void {
    const { index, shapes, notifier, meters, blocksOf } = this.#deps
    const feeds = index.at(commitment)
    const writes = this.#states[commitment]?.writesOf(update)
    const texts = new TransactionTexts(update, shapes(), writes)
    const createdAtMs = commitment === Commitment.processed ? update.createdAtMs : null
    if (feeds.wantsKeys || feeds.logsOfAll.size > 0) this.#takeLogs(feeds, texts, createdAtMs)
    const consider = (feed: Feed<TransactionParams>) => {
      meters.examined++
      const { view, blockTime } = feed.params
      if (!takes(feed, texts)) {
        notifier.pass(feed)
        return
      }
      const time = blockTime && blocksOf(commitment).timeOf(update.slot)
      const text = feed.params.accountStates
        ? texts.withStates(feed, time)
        : texts.shown(view, time)
      notifier.send(feed, text, update.slot, createdAtMs)
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

  /** A transaction that never ran has no logs and is not notified, as on a validator. */
  #takeLogs(feeds: CommitmentFeeds, texts: TransactionTexts, createdAtMs: number | null): void {
    const { notifier, meters } = this.#deps
    const consider = (feed: Feed<LogsParams>, isHidden: boolean) => {
      meters.examined++
      if (isHidden || texts.update.logs === null) notifier.pass(feed)
      else notifier.send(feed, texts.logs, texts.update.slot, createdAtMs)
    }
    for (const feed of feeds.logsOfAll)
      consider(feed, texts.update.isVote && !feed.params.withVotes)
    if (feeds.logsByMention.isEmpty) return
    for (const key of texts.keys)
      for (const feed of feeds.logsByMention.find(key)) consider(feed, false)
  }
}

function takes({ params, keys: changing }: Feed<TransactionParams>, texts: TransactionTexts) {
  const { filter } = params
  const { update } = texts
  if (filter.isVote !== null && filter.isVote !== update.isVote) return false
  if (filter.isFailed !== null && filter.isFailed !== (update.err !== null)) return false
  if (filter.signature !== null && filter.signature !== texts.signatureKey) return false
  const { keys } = texts
  if (!(changing?.takes(keys, update.slot) ?? takesKeys(filter, keys))) return false
  const { instructions } = filter
  return instructions.length === 0 || runsAny(instructions, update.keys, texts.content)
}

function takesKeys(filter: TransactionFilter, keys: ReadonlySet<string>): boolean {
  if (!filter.required.every((key) => keys.has(key))) return false
  if (filter.exclude.some((key) => keys.has(key))) return false
  return filter.include.length === 0 || filter.include.some((key) => keys.has(key))
}

/** States of accounts that subscriptions of a commitment watch: a write is kept once for all. */
class WatchedStates {
  readonly #commitment: Commitment
  readonly #blocks: KnownBlocks
  #chain = new BankChain()
  #joined = new JoinedStates(this.#chain, statesBytesMax)

  constructor(commitment: Commitment, blocks: KnownBlocks) {
    this.#commitment = commitment
    this.#blocks = blocks
  }

  take(
    update: SolanaUpdate,
    watched: KeyedFeeds<Feed<TransactionParams>>,
    unwatched: Set<string>,
  ): void {
    const { slot } = update
    // What is written of an account that nobody watches is not seen.
    for (const key of unwatched) if (watched.find(key).size === 0) this.#joined.forget(key)
    unwatched.clear()
    this.#chain.take(update, () => this.#blocks.isWhole(slot))
    if (update.kind === 'account' && watched.findBytes(update.pubkey).size > 0)
      this.#joined.note(update, this.#blocks.of(slot)?.isWhole === true)
    const status = update.kind === 'slot' ? update.status : -1
    if (isCommitment(status) && status >= this.#commitment) this.#joined.endSlot(slot)
  }

  writesOf(update: TransactionUpdate): ReadonlyMap<string, JoinedWrite> {
    return this.#joined.writesOf(update)
  }

  /** What others have seen of the same updates; all of it where this has seen none of them. */
  adopt(others: WatchedStates, isFresh: boolean): void {
    if (isFresh) [this.#chain, this.#joined] = [others.#chain, others.#joined]
    else this.#joined.adopt(others.#joined)
  }
}

function accountText(info: Buffer | null): string {
  if (info === null) return 'null'
  const view = { encoding: 'base64', dataSlice: null } as const
  return uiAccountText(decodeAccountInfo(info), view, () => null)
}

/** The texts of one transaction, each made at most once however many feeds show it. */
class TransactionTexts {
  readonly update: TransactionUpdate
  readonly #shapes: Shapes
  readonly #writes: ReadonlyMap<string, JoinedWrite>
  readonly #states = new Map<JoinedWrite, string>()
  readonly #shown = new Map<string, string>()
  #signatureKey: string | null = null
  #keys: ReadonlySet<string> | null = null
  #logs: string | null = null
  #content: TransactionContent | null = null

  constructor(
    update: TransactionUpdate,
    shapes: Shapes,
    writes: ReadonlyMap<string, JoinedWrite> = new Map(),
  ) {
    this.update = update
    this.#shapes = shapes
    this.#writes = writes
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

  /** The result of a transaction notification; with the block time unless that is undefined. */
  shown(view: TransactionView, blockTime: number | null | undefined): string {
    const name = JSON.stringify({ ...view, blockTime })
    let text = this.#shown.get(name)
    if (text === undefined) {
      text = this.#show(view, blockTime)
      this.#shown.set(name, text)
    }
    return text
  }

  /** The same with the states of the accounts that the feed includes. */
  withStates({ params, keys }: Feed<TransactionParams>, blockTime: number | null | undefined) {
    const { slot } = this.update
    const shown: string[] = []
    for (const [key, write] of this.#writes)
      if (keys?.includes(key, slot) ?? params.filter.include.includes(key))
        shown.push(this.#stateText(write))
    const text = this.shown(params.view, blockTime)
    const at = this.#head(blockTime).length
    return `${text.slice(0, at)},"accountStates":[${shown.join()}]${text.slice(at)}`
  }

  #stateText(write: JoinedWrite): string {
    const known = this.#states.get(write)
    if (known !== undefined) return known
    const [before, after] = [accountText(write.before), accountText(write.after)]
    const text = `{"pubkey":"${keyText(write.pubkey)}","before":${before},"after":${after}}`
    this.#states.set(write, text)
    return text
  }

  #head(blockTime: number | null | undefined): string {
    const { slot, signature, index } = this.update
    const name = encodeBase58(signature)
    const time = blockTime === undefined ? '' : `,"blockTime":${blockTime}`
    return `{"signature":"${name}","slot":${slot},"transactionIndex":${index}${time}`
  }

  #show(view: TransactionView, blockTime: number | null | undefined): string {
    const head = this.#head(blockTime)
    if (view.details === 'none' || view.details === 'signatures') return `${head}}`
    const { content } = this
    if (!isShowable(content, view)) {
      const version = versionOf(content)
      return `${head},"transaction":null,"err":{"UnsupportedTransactionVersion":${version}}}`
    }
    return `${head},"transaction":${uiTransactionText(content, view, this.#shapes)}}`
  }
}
