// Sends notifications of accounts, of the accounts of programs and of token accounts of wallets.
// An account is notified once per slot, with its last write, when the slot reaches the commitment;
// to those who ask for every write with each of them. A closed account is notified with 0 lamports,
// also to the wallet that had it.
//
//   write       -> waits for its slot, replaces an earlier write
//   slot status -> feeds by account, owner and wallet -> text once -> send
//                  jsonParsed, mint unknown   -> waits in the feed's queue, later ones after it
import type { Clock } from '../../base/clock.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { filtersTake } from '../../chain/solana/account-filter.ts'
import { decodeKey, encodeBase58 } from '../../chain/solana/base58.ts'
import { accountParser } from '../../chain/solana/json-parsed/accounts.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import { isTokenProgram } from '../../chain/solana/token-account.ts'
import {
  type AccountParser,
  type AccountView,
  uiAccountText,
} from '../../chain/solana/ui-account.ts'
import {
  type AccountUpdate,
  endsBank,
  type SlotUpdate,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { NotificationDeps } from './block-notifications.ts'
import type { PubsubChain } from './chain.ts'
import type { CommitmentFeeds, Feed } from './feed.ts'
import { MintCache } from './mint-cache.ts'
import type { AccountParams, ProgramParams, TokenOwnerParams } from './read-params.ts'
import { type NotedWrite, SlotWrites, walletOf } from './slot-writes.ts'

/** Slots whose writes wait, as many as the hub keeps; it has the same updates in memory. */
const SLOTS_MAX = 1_024
/** Notifications of one feed that wait for mints; one more sends them all, as base64. */
const WAITING_MAX = 1_000

type WaitingWrites = Map<number, SlotWrites>

/** The writes of a slot in the order in which they are notified. */
export type WriteOrder = (writes: SlotWrites) => Iterable<NotedWrite>

const inOrderOfWriting: WriteOrder = (writes) => [...writes.keys()].flatMap((key) => writes.of(key))

type ShownParams = AccountParams | ProgramParams | TokenOwnerParams
type AccountFeed = Feed<AccountParams> | Feed<ProgramParams> | Feed<TokenOwnerParams>

interface Waiting {
  readonly texts: AccountTexts
  readonly createdAtMs: number | null
  readonly cursor: string | undefined
  isReady: boolean
}

export class AccountNotifications {
  readonly #deps: NotificationDeps
  readonly #mints: MintCache
  readonly #parse: AccountParser
  /** By commitment: the writes of slots that have not reached it. */
  readonly #slots: readonly [WaitingWrites, WaitingWrites, WaitingWrites] = [
    new Map(),
    new Map(),
    new Map(),
  ]
  /** Oldest first; a feed without an entry has nothing waiting. */
  readonly #waiting = new Map<AccountFeed, Waiting[]>()

  constructor(
    deps: NotificationDeps & Pick<PubsubChain, 'readAccounts'> & { readonly clock: Clock },
  ) {
    this.#deps = deps
    this.#mints = new MintCache(deps.readAccounts, deps.clock)
    const { read } = this.#mints
    this.#parse = (account) => accountParser(read, deps.shapes())(account)
  }

  take(commitment: Commitment, update: AccountUpdate): void {
    if (commitment === Commitment.processed) this.#learn(update)
    const feeds = this.#deps.index.at(commitment)
    const ofAccount = feeds.accounts.findBytes(update.pubkey)
    const ofProgram = feeds.programs.findBytes(update.owner)
    const isFound = ofAccount.size + ofProgram.size > 0 || mayBeOfWallet(feeds, update)
    // A write that no feed takes still replaces an earlier one: the account has left a program.
    const writes = this.#slots[commitment].get(update.slot)
    if (!isFound && writes === undefined) return
    const key = keyOf(update.pubkey)
    if (!isFound && writes?.has(key) !== true) return
    const isKept = takesEvery(ofAccount) || takesEvery(ofProgram)
    this.#writesOf(commitment, update.slot).add(key, update, isKept)
  }

  /** A token account that leaves its wallet does not name it: the transaction does. */
  takeTransaction(commitment: Commitment, update: TransactionUpdate): void {
    const { tokenOwners } = this.#deps.index.at(commitment)
    if (tokenOwners.isEmpty) return
    if (update.tokenOwners.some((wallet) => tokenOwners.findBytes(wallet).size > 0))
      this.#writesOf(commitment, update.slot).addHolders(update)
  }

  #writesOf(commitment: Commitment, slot: number): SlotWrites {
    const slots = this.#slots[commitment]
    const known = slots.get(slot)
    if (known !== undefined) return known
    const writes = new SlotWrites()
    slots.set(slot, writes)
    if (slots.size > SLOTS_MAX) slots.delete(slots.keys().next().value!)
    return writes
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
      for (const write of order(writes)) this.#notify(commitment, write, writes, observedMs)
    } else if (endsBank(status)) slots.delete(slot)
  }

  /** True while a notification waits for a mint. */
  get isWaiting(): boolean {
    return this.#waiting.size > 0
  }

  hasWaiting(feed: Feed): boolean {
    // Reason for the cast: a feed of another kind has no entry.
    return this.#waiting.has(feed as AccountFeed)
  }

  /** Slots whose writes wait until they reach the commitment. */
  waitingSlots(commitment: Commitment): Iterable<number> {
    return this.#slots[commitment].keys()
  }

  /** Takes the writes over that wait for their slots. */
  adopt(other: AccountNotifications, commitment: Commitment): void {
    const slots = this.#slots[commitment]
    for (const [slot, writes] of other.#slots[commitment]) {
      const own = slots.get(slot)
      if (own === undefined) slots.set(slot, writes)
      else own.merge(writes)
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

  #notify(
    commitment: Commitment,
    { update, following }: NotedWrite,
    writes: SlotWrites,
    createdAtMs: number | null,
  ): void {
    const { accounts, programs, tokenOwners } = this.#deps.index.at(commitment)
    const ofAccount = accounts.findBytes(update.pubkey)
    const ofProgram = programs.findBytes(update.owner)
    this.#deps.meters.examined += ofAccount.size + ofProgram.size
    const texts = new AccountTexts(update, this.#parse)
    const isLast = following === 0
    for (const feed of ofAccount)
      if (isLast || feed.params.allWrites) this.#send(feed, texts, createdAtMs)
    for (const feed of ofProgram)
      if (!isLast && !feed.params.allWrites) continue
      else if (filtersTake(feed.params.filters, update)) this.#send(feed, texts, createdAtMs)
      else this.#deps.notifier.pass(feed)
    if (!isLast || tokenOwners.isEmpty) return
    for (const wallet of walletsOf(update, writes))
      for (const feed of tokenOwners.find(wallet)) {
        this.#deps.meters.examined++
        this.#send(feed, texts, createdAtMs)
      }
  }

  #learn(update: AccountUpdate): void {
    if (this.#deps.index.parsedFeeds > 0) this.#mints.learn(update)
    else this.#mints.clear()
  }

  #send(feed: AccountFeed, texts: AccountTexts, createdAtMs: number | null): void {
    const isParsed = feed.params.view.encoding === 'jsonParsed'
    const loading = isParsed ? this.#mints.load(texts.update) : null
    const queue = this.#waiting.get(feed)
    const cursor = this.#deps.notifier.cursorOf?.(feed)
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
    this.#deps.notifier.send(feed, result, texts.update.slot, createdAtMs, cursor)
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

  result({ kind, view }: ShownParams): string {
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

function takesEvery(feeds: Iterable<Feed<AccountParams> | Feed<ProgramParams>>): boolean {
  for (const { params } of feeds) if (params.allWrites) return true
  return false
}

/** Whether a wallet that someone subscribed to has the token account, or had it. */
function mayBeOfWallet({ tokenOwners }: CommitmentFeeds, update: AccountUpdate): boolean {
  return !tokenOwners.isEmpty && (update.lamports === 0n || isTokenProgram(update.owner))
}

/** The wallet that has the account after the slot, and the one that had it before. */
function walletsOf(update: AccountUpdate, writes: SlotWrites): ReadonlySet<string> {
  const wallets = new Set<string>()
  const now = walletOf(update)
  const holder = writes.holderOf(keyOf(update.pubkey))
  const before = holder === null ? null : decodeKey(holder)
  for (const wallet of [now, before]) if (wallet !== null) wallets.add(keyOf(wallet))
  return wallets
}
