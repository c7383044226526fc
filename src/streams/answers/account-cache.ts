// Keeps the accounts that customers read current by the stream: a coherent read-through cache.
// An account is read once from a node, at confirmed, at a slot that the stream has confirmed or
// passed. Every later write comes by the stream, which publishes a slot's writes at confirmed as a
// whole. So the state at a slot is known exactly, from the slot of that read on, as long as every
// confirmed block was complete and the parent of the next; otherwise all accounts are forgotten.
// At processed the writes of the blocks above the confirmed one come on top, while these are known
// as complete and each other's parents, and no later slot has written the account.
//
//   asked once ─► asked again: read from a node ─► base, slot 90 ─► write, 93 ─► write, 97
//                                                  └ finalized 95 reads 93 ┘
//
// LRU by bytes. Sysvars are not kept: nodes do not stream all of them.
import { Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import { LruMap } from '../../base/lru-map.ts'
import { isSameKey, keyOf } from '../../chain/solana/base58.ts'
import type { AccountState } from '../../chain/solana/geyser-decode.ts'
import { sysvarOwner } from '../../chain/solana/programs.ts'
import type { AccountUpdate, BlockUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'

export interface AccountCacheDeps {
  readonly bytesMax: number
  /** Reads an account from a node at confirmed, at that slot or later; null when it failed. */
  read(pubkey: Uint8Array, minSlot: number): Promise<AccountAt | 'too large' | null>
}

interface Entry {
  readonly pubkey: Uint8Array
  /** `refused`: not answered from here, since it is too large, a sysvar, or evicted. */
  state: 'asked' | 'reading' | 'ready' | 'refused'
  /** Slot of the node's read; writes up to it are part of that. Before: of the last try. */
  baseSlot: number
  /** Ascending by slot: confirmed ones, and those of slots above the confirmed one. */
  versions: Version[]
  pending: Version[]
  /** Pending versions are complete above this slot: its writes may have come before the entry. */
  pendingSlot: number
  bytes: number
}

/** Larger accounts take longer to encode than the main thread may. */
const accountBytesMax = 128 * 1024
/** Most of the bytes for one account. */
const shareMax = 1 / 8
const entryBytes = 320
const readsMax = 32

export class AccountCache {
  readonly #entries = new LruMap<string, Entry>()
  readonly #deps: AccountCacheDeps
  readonly #dataBytesMax: number
  /** The newest confirmed block, while every block up to it was complete; null after a gap. */
  #newest: BlockName | null = null
  readonly #line = new ProcessedLine()
  /** The highest slot of any write. */
  #highestSlot = 0
  #finalizedSlot = 0
  bytes = 0
  #reads = 0
  /** Called when a slot that was read before has changed: a late write, or a gap. */
  onChange: () => void = () => {}

  constructor(hub: SolanaHub, deps: AccountCacheDeps) {
    this.#deps = deps
    this.#dataBytesMax = Math.min(accountBytesMax, deps.bytesMax * shareMax)
    hub.onRestart(() => {
      this.#highestSlot = 0
      this.#finalizedSlot = 0
      this.#forget()
    })
    hub.listen(
      (commitment, update) => {
        if (commitment === Commitment.finalized && update.kind === 'blockMeta')
          this.#finalizedSlot = Math.max(this.#finalizedSlot, update.slot)
        if (commitment === Commitment.processed) this.#process(update)
        if (commitment !== Commitment.confirmed) return
        if (update.kind === 'account') this.#write(update)
        else if (update.kind === 'block') this.#extend(update)
        // A meta without its block: some of its writes were lost.
        else if (update.kind === 'blockMeta' && update.slot > (this.#newest?.slot ?? 0))
          this.#forget()
      },
      (commitment) => commitment === Commitment.confirmed && this.#entries.size > 0,
    )
  }

  get size(): number {
    return this.#entries.size
  }

  /** The account as of a confirmed slot; undefined when only a node knows. */
  read(pubkey: Uint8Array, slot: number): AccountState | null | undefined {
    const entry = this.#readyEntry(pubkey)
    return entry?.versions.findLast((version) => version.slot <= slot)?.account
  }

  /** The account as of a complete slot above the confirmed one; undefined as above. */
  readProcessed(pubkey: Uint8Array, slot: number): AccountState | null | undefined {
    const entry = this.#readyEntry(pubkey)
    const newest = this.#newest
    if (entry === undefined || newest === null || newest.slot < entry.pendingSlot) return undefined
    this.#dropPending(entry)
    // A slot that is not complete has written it: a caller may have been notified of that.
    if ((entry.pending.at(-1)?.slot ?? 0) > slot) return undefined
    const line = this.#line.down(slot, newest)
    if (line === null) return undefined
    const pending = entry.pending.findLast((version) => line.includes(version.slot))
    return pending === undefined ? this.read(pubkey, newest.slot) : pending.account
  }

  /** Undefined when it is not there yet; then it is asked for. */
  #readyEntry(pubkey: Uint8Array): Entry | undefined {
    const key = keyOf(pubkey)
    const entry = this.#entries.get(key)
    if (entry === undefined) {
      if (entryBytes > this.#deps.bytesMax) return undefined
      const lists = { versions: [], pending: [] }
      const slots = { baseSlot: 0, pendingSlot: 0 }
      this.#entries.set(key, { pubkey, state: 'asked', ...slots, ...lists, bytes: entryBytes })
      this.#grow(entryBytes)
      return undefined
    }
    if (entry.state === 'asked') void this.#fill(entry)
    return entry.state === 'ready' ? entry : undefined
  }

  async #fill(entry: Entry): Promise<void> {
    const newest = this.#newest
    if (newest === null || newest.slot === entry.baseSlot || this.#reads >= readsMax) return
    entry.state = 'reading'
    entry.baseSlot = newest.slot
    entry.pendingSlot = this.#highestSlot
    this.#reads++
    const found = await this.#deps.read(entry.pubkey, newest.slot)
    this.#reads--
    assert(this.#reads >= 0 && this.#reads < readsMax, 'reads of nodes are counted')
    // Forgotten, evicted, or refused for what the stream wrote meanwhile.
    if (this.#entries.peek(keyOf(entry.pubkey)) !== entry || entry.state !== 'reading') return
    if (found === 'too large') this.#drop(entry, 'refused')
    else if (found === null || found.slot < newest.slot) this.#drop(entry, 'asked')
    else {
      const { account } = found
      const later = entry.versions.filter(({ slot }) => slot > found.slot)
      const { pending } = entry
      this.#drop(entry, 'ready')
      entry.baseSlot = found.slot
      for (const version of [{ slot: found.slot, account, writeVersion: 0n }, ...later])
        this.#push(entry, version)
      for (const version of pending) this.#pushPending(entry, version)
    }
  }

  #process(update: SolanaUpdate): void {
    if (update.kind === 'account') {
      this.#highestSlot = Math.max(this.#highestSlot, update.slot)
      if (this.#entries.size > 0) this.#writeProcessed(update)
    } else if (update.kind === 'block') this.#line.add(update)
    else if (update.kind === 'retraction') this.#line.doubt(update.slot, true)
  }

  #writeProcessed(update: AccountUpdate): void {
    this.#line.doubt(update.slot)
    const entry = this.#entries.peek(keyOf(update.pubkey))
    if (entry === undefined || entry.state === 'asked' || entry.state === 'refused') return
    this.#dropPending(entry)
    if (update.data.length > this.#dataBytesMax) this.#drop(entry, 'refused')
    else this.#pushPending(entry, versionOf(update, entry.pubkey))
  }

  #pushPending(entry: Entry, version: Version): void {
    if (entry.state === 'refused') return
    const grown = insertVersion(entry.pending, version)
    entry.bytes += grown
    this.#grow(grown)
  }

  /** Those that a confirmed block has replaced. */
  #dropPending(entry: Entry): void {
    const confirmedSlot = this.#newest?.slot ?? 0
    while (entry.pending.length > 0 && entry.pending[0]!.slot <= confirmedSlot) {
      const bytes = shiftVersion(entry.pending)
      entry.bytes -= bytes
      this.bytes -= bytes
    }
  }

  #write(update: AccountUpdate): void {
    if (this.#entries.size === 0) return
    const entry = this.#entries.peek(keyOf(update.pubkey))
    if (entry === undefined || entry.state === 'asked' || entry.state === 'refused') return
    const { slot } = update
    if (entry.state === 'ready' && slot <= entry.baseSlot) return
    if (update.data.length > this.#dataBytesMax) this.#drop(entry, 'refused')
    else this.#push(entry, versionOf(update, entry.pubkey))
    if (this.#newest !== null && slot <= this.#newest.slot) this.onChange()
  }

  /** Keeps the last version of each slot, in order, and none that finalized reads have passed. */
  #push(entry: Entry, version: Version): void {
    const { versions } = entry
    const { account } = version
    if (entry.state === 'refused') return
    const isLong = account !== null && account.data.length > this.#dataBytesMax
    if (isLong || (account !== null && isSameKey(account.owner, sysvarOwner))) {
      this.#drop(entry, 'refused')
      return
    }
    let grown = insertVersion(versions, version)
    while (versions.length > 1 && versions[1]!.slot <= this.#finalizedSlot)
      grown -= shiftVersion(versions)
    entry.bytes += grown
    this.#grow(grown)
  }

  /** Drops all versions. */
  #drop(entry: Entry, state: Entry['state']): void {
    assert(entry.bytes >= entryBytes, 'an entry counts its versions')
    entry.state = state
    this.bytes += entryBytes - entry.bytes
    entry.bytes = entryBytes
    entry.versions = []
    entry.pending = []
  }

  #extend({ slot, meta }: BlockUpdate): void {
    const newest = this.#newest
    if (newest !== null && slot <= newest.slot) return
    const isChild = meta.parentSlot === newest?.slot && meta.parentBlockhash === newest.blockhash
    if (newest !== null && !isChild) this.#forget()
    this.#newest = { slot, blockhash: meta.blockhash }
    this.#line.confirmed(slot)
  }

  /** The stream has missed something: nothing is current any more. */
  #forget(): void {
    this.#newest = null
    this.#line.clear()
    this.#entries.clear()
    this.bytes = 0
    this.onChange()
  }

  #grow(bytes: number): void {
    this.bytes += bytes
    while (this.bytes > this.#deps.bytesMax && this.#entries.size > 0) {
      const entry = this.#entries.evict()!
      this.bytes -= entry.bytes
      entry.state = 'refused'
    }
    const isCounted = this.#entries.size > 0 ? this.bytes >= entryBytes : this.bytes === 0
    assert(isCounted, 'the bytes of the entries are counted')
  }
}

// The versions of one account by their slots.

/** An account at a slot; null when there was none. */
export interface AccountAt {
  readonly slot: number
  readonly account: AccountState | null
}

export interface Version extends AccountAt {
  readonly writeVersion: bigint
}

const versionBytes = 512

/** Keeps the last version of each slot, ascending; returns the bytes that were added. */
export function insertVersion(versions: Version[], version: Version): number {
  let at = versions.length
  while (at > 0 && versions[at - 1]!.slot > version.slot) at--
  const same = versions[at - 1]
  if (same?.slot !== version.slot) {
    versions.splice(at, 0, version)
    return bytesOf(version)
  }
  if (same.writeVersion > version.writeVersion) return 0
  versions[at - 1] = version
  return bytesOf(version) - bytesOf(same)
}

/** Removes the first version; returns its bytes. */
export function shiftVersion(versions: Version[]): number {
  assert(versions.length > 0, 'a version is removed once')
  return bytesOf(versions.shift()!)
}

/** A copy: an update is a view of a message, which it would keep in memory. */
export function versionOf(update: AccountUpdate, pubkey: Uint8Array): Version {
  const { slot, writeVersion, lamports, executable, rentEpoch } = update
  if (lamports === 0n) return { slot, writeVersion, account: null }
  const owner = new Uint8Array(update.owner)
  const data = new Uint8Array(update.data)
  const account = { pubkey, lamports, owner, executable, rentEpoch, data }
  return { slot, writeVersion, account }
}

function bytesOf({ account }: AccountAt): number {
  return versionBytes + (account?.data.length ?? 0)
}

// Tracks the complete blocks above the confirmed one, and which of them are one line of parents.

export interface BlockName {
  readonly slot: number
  readonly blockhash: string
}

interface Child extends BlockName {
  /** Null when its writes are in doubt. */
  readonly parent: BlockName | null
}

/** A healthy chain has two. */
const blocksMax = 1_024

export class ProcessedLine {
  readonly #blocks = new Map<number, Child>()

  add({ slot, meta, isMixed = false }: BlockUpdate): void {
    const { blockhash, parentSlot, parentBlockhash } = meta
    // Published twice, or retracted before: it may have writes of the one that it replaces.
    const isDoubtful = isMixed || this.#blocks.has(slot)
    const parent = isDoubtful ? null : { slot: parentSlot, blockhash: parentBlockhash }
    this.#blocks.set(slot, { slot, blockhash, parent })
    while (this.#blocks.size > blocksMax) this.#blocks.delete(this.#blocks.keys().next().value!)
  }

  /** A write after its block is late, or of another version of it; after a retraction any is. */
  doubt(slot: number, isRetracted = false): void {
    const block = this.#blocks.get(slot) ?? (isRetracted ? { slot, blockhash: '' } : undefined)
    if (block !== undefined) this.#blocks.set(slot, { ...block, parent: null })
  }

  confirmed(slot: number): void {
    for (const at of this.#blocks.keys()) if (at <= slot) this.#blocks.delete(at)
  }

  clear(): void {
    this.#blocks.clear()
  }

  /** The slots from `slot` down to the confirmed block, without that; null when unknown. */
  down(slot: number, confirmed: BlockName): number[] | null {
    const slots: number[] = []
    let at: BlockName = this.#blocks.get(slot) ?? confirmed
    if (at.slot !== slot) return null
    while (at.slot > confirmed.slot) {
      const block = this.#blocks.get(at.slot)
      if (block === undefined || block.parent === null || block.blockhash !== at.blockhash)
        return null
      slots.push(at.slot)
      at = block.parent
    }
    return at.slot === confirmed.slot && at.blockhash === confirmed.blockhash ? slots : null
  }
}
