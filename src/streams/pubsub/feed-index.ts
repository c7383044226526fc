// Finds the feeds that an update may concern, by what they subscribed to: account, owner,
// mention, signature.
// One set per commitment, so that an update is matched only with feeds of its commitment. The cost
// grows with the feeds that are found, not with those that exist; `examined` counts them.
import type { Commitment } from '../../base/commitment.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import type { Feed } from './feed.ts'
import type {
  AccountParams,
  BlockParams,
  LogsParams,
  ProgramParams,
  SignatureParams,
  SlotParams,
  TransactionParams,
} from './subscription-params.ts'

/** Feeds by key; a key without feeds costs one lookup. A feed may be removed while iterated. */
export class KeyedFeeds<F> {
  readonly #byKey = new Map<string, Set<F>>()
  readonly #none: ReadonlySet<F> = new Set()

  get isEmpty(): boolean {
    return this.#byKey.size === 0
  }

  add(key: string, feed: F): void {
    const feeds = this.#byKey.get(key)
    if (feeds === undefined) this.#byKey.set(key, new Set([feed]))
    else feeds.add(feed)
  }

  remove(key: string, feed: F): void {
    const feeds = this.#byKey.get(key)
    if (feeds?.delete(feed) === true && feeds.size === 0) this.#byKey.delete(key)
  }

  find(key: string): ReadonlySet<F> {
    return this.#byKey.get(key) ?? this.#none
  }

  findBytes(key: Uint8Array): ReadonlySet<F> {
    return this.#byKey.size === 0 ? this.#none : this.find(keyOf(key))
  }
}

/** The feeds of one commitment. */
export class CommitmentFeeds {
  readonly accounts = new KeyedFeeds<Feed<AccountParams>>()
  readonly programs = new KeyedFeeds<Feed<ProgramParams>>()
  readonly logsOfAll = new Set<Feed<LogsParams>>()
  readonly logsByMention = new KeyedFeeds<Feed<LogsParams>>()
  readonly signatures = new KeyedFeeds<Feed<SignatureParams>>()
  readonly blocks = new Set<Feed<BlockParams>>()
  readonly blocksByMention = new KeyedFeeds<Feed<BlockParams>>()
  readonly transactionsOfAll = new Set<Feed<TransactionParams>>()
  readonly transactionsByKey = new KeyedFeeds<Feed<TransactionParams>>()
  readonly transactionsBySignature = new KeyedFeeds<Feed<TransactionParams>>()

  /** True when some feed looks at accounts or transactions, outside of blocks. */
  get wantsItems(): boolean {
    const keyed = [this.accounts, this.programs, this.signatures, this.transactionsBySignature]
    const ofAll = this.logsOfAll.size + this.transactionsOfAll.size
    return ofAll > 0 || this.wantsKeys || keyed.some(({ isEmpty }) => !isEmpty)
  }

  /** True when some feed looks at the keys of transactions. */
  get wantsKeys(): boolean {
    return !this.logsByMention.isEmpty || !this.transactionsByKey.isEmpty
  }
}

export class FeedIndex {
  readonly #byCommitment: readonly [CommitmentFeeds, CommitmentFeeds, CommitmentFeeds] = [
    new CommitmentFeeds(),
    new CommitmentFeeds(),
    new CommitmentFeeds(),
  ]
  /** Signature subscriptions with enableReceivedNotification, at any commitment. */
  readonly received = new KeyedFeeds<Feed<SignatureParams>>()
  readonly slot = new Set<Feed<SlotParams>>()
  readonly slotsUpdates = new Set<Feed<SlotParams>>()
  readonly root = new Set<Feed<SlotParams>>()
  /** Feeds that show accounts as `jsonParsed`. */
  parsedFeeds = 0

  at(commitment: Commitment): CommitmentFeeds {
    return this.#byCommitment[commitment]
  }

  add(feed: Feed): void {
    this.#change(feed, 'add')
  }

  remove(feed: Feed): void {
    this.#change(feed, 'remove')
  }

  #change(feed: Feed, verb: 'add' | 'remove'): void {
    const { params } = feed
    const set = verb === 'add' ? 'add' : 'delete'
    if ('view' in params && params.kind !== 'block' && params.kind !== 'transaction')
      if (params.view.encoding === 'jsonParsed') this.parsedFeeds += verb === 'add' ? 1 : -1
    // Reason for the casts: `params.kind` determines the feed's type, and TypeScript does not
    // narrow the type parameter by it.
    switch (params.kind) {
      case 'account':
        this.at(params.commitment).accounts[verb](params.key, feed as Feed<AccountParams>)
        break
      case 'program':
        this.at(params.commitment).programs[verb](params.key, feed as Feed<ProgramParams>)
        break
      case 'logs': {
        const { logsByMention, logsOfAll } = this.at(params.commitment)
        if (params.mention === null) logsOfAll[set](feed as Feed<LogsParams>)
        else logsByMention[verb](params.mention, feed as Feed<LogsParams>)
        break
      }
      case 'signature':
        this.at(params.commitment).signatures[verb](params.key, feed as Feed<SignatureParams>)
        if (params.withReceived) this.received[verb](params.key, feed as Feed<SignatureParams>)
        break
      case 'block': {
        const { blocks, blocksByMention } = this.at(params.commitment)
        if (params.mention === null) blocks[set](feed as Feed<BlockParams>)
        else blocksByMention[verb](params.mention, feed as Feed<BlockParams>)
        break
      }
      case 'transaction':
        this.#changeTransaction(feed as Feed<TransactionParams>, verb)
        break
      default:
        this[params.kind][set](feed as Feed<SlotParams>)
    }
  }

  /** Under its most selective key: a signature, one key it requires, any it includes. */
  #changeTransaction(feed: Feed<TransactionParams>, verb: 'add' | 'remove'): void {
    const feeds = this.at(feed.params.commitment)
    const { signature, required, include } = feed.params.filter
    if (signature !== null) feeds.transactionsBySignature[verb](signature, feed)
    else if (required.length > 0) feeds.transactionsByKey[verb](required[0]!, feed)
    else if (include.length > 0) for (const key of include) feeds.transactionsByKey[verb](key, feed)
    else feeds.transactionsOfAll[verb === 'add' ? 'add' : 'delete'](feed)
  }
}
