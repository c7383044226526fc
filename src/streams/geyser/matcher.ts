// Matches each update against the filters of all groups.
// One matcher per commitment for live streams, and one for each replaying stream.
//
//   update -> index: candidate filters -> filter-match.ts: matching ones -> group.append
//
// The index finds candidates by account, owner, mentioned key or signature, so that an update
// costs by the streams it reaches, not by all streams. Filters without a key (all accounts, cuckoo
// sets) are in lists that every update scans.
import { Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { programsOf } from '../../chain/solana/instruction-filter.ts'
import { type KeptUpdates, KnownBlocks } from '../../chain/solana/known-blocks.ts'
import {
  type AccountUpdate,
  type BlockUpdate,
  type RetractionUpdate,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { KeyList, KeyText } from '../hub/key-list.ts'
import {
  AccountBodies,
  BlockBodies,
  matchesAccount,
  matchesTransaction,
  TransactionBodies,
  TransactionKeys,
} from './filter-match.ts'
import {
  type AccountFilter,
  type KeyChange,
  keysAt,
  type ListAt,
  listsOf,
  type NamedFilter,
  type TransactionFilter,
} from './filter-set.ts'
import { createdAtSuffix, type Entry, frameOf, type SubscriberGroup, updateTag } from './frame.ts'
import type { StreamStates } from './joined-states.ts'

/** A list with changes that are not settled. */
interface ChangingList {
  readonly group: SubscriberGroup
  readonly edit: EditIndex
}

/** Adds a key of a list to the index that finds its filter, or removes it there. */
type EditIndex = (how: 'add' | 'remove', key: KeyText) => void

export class Matcher {
  readonly #commitment: Commitment
  readonly #groups = new Map<SubscriberGroup, Entry<NamedFilter>[]>()
  readonly #byAccount = new KeyIndex<Entry<AccountFilter>>()
  readonly #byOwner = new KeyIndex<Entry<AccountFilter>>()
  readonly #anyAccount = new Set<Entry<AccountFilter>>()
  readonly #transactions = new TransactionIndex()
  readonly #statuses = new TransactionIndex()
  /** By `slotClassOf` a status. */
  readonly #slots = [new NamedGroups(), new NamedGroups(), new NamedGroups()] as const
  readonly #withEntries = new NamedGroups()
  readonly #withBlocks = new Set<SubscriberGroup>()
  readonly #withMeta = new NamedGroups()
  /** Groups that matched the current update: the first `#touchedCount`. */
  readonly #touched: SubscriberGroup[] = []
  #touchedCount = 0
  #stamp = 0
  /** The newest slot of which something was delivered that keys select; -1 before the first. */
  #newestSlot: number
  readonly #changing = new Map<KeyList, ChangingList>()
  readonly #blocks: KnownBlocks
  /** Of the groups that compare. */
  readonly #states = new Set<StreamStates>()
  /** Filters that are sent the states of these accounts. */
  readonly #watchers = new KeyIndex<Entry<TransactionFilter>>()

  constructor(
    commitment: Commitment = Commitment.processed,
    kept: KeptUpdates = () => [],
    newestSlot = -1,
  ) {
    this.#commitment = commitment
    this.#blocks = new KnownBlocks(commitment, kept)
    this.#newestSlot = newestSlot
  }

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
    for (const filter of filters.transactions) {
      const fresh = entry(filter)
      this.#transactions.add(fresh)
      this.#editWatched('add', fresh)
    }
    for (const filter of filters.statuses) this.#statuses.add(entry(filter))
    this.#editNamed('add', group)
    if (filters.blocks.length > 0) this.#withBlocks.add(group)
    this.#groups.set(group, made)
    if (filters.states !== null) this.#states.add(filters.states)
    for (const at of listsOf(filters)) this.#watchChanges(group, at)
  }

  remove(group: SubscriberGroup): void {
    for (const entry of this.#groups.get(group) ?? []) {
      // Reason for the casts: the type of an entry is unknown here, and removing it from the lists
      // of another kind does nothing.
      const asAccount = entry as Entry<AccountFilter>
      const asTransaction = entry as Entry<TransactionFilter>
      if (group.filters.accounts.includes(asAccount.filter)) {
        for (const key of asAccount.filter.accounts) this.#byAccount.remove(key, asAccount)
        for (const key of asAccount.filter.owners) this.#byOwner.remove(key, asAccount)
        this.#anyAccount.delete(asAccount)
      }
      this.#transactions.remove(asTransaction)
      if (group.filters.transactions.includes(asTransaction.filter))
        this.#editWatched('remove', asTransaction)
      this.#statuses.remove(asTransaction)
    }
    this.#editNamed('remove', group)
    this.#withBlocks.delete(group)
    this.#groups.delete(group)
    if (group.filters.states !== null) this.#states.delete(group.filters.states)
    for (const [keys, changing] of this.#changing)
      if (changing.group === group) this.#changing.delete(keys)
  }

  /** Changes keys of a group; returns the first slot that is matched by the new ones. */
  changeKeys(group: SubscriberGroup, changes: readonly KeyChange[]): number {
    const fromSlot = this.#newestSlot + 1
    for (const change of changes) {
      const edit = this.#editOf(group, change)
      for (const key of keysAt(group.filters, change).change(change.delta, fromSlot))
        edit('add', key)
      this.#watchChanges(group, change)
    }
    return fromSlot
  }

  /** The chain begins anew: its slots may be lower, and all of them are matched by the new keys. */
  restart(): void {
    this.#advance(Number.POSITIVE_INFINITY)
    this.#newestSlot = -1
    this.#blocks.restart()
    for (const states of this.#states) states.restart()
  }

  /** An update that is not delivered: states and the chain are of it, too. */
  observe(update: SolanaUpdate): void {
    this.#track(update)
    if (update.kind !== 'account' || this.#states.size === 0) return
    this.#matchAccount(update)
    this.#touchedCount = 0
  }

  #track(update: SolanaUpdate): void {
    const isWhole = () => this.#blocks.isWhole(update.slot)
    for (const states of this.#states) states.take(update, isWhole)
  }

  #editNamed(how: 'add' | 'remove', group: SubscriberGroup): void {
    const { slots, entries, blocksMeta } = group.filters
    this.#slots[slotClass.commitment][how](group, slots)
    const every = slots.filter(({ byCommitment }) => !byCommitment)
    this.#slots[slotClass.other][how](group, every)
    this.#slots[slotClass.interslot][how](
      group,
      every.filter(({ interslot }) => interslot),
    )
    this.#withEntries[how](group, entries)
    this.#withMeta[how](group, blocksMeta)
  }

  #watchChanges(group: SubscriberGroup, at: ListAt): void {
    const keys = keysAt(group.filters, at)
    if (keys.changedKeys > 0) this.#changing.set(keys, { group, edit: this.#editOf(group, at) })
  }

  #advance(slot: number): void {
    this.#newestSlot = slot
    for (const [keys, { edit }] of this.#changing) {
      for (const key of keys.settle(slot)) edit('remove', key)
      if (keys.changedKeys === 0) this.#changing.delete(keys)
    }
  }

  #editOf(group: SubscriberGroup, at: ListAt): EditIndex {
    if (at.kind === 'blocks') return () => {}
    const filter = group.filters[at.kind][at.ordinal]
    const entry = this.#groups.get(group)!.find((one) => one.filter === filter)
    // Reason for the casts: `filter` is of the kind of the list.
    if (at.kind === 'accounts') {
      const own = entry as Entry<AccountFilter>
      const index = this.#indexOf(own.filter)
      const ofList = at.list === 'accounts' ? this.#byAccount : this.#byOwner
      return (how, key) => index === ofList && ofList[how](key, own)
    }
    const index = at.kind === 'transactions' ? this.#transactions : this.#statuses
    const own = entry as Entry<TransactionFilter>
    return (how, key) => {
      if (at.list !== 'include') return
      index.edit(how, key, own)
      this.#editWatched(how, own, [key])
      if (own.filter.withStates && how === 'remove') group.filters.states!.joined.forget(key)
    }
  }

  /** Appends the framed update to every matching group; returns the number of deliveries. */
  deliver(update: SolanaUpdate): number {
    if (update.slot > this.#newestSlot && this.#isReached(update)) this.#advance(update.slot)
    if (this.#groups.size === 0) return 0
    if (this.#states.size > 0) this.#track(update)
    switch (update.kind) {
      case 'account':
        this.#matchAccount(update)
        return this.#send(updateTag.account, update.body, update)
      case 'transaction':
        return this.#deliverTransaction(update)
      case 'slot':
        return this.#slots[this.#slotClassOf(update)].send(updateTag.slot, update)
      case 'entry':
        return this.#withEntries.send(updateTag.entry, update)
      case 'blockMeta':
        return this.#withMeta.send(updateTag.blockMeta, update)
      case 'block':
        return this.#deliverBlock(update)
      case 'retraction':
        return this.#deliverRetraction(update)
    }
  }

  #editWatched(
    how: 'add' | 'remove',
    entry: Entry<TransactionFilter>,
    keys: Iterable<KeyText> = entry.filter.include,
  ): void {
    if (entry.filter.withStates) for (const key of keys) this.#watchers[how](key, entry)
  }

  #noteWatched(update: AccountUpdate): void {
    const watching = this.#watchers.find(update.pubkey)
    if (watching === undefined) return
    const isWhole = this.#blocks.of(update.slot)?.isWhole === true
    // Two filters of a stream may watch it.
    const states = new Set(watching.map(({ group }) => group.filters.states))
    for (const one of states) one!.joined.note(update, isWhole)
  }

  /** Whether something of its slot that keys select is delivered with it, or was before. */
  #isReached(update: SolanaUpdate): boolean {
    if (update.kind !== 'slot') return true
    return update.status >= this.#commitment && update.status <= slotStatus.finalized
  }

  #matchAccount(update: AccountUpdate): void {
    if (!this.#watchers.isEmpty) this.#noteWatched(update)
    const stamp = ++this.#stamp
    // Read only when needed: keys of an update from a node are decoded on first access.
    const listed = this.#byAccount.isEmpty ? undefined : this.#byAccount.find(update.pubkey)
    if (listed !== undefined) for (const entry of listed) this.#tryAccount(entry, update, stamp)
    const owned = this.#byOwner.isEmpty ? undefined : this.#byOwner.find(update.owner)
    if (owned !== undefined) for (const entry of owned) this.#tryAccount(entry, update, stamp)
    for (const entry of this.#anyAccount) this.#tryAccount(entry, update, stamp)
  }

  #tryAccount(entry: Entry<AccountFilter>, update: AccountUpdate, stamp: number): void {
    if (entry.stamp === stamp) return
    entry.stamp = stamp
    const { filter, group } = entry
    if (!matchesAccount(filter, update)) return
    if (filter.diffOnly && !group.filters.states!.isChange(filter.ordinal, update)) return
    this.#hit(entry, stamp)
  }

  #deliverTransaction(update: TransactionUpdate): number {
    if (this.#transactions.isEmpty && this.#statuses.isEmpty) return 0
    const keys = new TransactionKeys(update)
    let reached = 0
    if (this.#matchMention(this.#transactions, keys))
      reached += this.#send(updateTag.transaction, update.body, update)
    // Encoded only for those who ask for it.
    if (this.#matchMention(this.#statuses, keys))
      reached += this.#send(updateTag.transactionStatus, update.statusBody, update)
    return reached
  }

  #matchMention(index: TransactionIndex, keys: TransactionKeys): boolean {
    if (index.isEmpty) return false
    const stamp = ++this.#stamp
    index.candidates(keys.update, (entry) => {
      if (entry.stamp === stamp) return
      entry.stamp = stamp
      if (matchesTransaction(entry.filter, keys)) this.#hit(entry, stamp)
    })
    return this.#touchedCount > 0
  }

  #slotClassOf({ status }: SlotUpdate) {
    if (status === this.#commitment) return slotClass.commitment
    return status > slotStatus.finalized ? slotClass.interslot : slotClass.other
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

  /** Sends to every group that matched; those that select slices or extras get a body of theirs. */
  #send(tag: number, body: Uint8Array, update: AccountUpdate | TransactionUpdate) {
    const count = this.#touchedCount
    if (count === 0) return 0
    this.#touchedCount = 0
    const suffix = createdAtSuffix(update.createdAtMs)
    let accounts: AccountBodies | null = null
    let transactions: TransactionBodies | null = null
    let reached = 0
    for (let index = 0; index < count; index++) {
      const group = this.#touched[index]!
      let own = body
      if (update.kind === 'account' && group.filters.slices.length > 0) {
        accounts ??= new AccountBodies(update)
        own = accounts.for(group.filters)
      } else if (update.kind === 'transaction' && group.filters.hasExtras) {
        transactions ??= new TransactionBodies(update, body, this.#blocks)
        // Reason for the cast: filters of transactions are what it matched.
        const hits = (group.moreHits ?? [group.hit]) as TransactionFilter[]
        own = transactions.for(hits, group.filters.states)
      }
      group.append(tag, prefixOf(group), own, suffix)
      reached += group.sinks.size
    }
    return reached
  }

  #addAccount(entry: Entry<AccountFilter>): void {
    const { accounts, owners } = entry.filter
    const index = this.#indexOf(entry.filter)
    if (index === null) this.#anyAccount.add(entry)
    else for (const key of index === this.#byAccount ? accounts : owners) index.add(key, entry)
  }

  /** Where a filter is found by a key; null for one that every update tries. */
  #indexOf({ accounts, cuckoo, owners }: AccountFilter): KeyIndex<Entry<AccountFilter>> | null {
    // Not by account when a cuckoo set may match others.
    if (accounts.isCondition && cuckoo === null) return this.#byAccount
    return owners.isCondition ? this.#byOwner : null
  }
}

