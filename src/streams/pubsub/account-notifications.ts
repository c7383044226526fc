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
import { decodeKey, encodeBase58, isSameKey, keyOf } from '../../chain/solana/base58.ts'
import { decodeTransactionInfo } from '../../chain/solana/geyser-decode.ts'
import { accountParser } from '../../chain/solana/json-parsed/accounts.ts'
import type { AccountData, ReadAccount } from '../../chain/solana/json-parsed/parsed.ts'
import { nativeMint, sysvarOwner, sysvars } from '../../chain/solana/programs.ts'
import { isTokenProgram, readMint, readTokenAccount } from '../../chain/solana/token-account.ts'
import type { AccountParser, AccountView } from '../../chain/solana/ui-account.ts'
import { uiAccountText } from '../../chain/solana/ui-account.ts'
import type { AccountUpdate, SlotUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import { endsBank } from '../../chain/solana/updates.ts'
import type { NotificationDeps } from './block-notifications.ts'
import type { PubsubChain } from './chain.ts'
import { byCommitment, type Feed } from './feed.ts'
import type { AccountParams, ProgramParams, TokenOwnerParams } from './read-params.ts'

/** Slots whose writes wait, as many as the hub keeps; it has the same updates in memory. */
const SLOTS_MAX = 1_024
/** Notifications of one feed that wait for mints; one more sends them all, as base64. */
const WAITING_MAX = 1_000

/** The writes of a slot in the order in which they are notified. */
type WriteOrder = (writes: SlotWrites) => Iterable<NotedWrite>

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
  readonly #slots = byCommitment(() => new Map<number, SlotWrites>())
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
    if (commitment === Commitment.processed)
      if (this.#deps.index.parsedFeeds > 0) this.#mints.learn(update)
      else this.#mints.clear()
    const feeds = this.#deps.index.at(commitment)
    const ofAccount = feeds.accounts.findBytes(update.pubkey)
    const ofProgram = feeds.programs.findBytes(update.owner)
    const { isEmpty } = feeds.tokenOwners
    // A wallet that someone subscribed to may have the token account, or had it.
    const isOfWallet = !isEmpty && (update.lamports === 0n || isTokenProgram(update.owner))
    const isFound = ofAccount.size + ofProgram.size > 0 || isOfWallet
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
    const isReached = isCommitment(status) && status >= commitment
    if (isReached || endsBank(status)) slots.delete(slot)
    // Nothing follows below a finalized slot: what waits there was skipped, or is of a lost fork.
    if (status === Commitment.finalized)
      for (const older of slots.keys()) if (older < slot) slots.delete(older)
    if (!isReached || writes === undefined) return
    const observedMs = commitment === Commitment.processed ? createdAtMs : null
    for (const write of order(writes)) this.#notify(commitment, write, writes, observedMs)
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

/** The wallet that has the account after the slot, and the one that had it before. */
function walletsOf(update: AccountUpdate, writes: SlotWrites): ReadonlySet<string> {
  const wallets = new Set<string>()
  const now = readTokenAccount(update.owner, update.data)?.owner ?? null
  const holder = writes.holderOf(keyOf(update.pubkey))
  const before = holder === null ? null : decodeKey(holder)
  for (const wallet of [now, before]) if (wallet !== null) wallets.add(keyOf(wallet))
  return wallets
}

// The writes of a slot that wait until it reaches a commitment: of each account the last one, and
// those before it that a subscription to every write takes.
//
//   account A:  write 1 <- write 3 <- write 4 (last)      write 2 was of interest to nobody
//
// A write is named by how many of its account follow it in the bank, which is the same at every
// gateway of the set, also at one that has not seen the start of the slot.

interface Write {
  readonly update: AccountUpdate
  /** Number of the write among those of its account that were seen. */
  readonly number: number
  /** Whether it stays when another one follows. */
  readonly isKept: boolean
  /** The kept one before it. */
  readonly previous: Write | null
}

/** A write, and how many of its account follow it. */
export interface NotedWrite {
  readonly update: AccountUpdate
  readonly following: number
}

export class SlotWrites {
  /** The last write by account, in the order of these. */
  readonly #last = new Map<string, Write>()
  /** Who had a token account before the first transaction that touched it; null for nobody. */
  readonly #holders = new Map<string, { readonly index: number; readonly wallet: string | null }>()

  has(key: string): boolean {
    return this.#last.has(key)
  }

  /** The accounts in the order of their last writes. */
  keys(): Iterable<string> {
    return this.#last.keys()
  }

  add(key: string, update: AccountUpdate, isKept: boolean): void {
    const before = this.#last.get(key)
    const previous = before?.isKept === false ? before.previous : (before ?? null)
    // Removed first: notifications are in the order of the last writes.
    this.#last.delete(key)
    this.#last.set(key, { update, number: (before?.number ?? 0) + 1, isKept, previous })
  }

  /** The writes of an account, oldest first. */
  of(key: string): NotedWrite[] {
    const last = this.#last.get(key)
    const found: NotedWrite[] = []
    for (let one = last ?? null; one !== null; one = one.previous)
      found.push({ update: one.update, following: last!.number - one.number })
    return found.reverse()
  }

  /** Remembers who had the token accounts that the transaction touched. */
  addHolders({ info, index, keys }: TransactionUpdate): void {
    const { preTokenBalances, postTokenBalances } = decodeTransactionInfo(info).meta
    const owners = new Map<number, string | null>()
    for (const { accountIndex } of postTokenBalances) owners.set(accountIndex, null)
    for (const { accountIndex, owner } of preTokenBalances) owners.set(accountIndex, owner)
    for (const [at, wallet] of owners) {
      const key = keys[at]
      if (key === undefined) continue
      const known = this.#holders.get(keyOf(key))
      if (known === undefined || index < known.index)
        this.#holders.set(keyOf(key), { index, wallet })
    }
  }

  /** In base58; null where it is unknown, or nobody had it. */
  holderOf(key: string): string | null {
    return this.#holders.get(key)?.wallet ?? null
  }

  /** Adds what another one has read of the same slot, up to the same update. */
  merge(other: SlotWrites): void {
    for (const [key, last] of other.#last) {
      const own = this.#last.get(key)
      this.#last.set(key, own === undefined ? last : merged(own, last))
    }
    for (const [key, holder] of other.#holders) this.#holders.set(key, holder)
  }
}

function merged(own: Write, other: Write): Write {
  const byFollowing = new Map<number, Write>()
  for (const last of [other, own])
    for (let one: Write | null = last; one !== null; one = one.previous)
      byFollowing.set(last.number - one.number, one)
  const count = Math.max(own.number, other.number)
  let previous: Write | null = null
  for (const following of [...byFollowing.keys()].sort((a, b) => b - a))
    previous = { ...byFollowing.get(following)!, number: count - following, previous }
  return { ...previous!, isKept: own.isKept || other.isKept }
}

// Caches mints for `jsonParsed` token accounts, whose decimals, interest and multiplier are only
// in their mint (LRU), and the cluster's time, which interest depends on.
//
//   token account -> load: mint known -> null
//                          unknown    -> batch of this turn -> readAccounts, once for all waiting
//   mint or Clock sysvar on the stream -> learn: replaces what a node returned

const MINTS_MAX = 10_000
/** As many as getMultipleAccounts takes. */
const BATCH_MAX = 100
/** Notifications wait no longer than this; they are then sent as base64. */
const LOAD_MS_MAX = 2_000
/** A mint that could not be loaded is not requested again before this. */
const MISSING_MS = 5_000
/**
 * The bytes of a mint that are read: enough for all extensions of fixed length. Those of variable
 * length come after them and do not change how amounts are shown.
 */
export const MINT_BYTES_READ = 1_280

interface CachedMint {
  /** Null when no node has it. */
  readonly account: AccountData | null
  readonly cachedMs: number
}

interface Batch {
  readonly keys: Map<string, Uint8Array>
  readonly done: Promise<void>
}

class MintCache {
  readonly #readAccounts: PubsubChain['readAccounts']
  readonly #clock: Clock
  /** Least recently used first. */
  readonly #mints = new Map<string, CachedMint>()
  readonly #loading = new Map<string, Batch>()
  #batch: Batch | null = null

  constructor(readAccounts: PubsubChain['readAccounts'], clock: Clock) {
    this.#readAccounts = readAccounts
    this.#clock = clock
  }

  /** Reads a cached mint, or the Clock sysvar. */
  readonly read: ReadAccount = (pubkey) =>
    this.#mints.get(keyOf(pubkey))?.account ??
    (isSameKey(pubkey, sysvars.clock) ? this.#wallClock() : null)

  /**
   * Loads the mint of a token account. Null when none is needed or it is cached; otherwise resolves
   * when it is cached or the load timed out. Never rejects.
   */
  load({ owner, data }: AccountData): Promise<void> | null {
    const mint = readTokenAccount(owner, data)?.mint
    if (mint === undefined || isSameKey(mint, nativeMint)) return null
    const key = keyOf(mint)
    const cached = this.#mints.get(key)
    const isExpired =
      cached?.account === null && this.#clock.monotonicMs() - cached.cachedMs > MISSING_MS
    if (cached === undefined || isExpired)
      return (this.#loading.get(key) ?? this.#enqueue(key, mint)).done
    this.#put(key, cached)
    return null
  }

  /** Takes an account of the stream: a mint is cached, one that was closed is evicted. */
  learn({ pubkey, owner, data }: AccountData & { readonly pubkey: Uint8Array }): void {
    const isKept = readMint(owner, data) !== null || isSameKey(pubkey, sysvars.clock)
    if (isKept) this.#cache(keyOf(pubkey), { owner, data })
    else if (this.#mints.size > 0) this.#mints.delete(keyOf(pubkey))
  }

  /** To be called when `learn` will miss updates. */
  clear(): void {
    this.#mints.clear()
  }

  /** Stands in for the Clock sysvar until the stream has sent one. */
  #wallClock(): AccountData {
    const data = Buffer.alloc(40)
    data.writeBigInt64LE(BigInt(Math.floor(this.#clock.nowMs() / 1_000)), 32)
    return { owner: sysvarOwner, data }
  }

  #enqueue(key: string, mint: Uint8Array): Batch {
    let batch = this.#batch
    if (batch === null || batch.keys.size === BATCH_MAX) {
      const keys = new Map<string, Uint8Array>()
      batch = { keys, done: this.#run(keys) }
      this.#batch = batch
    }
    batch.keys.set(key, mint)
    this.#loading.set(key, batch)
    return batch
  }

  async #run(keys: ReadonlyMap<string, Uint8Array>): Promise<void> {
    // The other token accounts of this turn join the batch.
    await new Promise((resolve) => setImmediate(resolve))
    if (this.#batch?.keys === keys) this.#batch = null
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<readonly null[]>((resolve) => {
      timer = setTimeout(resolve, LOAD_MS_MAX, [])
    })
    const accounts = await Promise.race([this.#readAccounts([...keys.values()]), timeout])
    clearTimeout(timer)
    for (const [index, key] of [...keys.keys()].entries()) {
      this.#loading.delete(key)
      // The stream's version is newer.
      if ((this.#mints.get(key)?.account ?? null) === null)
        this.#cache(key, accounts[index] ?? null)
    }
  }

  #cache(key: string, account: AccountData | null): void {
    const kept = account && { owner: copyOf(account.owner), data: copyOf(account.data) }
    this.#put(key, { account: kept, cachedMs: this.#clock.monotonicMs() })
  }

  #put(key: string, mint: CachedMint): void {
    this.#mints.delete(key)
    this.#mints.set(key, mint)
    if (this.#mints.size > MINTS_MAX) this.#mints.delete(this.#mints.keys().next().value!)
  }
}

/** Owned bytes: a view would keep a whole message of the stream alive. */
function copyOf(bytes: Uint8Array): Uint8Array {
  return Uint8Array.prototype.slice.call(bytes, 0, MINT_BYTES_READ)
}
