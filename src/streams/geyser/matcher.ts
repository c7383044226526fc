// Matches each update against the filters of all groups.
// One matcher per commitment for live streams, and one for each replaying stream.
//
//   update -> index: candidate filters -> filter-match.ts: matching ones -> group.append
//
// The index finds candidates by account, owner, mentioned key or signature, so that an update
// costs by the streams it reaches, not by all streams. Filters without a key (all accounts, cuckoo
// sets) are in lists that every update scans.

import { assert } from '../../base/assert.ts'
import { encodeAccount, encodeAccountInfo, encodeBlock } from '../../chain/solana/geyser-encode.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import {
  type AccountUpdate,
  type BlockUpdate,
  type RetractionUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import {
  includesKey,
  includesTransaction,
  matchesAccount,
  matchesSlot,
  matchesTransaction,
  sliceData,
  TransactionKeys,
} from './filter-match.ts'
import type {
  AccountFilter,
  BlockFilter,
  FilterSet,
  KeyText,
  NamedFilter,
  SlotFilter,
  TransactionFilter,
} from './filter-set.ts'
import { createdAtSuffix, updateTag } from './frame.ts'
import type { Entry, SubscriberGroup } from './subscriber-group.ts'

export class Matcher {
  readonly #groups = new Map<SubscriberGroup, Entry<NamedFilter>[]>()
  readonly #byAccount = new KeyIndex<Entry<AccountFilter>>()
  readonly #byOwner = new KeyIndex<Entry<AccountFilter>>()
  readonly #anyAccount = new Set<Entry<AccountFilter>>()
  readonly #transactions = new TransactionIndex()
  readonly #statuses = new TransactionIndex()
  readonly #slots = new Set<Entry<SlotFilter>>()
  readonly #interslot = new Set<Entry<SlotFilter>>()
  readonly #withEntries = new Set<SubscriberGroup>()
  readonly #withBlocks = new Set<SubscriberGroup>()
  readonly #withMeta = new Set<SubscriberGroup>()
  /** Groups that matched the current update: the first `#touchedCount`. */
  readonly #touched: SubscriberGroup[] = []
  #touchedCount = 0
  #stamp = 0

  get isEmpty(): boolean {
    return this.#groups.size === 0
  }

  add(group: SubscriberGroup): void {
    const { filters } = group
    const made: Entry<NamedFilter>[] = []
    const entry = <F extends NamedFilter>(filter: F): Entry<F> => {
      const fresh = { filter, group, stamp: 0 }
      made.push(fresh)
      return fresh
    }
    for (const filter of filters.accounts) this.#addAccount(entry(filter))
    for (const filter of filters.transactions) this.#transactions.add(entry(filter))
    for (const filter of filters.statuses) this.#statuses.add(entry(filter))
    for (const filter of filters.slots) {
      const fresh = entry(filter)
      this.#slots.add(fresh)
      if (filter.interslot) this.#interslot.add(fresh)
    }
    if (filters.entries.length > 0) this.#withEntries.add(group)
    if (filters.blocks.length > 0) this.#withBlocks.add(group)
    if (filters.blocksMeta.length > 0) this.#withMeta.add(group)
    this.#groups.set(group, made)
  }

  remove(group: SubscriberGroup): void {
    for (const entry of this.#groups.get(group) ?? []) {
      // Reason for the casts: the type of an entry is unknown here, and removing it from the lists
      // of another kind does nothing.
      const asAccount = entry as Entry<AccountFilter>
      const asTransaction = entry as Entry<TransactionFilter>
      const asSlot = entry as Entry<SlotFilter>
      if (group.filters.accounts.includes(asAccount.filter)) this.#removeAccount(asAccount)
      this.#transactions.remove(asTransaction)
      this.#statuses.remove(asTransaction)
      this.#slots.delete(asSlot)
      this.#interslot.delete(asSlot)
    }
    this.#withEntries.delete(group)
    this.#withBlocks.delete(group)
    this.#withMeta.delete(group)
    this.#groups.delete(group)
  }