function prefixOf({ hit, moreHits }: SubscriberGroup): Buffer {
  if (moreHits === null) return hit!.prefix
  return joinedPrefix(moreHits.sort((a, b) => a.ordinal - b.ordinal))
}

function joinedPrefix(filters: readonly NamedFilter[]): Buffer {
  if (filters.length === 1) return filters[0]!.prefix
  return Buffer.concat(filters.map(({ prefix }) => prefix))
}

/** Which filters take a status: all, those of every status, those of statuses between slots. */
const slotClass = { commitment: 0, other: 1, interslot: 2 } as const

/**
 * Groups by the names of their filters without conditions. What differs by names alone is encoded
 * once for all groups of equal names.
 */
class NamedGroups {
  readonly #byNames = new Map<string, { readonly prefix: Buffer; groups: Set<SubscriberGroup> }>()

  add(group: SubscriberGroup, filters: readonly NamedFilter[]): void {
    if (filters.length === 0) return
    const prefix = joinedPrefix(filters)
    const names = prefix.toString('latin1')
    const named = this.#byNames.get(names) ?? { prefix, groups: new Set() }
    this.#byNames.set(names, named)
    named.groups.add(group)
  }

  remove(group: SubscriberGroup, filters: readonly NamedFilter[]): void {
    const names = joinedPrefix(filters).toString('latin1')
    const groups = this.#byNames.get(names)?.groups
    groups?.delete(group)
    if (groups?.size === 0) this.#byNames.delete(names)
  }

