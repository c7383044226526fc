// Types of compiled filters. Immutable, but for the lists of keys of a stream that changes them,
// and for the states of one that compares.
import { randomUUID } from 'node:crypto'
import { Commitment } from '../../base/commitment.ts'
import type { InstructionFilter } from '../../chain/solana/instruction-filter.ts'
import { type KeyDelta, KeyList, type KeyText } from '../hub/key-list.ts'
import type { StreamStates } from './joined-states.ts'

export interface NamedFilter {
  /** Position among the filters of its kind; names are sent in this order. */
  readonly ordinal: number
  /** The name as field 1 of SubscribeUpdate, encoded. */
  readonly prefix: Buffer
}

export type StateFilter =
  | { readonly kind: 'memcmp'; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly kind: 'datasize'; readonly bytes: bigint }
  | { readonly kind: 'tokenAccount' }
  | { readonly kind: 'lamports'; readonly cmp: 'eq' | 'ne' | 'lt' | 'gt'; readonly value: bigint }

/** All conditions apply at once; a list that never had a key is no condition. */
export interface AccountFilter extends NamedFilter {
  readonly accounts: KeyList
  readonly cuckoo: Cuckoo | null
  readonly owners: KeyList
  readonly states: readonly StateFilter[]
  readonly hasSignature: boolean | undefined
  /** Only writes that changed something. */
  readonly diffOnly: boolean
}

export interface TransactionFilter extends NamedFilter {
  readonly isVote: boolean | undefined
  readonly isFailed: boolean | undefined
  readonly signature: KeyText | null
  readonly include: KeyList
  readonly cuckoo: Cuckoo | null
  readonly exclude: KeyList
  readonly required: readonly KeyText[]
  /** Owners of token balances count as mentioned: none, all, or those whose balance changed. */
  readonly tokenOwners: 'none' | 'all' | 'changed'
  /** One of them must be run; none is no condition. */
  readonly instructions: readonly InstructionFilter[]
  readonly withBlockTime: boolean
  /** The states of accounts in `include`, before and after. */
  readonly withStates: boolean
}

export interface SlotFilter extends NamedFilter {
  readonly byCommitment: boolean
  readonly interslot: boolean
}

export interface BlockFilter extends NamedFilter {
  readonly include: KeyList
  readonly cuckoo: Cuckoo | null
  readonly withTransactions: boolean
  readonly withAccounts: boolean
  readonly withEntries: boolean
  /** Equal texts, equal selection while no key has changed: bodies are shared by it. */
  readonly shape: string
}

export interface DataSlice {
  readonly offset: number
  readonly length: number
}

export interface FilterSet {
  /** Equal texts, equal sets: streams are grouped by it. */
  readonly key: string
  readonly commitment: Commitment
  readonly accounts: readonly AccountFilter[]
  readonly slots: readonly SlotFilter[]
  readonly transactions: readonly TransactionFilter[]
  readonly statuses: readonly TransactionFilter[]
  readonly blocks: readonly BlockFilter[]
  readonly blocksMeta: readonly NamedFilter[]
  readonly entries: readonly NamedFilter[]
  readonly slices: readonly DataSlice[]
  /** Equal texts, equal slices; empty for whole data. */
  readonly sliceKey: string
  /** Whether a transactions filter asks for what is not in the node's message. */
  readonly hasExtras: boolean
  /** Of this stream, where a filter compares: such a set is shared with no other one. */
  readonly states: StreamStates | null
  /** The names of all filters, for retractions; null on a stream that did not ask for them. */
  readonly retractions: Buffer | null
}

/** The same filters on a stream with retractions, which are of what is sent at processed. */
export function withRetractions(filters: FilterSet): FilterSet {
  if (filters.commitment !== Commitment.processed) return filters
  const { accounts, slots, transactions, statuses, blocks, blocksMeta, entries } = filters
  const all = [accounts, slots, transactions, statuses, blocks, blocksMeta, entries].flat()
  const names = new Map(all.map(({ prefix }) => [prefix.toString('latin1'), prefix]))
  const retractions = Buffer.concat([...names.values()])
  return { ...filters, key: `${filters.key} retractions`, retractions }
}

