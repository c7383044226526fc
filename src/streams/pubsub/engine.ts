// Serves the subscriptions to one chain from its stream of updates.
//
//   subscribe -> registry -> feed of those params -> index by account, owner, mention, ...
//   hub -> (commitment, update) -> index -> matching feeds -> text, once each -> notifier
//     a slot's content at confirmed and finalized: in slices, after what is sent of its status
//   subscribe with resume -> log, from the cursor on, to one connection -> the live feed
//   connection too slow -> the same, from where it is
import type { Clock } from '../../base/clock.ts'
import { allCommitments, Commitment, commitmentNames } from '../../base/commitment.ts'
import { assert, codesOf } from '../../base/errors.ts'
import {
  type Answer,
  encodedText,
  failure,
  type RpcError,
  rpcErrors,
} from '../../base/jsonrpc/build.ts'
import type { Method, MethodTable } from '../../base/jsonrpc/serve.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { KnownBlocks } from '../../chain/solana/known-blocks.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import { watchedMax } from '../geyser/joined-states.ts'
import { AccountNotifications } from './account-notifications.ts'
import { BlockNotifications, SlotNotifications } from './block-notifications.ts'
import type { PubsubChain, Session } from './chain.ts'
import { type PubsubCursor, readCursor } from './cursor.ts'
import { CursorFeeds, isReached, RetractingFeeds } from './cursor-feeds.ts'
import { type Feed, FeedIndex, FeedRegistry, type Ids, type Refused } from './feed.ts'
import { CLEANED_UP, FeedReplays, type ResumeProblem } from './feed-replay.ts'
import { ChangingKeys } from './key-changes.ts'
import { type Notifier, overRate, type SubscriptionMeters } from './notifier.ts'
import {
  hasCursor,
  hasMoreIn,
  hasRetractions,
  type KeysChange,
  readId,
  readKeysChange,
  readParams,
  resumeIn,
  type SignatureParams,
  type SubscriptionParams,
  type TransactionParams,
  topics,
} from './read-params.ts'
import { SignatureNotifications } from './signature-notifications.ts'
import { TransactionNotifications } from './transaction-notifications.ts'

interface PubsubEngineDeps {
  readonly chain: PubsubChain
  readonly ids: Ids
  readonly notifier: Notifier
  readonly meters: SubscriptionMeters
  readonly clock: Clock
  readonly log: Log
}

