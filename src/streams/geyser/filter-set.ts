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
const keyInput = Buffer.alloc(40)
keyInput.writeUInt32LE(32, 0)
const fingerprintInput = Buffer.alloc(2)

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
    keyInput.set(key, 8)
    sip.update(keyInput, 40)
    const first = sip.low & this.#mask
    const fingerprint = sip.high & 0xffff || 1
    if (this.#bucketHas(first, fingerprint)) return true
    fingerprintInput.writeUInt16LE(fingerprint, 0)
    sip.update(fingerprintInput, 2)
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

// The four state words, low and high halves. One hash runs at a time.
const state = new Uint32Array(8)

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

  /** Hashes the first `length` bytes of `input`. */
  update(input: Buffer, length: number): void {
    const { low: k0l, high: k0h } = this.#k0
    const { low: k1l, high: k1h } = this.#k1
    state[0] = k0l ^ 0x70736575
    state[1] = k0h ^ 0x736f6d65
    state[2] = k1l ^ 0x6e646f6d
    state[3] = k1h ^ 0x646f7261
    state[4] = k0l ^ 0x6e657261
    state[5] = k0h ^ 0x6c796765
    state[6] = k1l ^ 0x79746573
    state[7] = k1h ^ 0x74656462
    const whole = length & ~7
    for (let at = 0; at < whole; at += 8) absorb(input.readUInt32LE(at), input.readUInt32LE(at + 4))
    let low = 0
    let high = (length & 0xff) << 24
    for (let at = whole; at < length; at++) {
      const shift = (at & 7) * 8
      if (shift < 32) low |= input[at]! << shift
      else high |= input[at]! << (shift - 32)
    }
    absorb(low, high)
    state[4]! ^= 0xff
    for (let round = 0; round < 4; round++) mix()
    this.low = state[0]! ^ state[2]! ^ state[4]! ^ state[6]!
    this.high = state[1]! ^ state[3]! ^ state[5]! ^ state[7]!
  }
}

function absorb(low: number, high: number): void {
  state[6]! ^= low
  state[7]! ^= high
  mix()
  mix()
  state[0]! ^= low
  state[1]! ^= high
}

/** One round. `add` carries from the low half into the high one; `turn` rotates left and xors. */
function mix(): void {
  add(0, 2)
  turn(2, 13, 0)
  swap(0)
  add(4, 6)
  turn(6, 16, 4)
  add(0, 6)
  turn(6, 21, 0)
  add(4, 2)
  turn(2, 17, 4)
  swap(4)
}

function add(into: number, from: number): void {
  const low = state[into]! + state[from]!
  state[into + 1] = state[into + 1]! + state[from + 1]! + (low > 0xffffffff ? 1 : 0)
  state[into] = low
}

function turn(word: number, bits: number, by: number): void {
  const low = state[word]!
  const high = state[word + 1]!
  state[word] = ((low << bits) | (high >>> (32 - bits))) ^ state[by]!
  state[word + 1] = ((high << bits) | (low >>> (32 - bits))) ^ state[by + 1]!
}

/** Rotation by 32. */
function swap(word: number): void {
  const low = state[word]!
  state[word] = state[word + 1]!
  state[word + 1] = low
}
