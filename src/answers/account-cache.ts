// Keeps the accounts that customers read current by the stream: a coherent read-through cache.
// Thread: main.
// An account is read once from a node, at confirmed, at a slot that the stream has confirmed or
// passed. Every later write comes by the stream, which publishes a slot's writes at confirmed as a
// whole. So the state at a slot is known exactly, from the slot of that read on, as long as every
// confirmed block was complete and the parent of the next; otherwise all accounts are forgotten.
//
//   asked once ─► asked again: read from a node ─► base, slot 90 ─► write, 93 ─► write, 97
//                                                  └ finalized 95 reads 93 ┘
//
// LRU by bytes. Sysvars are not kept: nodes do not stream all of them.
import { Commitment } from '../base/commitment.ts'
import { LruMap } from '../base/lru-map.ts'
import type { SolanaHub } from '../geyser/hub.ts'
import type { AccountState } from '../solana/geyser-content.ts'
import { isSameKey, keyOf } from '../solana/keys.ts'
import { sysvarOwner } from '../solana/programs.ts'
import type { AccountUpdate, BlockUpdate } from '../solana/updates.ts'

/** An account at a slot; null when there was none. */
export interface AccountAt {
  readonly slot: number
  readonly account: AccountState | null
}

export interface AccountCacheDeps {
  readonly bytesMax: number
  /** Reads an account from a node at confirmed, at that slot or later; null when it failed. */
  read(pubkey: Uint8Array, minSlot: number): Promise<AccountAt | 'too large' | null>
}

interface Version extends AccountAt {
  readonly writeVersion: bigint
}

interface Entry {
  readonly pubkey: Uint8Array
  /** `refused`: not answered from here, since it is too large, a sysvar, or evicted. */
  state: 'asked' | 'reading' | 'ready' | 'refused'
  /** Slot of the node's read; writes up to it are part of that. Before: of the last try. */
  baseSlot: number
  /** Ascending by slot. */
  versions: Version[]
  bytes: number
}

/** Larger accounts take longer to encode than the main thread may. */
const accountBytesMax = 128 * 1024
/** Most of the bytes for one account. */
const shareMax = 1 / 8
const entryBytes = 320
const versionBytes = 512
const readsMax = 32

export class AccountCache {
  readonly #entries = new LruMap<string, Entry>()
  readonly #deps: AccountCacheDeps
  readonly #dataBytesMax: number
  /** The newest confirmed block, while every block up to it was complete; null after a gap. */
  #newest: { readonly slot: number; readonly blockhash: string } | null = null
  #finalizedSlot = 0
  #bytes = 0
  #reads = 0
  /** Called when a slot that was read before has changed: a late write, or a gap. */
  onChange: () => void = () => {}