/** A list of keys: of the filter with that ordinal among those of its kind. */
export type ListAt = { readonly ordinal: number } & (
  | { readonly kind: 'accounts'; readonly list: 'accounts' | 'owners' }
  | { readonly kind: 'transactions' | 'statuses'; readonly list: 'include' | 'exclude' }
  | { readonly kind: 'blocks'; readonly list: 'include' }
)

export type KeyChange = ListAt & { readonly delta: KeyDelta }

export function keysAt(filters: FilterSet, at: ListAt): KeyList {
  if (at.kind === 'accounts') return filters.accounts[at.ordinal]![at.list]
  if (at.kind === 'blocks') return filters.blocks[at.ordinal]!.include
  return filters[at.kind][at.ordinal]![at.list]
}

/** All lists of keys that may change. */
export function* listsOf(filters: FilterSet): Generator<ListAt> {
  for (const { ordinal } of filters.accounts)
    for (const list of ['accounts', 'owners'] as const) yield { kind: 'accounts', list, ordinal }
  for (const kind of ['transactions', 'statuses'] as const)
    for (const { ordinal } of filters[kind])
      for (const list of ['include', 'exclude'] as const) yield { kind, list, ordinal }
  for (const { ordinal } of filters.blocks) yield { kind: 'blocks', list: 'include', ordinal }
}

/** Filters that no other stream shares a group with: their keys may change. */
export function ownFilters(filters: FilterSet): FilterSet {
  return { ...filters, key: randomUUID() }
}

/** The same with lists of its own. */
export function copyFilters(filters: FilterSet): FilterSet {
  const copy = (keys: KeyList) => new KeyList(new Set(keys))
  const transactions = (one: TransactionFilter) => ({
    ...one,
    include: copy(one.include),
    exclude: copy(one.exclude),
  })
  return {
    ...ownFilters(filters),
    accounts: filters.accounts.map((one) => ({
      ...one,
      accounts: copy(one.accounts),
      owners: copy(one.owners),
    })),
    transactions: filters.transactions.map(transactions),
    statuses: filters.statuses.map(transactions),
    blocks: filters.blocks.map((one) => ({ ...one, include: copy(one.include) })),
  }
}

/** Whether a stream gets slots and nothing that may be bulky. */
export function hasSlotsOnly(filters: FilterSet): boolean {
  const { slots, accounts, transactions, statuses, blocks, blocksMeta, entries } = filters
  const others = [accounts, transactions, statuses, blocks, blocksMeta, entries]
  return slots.length > 0 && others.every(({ length }) => length === 0)
}

// A cuckoo filter of account keys (16-bit fingerprints), as clients send it.
// No false negatives; a few false positives.
//
//   data: bucket 0 [fp fp fp fp] bucket 1 [fp fp fp fp] …   u16 little-endian, 0 = free
//   hash(key) = SipHash-2-4(k0 = seed, k1 = seed rotated by 32) over u64 32, then the 32 bytes
//   fp = (hash >> 32) & 0xffff, never 0;  buckets: hash & mask, and that xor hash(fp) & mask

export const fingerprintsPerBucket = 4
export const fingerprintBits = 16
/** What is hashed, with its length in bytes at the top: u64 32 and a key, or a fingerprint. */
const keyWords = Int32Array.of(32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40 << 24)
const fingerprintWords = Int32Array.of(0, 2 << 24)

export class Cuckoo {
  readonly #fingerprints: Uint16Array
  readonly #mask: number
  readonly #sip: SipHash

  /** `data` is a power of two of whole buckets. */
  constructor(data: Uint8Array, seed: { low: number; high: number }) {
    const copy = Uint8Array.from(data)
    this.#fingerprints = new Uint16Array(copy.buffer)
    this.#mask = Math.max(1, this.#fingerprints.length / fingerprintsPerBucket) - 1
    this.#sip = new SipHash(seed, { low: seed.high, high: seed.low })
  }