/** Why keys were not changed. */
type KeysProblem =
  | { readonly kind: 'unknown' }
  | { readonly kind: 'invalid'; readonly why: string }
  | { readonly kind: 'refused'; readonly reason: Refused }

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
  /** What was published at confirmed and finalized. */
  readonly #sliced: SlicedUpdates
  readonly #unlisten: () => void
  /** By commitment the newest slot of which something was published that keys select. */
  readonly #newest: [number, number, number] = [-1, -1, -1]
  /** Subscriptions with changes of keys that are not settled. */
  readonly #changing = new Set<Feed<TransactionParams>>()

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
    const blocks = allCommitments.map(
      (commitment) => new KnownBlocks(commitment, (slot) => chain.hub.keptOf(slot)),
    )
    const blocksOf = (commitment: Commitment) => blocks[commitment]!
    this.#transactions = new TransactionNotifications({ ...shared, shapes, blocksOf })
    this.#blocks = new BlockNotifications({ ...shared, shapes })
    const rootAtStart = () => chain.slot(Commitment.finalized)
    this.#slots = new SlotNotifications({ ...shared, rootAtStart })
    const reads = { clock, readAccounts, rootAtStart, shapes, blocksOf }
    this.#retracting = new RetractingFeeds({ ...shared, ...reads, index: retracting })
    this.#cursors = new CursorFeeds({ ...shared, ...reads, index: cursors })
    this.#replays = new FeedReplays({
      ...{ ...reads, meters, chain, registry },
      live: this.#cursors,
      catchUp: () => this.catchUp(),
    })
    this.#prime()
    const throttle = new LogThrottle()
    const take = (commitment: Commitment, update: SolanaUpdate) => {
      try {
        this.#take(commitment, update)
      } catch (error) {
        // A bug of ours must not reach the stream or its other listeners.
        if (throttle.allows(update.kind, clock.monotonicMs()))
          log.error('notification failed', { kind: update.kind, reason: String(error) })
      }
    }
    this.#sliced = new SlicedUpdates(take)
    const unwatch = chain.hub.onRestart(() => {
      this.catchUp()
      for (const known of blocks) known.restart()
      this.#restart()
    })
    const unlisten = chain.hub.listen(
      (commitment, update) => {
        if (commitment === Commitment.processed) {
          take(commitment, update)
          return
        }
        blocksOf(commitment).note(update.slot)
        this.#sliced.add(commitment, update, chain.hub.newestSlot ?? 0)
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

  /** Subscribes, and sends what follows the cursor first; held back until keys were changed. */
  resume(
    session: Session,
    params: SubscriptionParams,
    cursor: PubsubCursor,
    isHeld = false,
  ): Feed | Refused | ResumeProblem {
    if (!this.#chain.isUp()) return 'chain-down'
    const problem = this.#replays.problemWith(cursor)
    if (problem !== null) return problem
    const feed = this.registry.subscribe(session, params, true)
    if (typeof feed !== 'string') this.#replays.start(session, feed, cursor, isHeld)
    return feed
  }

  /** Adds and removes keys of a subscription from the next slot on; null when that was done. */
  changeKeys(session: Session, { id, delta, hasMore }: KeysChange): KeysProblem | null {
    const found = this.registry.find(session, id)
    if (found === undefined) return { kind: 'unknown' }
    const { kind } = found.params
    if (kind !== 'transaction')
      return {
        kind: 'invalid',
        why: `subscription ${id} is of ${kind}Subscribe, which has no lists`,
      }
    // Reason for the cast: the kind is checked above.
    const feed = found as Feed<TransactionParams>
    const keys = feed.keys ?? new ChangingKeys(feed.params.filter)
    const watched = feed.params.accountStates === true ? watchedMax : undefined
    const why = keys.problemWith(delta, session.budget.plan.filterKeys, watched)
    const own = why === null ? this.registry.own(session, feed) : null
    if (own === null || typeof own === 'string') {
      // The last one: what was held for it goes on with the keys that it has.
      if (!hasMore) this.#replays.release(session, feed)
      return own === null ? { kind: 'invalid', why: why! } : { kind: 'refused', reason: own }
    }
    const { replay } = own.shares.get(session)!
    const index = replay?.index ?? this.registry.indexOf(own.params)
    if (own.keys === null) {
      index.remove(own)
      own.keys = keys
      index.add(own)
    }
    const newestSlot = replay?.newestSlot ?? this.#newest[own.params.commitment]
    index.changeKeys(own, 'add', keys.change(delta, newestSlot + 1))
    this.#changing.add(own)
    if (!hasMore) this.#replays.release(session, own)
    return null
  }

  /** Whether the connection has subscriptions that can continue from what is kept. */
  canFallBehind(session: Session): boolean {
    return this.#liveCursors(session).length > 0
  }

  /**
   * Lets the subscriptions with cursors of a connection that reads too slowly continue from what is
   * kept; false when it has none. Only between two updates: within one some have it and some not.
   */
  fallBehind(session: Session): boolean {
    const feeds = this.#liveCursors(session)
    const from = { newest: this.#newest, era: this.#sliced.oldestEra }
    if (feeds.length > 0) this.#replays.fallBehind(session, feeds, from)
    return feeds.length > 0
  }

  #liveCursors(session: Session): Feed[] {
    return this.registry.liveCursors(session).filter((feed) => this.#cursors.canLeave(feed))
  }

  /** Takes what was published and waits for its slice. */
  catchUp(): void {
    this.#sliced.finish()
  }

  /** False when the connection has no such subscription. */
  unsubscribe(session: Session, id: number): boolean {
    return this.registry.unsubscribe(session, id)
  }

  stop(): void {
    this.#unlisten()
    this.catchUp()
    this.#replays.stop()
  }

  /** The engine starts with the first connection: what the newest slot had before is known. */
  #prime(): void {
    const { hub } = this.#chain
    this.#cursors.startLive((commitment) => hub.newestAt(commitment), hub.firstContent)
    const open = hub.replay(Commitment.processed, hub.newestSlot ?? 0)
    for (let update = open?.next() ?? null; update !== null; update = open!.next()) {
      this.#cursors.take(Commitment.processed, update)
      if (update.kind === 'transaction') this.#signatures.take(Commitment.processed, update)
      else if (update.kind === 'slot') this.#signatures.takeSlot(update)
    }
  }

  /** The subscriptions stay: their next notifications are of the chain that begins. */
  #restart(): void {
    this.#accounts.restart()
    this.#transactions.restart()
    this.#signatures.restart()
    this.#slots.restart()
    this.#retracting.restart()
    this.#cursors.restart()
    for (const commitment of allCommitments) {
      this.#settle(commitment, Number.POSITIVE_INFINITY)
      this.#newest[commitment] = -1
    }
  }

  #advance(commitment: Commitment, update: SolanaUpdate): void {
    if (update.slot <= this.#newest[commitment] || !isReached(commitment, update)) return
    this.#newest[commitment] = update.slot
    this.#settle(commitment, update.slot)
  }

  #settle(commitment: Commitment, newestSlot: number): void {
    for (const feed of this.#changing) {
      if (feed.params.commitment !== commitment) continue
      const [share] = feed.shares.values()
      // A replay settles them by what it has read.
      if (share?.isReplaying === true) continue
      const gone = feed.keys!.settle(newestSlot)
      if (share !== undefined) this.registry.indexOf(feed.params).changeKeys(feed, 'remove', gone)
      if (share === undefined || feed.keys!.isSettled) this.#changing.delete(feed)
    }
  }

  #take(commitment: Commitment, update: SolanaUpdate): void {
    const isProcessed = commitment === Commitment.processed
    this.#advance(commitment, update)
    // Slots first: all accounts of the slot may follow.
    if (isProcessed && update.kind === 'slot') this.#slots.take(update)
    this.#cursors.take(commitment, update)
    if (isProcessed) this.#retracting.take(update)
    this.#transactions.track(commitment, update)
    switch (update.kind) {
      case 'account':
        if (!update.isStartup) this.#accounts.take(commitment, update)
        break
      case 'transaction':
        this.#accounts.takeTransaction(commitment, update)
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

// The subscribe and unsubscribe methods of PubSub, and the one that changes keys.
// Subscribing answers with the id, then notifications follow; the answer always comes first.

/** `engineOf` returns the engine that serves a connection. */
export function subscriptionMethods<S extends Session>(
  engineOf: (session: S) => PubsubEngine,
): MethodTable<S> {
  const table: Record<string, Method<S>> = {
    transactionUpdate: ({ params }, session) => {
      const change = readKeysChange(params)
      if ('code' in change) return failure(change)
      const problem = engineOf(session).changeKeys(session, change)
      return problem === null ? DONE : notChanged(problem, session)
    },
    voteSubscribe: () => failure(NO_VOTES),
    voteUnsubscribe: () => failure(NO_VOTES),
  }
  for (const topic of topics) {
    table[`${topic}Subscribe`] = (call, session) => {
      const params = readParams(topic, call.params)
      if ('code' in params) return failure(params)
      const resume = readResume(resumeIn(topic, call.params), params)
      if (resume !== null && 'code' in resume) return failure(resume)
      const engine = engineOf(session)
      const isHeld = topic === 'transaction' && hasMoreIn(call.params)
      const feed =
        resume === null
          ? engine.subscribe(session, params)
          : engine.resume(session, params, resume, isHeld)
      if (typeof feed === 'string') return refused(feed, session)
      return 'kind' in feed ? failure(notResumed(feed)) : encodedText(String(feed.id))
    }
    table[`${topic}Unsubscribe`] = ({ params }, session) => {
      const id = readId(params)
      if (id === null) return failure(rpcErrors.invalidParams)
      return engineOf(session).unsubscribe(session, id) ? DONE : failure(UNKNOWN_ID)
    }
  }
  return table
}

const DONE = encodedText('true')
const UNKNOWN_ID: RpcError = { code: -32602, message: 'Invalid subscription id.' }
const NO_VOTES: RpcError = {
  code: rpcErrors.unknownMethod.code,
  message: 'Method not supported: the geyser stream carries no votes',
}
const NODE_FULL: RpcError = {
  code: -32603,
  message: 'Internal Error: Subscription refused. Node subscription limit reached',
}

/** Null where nothing is resumed. */
function readResume(given: unknown, params: SubscriptionParams): PubsubCursor | RpcError | null {
  if (given === undefined || !hasCursor(params)) return null
  const cursor = typeof given === 'string' ? readCursor(given) : 'malformed'
  if (cursor === 'malformed') return invalidCursor(cursor, 'the cursor is malformed')
  if (cursor === 'version') return invalidCursor(cursor, 'the cursor is of another version')
  const own = 'commitment' in params ? params.commitment : null
  if (cursor.topic === params.kind && cursor.commitment === own) return cursor
  const level = cursor.commitment === null ? '' : ` at ${commitmentNames[cursor.commitment]}`
  return invalidCursor('kind', `the cursor is of ${cursor.topic}Subscribe${level}`)
}

function invalidCursor(reason: string, why: string): RpcError {
  const { code } = rpcErrors.invalidParams
  return { code, message: `Invalid params: ${why}`, data: { reason: `cursor-${reason}` } }
}

function notResumed(problem: ResumeProblem): RpcError {
  switch (problem.kind) {
    case 'too-old': {
      const { oldestSlot } = problem
      const message = `The slots after the cursor are not kept. First available slot: ${oldestSlot}`
      return { code: CLEANED_UP, message, data: { reason: 'cursor-too-old', oldestSlot } }
    }
    case 'ahead':
      return invalidCursor('ahead', 'the cursor is of slots that this chain has not reached')
    case 'unavailable': {
      const data = { reason: 'replay-unavailable' }
      return { code: codesOf.unavailable.jsonrpc, message: 'Replay is not available', data }
    }
  }
}

function notChanged(problem: KeysProblem, session: Session): Answer {
  if (problem.kind === 'unknown') return failure(UNKNOWN_ID)
  if (problem.kind === 'refused') return refused(problem.reason, session)
  const { code } = rpcErrors.invalidParams
  return failure({ code, message: `Invalid params: failed to change keys: ${problem.why}` })
}

function refused(reason: Refused, { budget }: Session): Answer {
  const { subscriptionsPerConnection: perConnection, distinctSubscriptions } = budget.plan
  switch (reason) {
    case 'chain-down':
      return failure(rpcErrors.nodeUnhealthy)
    case 'node-full':
      return failure(NODE_FULL)
    case 'subscribed':
      return failure(invalidCursor('in-use', 'the connection has this subscription already'))
    case 'connection-full':
      return exhausted(`the plan has ${perConnection} subscriptions on one connection`, {
        reason: 'subscriptions',
        limit: perConnection,
      })
    case 'customer-full':
      return exhausted(`the plan has ${distinctSubscriptions} distinct subscriptions`, {
        reason: 'distinct-subscriptions',
        limit: distinctSubscriptions,
      })
    case 'customer-over-rate':
      return exhausted('notifications cost more than the plan allows', overRate(budget))
  }
}

function exhausted(why: string, data: object): Answer {
  return failure({ code: codesOf.exhausted.jsonrpc, message: `Too many requests: ${why}`, data })
}

// Takes updates in their order: a few at once, the rest in slices of a millisecond, between which
// the thread serves others. All that a slot brings to a commitment is published in one turn, and
// is a tenth of a second of work for a reader of everything.

/** Updates of a slot that are taken where they are published. */
const AT_ONCE = 64
const SLICE_MS = 1
/** A slot has about 10,000; with more the oldest are taken at once. */
const WAITING_MAX = 65_536

type Take = (commitment: Commitment, update: SolanaUpdate) => void

interface Waiting {
  readonly commitment: Commitment
  readonly update: SolanaUpdate
  /** The hub's newest slot when it was published. */
  readonly era: number
}

export class SlicedUpdates {
  readonly #take: Take
  #waiting: Waiting[] = []
  /** Those before it were taken. */
  #next = 0
  /** Of the slot of the last update, until the next slice. */
  #taken = 0
  #slot = -1
  #slice: NodeJS.Immediate | null = null

  constructor(take: Take) {
    this.#take = take
  }

  add(commitment: Commitment, update: SolanaUpdate, era: number): void {
    this.#slice ??= setImmediate(this.#onSlice)
    if (update.slot !== this.#slot) this.#taken = 0
    this.#slot = update.slot
    if (this.isEmpty && this.#taken < AT_ONCE) {
      this.#taken++
      this.#take(commitment, update)
      return
    }
    this.#waiting.push({ commitment, update, era })
    if (this.#waiting.length - this.#next > WAITING_MAX) this.#takeNext()
  }

  get isEmpty(): boolean {
    return this.#next === this.#waiting.length
  }

  /** The era of the oldest update that waits. */
  get oldestEra(): number | null {
    return this.#waiting[this.#next]?.era ?? null
  }

  /** Takes all that waits. */
  finish(): void {
    while (!this.isEmpty) this.#takeNext()
  }

  readonly #onSlice = (): void => {
    this.#slice = null
    this.#taken = 0
    const endMs = performance.now() + SLICE_MS
    while (!this.isEmpty) {
      this.#takeNext()
      if (performance.now() >= endMs) break
    }
    if (!this.isEmpty) this.#slice = setImmediate(this.#onSlice)
  }

  #takeNext(): void {
    const next = this.#waiting[this.#next]
    assert(next !== undefined, 'an update waits')
    // Counted first: taking it may finish the rest.
    this.#next++
    if (this.#next === this.#waiting.length || this.#next > WAITING_MAX) {
      this.#waiting = this.#waiting.slice(this.#next)
      this.#next = 0
    }
    this.#take(next.commitment, next.update)
  }
}