  constructor(hub: SolanaHub, deps: AccountCacheDeps) {
    this.#deps = deps
    this.#dataBytesMax = Math.min(accountBytesMax, deps.bytesMax * shareMax)
    hub.listen((commitment, update) => {
      if (commitment === Commitment.finalized && update.kind === 'blockMeta')
        this.#finalizedSlot = Math.max(this.#finalizedSlot, update.slot)
      if (commitment !== Commitment.confirmed) return
      if (update.kind === 'account') this.#write(update)
      else if (update.kind === 'block') this.#extend(update)
      // A meta without its block: some of its writes were lost.
      else if (update.kind === 'blockMeta' && update.slot > (this.#newest?.slot ?? 0))
        this.#forget()
    })
  }

  get bytes(): number {
    return this.#bytes
  }

  get size(): number {
    return this.#entries.size
  }

  /** The account as of a confirmed slot; undefined when only a node knows. */
  read(pubkey: Uint8Array, slot: number): AccountState | null | undefined {
    const key = keyOf(pubkey)
    const entry = this.#entries.get(key)
    if (entry === undefined) {
      const { bytesMax } = this.#deps
      if (entryBytes > bytesMax) return undefined
      const state = 'asked'
      this.#entries.set(key, { pubkey, state, baseSlot: 0, versions: [], bytes: entryBytes })
      this.#grow(entryBytes)
      return undefined
    }
    if (entry.state === 'asked') void this.#fill(entry)
    if (entry.state !== 'ready') return undefined
    for (let at = entry.versions.length - 1; at >= 0; at--) {
      const version = entry.versions[at]!
      if (version.slot <= slot) return version.account
    }
    return undefined
  }

  async #fill(entry: Entry): Promise<void> {
    const newest = this.#newest
    if (newest === null || newest.slot === entry.baseSlot || this.#reads >= readsMax) return
    entry.state = 'reading'
    entry.baseSlot = newest.slot
    this.#reads++
    const found = await this.#deps.read(entry.pubkey, newest.slot)
    this.#reads--
    // Forgotten, evicted, or refused for what the stream wrote meanwhile.
    if (this.#entries.peek(keyOf(entry.pubkey)) !== entry || entry.state !== 'reading') return
    if (found === 'too large') this.#drop(entry, 'refused')
    else if (found === null || found.slot < newest.slot) this.#drop(entry, 'asked')
    else {
      const { account } = found
      const later = entry.versions.filter(({ slot }) => slot > found.slot)
      this.#drop(entry, 'ready')
      entry.baseSlot = found.slot
      for (const version of [{ slot: found.slot, account, writeVersion: 0n }, ...later])
        this.#push(entry, version)
    }
  }

  #write(update: AccountUpdate): void {
    if (this.#entries.size === 0) return
    const entry = this.#entries.peek(keyOf(update.pubkey))
    if (entry === undefined || entry.state === 'asked' || entry.state === 'refused') return
    const { slot, writeVersion } = update
    if (entry.state === 'ready' && slot <= entry.baseSlot) return
    if (update.data.length > this.#dataBytesMax) this.#drop(entry, 'refused')
    else this.#push(entry, { slot, writeVersion, account: copyOf(update, entry.pubkey) })
    if (this.#newest !== null && slot <= this.#newest.slot) this.onChange()
  }

  /** Keeps the last version of each slot, in order, and none that finalized reads have passed. */
  #push(entry: Entry, version: Version): void {
    const { versions } = entry
    const { account } = version
    if (entry.state === 'refused') return
    if (account !== null && !this.#isKept(account)) {
      this.#drop(entry, 'refused')
      return
    }
    let at = versions.length
    while (at > 0 && versions[at - 1]!.slot > version.slot) at--
    const same = versions[at - 1]
    let grown = bytesOf(version)
    if (same?.slot === version.slot) {
      if (same.writeVersion > version.writeVersion) return
      grown -= bytesOf(same)
      versions[at - 1] = version
    } else versions.splice(at, 0, version)
    while (versions.length > 1 && versions[1]!.slot <= this.#finalizedSlot)
      grown -= bytesOf(versions.shift()!)
    entry.bytes += grown
    this.#grow(grown)
  }

  #isKept({ owner, data }: AccountState): boolean {
    return data.length <= this.#dataBytesMax && !isSameKey(owner, sysvarOwner)
  }

  /** Drops all versions. */
  #drop(entry: Entry, state: Entry['state']): void {
    entry.state = state
    this.#bytes += entryBytes - entry.bytes
    entry.bytes = entryBytes
    entry.versions = []
  }

  #extend({ slot, meta }: BlockUpdate): void {
    const newest = this.#newest
    if (newest !== null && slot <= newest.slot) return
    if (newest !== null && !isParent(newest, meta)) this.#forget()
    this.#newest = { slot, blockhash: meta.blockhash }
  }

  /** The stream has missed something: nothing is current any more. */
  #forget(): void {
    this.#newest = null
    this.#entries.clear()
    this.#bytes = 0
    this.onChange()
  }

  #grow(bytes: number): void {
    this.#bytes += bytes
    while (this.#bytes > this.#deps.bytesMax && this.#entries.size > 0) {
      const entry = this.#entries.evict()!
      this.#bytes -= entry.bytes
      entry.state = 'refused'
    }
  }
}

function isParent(
  block: { readonly slot: number; readonly blockhash: string },
  child: BlockUpdate['meta'],
): boolean {
  return child.parentSlot === block.slot && child.parentBlockhash === block.blockhash
}

function bytesOf({ account }: AccountAt): number {
  return versionBytes + (account?.data.length ?? 0)
}

/** A copy: an update is a view of a message, which it would keep in memory. */
function copyOf(update: AccountUpdate, pubkey: Uint8Array): AccountState | null {
  const { lamports, executable, rentEpoch } = update
  if (lamports === 0n) return null
  const owner = new Uint8Array(update.owner)
  return { pubkey, lamports, owner, executable, rentEpoch, data: new Uint8Array(update.data) }
}