  /** Returns the number of deliveries. */
  send(tag: number, { body, createdAtMs }: { body: Uint8Array; createdAtMs: number }): number {
    let reached = 0
    for (const { prefix, groups } of this.#byNames.values()) {
      const frame = groups.size === 1 ? null : frameOf(tag, body, createdAtMs, prefix)
      for (const group of groups) {
        if (frame !== null) group.share(frame)
        else group.append(tag, prefix, body, createdAtSuffix(createdAtMs))
        reached += group.sinks.size
      }
    }
    return reached
  }
}

// An index of transaction filters that finds the candidates for a transaction.
// A filter is under its most selective key: its signature, else one key that it requires, else
// each key that it includes, else the programs of its instructions, else in the list that every
// transaction scans.

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
    this.#editAll('add', entry)
  }

  remove(entry: TransactionEntry): void {
    if (this.#all.delete(entry)) this.#editAll('remove', entry)
  }

  /** A key of the filter's `include` comes or goes. */
  edit(how: 'add' | 'remove', key: KeyText, entry: TransactionEntry): void {
    if (isByInclude(entry.filter)) this.#edit(how, key, entry)
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

  #editAll(how: 'add' | 'remove', entry: TransactionEntry): void {
    const { signature, required, include, instructions } = entry.filter
    if (signature !== null) this.#bySignature[how](signature, entry)
    else if (required.length > 0) this.#edit(how, required[0]!, entry)
    else if (isByInclude(entry.filter)) for (const key of include) this.#edit(how, key, entry)
    else if (instructions.length > 0)
      for (const program of programsOf(instructions)) this.#byMention[how](program, entry)
    else this.#any[how === 'add' ? 'add' : 'delete'](entry)
  }

  #edit(how: 'add' | 'remove', key: KeyText, entry: TransactionEntry): void {
    this.#byMention[how](key, entry)
    if (entry.filter.tokenOwners !== 'none') this.#byOwner[how](key, entry)
  }
}

function isByInclude({ signature, required, include, cuckoo }: TransactionFilter): boolean {
  return signature === null && required.length === 0 && include.isCondition && cuckoo === null
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