  /** Appends the framed update to every matching group; returns the number of deliveries. */
  deliver(update: SolanaUpdate): number {
    if (this.#groups.size === 0) return 0
    switch (update.kind) {
      case 'account':
        return this.#deliverAccount(update)
      case 'transaction':
        return this.#deliverTransaction(update)
      case 'slot':
        return this.#deliverSlot(update)
      case 'entry':
        return this.#deliverAll(this.#withEntries, 'entries', updateTag.entry, update)
      case 'blockMeta':
        return this.#deliverAll(this.#withMeta, 'blocksMeta', updateTag.blockMeta, update)
      case 'block':
        return this.#deliverBlock(update)
      case 'retraction':
        return this.#deliverRetraction(update)
    }
  }

  #deliverAccount(update: AccountUpdate): number {
    const stamp = ++this.#stamp
    // Read only when needed: keys of an update from a node are decoded on first access.
    const listed = this.#byAccount.isEmpty ? undefined : this.#byAccount.find(update.pubkey)
    if (listed !== undefined) for (const entry of listed) this.#tryAccount(entry, update, stamp)
    const owned = this.#byOwner.isEmpty ? undefined : this.#byOwner.find(update.owner)
    if (owned !== undefined) for (const entry of owned) this.#tryAccount(entry, update, stamp)
    for (const entry of this.#anyAccount) this.#tryAccount(entry, update, stamp)
    if (this.#touchedCount === 0) return 0
    return this.#send(updateTag.account, update.body, update.createdAtMs, update)
  }

  #tryAccount(entry: Entry<AccountFilter>, update: AccountUpdate, stamp: number): void {
    if (entry.stamp === stamp) return
    entry.stamp = stamp
    if (matchesAccount(entry.filter, update)) this.#hit(entry, stamp)
  }

  #deliverTransaction(update: TransactionUpdate): number {
    if (this.#transactions.isEmpty && this.#statuses.isEmpty) return 0
    const keys = new TransactionKeys(update)
    const { transaction, transactionStatus } = updateTag
    return (
      this.#deliverMention(this.#transactions, keys, transaction, update.body) +
      this.#deliverMention(this.#statuses, keys, transactionStatus, update.statusBody)
    )
  }

  #deliverMention(
    index: TransactionIndex,
    keys: TransactionKeys,
    tag: number,
    body: Uint8Array,
  ): number {
    const stamp = ++this.#stamp
    index.candidates(keys.update, (entry) => {
      if (entry.stamp === stamp) return
      entry.stamp = stamp
      if (matchesTransaction(entry.filter, keys)) this.#hit(entry, stamp)
    })
    return this.#send(tag, body, keys.update.createdAtMs)
  }

  #deliverSlot(update: SlotUpdate): number {
    const stamp = ++this.#stamp
    const entries = update.status > slotStatus.finalized ? this.#interslot : this.#slots
    for (const entry of entries)
      if (matchesSlot(entry.filter, update, entry.group.filters.commitment)) this.#hit(entry, stamp)
    return this.#send(updateTag.slot, update.body, update.createdAtMs)
  }

  /** Kinds without conditions: every filter of the kind takes every update. */
  #deliverAll(
    groups: ReadonlySet<SubscriberGroup>,
    kind: 'entries' | 'blocksMeta',
    tag: number,
    update: { readonly body: Uint8Array; readonly createdAtMs: number },
  ): number {
    let reached = 0
    for (const group of groups) {
      const filters = group.filters[kind]
      const prefix =
        filters.length === 1 ? filters[0]!.prefix : Buffer.concat(filters.map((one) => one.prefix))
      group.append(tag, prefix, update.body, createdAtSuffix(update.createdAtMs))
      reached += group.sinks.size
    }
    return reached
  }

  /** A block is sent once per filter, since each selects different content. */
  #deliverBlock(update: BlockUpdate): number {
    if (this.#withBlocks.size === 0) return 0
    const bodies = new BlockBodies(update)
    const suffix = createdAtSuffix(update.createdAtMs)
    let reached = 0
    for (const group of this.#withBlocks)
      for (const filter of group.filters.blocks) {
        const body = bodies.for(filter, group.filters)
        group.append(updateTag.block, filter.prefix, body, suffix)
        reached += group.sinks.size
      }
    return reached
  }

  /** To every group: whether its streams were sent something of the slot is not known here. */
  #deliverRetraction(update: RetractionUpdate): number {
    const suffix = createdAtSuffix(update.createdAtMs)
    let reached = 0
    for (const group of this.#groups.keys()) {
      const names = group.filters.retractions
      assert(names !== null, 'streams with retractions have a matcher of their own')
      group.append(updateTag.retraction, names, update.body, suffix)
      reached += group.sinks.size
    }
    for (const restated of update.restated) this.deliver(restated)
    return reached
  }

  #hit(entry: Entry<NamedFilter>, stamp: number): void {
    const { group, filter } = entry
    if (group.stamp === stamp) {
      group.moreHits ??= [group.hit!]
      group.moreHits.push(filter)
      return
    }
    group.stamp = stamp
    group.hit = filter
    group.moreHits = null
    this.#touched[this.#touchedCount++] = group
  }

  /** Sends to every group that matched; `account` is given where groups may select slices. */
  #send(tag: number, body: Uint8Array, createdAtMs: number, account?: AccountUpdate): number {
    const count = this.#touchedCount
    if (count === 0) return 0
    this.#touchedCount = 0
    const suffix = createdAtSuffix(createdAtMs)
    let bodies: AccountBodies | null = null
    let reached = 0
    for (let index = 0; index < count; index++) {
      const group = this.#touched[index]!
      let own = body
      if (account !== undefined && group.filters.slices.length > 0) {
        bodies ??= new AccountBodies(account)
        own = bodies.for(group.filters)
      }
      group.append(tag, prefixOf(group), own, suffix)
      reached += group.sinks.size
    }
    return reached
  }

  #addAccount(entry: Entry<AccountFilter>): void {
    const { accounts, cuckoo, owners } = entry.filter
    // Not by account when a cuckoo set may match others.
    if (accounts.size > 0 && cuckoo === null)
      for (const key of accounts) this.#byAccount.add(key, entry)
    else if (owners.size > 0) for (const key of owners) this.#byOwner.add(key, entry)
    else this.#anyAccount.add(entry)
  }

  #removeAccount(entry: Entry<AccountFilter>): void {
    for (const key of entry.filter.accounts) this.#byAccount.remove(key, entry)
    for (const key of entry.filter.owners) this.#byOwner.remove(key, entry)
    this.#anyAccount.delete(entry)
  }
}

