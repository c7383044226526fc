// Finds the feeds that an update may concern, by what they asked for: account, owner, mention,
// signature. Thread: main.
// One set per commitment, so that an update meets only feeds of its own. What it costs to ask
// grows with the feeds that are found, not with those that exist; `examined` counts them.
import type { Commitment } from '../base/commitment.ts'
import { keyOf } from '../solana/keys.ts'
import type { Feed } from './feed.ts'
import type {
  AccountWanted,
  BlockWanted,
  LogsWanted,
  ProgramWanted,
  SignatureWanted,
  SlotWanted,
  TransactionWanted,
} from './wanted.ts'

/** Feeds by key; a key nobody asked for costs one look. */
export class KeyedFeeds<F> {
  readonly #byKey = new Map<string, F[]>()
  #none: readonly F[] = []

  get isEmpty(): boolean {
    return this.#byKey.size === 0
  }

  add(key: string, feed: F): void {
    const feeds = this.#byKey.get(key)
    if (feeds === undefined) this.#byKey.set(key, [feed])
    else feeds.push(feed)
  }

  remove(key: string, feed: F): void {
    const feeds = this.#byKey.get(key)
    const at = feeds?.indexOf(feed) ?? -1
    if (feeds === undefined || at === -1) return
    if (feeds.length === 1) this.#byKey.delete(key)
    // A fresh list: whoever walks the old one is not disturbed.
    else
      this.#byKey.set(
        key,
        feeds.filter((one) => one !== feed),
      )
  }

  find(key: string): readonly F[] {
    return this.#byKey.get(key) ?? this.#none
  }

  findBytes(key: Uint8Array): readonly F[] {
    return this.#byKey.size === 0 ? this.#none : this.find(keyOf(key))
  }
}

/** The feeds of one commitment. */
export class CommitmentFeeds {
  readonly accounts = new KeyedFeeds<Feed<AccountWanted>>()
  readonly programs = new KeyedFeeds<Feed<ProgramWanted>>()
  readonly logsOfAll = new Set<Feed<LogsWanted>>()
  readonly logsByMention = new KeyedFeeds<Feed<LogsWanted>>()
  readonly signatures = new KeyedFeeds<Feed<SignatureWanted>>()
  readonly blocks = new Set<Feed<BlockWanted>>()
  readonly blocksByMention = new KeyedFeeds<Feed<BlockWanted>>()
  readonly transactionsOfAll = new Set<Feed<TransactionWanted>>()
  readonly transactionsByKey = new KeyedFeeds<Feed<TransactionWanted>>()
  readonly transactionsBySignature = new KeyedFeeds<Feed<TransactionWanted>>()

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
  /** Signatures whose subscribers want to hear of the first sight of them, at any commitment. */
  readonly received = new KeyedFeeds<Feed<SignatureWanted>>()
  readonly slot = new Set<Feed<SlotWanted>>()
  readonly slotsUpdates = new Set<Feed<SlotWanted>>()
  readonly root = new Set<Feed<SlotWanted>>()
  /** Feeds that show accounts as `jsonParsed`. */
  parsedFeeds = 0

  at(commitment: Commitment): CommitmentFeeds {
    return this.#byCommitment[commitment]
  }

  add(feed: Feed): void {
    this.#place(feed, 'add')
  }

  remove(feed: Feed): void {
    this.#place(feed, 'remove')
  }

  #place(feed: Feed, verb: 'add' | 'remove'): void {
    const { wanted } = feed
    const set = verb === 'add' ? 'add' : 'delete'
    if ('view' in wanted && wanted.kind !== 'block' && wanted.kind !== 'transaction')
      if (wanted.view.encoding === 'jsonParsed') this.parsedFeeds += verb === 'add' ? 1 : -1
    // Reason for the casts: `wanted.kind` tells which feed it is, and TypeScript does not narrow
    // the type parameter by it.
    switch (wanted.kind) {
      case 'account':
        this.at(wanted.commitment).accounts[verb](wanted.key, feed as Feed<AccountWanted>)
        break
      case 'program':
        this.at(wanted.commitment).programs[verb](wanted.key, feed as Feed<ProgramWanted>)
        break
      case 'logs': {
        const { logsByMention, logsOfAll } = this.at(wanted.commitment)
        if (wanted.mention === null) logsOfAll[set](feed as Feed<LogsWanted>)
        else logsByMention[verb](wanted.mention, feed as Feed<LogsWanted>)
        break
      }
      case 'signature':
        this.at(wanted.commitment).signatures[verb](wanted.key, feed as Feed<SignatureWanted>)
        if (wanted.wantsReceived) this.received[verb](wanted.key, feed as Feed<SignatureWanted>)
        break
      case 'block': {
        const { blocks, blocksByMention } = this.at(wanted.commitment)
        if (wanted.mention === null) blocks[set](feed as Feed<BlockWanted>)
        else blocksByMention[verb](wanted.mention, feed as Feed<BlockWanted>)
        break
      }
      case 'transaction':
        this.#placeTransaction(feed as Feed<TransactionWanted>, verb)
        break
      default:
        this[wanted.kind][set](feed as Feed<SlotWanted>)
    }
  }

  /** Under the rarest thing it asks for: a signature, one key it requires, any it includes. */
  #placeTransaction(feed: Feed<TransactionWanted>, verb: 'add' | 'remove'): void {
    const feeds = this.at(feed.wanted.commitment)
    const { signature, required, include } = feed.wanted.filter
    if (signature !== null) feeds.transactionsBySignature[verb](signature, feed)
    else if (required.length > 0) feeds.transactionsByKey[verb](required[0]!, feed)
    else if (include.length > 0) for (const key of include) feeds.transactionsByKey[verb](key, feed)
    else feeds.transactionsOfAll[verb === 'add' ? 'add' : 'delete'](feed)
  }
}
