// Sends notifications of accounts and of the accounts of programs.
// An account is notified once per slot, with its last write, when the slot reaches the commitment;
// a closed account is notified with 0 lamports.
//
//   write       -> waits for its slot, replaces an earlier write
//   slot status -> feeds by account and owner -> text once -> send
//                  jsonParsed, mint unknown   -> waits in the feed's queue, later ones after it
import type { Clock } from '../../base/clock.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { filtersTake } from '../../chain/solana/account-filter.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import { accountParser } from '../../chain/solana/json-parsed/accounts.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import {
  type AccountParser,
  type AccountView,
  uiAccountText,
} from '../../chain/solana/ui-account.ts'
import { type AccountUpdate, endsBank, type SlotUpdate } from '../../chain/solana/updates.ts'
import type { PubsubChain } from './chain.ts'
import type { Feed, FeedIndex } from './feed.ts'
import type { SubscriptionMeters } from './meters.ts'
import { MintCache } from './mint-cache.ts'
import type { Notify } from './notifier.ts'
import type { AccountParams, ProgramParams } from './read-params.ts'

/** Slots whose writes wait, as many as the hub keeps; it has the same updates in memory. */
const SLOTS_MAX = 1_024
/** Notifications of one feed that wait for mints; one more sends them all, as base64. */
const WAITING_MAX = 1_000

type SlotWrites = Map<number, Map<string, AccountUpdate>>

/** The writes of a slot in the order in which they are notified. */
export type WriteOrder = (writes: ReadonlyMap<string, AccountUpdate>) => Iterable<AccountUpdate>

const inOrderOfWriting: WriteOrder = (writes) => writes.values()

type AccountFeed = Feed<AccountParams> | Feed<ProgramParams>

interface Waiting {
  readonly texts: AccountTexts
  readonly createdAtMs: number | null
  readonly cursor: string | undefined
  isReady: boolean
}

export class AccountNotifications {
  readonly #index: FeedIndex
  readonly #notifier: Notify
  readonly #meters: SubscriptionMeters
  readonly #mints: MintCache
  readonly #parse: AccountParser
  /** By commitment: the last writes of slots that have not reached it, by slot and account. */
  readonly #slots: readonly [SlotWrites, SlotWrites, SlotWrites] = [new Map(), new Map(), new Map()]
  /** Oldest first; a feed without an entry has nothing waiting. */
  readonly #waiting = new Map<AccountFeed, Waiting[]>()

  constructor(deps: {
    readonly index: FeedIndex
    readonly notifier: Notify
    readonly meters: SubscriptionMeters
    readonly clock: Clock
    readonly shapes: PubsubChain['shapes']
    readonly readAccounts: PubsubChain['readAccounts']
  }) {
    this.#index = deps.index
    this.#notifier = deps.notifier
    this.#meters = deps.meters
    this.#mints = new MintCache(deps.readAccounts, deps.clock)
    const { read } = this.#mints
    this.#parse = (account) => accountParser(read, deps.shapes())(account)
  }

  take(commitment: Commitment, update: AccountUpdate): void {
    if (commitment === Commitment.processed) this.#learn(update)
    const { accounts, programs } = this.#index.at(commitment)
    const slots = this.#slots[commitment]
    let writes = slots.get(update.slot)
    const isFound =
      accounts.findBytes(update.pubkey).size > 0 || programs.findBytes(update.owner).size > 0
    // A write that no feed takes still replaces an earlier one: the account has left a program.
    if (!isFound && writes === undefined) return
    const key = keyOf(update.pubkey)
    if (!isFound && writes?.has(key) !== true) return
    if (writes === undefined) {
      writes = new Map()
      slots.set(update.slot, writes)
      if (slots.size > SLOTS_MAX) slots.delete(slots.keys().next().value!)
    }
    // Removed first: notifications are in the order of the last writes.
    writes.delete(key)
    writes.set(key, update)
  }