function prefixOf({ hit, moreHits }: SubscriberGroup): Buffer {
  if (moreHits === null) return hit!.prefix
  moreHits.sort((a, b) => a.ordinal - b.ordinal)
  return Buffer.concat(moreHits.map(({ prefix }) => prefix))
}

// An index of transaction filters that finds the candidates for a transaction.
// A filter is under its most selective key: its signature, else one key that it requires, else
// each key that it includes, else in the list that every transaction scans.

type TransactionEntry = Entry<TransactionFilter>

export class TransactionIndex {
  readonly #bySignature = new KeyIndex<TransactionEntry>()
  readonly #byMention = new KeyIndex<TransactionEntry>()
  /** Filters that count owners of token balances as mentioned. */
  readonly #byOwner = new KeyIndex<TransactionEntry>()
  readonly #any = new Set<TransactionEntry>()
  readonly #all = new Set<TransactionEntry>()

  get isEmpty(): boolean {
    return this.#all.size === 0
  }

  add(entry: TransactionEntry): void {
    this.#all.add(entry)
    this.#each(entry, (index, key) => index.add(key, entry))
  }

  remove(entry: TransactionEntry): void {
    if (!this.#all.delete(entry)) return
    this.#any.delete(entry)
    this.#each(entry, (index, key) => index.remove(key, entry))
  }

  /** Calls `take` for each candidate, with duplicates. */
  candidates(update: TransactionUpdate, take: (entry: TransactionEntry) => void): void {
    if (!this.#bySignature.isEmpty) this.#bySignature.find(update.signature)?.forEach(take)
    if (!this.#byMention.isEmpty)
      for (const key of update.keys) this.#byMention.find(key)?.forEach(take)
    if (!this.#byOwner.isEmpty)
      // Owners whose balance changed are among them.
      for (const key of update.tokenOwners) this.#byOwner.find(key)?.forEach(take)
    this.#any.forEach(take)
  }

  #each(
    entry: TransactionEntry,
    run: (index: KeyIndex<TransactionEntry>, key: string) => void,
  ): void {
    const { signature, required, include, cuckoo, tokenOwners } = entry.filter
    if (signature !== null) {
      run(this.#bySignature, signature)
      return
    }
    const keys = required.length > 0 ? [required[0]!] : cuckoo === null ? include : []
    let isAny = true
    for (const key of keys) {
      isAny = false
      run(this.#byMention, key)
      if (tokenOwners !== 'none') run(this.#byOwner, key)
    }
    if (isAny && this.#all.has(entry)) this.#any.add(entry)
  }
}

// An index from keys to filters, fast for the many keys without any.
// A bitmap over a key's first bytes finds most absent keys without building a string for the map.

const bitmapBits = 1 << 20
const bitmapMask = bitmapBits - 1

export class KeyIndex<E> {
  readonly #entries = new Map<KeyText, E[]>()
  /** Allocated with the first key: most indices of a replaying stream stay empty. */
  #bitmap: Uint32Array | null = null
  /** Keys per bit: a bit is cleared with its last key. */
  readonly #counts = new Map<number, number>()

  get isEmpty(): boolean {
    return this.#entries.size === 0
  }

  add(key: KeyText, entry: E): void {
    const entries = this.#entries.get(key)
    if (entries !== undefined) {
      entries.push(entry)
      return
    }
    this.#entries.set(key, [entry])
    const bit = bitOf(key.charCodeAt(0), key.charCodeAt(1), key.charCodeAt(2))
    this.#counts.set(bit, (this.#counts.get(bit) ?? 0) + 1)
    this.#bitmap ??= new Uint32Array(bitmapBits / 32)
    this.#bitmap[bit >>> 5]! |= 1 << (bit & 31)
  }

  remove(key: KeyText, entry: E): void {
    const entries = this.#entries.get(key)
    const at = entries?.indexOf(entry) ?? -1
    if (entries === undefined || at === -1) return
    entries.splice(at, 1)
    if (entries.length > 0) return
    this.#entries.delete(key)
    const bit = bitOf(key.charCodeAt(0), key.charCodeAt(1), key.charCodeAt(2))
    const left = this.#counts.get(bit)! - 1
    if (left > 0) this.#counts.set(bit, left)
    else {
      this.#counts.delete(bit)
      this.#bitmap![bit >>> 5]! &= ~(1 << (bit & 31))
    }
  }

  /** The entries of this key; undefined without any. */
  find(key: Uint8Array): readonly E[] | undefined {
    if (this.#bitmap === null) return undefined
    const bit = bitOf(key[0]!, key[1]!, key[2]!)
    if ((this.#bitmap[bit >>> 5]! & (1 << (bit & 31))) === 0) return undefined
    return this.#entries.get(keyOf(key))
  }
}

function bitOf(first: number, second: number, third: number): number {
  return ((first << 16) | (second << 8) | third) & bitmapMask
}

// The bodies of one update in the variants that filters select, each encoded at most once.

/** An account's body reduced to slices of its data. */
export class AccountBodies {
  readonly #update: AccountUpdate
  readonly #sliced = new Map<string, Buffer>()

  constructor(update: AccountUpdate) {
    this.#update = update
  }

  for(filters: FilterSet): Uint8Array {
    let body = this.#sliced.get(filters.sliceKey)
    if (body === undefined) {
      body = encodeAccount(slicedInfo(this.#update, filters), this.#update).body
      this.#sliced.set(filters.sliceKey, body)
    }
    return body
  }
}

/** A block's body by what a filter includes. */
export class BlockBodies {
  readonly #update: BlockUpdate
  readonly #bodies = new Map<string, Buffer>()

  constructor(update: BlockUpdate) {
    this.#update = update
  }

  for(filter: BlockFilter, filters: FilterSet): Uint8Array {
    const key = filter.withAccounts ? `${filter.shape} ${filters.sliceKey}` : filter.shape
    let body = this.#bodies.get(key)
    if (body === undefined) {
      body = select(this.#update, filter, filters)
      this.#bodies.set(key, body)
    }
    return body
  }
}

function select(block: BlockUpdate, filter: BlockFilter, filters: FilterSet): Buffer {
  const transactions = filter.withTransactions
    ? block.transactions.filter((transaction) => includesTransaction(filter, transaction))
    : []
  const accounts = filter.withAccounts
    ? block.accounts.filter(({ pubkey }) => includesKey(filter, pubkey))
    : []
  return encodeBlock({
    slot: block.slot,
    meta: block.meta,
    rewards: block.meta.rewards,
    updatedAccountCount: block.accounts.length,
    transactions: transactions.map(({ info }) => info),
    accounts: accounts.map((account) =>
      filters.slices.length === 0 ? account.info : slicedInfo(account, filters),
    ),
    entries: filter.withEntries ? block.entries.map(({ body }) => body) : [],
  })
}

function slicedInfo(account: AccountUpdate, filters: FilterSet): Buffer {
  return encodeAccountInfo(account, sliceData(account.data, filters.slices))
}
