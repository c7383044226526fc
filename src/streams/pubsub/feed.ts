// One distinct subscription and all its subscribers.
// Its number is the subscription id of all its subscribers, as on a validator: a notification is
// therefore the same bytes for all of them, encoded once and published under the feed's topic.
import type { Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { programsOf } from '../../chain/solana/instruction-filter.ts'
import type { Customer, Session } from './chain.ts'
import type { ChangingKeys, IndexedKeys } from './key-changes.ts'
import {
  type AccountParams,
  type BlockParams,
  hasCursor,
  hasRetractions,
  type LogsParams,
  type ProgramParams,
  paramsText,
  type SignatureParams,
  type SlotParams,
  type SubscriptionParams,
  type TokenOwnerParams,
  type TransactionParams,
} from './read-params.ts'

/** As many as the hub keeps; a healthy chain has about 33 that are not finalized. */
const SENT_SLOTS_MAX = 1_024

/**
 * Hands one message to every socket that joined the topic, at the end of the event-loop turn. Where
 * those are named, it is sent to them at once.
 */
export type Publish = (topic: string, message: Uint8Array, atOnce?: Iterable<Session>) => void

/** One connection's share in a feed. */
export interface FeedShare {
  /** The feed's totals up to which the connection's usage is metered. */
  meteredMessages: number
  meteredBytes: number
  /** It gets what was published earlier first, and joins then. */
  isReplaying: boolean
  replay: ShareReplay | null
}

/** What sends a connection what was published earlier. */
export interface ShareReplay {
  readonly index: FeedIndex
  /** The newest slot of which something was read that keys select; -1 before the first. */
  readonly newestSlot: number
  /** The connection has its subscription under another feed. */
  moveTo(feed: Feed, share: FeedShare): void
}

interface FeedOptions<W extends SubscriptionParams> {
  readonly id: number
  readonly params: W
  readonly text: string
  readonly topic: string
  /** Takes all connections of a customer out. */
  evict(feed: Feed, budget: Customer): void
  /** A connection gets what is published from now on, or does not any more. */
  turn(feed: Feed, session: Session, isLive: boolean): void
}

export class Feed<W extends SubscriptionParams = SubscriptionParams> {
  readonly id: number
  readonly params: W
  /** The params as text, by which the registry finds the feed; another one when keys changed. */
  text: string
  readonly topic: string
  /** Of a subscription of one connection that has changed its keys; they replace the params'. */
  keys: ChangingKeys | null = null
  readonly shares = new Map<Session, FeedShare>()
  messages = 0
  bytes = 0
  /** Up to which connections were checked. */
  checkedBytes = 0
  /** Slots that notifications at processed were of, until they are finalized; else null. */
  readonly sentSlots: Set<number> | null
  /** Updates it was compared with in vain. */
  passed = 0
  /** True once its last notification was sent and every subscriber removed. */
  isOver = false
  readonly #opening: string
  readonly #closing: string
  readonly #options: FeedOptions<W>
  liveCount = 0
  /** Connections of each customer that have it, by the customer's budget. */
  readonly #customers = new Map<Customer, number>()
  #payers = this.#customers.keys()

  constructor(options: FeedOptions<W>) {
    const { id, params, text, topic } = options
    this.id = id
    this.params = params
    this.text = text
    this.topic = topic
    this.#options = options
    this.sentSlots = hasRetractions(params) ? new Set() : null
    this.#opening = `{"jsonrpc":"2.0","method":"${params.kind}Notification","params":{"result":`
    this.#closing = `,"subscription":${id}`
  }

  /** The notification around a result that is JSON already. */
  message(result: string, cursor?: string): Buffer {
    const end = cursor === undefined ? '}}' : `,"cursor":"${cursor}"}}`
    return Buffer.from(this.#opening + result + this.#closing + end)
  }

  /** Counts a message that all subscribers get. */
  count(message: Uint8Array): void {
    this.messages++
    this.bytes += message.length
  }

  /** A notification is of that slot. */
  remember(slot: number): void {
    const { sentSlots } = this
    if (sentSlots === null) return
    sentSlots.add(slot)
    if (sentSlots.size > SENT_SLOTS_MAX) sentSlots.delete(sentSlots.values().next().value!)
  }

  /** Gets what is published from now on, or from `caughtUp` on. */
  join(session: Session, isReplaying = false): void {
    assert(!this.isOver && !this.shares.has(session), 'a connection joins an open feed once')
    const { messages: meteredMessages, bytes: meteredBytes } = this
    const share = { meteredMessages, meteredBytes, isReplaying, replay: null }
    this.shares.set(session, share)
    this.#customers.set(session.budget, (this.#customers.get(session.budget) ?? 0) + 1)
    if (!isReplaying) this.#turn(session, 1)
  }

  /** The connection has got everything that was published before. */
  caughtUp(session: Session, share: FeedShare): void {
    assert(share.isReplaying && this.shares.get(session) === share, 'it joins once')
    this.settle(session, share)
    share.isReplaying = false
    share.replay = null
    this.#turn(session, 1)
  }

  /** The connection gets what follows from a replay, until it has caught up. */
  fallBehind(session: Session, share: FeedShare): void {
    assert(!share.isReplaying && this.shares.get(session) === share, 'it leaves once')
    this.settle(session, share)
    share.isReplaying = true
    this.#turn(session, -1)
  }

  /** The connections that get what is published now. */
  *liveSessions(): Iterable<Session> {
    for (const [session, { isReplaying }] of this.shares) if (!isReplaying) yield session
  }

  hasCustomer(budget: Customer): boolean {
    return this.#customers.has(budget)
  }

  /** The customers in turn, so that all pay alike and each message is paid once. */
  nextPayer(): Customer | null {
    let next = this.#payers.next()
    if (next.done === true) {
      this.#payers = this.#customers.keys()
      next = this.#payers.next()
    }
    return next.value ?? null
  }

  /** Takes a customer out, with a last message to each of its connections. */
  evict(budget: Customer, message: string): void {
    for (const session of this.shares.keys()) if (session.budget === budget) session.notify(message)
    this.#options.evict(this, budget)
  }

  /** Meters what a connection got since it was last metered. */
  settle(session: Session, share: FeedShare): void {
    if (share.meteredMessages === this.messages) return
    assert(share.meteredMessages < this.messages, 'a message is metered once')
    assert(share.meteredBytes <= this.bytes, 'the bytes of a feed only grow')
    if (!share.isReplaying) {
      session.budget.meter('notifications', this.messages - share.meteredMessages)
      session.budget.meter('bytes', this.bytes - share.meteredBytes)
    }
    share.meteredMessages = this.messages
    share.meteredBytes = this.bytes
  }

  /** Takes a connection out. */
  drop(session: Session): void {
    const share = this.shares.get(session)
    if (share === undefined) return
    this.settle(session, share)
    this.shares.delete(session)
    const left = (this.#customers.get(session.budget) ?? 0) - 1
    assert(left >= 0, 'the connections of a customer are counted')
    if (left === 0) this.#customers.delete(session.budget)
    else this.#customers.set(session.budget, left)
    if (!share.isReplaying) this.#turn(session, -1)
  }

  #turn(session: Session, change: 1 | -1): void {
    this.liveCount += change
    assert(this.liveCount >= 0, 'the connections that get what is published are counted')
    this.#options.turn(this, session, change === 1)
    if (change === 1) session.join(this.topic)
    else session.leave(this.topic)
  }
}

// Finds the feeds that an update may concern, by what they subscribed to: account, owner,
// mention, signature.
// One set per commitment, so that an update is matched only with feeds of its commitment. The cost
// grows with the feeds that are found, not with those that exist; `examined` counts them.

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

type ByCommitment<T> = readonly [processed: T, confirmed: T, finalized: T]

export function byCommitment<T>(make: () => T): ByCommitment<T> {
  return [make(), make(), make()]
}

/** The feeds of one commitment. */
export class CommitmentFeeds {
  readonly accounts = new KeyedFeeds<Feed<AccountParams>>()
  readonly programs = new KeyedFeeds<Feed<ProgramParams>>()
  readonly tokenOwners = new KeyedFeeds<Feed<TokenOwnerParams>>()
  readonly logsOfAll = new Set<Feed<LogsParams>>()
  readonly logsByMention = new KeyedFeeds<Feed<LogsParams>>()
  readonly signatures = new KeyedFeeds<Feed<SignatureParams>>()
  readonly blocks = new Set<Feed<BlockParams>>()
  readonly blocksByMention = new KeyedFeeds<Feed<BlockParams>>()
  readonly transactionsOfAll = new Set<Feed<TransactionParams>>()
  readonly transactionsByKey = new KeyedFeeds<Feed<TransactionParams>>()
  readonly transactionsBySignature = new KeyedFeeds<Feed<TransactionParams>>()
  /** Those with the states of accounts, by account; and accounts that lost a feed since. */
  readonly watched = new KeyedFeeds<Feed<TransactionParams>>()
  readonly unwatched = new Set<string>()

  /** True when some feed looks at accounts or transactions, outside of blocks. */
  get wantsItems(): boolean {
    const ofAccounts = [this.accounts, this.programs, this.tokenOwners]
    const keyed = [...ofAccounts, this.signatures, this.transactionsBySignature]
    const ofAll = this.logsOfAll.size + this.transactionsOfAll.size
    return ofAll > 0 || this.wantsKeys || keyed.some(({ isEmpty }) => !isEmpty)
  }

  /** True when some feed looks at the keys of transactions. */
  get wantsKeys(): boolean {
    return !this.logsByMention.isEmpty || !this.transactionsByKey.isEmpty
  }
}

export class FeedIndex {
  readonly #byCommitment = byCommitment(() => new CommitmentFeeds())
  /** Signature subscriptions with enableReceivedNotification, at any commitment. */
  readonly received = new KeyedFeeds<Feed<SignatureParams>>()
  readonly slot = new Set<Feed<SlotParams>>()
  readonly slotsUpdates = new Set<Feed<SlotParams>>()
  readonly root = new Set<Feed<SlotParams>>()
  readonly all = new Set<Feed>()
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
    this.all[set](feed)
    if ('view' in params && params.kind !== 'block' && params.kind !== 'transaction')
      if (params.view.encoding === 'jsonParsed') this.parsedFeeds += verb === 'add' ? 1 : -1
    assert(this.parsedFeeds >= 0, 'a feed is removed as it was added')
    // Reason for the casts: `params.kind` determines the feed's type, and TypeScript does not
    // narrow the type parameter by it.
    switch (params.kind) {
      case 'account':
      case 'program':
      case 'tokenOwner':
        this.at(params.commitment)[`${params.kind}s`][verb](params.key, feed as never)
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

  /** The keys by which a transaction feed of this index is found have changed. */
  changeKeys(feed: Feed<TransactionParams>, verb: 'add' | 'remove', keys: IndexedKeys): void {
    const { transactionsByKey, watched, unwatched } = this.at(feed.params.commitment)
    for (const key of keys.indexed) transactionsByKey[verb](key, feed)
    if (feed.params.accountStates !== true) return
    for (const key of keys.included) {
      watched[verb](key, feed)
      if (verb === 'remove') unwatched.add(key)
    }
  }

  /** Under its most selective key: a signature, one it requires, any it includes, a program. */
  #changeTransaction(feed: Feed<TransactionParams>, verb: 'add' | 'remove'): void {
    const feeds = this.at(feed.params.commitment)
    const { signature } = feed.params.filter
    const keys = signature === null ? selectiveKeys(feed) : null
    const included = feed.keys?.included ?? feed.params.filter.include
    this.changeKeys(feed, verb, { indexed: keys ?? [], included })
    if (signature !== null) feeds.transactionsBySignature[verb](signature, feed)
    else if (keys === null) feeds.transactionsOfAll[verb === 'add' ? 'add' : 'delete'](feed)
  }
}

function selectiveKeys({ params, keys }: Feed<TransactionParams>): Iterable<string> | null {
  const { required, include, instructions } = params.filter
  // Null where these lists are no condition, which they do not become.
  const changing = keys?.indexed ?? null
  if (changing !== null) return changing
  if (required.length > 0) return required.slice(0, 1)
  if (include.length > 0) return include
  return instructions.length > 0 ? programsOf(instructions) : null
}

// Tracks which connection is subscribed to which feed; equal params share one feed.
// One for each engine.
//
//   session --subscribe(params)--> feed of those params (created, indexed) --join--> topic
//   unsubscribe, end of the connection, last notification --> drop --> an empty feed is removed

/** As many as a validator takes. */
const SUBSCRIPTIONS_MAX = 1_000_000

/** By id. */
class SessionFeeds extends Map<number, Feed> {
  /** Those that have a cursor and get what is published. */
  readonly liveCursors = new Set<Feed>()
}

/** Numbers of feeds; the engines of an endpoint share them, because topics are the endpoint's. */
export class Ids {
  #last = 0

  take(): number {
    return ++this.#last
  }
}

export type Refused =
  | 'chain-down'
  | 'connection-full'
  | 'customer-full'
  | 'customer-over-rate'
  | 'node-full'
  | 'subscribed'

export class FeedRegistry {
  readonly indexOf: (params: SubscriptionParams) => FeedIndex
  readonly #ids: Ids
  readonly #feeds = new Map<string, Feed>()
  readonly #sessions = new Map<Session, SessionFeeds>()
  /** Subscriptions. */
  count = 0

  constructor(indexOf: (params: SubscriptionParams) => FeedIndex, ids: Ids) {
    this.indexOf = indexOf
    this.#ids = ids
  }

  /** Distinct ones among them. */
  get distinct(): number {
    return this.#feeds.size
  }

  /** A connection that has an equal subscription gets that one: there is one to unsubscribe. */
  subscribe(session: Session, params: SubscriptionParams, isReplaying = false): Feed | Refused {
    const own = this.#feedsOf(session)
    let text = paramsText(params)
    let known = this.#feeds.get(text)
    if (known?.shares.has(session) === true) return isReplaying ? 'subscribed' : known
    if (known !== undefined && own.has(known.id)) {
      // It has changed the keys of that one, whose id its own subscription has.
      text = this.#ownText()
      known = undefined
    }
    if (own.size >= session.budget.plan.subscriptionsPerConnection) return 'connection-full'
    if (this.count >= SUBSCRIPTIONS_MAX) return 'node-full'
    if (known === undefined || !known.hasCustomer(session.budget)) {
      if (session.budget.notificationWaitMs() > 0) return 'customer-over-rate'
      if (!session.budget.enter('distinctSubscriptions')) return 'customer-full'
    }
    const feed = known ?? this.#open(params, text)
    feed.join(session, isReplaying)
    own.set(feed.id, feed)
    this.count++
    assert(feed.shares.size > 0 && this.count >= this.#feeds.size, 'every feed has subscribers')
    return feed
  }

  /** Undefined when the connection has no such subscription. */
  find(session: Session, id: number): Feed | undefined {
    return this.#sessions.get(session)?.get(id)
  }

  /** Whether the connection has subscribed, and is open. */
  has(session: Session): boolean {
    return this.#sessions.has(session)
  }

  /** The subscriptions of a connection that have a cursor and get what is published. */
  liveCursors(session: Session): Feed[] {
    return [...(this.#sessions.get(session)?.liveCursors ?? [])]
  }

  /** A feed with the same id and params that no other connection has: its keys can change. */
  own<W extends SubscriptionParams>(session: Session, feed: Feed<W>): Feed<W> | Refused {
    if (feed.keys !== null) return feed
    const text = this.#ownText()
    if (feed.shares.size === 1) {
      this.#feeds.delete(feed.text)
      feed.text = text
      this.#feeds.set(text, feed)
      return feed
    }
    const { budget } = session
    // Where no other connection of the customer stays on the feed, one takes the other's place.
    const isOther = (one: Session) => one !== session && one.budget === budget
    const isOneMore = [...feed.shares.keys()].some(isOther)
    if (isOneMore && !budget.enter('distinctSubscriptions')) return 'customer-full'
    const own = this.#open(feed.params, text, { id: feed.id, topic: text })
    const before = feed.shares.get(session)!
    // Before it leaves the other: what was published there and not sent yet is lost otherwise.
    own.join(session, before.isReplaying)
    const share = own.shares.get(session)!
    share.replay = before.replay
    before.replay?.moveTo(own, share)
    for (const slot of feed.sentSlots ?? []) own.remember(slot)
    feed.drop(session)
    this.#feedsOf(session).set(own.id, own)
    return own
  }

  /** No text of params. */
  #ownText(): string {
    return `own ${this.#ids.take()}`
  }

  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean {
    const feed = this.find(session, id)
    if (feed === undefined) return false
    this.#remove(session, feed)
    return true
  }

  /** The last notification was sent: removes all subscribers. */
  finish(feed: Feed): void {
    for (const session of [...feed.shares.keys()]) this.#remove(session, feed)
    feed.isOver = true
  }

  #open<W extends SubscriptionParams>(
    params: W,
    text: string,
    named?: { readonly id: number; readonly topic: string },
  ): Feed<W> {
    const id = named?.id ?? this.#ids.take()
    const feed: Feed<W> = new Feed({
      ...{ id, params, text, topic: named?.topic ?? String(id) },
      evict: (one, budget) => {
        for (const session of [...one.shares.keys()])
          if (session.budget === budget) this.#remove(session, one)
      },
      turn: (one, session, isLive) => {
        if (one.liveCount === (isLive ? 1 : 0)) this.indexOf(params)[isLive ? 'add' : 'remove'](one)
        if (hasCursor(params)) this.#feedsOf(session).liveCursors[isLive ? 'add' : 'delete'](one)
      },
    })
    this.#feeds.set(text, feed)
    return feed
  }

  #feedsOf(session: Session): SessionFeeds {
    const known = this.#sessions.get(session)
    if (known !== undefined) return known
    const own = new SessionFeeds()
    this.#sessions.set(session, own)
    session.onEnd(() => {
      for (const feed of [...own.values()]) this.#remove(session, feed)
      this.#sessions.delete(session)
    })
    return own
  }

  #remove(session: Session, feed: Feed): void {
    feed.drop(session)
    if (!feed.hasCustomer(session.budget)) session.budget.leave('distinctSubscriptions')
    const isRemoved = this.#feedsOf(session).delete(feed.id)
    this.count--
    assert(isRemoved && this.count >= 0, 'a subscription is counted and removed once')
    if (feed.shares.size > 0) return
    const isKnown = this.#feeds.delete(feed.text)
    assert(isKnown && this.count >= this.#feeds.size, 'an empty feed is removed once')
  }
}
