// Keeps the confirmed blocks of the last slots with their transactions.
// Only complete blocks: what is found here is exact; what is not found may still exist.
// Bounded by slots and bytes: the transactions of the oldest block go first, then whole blocks.
// Of the same slots it knows which transactions only a bank had that was replaced: nodes keep their
// statuses and report them as finalized with the slot.
//
//   newest ─► | block, transactions | … | block without its transactions | … ─► oldest
import { randomBytes } from 'node:crypto'
import { Commitment } from '../../base/commitment.ts'
import { assert } from '../../base/errors.ts'
import type { SlotTime } from '../../base/slot-time.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { signatureBytes } from '../../chain/solana/geyser-batch.ts'
import type { BlockMetaUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { SolanaHub } from '../geyser/hub.ts'

/** A validator's own cache of statuses reaches as far back, at 400 ms. */
const windowSlots = 300
const windowMs = 120_000
const voidsMax = 65_536

export class RecentBlocks {
  readonly #bytesMax: number
  readonly #slotTime: SlotTime
  /** Ascending by slot. */
  readonly #blocks: RecentBlock[] = []
  /** What was confirmed of a slot before its block. */
  #landings: Landing[] = []
  #landingSlot = 0
  bytes = 0
  /** Slots by the signatures of transactions in replaced banks, oldest first. */
  readonly #voids = new Map<string, number>()

  constructor(hub: SolanaHub, { bytesMax }: { readonly bytesMax: number }) {
    this.#bytesMax = bytesMax
    this.#slotTime = hub.slotTime
    if (bytesMax === 0) return
    hub.onRestart(() => {
      this.#blocks.length = 0
      this.bytes = 0
      this.#voids.clear()
      this.#begin(0)
    })
    hub.onVoid((updates) => this.#void(updates))
    hub.listen(
      (commitment, update) => {
        if (commitment === Commitment.processed) {
          if (this.#voids.size > 0 && update.kind === 'transaction')
            this.#voids.delete(keyOf(update.signature))
        } else if (commitment === Commitment.confirmed) this.#confirm(update)
        else if (commitment === Commitment.finalized && update.kind === 'blockMeta') {
          const block = this.at(update.slot)
          if (block !== null) block.isFinalized = true
        }
      },
      (commitment) => commitment === Commitment.confirmed,
    )
  }

  /** Null for a slot without a block here. */
  at(slot: number): RecentBlock | null {
    return this.#blocks.findLast(({ meta }) => meta.slot === slot) ?? null
  }

  /** The block of a transaction, and its position there. */
  find(signature: Uint8Array): { readonly block: RecentBlock; readonly at: number } | null {
    const hash = signatureHash(signature)
    for (let last = this.#blocks.length - 1; last >= 0; last--) {
      const block = this.#blocks[last]!
      const at = block.find(signature, hash)
      if (at !== -1) return { block, at }
    }
    return null
  }

  /** Whether it was in a replaced bank, and since then in no other one. */
  isVoid(signature: Uint8Array): boolean {
    return this.#voids.has(keyOf(signature))
  }

  #void(updates: Iterable<SolanaUpdate>): void {
    for (const update of updates)
      if (update.kind === 'transaction') this.#voids.set(keyOf(update.signature), update.slot)
    for (const signature of this.#voids.keys()) {
      if (this.#voids.size <= voidsMax) return
      this.#voids.delete(signature)
    }
  }

  #confirm(update: SolanaUpdate): void {
    if (update.kind === 'transaction') {
      const { slot, index, signature, err, info } = update
      if (slot !== this.#landingSlot) this.#begin(slot)
      this.#landings.push({ index, signature, err, info })
    } else if (update.kind === 'block') {
      const landings = update.slot === this.#landingSlot ? this.#landings : []
      this.#begin(0)
      this.#add(update.meta, landings)
    } else if (update.kind === 'blockMeta') this.#begin(0)
  }

  #begin(slot: number): void {
    this.#landingSlot = slot
    this.#landings = []
  }

  #add(meta: BlockMetaUpdate, landings: readonly Landing[]): void {
    // Some nodes leave these out; such a block cannot be shown.
    if (meta.blockHeight === null || meta.blockTime === null) return
    if (landings.length !== meta.executedTransactionCount) return
    if (meta.slot <= (this.#blocks.at(-1)?.meta.slot ?? -1)) return
    const block = new RecentBlock(meta, landings)
    this.#blocks.push(block)
    this.bytes += block.indexBytes + block.contentBytes
    this.#trim(meta.slot - this.#slotTime.slotsIn(windowMs, windowSlots))
  }

  #trim(oldestSlot: number): void {
    for (const [signature, slot] of this.#voids) {
      if (slot >= oldestSlot) break
      this.#voids.delete(signature)
    }
    while (this.#blocks[0]!.meta.slot < oldestSlot) this.#removeOldest()
    for (const block of this.#blocks) {
      if (this.bytes <= this.#bytesMax) return
      this.bytes -= block.contentBytes
      block.dropContent()
    }
    while (this.bytes > this.#bytesMax) this.#removeOldest()
    assert(this.#blocks.length > 0 || this.bytes === 0, 'the bytes are those of the blocks')
  }

  #removeOldest(): void {
    const { indexBytes, contentBytes } = this.#blocks.shift()!
    this.bytes -= indexBytes + contentBytes
    assert(this.bytes >= 0, 'the bytes of the blocks are counted')
  }
}

// One confirmed block of the stream: its meta, signatures, errors and transactions.
// The bytes are copies in memory of the block's own: an update is a view of a batch, most of which
// are account writes that would be kept with it.
//
//   table: | index + 1 | 0 | index + 1 | …   open addressing, by a hash of the signature

const nothing = new Uint8Array(0)
/** Estimates for the objects of a block, and for an error. */
const blockBytes = 1_024
const errorBytes = 128
/** Keeps a hash a small positive integer, which V8 stores without a heap object. */
const hashMask = 0xff_ffff
/** Unknown outside, so that nobody chooses signatures that fill one run of a table. */
const seed = randomBytes(4).readInt32LE()

/** What a transaction leaves until its block is whole. */
export interface Landing {
  readonly index: number
  readonly signature: Uint8Array
  readonly err: Uint8Array | null
  readonly info: Uint8Array
}

/** For `find`: of the first bytes, which an Ed25519 signature has evenly distributed. */
export function signatureHash(signature: Uint8Array): number {
  const [a = 0, b = 0, c = 0, d = 0] = signature
  const word = Math.imul(a | (b << 8) | (c << 16) | (d << 24), 0x9e3779b1) ^ seed
  return (Math.imul(word, 0x85ebca6b) >>> 8) & hashMask
}

export class RecentBlock {
  readonly meta: BlockMetaUpdate
  isFinalized = false
  readonly #signatures: Buffer
  readonly #table: Uint32Array
  readonly #errors = new Map<number, Uint8Array>()
  /** The ends of the transactions in `#infos`, which is null once they were evicted. */
  readonly #ends: Uint32Array
  #infos: Buffer | null

  constructor(meta: BlockMetaUpdate, landings: readonly Landing[]) {
    const sorted = [...landings].sort((one, other) => one.index - other.index)
    this.meta = { ...meta, body: nothing, rewards: new Uint8Array(meta.rewards) }
    this.#signatures = Buffer.allocUnsafeSlow(sorted.length * signatureBytes)
    this.#table = new Uint32Array(2 ** Math.ceil(Math.log2(2 * sorted.length + 1)))
    this.#ends = new Uint32Array(sorted.length)
    this.#infos = Buffer.allocUnsafeSlow(sorted.reduce((sum, { info }) => sum + info.length, 0))
    let end = 0
    for (const [at, { signature, err, info }] of sorted.entries()) {
      this.#signatures.set(signature, at * signatureBytes)
      this.#infos.set(info, end)
      end += info.length
      this.#ends[at] = end
      if (err !== null) this.#errors.set(at, new Uint8Array(err))
      this.#insert(at, signatureHash(signature))
    }
  }

  /** Transactions in it. */
  get length(): number {
    return this.#ends.length
  }

  /** Memory of its transactions; 0 once they were evicted. */
  get contentBytes(): number {
    return this.#infos?.length ?? 0
  }

  /** Memory of everything else, about. */
  get indexBytes(): number {
    const { rewards } = this.meta
    const errors = this.#errors.size * errorBytes
    const tables = this.#signatures.length + this.#table.byteLength + this.#ends.byteLength
    return blockBytes + rewards.length + errors + tables
  }

  dropContent(): void {
    this.#infos = null
  }

  /** The position of a transaction; -1 when it is not in this block. */
  find(signature: Uint8Array, hash: number): number {
    const mask = this.#table.length - 1
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const found = this.#table[at]! - 1
      if (found === -1 || this.#isAt(found, signature)) return found
    }
  }

  signature(at: number): Uint8Array {
    return this.#signatures.subarray(at * signatureBytes, (at + 1) * signatureBytes)
  }

  /** Null for success, in bincode. */
  error(at: number): Uint8Array | null {
    return this.#errors.get(at) ?? null
  }

  /** A SubscribeUpdateTransactionInfo; null once the transactions were evicted. */
  info(at: number): Uint8Array | null {
    return this.#infos?.subarray(at === 0 ? 0 : this.#ends[at - 1], this.#ends[at]) ?? null
  }

  #isAt(at: number, signature: Uint8Array): boolean {
    const start = at * signatureBytes
    return (
      this.#signatures.compare(signature, 0, signatureBytes, start, start + signatureBytes) === 0
    )
  }

  #insert(index: number, hash: number): void {
    const mask = this.#table.length - 1
    let at = hash & mask
    while (this.#table[at] !== 0) at = (at + 1) & mask
    this.#table[at] = index + 1
  }
}