  restart(): void {
    for (const slots of this.#slots) slots.clear()
    this.#mints.clear()
  }

  /** Notifies the writes of a slot that has reached the commitment. */
  takeSlot(commitment: Commitment, update: SlotUpdate, order = inOrderOfWriting): void {
    const { slot, status, createdAtMs } = update
    const slots = this.#slots[commitment]
    const writes = slots.get(slot)
    if (isCommitment(status) && status >= commitment) {
      slots.delete(slot)
      const observedMs = commitment === Commitment.processed ? createdAtMs : null
      if (writes === undefined) return
      for (const write of order(writes)) this.#notify(commitment, write, observedMs)
    } else if (endsBank(status)) slots.delete(slot)
  }

  /** True while a notification waits for a mint. */
  get isWaiting(): boolean {
    return this.#waiting.size > 0
  }

  /** Takes the writes over that wait for their slots; those that it has are later ones. */
  adopt(other: AccountNotifications, commitment: Commitment): void {
    const slots = this.#slots[commitment]
    for (const [slot, writes] of other.#slots[commitment]) {
      const own = slots.get(slot)
      slots.set(slot, own === undefined ? writes : new Map([...writes, ...own]))
    }
  }

  /** What waits of the slot at processed is void. */
  retract(slot: number): void {
    this.#slots[Commitment.processed].delete(slot)
    for (const [feed, queue] of [...this.#waiting]) {
      const left = queue.filter(({ texts }) => texts.update.slot !== slot)
      this.#waiting.set(feed, left)
      this.#drain(feed, false)
    }
  }

  #notify(commitment: Commitment, update: AccountUpdate, createdAtMs: number | null): void {
    const { accounts, programs } = this.#index.at(commitment)
    const ofAccount = accounts.findBytes(update.pubkey)
    const ofProgram = programs.findBytes(update.owner)
    this.#meters.examined += ofAccount.size + ofProgram.size
    const texts = new AccountTexts(update, this.#parse)
    for (const feed of ofAccount) this.#send(feed, texts, createdAtMs)
    for (const feed of ofProgram)
      if (filtersTake(feed.params.filters, update)) this.#send(feed, texts, createdAtMs)
      else this.#notifier.pass(feed)
  }

  #learn(update: AccountUpdate): void {
    if (this.#index.parsedFeeds > 0) this.#mints.learn(update)
    else this.#mints.clear()
  }

  #send(feed: AccountFeed, texts: AccountTexts, createdAtMs: number | null): void {
    const isParsed = feed.params.view.encoding === 'jsonParsed'
    const loading = isParsed ? this.#mints.load(texts.update) : null
    const queue = this.#waiting.get(feed)
    const cursor = this.#notifier.cursorOf?.(feed)
    const waiting: Waiting = { texts, createdAtMs, cursor, isReady: loading === null }
    if (loading === null && queue === undefined) {
      this.#sendNow(feed, waiting)
      return
    }
    if (queue === undefined) this.#waiting.set(feed, [waiting])
    else if (queue.push(waiting) > WAITING_MAX) this.#drain(feed, true)
    void loading?.then(() => {
      waiting.isReady = true
      this.#drain(feed, false)
    })
  }

  #drain(feed: AccountFeed, isAll: boolean): void {
    const queue = this.#waiting.get(feed) ?? []
    while (queue.length > 0 && (isAll || queue[0]!.isReady)) {
      const waiting = queue.shift()!
      if (feed.shares.size > 0) this.#sendNow(feed, waiting)
    }
    if (queue.length === 0) this.#waiting.delete(feed)
  }

  #sendNow(feed: AccountFeed, { texts, createdAtMs, cursor }: Waiting): void {
    const result = texts.result(feed.params)
    this.#notifier.send(feed, result, texts.update.slot, createdAtMs, cursor)
  }
}

/** The texts of one update, each made at most once however many feeds show it. */
class AccountTexts {
  readonly update: AccountUpdate
  readonly #parse: AccountParser
  readonly #shown = new Map<string, string>()
  #pubkey: string | null = null

  constructor(update: AccountUpdate, parse: AccountParser) {
    this.update = update
    this.#parse = parse
  }

  result({ kind, view }: AccountParams | ProgramParams): string {
    const context = `{"context":{"slot":${this.update.slot}},"value":`
    const account = this.#account(view.encoding)
    if (kind === 'account') return `${context}${account}}`
    this.#pubkey ??= encodeBase58(this.update.pubkey)
    return `${context}{"pubkey":"${this.#pubkey}","account":${account}}}`
  }

  /** Whole, as with agave: there a slice makes another subscription and is not applied. */
  #account(encoding: AccountView['encoding']): string {
    let text = this.#shown.get(encoding)
    if (text === undefined) {
      text = uiAccountText(this.update, { encoding, dataSlice: null }, this.#parse)
      this.#shown.set(encoding, text)
    }
    return text
  }
}