  has(key: Uint8Array): boolean {
    const sip = this.#sip
    for (let at = 0; at < 32; at += 4)
      keyWords[2 + at / 4] =
        key[at]! | (key[at + 1]! << 8) | (key[at + 2]! << 16) | (key[at + 3]! << 24)
    sip.update(keyWords)
    const first = sip.low & this.#mask
    const fingerprint = sip.high & 0xffff || 1
    if (this.#bucketHas(first, fingerprint)) return true
    fingerprintWords[0] = fingerprint
    sip.update(fingerprintWords)
    return this.#bucketHas(first ^ (sip.low & this.#mask), fingerprint)
  }

  #bucketHas(bucket: number, fingerprint: number): boolean {
    const at = bucket * fingerprintsPerBucket
    const all = this.#fingerprints
    return (
      all[at] === fingerprint ||
      all[at + 1] === fingerprint ||
      all[at + 2] === fingerprint ||
      all[at + 3] === fingerprint
    )
  }
}

// SipHash-2-4 on 32-bit halves, since JavaScript has no 64-bit integers that are fast.

interface Half64 {
  readonly low: number
  readonly high: number
}

export class SipHash {
  readonly #k0: Half64
  readonly #k1: Half64
  /** The result of the last `update`, as two signed halves. */
  low = 0
  high = 0

  constructor(k0: Half64, k1: Half64) {
    this.#k0 = k0
    this.#k1 = k1
  }

  /** Hashes pairs of words; the last one has the length in bytes at its top. */
  update(words: Int32Array): void {
    const { low: k0l, high: k0h } = this.#k0
    const { low: k1l, high: k1h } = this.#k1
    // In variables: five times as fast as in an array.
    let al = k0l ^ 0x70736575
    let ah = k0h ^ 0x736f6d65
    let bl = k1l ^ 0x6e646f6d
    let bh = k1h ^ 0x646f7261
    let cl = k0l ^ 0x6e657261
    let ch = k0h ^ 0x6c796765
    let dl = k1l ^ 0x79746573
    let dh = k1h ^ 0x74656462
    for (let at = 0; at <= words.length; at += 2) {
      const isEnd = at === words.length
      const low = isEnd ? 0 : words[at]!
      const high = isEnd ? 0 : words[at + 1]!
      dl ^= low
      dh ^= high
      if (isEnd) cl ^= 0xff
      for (let rounds = isEnd ? 4 : 2; rounds > 0; rounds--) {
        ah = (ah + bh + carry(al, bl)) | 0
        al = (al + bl) | 0
        let was = bl
        bl = ((bl << 13) | (bh >>> 19)) ^ al
        bh = ((bh << 13) | (was >>> 19)) ^ ah
        ch = (ch + dh + carry(cl, dl)) | 0
        cl = (cl + dl) | 0
        was = dl
        dl = ((dl << 16) | (dh >>> 16)) ^ cl
        dh = ((dh << 16) | (was >>> 16)) ^ ch
        // Rotated by 32: the halves of the first word change places, later those of the third.
        was = (ah + dl) | 0
        ah = (al + dh + carry(ah, dl)) | 0
        al = was
        was = dl
        dl = ((dl << 21) | (dh >>> 11)) ^ al
        dh = ((dh << 21) | (was >>> 11)) ^ ah
        was = (cl + bl) | 0
        ch = (ch + bh + carry(cl, bl)) | 0
        cl = was
        was = bl
        bl = ((bl << 17) | (bh >>> 15)) ^ cl
        bh = ((bh << 17) | (was >>> 15)) ^ ch
        was = cl
        cl = ch
        ch = was
      }
      al ^= low
      ah ^= high
    }
    this.low = al ^ bl ^ cl ^ dl
    this.high = ah ^ bh ^ ch ^ dh
  }
}

/** Of the sum of two halves. */
function carry(a: number, b: number): number {
  return ((a & b) | ((a | b) & ~(a + b))) >>> 31
}
