// Serves the subscriptions whose notifications have cursors: in an order that every gateway of the
// set has, so that a cursor tells what was sent before it.
//
//   transaction 3, 5, 4 of a slot ─► 3 · 5 waits · 4, 5        by index in the block
//   writes of a slot ──────────────► sorted by key, then in their order, when the slot reaches the
//                                    commitment
//   block, slot, root ─────────────► one for each slot
//
// The live ones are one instance for all. A replay is another instance, of one subscription: it
// reads the log, sends what the cursor says was not sent, and hands over at the same update.
import type { Clock } from '../../base/clock.ts'
import { allCommitments, Commitment, isCommitment } from '../../base/commitment.ts'
import {
  type BlockUpdate,
  type RetractionUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { AccountNotifications, type NotedWrite, type SlotWrites } from './account-notifications.ts'
import { BlockNotifications, SlotNotifications } from './block-notifications.ts'
import type { PubsubChain } from './chain.ts'
import {
  type Bank,
  cursorText,
  type PubsubCursor,
  placeOfWrite,
  SentSlots,
  type SlotPart,
  wasSent,
} from './cursor.ts'
import { byCommitment, type Feed, type FeedIndex } from './feed.ts'
import type { Notify } from './notifier.ts'
import type { SubscriptionParams } from './read-params.ts'
import {
  TransactionNotifications,
  type TransactionNotificationsDeps,
} from './transaction-notifications.ts'

const { processed } = Commitment
/** Transactions of a slot that wait for an earlier one; with more they are sent as they came. */
const HELD_MAX = 4_096
/** As many as the hub keeps. */
const SLOTS_MAX = 1_024

/** The bank of a slot, and how far its transactions were sent. */
class OpenSlot implements SlotPart {
  readonly replaced: number
  parent: number | null = null
  next = 0
  readonly held = new Map<number, TransactionUpdate>()
  isComplete = false

  constructor(replaced: number) {
    this.replaced = replaced
  }

  get place(): number {
    return this.next - 1
  }
}

export interface CursorFeedsDeps extends TransactionNotificationsDeps {
  readonly clock: Clock
  readonly readAccounts: PubsubChain['readAccounts']
  readonly rootAtStart: () => number
}

export class CursorFeeds {
  readonly index: FeedIndex
  readonly #from: PubsubCursor | null
  readonly #accounts: AccountNotifications
  readonly #transactions: TransactionNotifications
  readonly #blocks: BlockNotifications
  readonly #slots: SlotNotifications
  readonly #open = byCommitment(() => new Map<number, OpenSlot>())
  #sent = nothingSent()

  /** The newest slot with that commitment or a higher one. */
  readonly #newest: [number, number, number] = [-1, -1, -1]

  /** Whether the first content was published, which begins the live ones. */
  #isBegun: boolean

  /** Of a replay: what `from` says was sent is not sent again. */
  constructor(deps: CursorFeedsDeps, from: PubsubCursor | null = null) {
    this.index = deps.index
    this.#from = from
    this.#isBegun = from !== null
    const notifier: Notify = {
      send: (feed, result, slot, createdAtMs = null, cursor?: string) => {
        const { kind } = feed.params
        const isOfSlots = kind === 'slot' || kind === 'root'
        if (!isOfSlots || !this.#wasSent(slot, firstBank, 0))
          deps.notifier.send(feed, result, slot, createdAtMs, cursor ?? this.#cursorOf(feed))
      },
      pass: (feed) => deps.notifier.pass(feed),
      cursorOf: (feed) => this.#cursorOf(feed),
    }
    const shared = { ...deps, notifier }
    this.#accounts = new AccountNotifications(shared)
    this.#transactions = new TransactionNotifications(shared)
    this.#blocks = new BlockNotifications(shared)
    this.#slots = new SlotNotifications(shared)
  }

  /** Starts a replay of one subscription with what was sent of it. */
  startAfter(params: SubscriptionParams, cursor: PubsubCursor): void {
    this.#sentOf(params).startAfter(cursor)
  }

  /**
   * What was published before is not of the subscriptions that come, nor is what is before the
   * first content and never comes: without it a status of an older slot that comes first would
   * leave those between as not sent.
   */
  startLive(newestAt: (commitment: Commitment) => number, firstContent: number | null): void {
    this.#isBegun = firstContent !== null
    for (const commitment of allCommitments)
      for (const family of ['accounts', 'transactions'] as const)
        this.#sent[family][commitment].begin(newestAt(commitment), firstContent ?? 0)
  }

  take(commitment: Commitment, update: SolanaUpdate): void {
    if (!this.#isBegun && update.kind !== 'slot') this.startLive(() => -1, update.slot)
    switch (update.kind) {
      case 'account':
        if (this.index.all.size > 0 && !update.isStartup) this.#accounts.take(commitment, update)
        break
      case 'transaction':
        if (this.index.all.size > 0) this.#accounts.takeTransaction(commitment, update)
        this.#takeTransaction(commitment, update)
        break
      case 'block':
        this.#takeBlock(commitment, update)
        break
      case 'slot':
        this.#takeSlot(commitment, update)
        break
      case 'retraction':
        // What is restated, be it a status alone, is of the bank that was sent: it goes on.
        if ([...update.restated].length === 0) this.#replaceBank(update.slot)
    }
    // At last: a slot sends what was held back of it.
    this.#transactions.track(commitment, update)
  }

  restart(): void {
    this.#isBegun = false
    this.#accounts.restart()
    this.#transactions.restart()
    this.#slots.restart()
    for (const open of this.#open) open.clear()
    this.#sent = nothingSent()
  }

  /**
   * Takes a subscription over from a replay that has read the same updates. False while this
   * gateway has not reached the cursor, or one of them holds back what the other has sent: the
   * engine has not seen the start of a slot.
   */
  adopt(replay: CursorFeeds, { params }: Feed): boolean {
    if (replay.#accounts.isWaiting || !replay.#hasPassedCursor(params)) return false
    if (!('commitment' in params)) return true
    const { commitment } = params
    for (const [slot, theirs] of replay.#open[commitment]) {
      const own = this.#open[commitment].get(slot)
      if (theirs.isComplete || theirs.next === 0) continue
      if (own?.next !== theirs.next || own.held.size !== theirs.held.size) return false
    }
    this.#accounts.adopt(replay.#accounts, commitment)
    this.#transactions.adopt(replay.#transactions, commitment)
    return true
  }

  /** False while a notification of the feed waits for a mint. */
  canLeave(feed: Feed): boolean {
    return this.#sentOf(feed.params).top >= 0 && !this.#accounts.hasWaiting(feed)
  }

  /** What was sent of a subscription, as it is now. */
  cursorOf({ params }: Feed): PubsubCursor {
    const { top, bits, partials } = this.#sentOf(params)
    const copied = [...partials].map(([slot, { replaced, parent, place }]) => {
      return [slot, { replaced, parent, place }] as const
    })
    const commitment = 'commitment' in params ? params.commitment : null
    return { topic: params.kind, commitment, top, bits, partials: new Map(copied) }
  }

  /** The oldest slot of which something is to be sent; null when none is open. */
  oldestOpen(commitment: Commitment): number | null {
    const slots = [...this.#open[commitment]].filter(([, { isComplete }]) => !isComplete)
    const open = [...slots.map(([slot]) => slot), ...this.#accounts.waitingSlots(commitment)]
    return open.length === 0 ? null : Math.min(...open)
  }

  #hasPassedCursor(params: SubscriptionParams): boolean {
    const level = 'commitment' in params ? params.commitment : processed
    const passed = params.kind === 'root' ? this.#newest[Commitment.finalized] : this.#newest[level]
    return this.#from === null || passed >= this.#from.top
  }

  #cursorOf({ params }: Feed): string {
    return cursorText(params, this.#sentOf(params))
  }

  #sentOf(params: SubscriptionParams): SentSlots {
    if (params.kind === 'slot' || params.kind === 'root') return this.#sent[params.kind]
    const commitment = 'commitment' in params ? params.commitment : processed
    return this.#sent[familyOf(params.kind)][commitment]
  }

  #wasSent(slot: number, bank: Bank, place: SlotPart['place']): boolean {
    return this.#from !== null && wasSent(this.#from, slot, bank, place)
  }

  #openSlot(commitment: Commitment, slot: number): OpenSlot {
    const slots = this.#open[commitment]
    const known = slots.get(slot)
    if (known !== undefined) return known
    const open = new OpenSlot(0)
    slots.set(slot, open)
    if (slots.size > SLOTS_MAX) slots.delete(slots.keys().next().value!)
    return open
  }

  #takeTransaction(commitment: Commitment, update: TransactionUpdate): void {
    const open = this.#openSlot(commitment, update.slot)
    if (update.index > open.next && !open.isComplete) {
      open.held.set(update.index, update)
      if (open.held.size > HELD_MAX) this.#flush(commitment, open)
      return
    }
    this.#send(commitment, open, update)
    while (open.held.size > 0) {
      const next = open.held.get(open.next)
      if (next === undefined) return
      open.held.delete(open.next)
      this.#send(commitment, open, next)
    }
  }

  #flush(commitment: Commitment, open: OpenSlot): void {
    const held = [...open.held.values()].sort((a, b) => a.index - b.index)
    open.held.clear()
    for (const update of held) this.#send(commitment, open, update)
  }

  #send(commitment: Commitment, open: OpenSlot, update: TransactionUpdate): void {
    const { slot, index } = update
    open.next = Math.max(open.next, index + 1)
    if (this.#wasSent(slot, open, index)) return
    if (!open.isComplete) this.#sent.transactions[commitment].open(slot, open)
    if (this.index.all.size > 0) this.#transactions.take(commitment, update)
  }

  #takeBlock(commitment: Commitment, update: BlockUpdate): void {
    this.#sent.blocks[commitment].complete(update.slot)
    if (this.index.all.size === 0 || this.#wasSent(update.slot, firstBank, 0)) return
    this.#blocks.take(commitment, update)
  }

  #takeSlot(commitment: Commitment, update: SlotUpdate): void {
    const { slot, status, parent } = update
    if (status === slotStatus.createdBank && commitment === processed)
      this.#openSlot(commitment, slot).parent = parent
    const order = (writes: SlotWrites) => this.#byKey(commitment, slot, writes)
    if (commitment === processed) this.#takeStatus(update)
    this.#accounts.takeSlot(commitment, update, order)
    if (!isCommitment(status)) return
    for (const level of allCommitments)
      if (level <= status) this.#newest[level] = Math.max(slot, this.#newest[level])
    if (status < commitment) return
    const open = this.#openSlot(commitment, slot)
    this.#flush(commitment, open)
    open.isComplete = true
    this.#sent.transactions[commitment].complete(slot)
    this.#sent.accounts[commitment].complete(slot)
    if (status === slotStatus.finalized) this.#forget(commitment, slot)
  }

  /** Marked as sent even where nobody subscribes now: a later subscriber had it elsewhere. */
  #takeStatus(update: SlotUpdate): void {
    const { slot, status } = update
    if (status === slotStatus.createdBank || status === slotStatus.processed)
      this.#sent.slot.complete(slot)
    if (status === slotStatus.finalized) this.#sent.root.complete(slot)
    this.#slots.take(update)
  }

  /** Each is marked as sent when it is taken from here. */
  *#byKey(commitment: Commitment, slot: number, writes: SlotWrites): Generator<NotedWrite> {
    const { replaced, parent } = this.#openSlot(commitment, slot)
    for (const key of [...writes.keys()].sort())
      for (const write of writes.of(key)) {
        const place = placeOfWrite(key, write.following)
        if (this.#wasSent(slot, { replaced, parent }, place)) continue
        this.#sent.accounts[commitment].open(slot, { replaced, parent, place })
        yield write
      }
  }

  /** What follows of the slot is of the next bank; what was sent of this one stays sent. */
  #replaceBank(slot: number): void {
    const before = this.#openSlot(processed, slot)
    this.#flush(processed, before)
    const open = new OpenSlot(before.replaced + 1)
    this.#open[processed].set(slot, open)
    if (this.#wasSent(slot, open, open.place)) return
    const { transactions, accounts } = this.#sent
    if (transactions[processed].knows(slot)) transactions[processed].open(slot, open)
    const { replaced } = open
    if (accounts[processed].knows(slot))
      accounts[processed].open(slot, { replaced, parent: null, place: '' })
  }

  /** Below a finalized slot nothing follows. */
  #forget(commitment: Commitment, finalized: number): void {
    for (const [slot, open] of this.#open[commitment]) {
      if (slot >= finalized) continue
      this.#open[commitment].delete(slot)
      if (open.isComplete) continue
      for (const sent of [this.#sent.transactions[commitment], this.#sent.accounts[commitment]])
        if (sent.knows(slot)) sent.complete(slot)
    }
  }
}

function nothingSent() {
  return {
    accounts: byCommitment(() => new SentSlots()),
    transactions: byCommitment(() => new SentSlots()),
    blocks: byCommitment(() => new SentSlots()),
    slot: new SentSlots(),
    root: new SentSlots(),
  }
}

const firstBank: Bank = { replaced: 0, parent: null }

function familyOf(kind: SubscriptionParams['kind']): 'accounts' | 'transactions' | 'blocks' {
  if (kind === 'account' || kind === 'program' || kind === 'tokenOwner') return 'accounts'
  return kind === 'block' ? 'blocks' : 'transactions'
}

/** Whether something of its slot that keys select is published with it, or was before. */
export function isReached(commitment: Commitment, update: SolanaUpdate): boolean {
  return update.kind !== 'slot' || (isCommitment(update.status) && update.status >= commitment)
}

// Serves the subscriptions with retractions: what was notified at processed and is void is taken
// back. They have an index of their own, because only they get again what a retraction restates.
//
//   notification of slot 9 ─► the feed remembers the slot ─► finalized: forgets it
//   retraction of slot 9 ───► `retracted` to the feeds that remember it ─► what it restates

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
