// The one truth of the embedded chain: accounts, blocks, transactions. Thread: main.
// Changed by chain.ts alone, read by the RPC methods through the interface in ledger.ts.
//
//   open slot 133   transactions land as they run             processed sees up to here
//   block 132       complete                                   confirmed with the next block
//   block 131       confirmed
//   block 101       finalized: older versions of accounts go
import { assert } from '../../base/assert.ts'
import { Commitment } from '../../base/commitment.ts'
import { keyOf } from '../../solana/keys.ts'
import type { LatestBlockhash, SignatureStatus } from '../../solana/updates.ts'
import { Accounts } from './accounts.ts'
import type { Block } from './block.ts'
import { History } from './history.ts'
import type {
  EpochSchedule,
  Ledger,
  LedgerAccount,
  LedgerTransaction,
  PerformanceSample,
  PrioritizationFee,
  SignatureInfo,
  TokenIndex,
} from './ledger.ts'
import { memoOf } from './memo.ts'
import { type Offer, Samples } from './samples.ts'
import type { StoredTransaction } from './stored-transaction.ts'

/** Blocks after which a transaction that names a blockhash is refused. */
export const blockhashBlocks = 150
const blockhashesKept = 300
/** Whatever the bounds say, duplicates must be recognised for as long as a blockhash is good. */
const historySlotsMin = 320

export interface LedgerBounds {
  readonly historySlots: number
  readonly historyBytes: number
}

export interface LedgerIdentity {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
}

export class LedgerState implements Ledger {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
  readonly epochSchedule: EpochSchedule = {
    slotsPerEpoch: 432_000,
    leaderScheduleSlotOffset: 432_000,
    warmup: false,
    firstNormalEpoch: 0,
    firstNormalSlot: 0,
  }
  readonly #bounds: LedgerBounds
  readonly #accounts = new Accounts()
  readonly #history = new History()
  readonly #samples = new Samples()
  /** Ascending by slot. */
  readonly #blocks = new Map<number, Block>()
  /** Heights of the last blocks by their hash. */
  readonly #heightOf = new Map<string, number>()
  #blockBytes = 0
  #newest: Block | null = null
  #confirmed = 0
  #finalized = 0
  #open: StoredTransaction[] = []
  #supply = 0n
  #writeVersion = 0n

  constructor(identity: LedgerIdentity, bounds: LedgerBounds) {
    this.genesisHash = identity.genesisHash
    this.identity = identity.identity
    this.faucet = identity.faucet
    this.#bounds = bounds
  }

  // What chain.ts does to it.

  /** The last complete block. */
  get newest(): Block {
    assert(this.#newest !== null, 'the ledger has its first block')
    return this.#newest
  }

  get openCount(): number {
    return this.#open.length
  }

  get accountCount(): number {
    return this.#accounts.size
  }

  get blockBytes(): number {
    return this.#blockBytes
  }

  nextWriteVersion(): bigint {
    this.#writeVersion += 1n
    return this.#writeVersion
  }

  write(account: LedgerAccount): void {
    if (account.writeVersion > this.#writeVersion) this.#writeVersion = account.writeVersion
    this.#accounts.write(account)
  }

  /** Lamports that came into being (genesis) or ceased to be (fees are burned). */
  mint(lamports: bigint): void {
    this.#supply += lamports
  }

  /** All lamports there are now. */
  get lamports(): bigint {
    return this.#supply
  }

  land(
    transaction: StoredTransaction,
    known: Offer & { readonly signature: Uint8Array; readonly keys: readonly Uint8Array[] },
  ): void {
    this.#open.push(transaction)
    this.#history.add(transaction, known)
    this.#samples.landed(known)
  }

  /** The open slot's transactions; the caller makes its block of them. */
  get opened(): readonly StoredTransaction[] {
    return this.#open
  }

  close(block: Block): void {
    this.#open = []
    this.#append(block)
  }

  /** A block from the journal, whose transactions are not known yet. */
  restore(block: Block): void {
    for (const transaction of block.stored) this.#history.add(transaction)
    this.#append(block)
    this.#supply = block.facts.supply
  }

  /** All that is here is final: the state after genesis, or as it was read from disk. */
  settle(): void {
    const { slot } = this.newest
    this.#accounts.settle(slot)
    this.#confirmed = slot
    this.#finalized = slot
  }

  confirm(slot: number): void {
    this.#confirmed = slot
  }

  finalize(slot: number): void {
    this.#accounts.finalize(slot)
    this.#finalized = slot
  }

  writtenIn(slot: number): IterableIterator<LedgerAccount> {
    return this.#accounts.writtenIn(slot)
  }

  newestAccount(pubkey: Uint8Array): LedgerAccount | null {
    return this.#accounts.newest(pubkey)
  }

  stored(signature: Uint8Array): StoredTransaction | null {
    return this.#history.find(signature)
  }

  // What the RPC methods ask.

  slot(commitment: Commitment): number {
    if (commitment === Commitment.processed) return this.newest.slot + 1
    return commitment === Commitment.confirmed ? this.#confirmed : this.#finalized
  }

  blockHeight(commitment: Commitment): number {
    if (commitment === Commitment.processed) return this.newest.blockHeight + 1
    return this.#viewBlock(commitment).blockHeight
  }

  latestBlockhash(commitment: Commitment): LatestBlockhash {
    return {
      blockhash: this.#viewBlock(commitment).blockhash,
      slot: this.slot(commitment),
      lastValidBlockHeight: this.blockHeight(commitment) + blockhashBlocks,
    }
  }

  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean {
    const height = this.#heightOf.get(keyOf(blockhash))
    if (height === undefined) return false
    const age = this.#viewBlock(commitment).blockHeight - height
    return age >= 0 && age <= blockhashBlocks
  }

  transactionCount(commitment: Commitment): number {
    const { transactionsTotal } = this.#viewBlock(commitment).facts
    return commitment === Commitment.processed
      ? transactionsTotal + this.#open.length
      : transactionsTotal
  }

  supply(commitment: Commitment): bigint {
    return commitment === Commitment.processed
      ? this.lamports
      : this.#viewBlock(commitment).facts.supply
  }

  rentExemptMinimum(dataBytes: number): bigint {
    return BigInt(128 + dataBytes) * 6960n
  }

  account(pubkey: Uint8Array, commitment: Commitment): LedgerAccount | null {
    return this.#accounts.read(pubkey, this.slot(commitment))
  }

  accountsByOwner(owner: Uint8Array, commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.#accounts.indexed('program', owner, this.slot(commitment))
  }

  tokenAccounts(
    index: TokenIndex,
    key: Uint8Array,
    commitment: Commitment,
  ): IterableIterator<LedgerAccount> {
    return this.#accounts.indexed(index, key, this.slot(commitment))
  }

  accounts(commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.#accounts.all(this.slot(commitment))
  }

  accountsAt(slot: number): IterableIterator<LedgerAccount> {
    return this.#accounts.all(slot)
  }

  block(slot: number): Block | null {
    return this.#blocks.get(slot) ?? null
  }

  get firstAvailableSlot(): number {
    return this.#blocks.keys().next().value ?? 0
  }

  newestBlockSlot(commitment: Commitment): number {
    return commitment === Commitment.processed ? this.newest.slot : this.slot(commitment)
  }

  blockSlots(
    range: { readonly from: number; readonly to: number; readonly limit: number },
    commitment: Commitment,
  ): number[] {
    const slots: number[] = []
    const last = Math.min(range.to, this.newestBlockSlot(commitment))
    let slot = Math.max(range.from, this.firstAvailableSlot)
    for (; slot <= last && slots.length < range.limit; slot++)
      if (this.#blocks.has(slot)) slots.push(slot)
    return slots
  }

  blockCommitment(slot: number): Commitment | null {
    return this.#blocks.has(slot) ? this.#commitmentOf(slot) : null
  }

  transaction(signature: Uint8Array): LedgerTransaction | null {
    return this.#history.find(signature)?.read() ?? null
  }

  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    const found = this.#history.find(signature)
    if (found === null) return null
    const commitment = this.#commitmentOf(found.slot)
    const confirmations =
      commitment === Commitment.finalized ? null : this.newest.slot + 1 - found.slot
    return { slot: found.slot, confirmations, err: found.err, commitment }
  }

  signaturesForAddress(
    address: Uint8Array,
    options: {
      readonly limit: number
      readonly before: Uint8Array | null
      readonly until: Uint8Array | null
      readonly commitment: Commitment
    },
  ): SignatureInfo[] {
    const { limit, before, until, commitment } = options
    const newestSlot = this.slot(commitment)
    const last = until === null ? null : this.#history.find(until)
    let isPast = before === null
    const from = before === null ? null : this.#history.find(before)
    if (before !== null && from === null) return []
    const found: SignatureInfo[] = []
    for (const transaction of this.#history.of(address)) {
      if (transaction === last || found.length >= limit) break
      // A signature of another address still says where to begin.
      if (from !== null && !isPast) {
        if (transaction === from) {
          isPast = true
          continue
        }
        isPast = isBefore(transaction, from)
      }
      if (!isPast || transaction.slot > newestSlot) continue
      if (last !== null && isBefore(transaction, last)) break
      const { signature, slot, err, blockTime } = transaction
      const memo = memoOf(transaction.bytes)
      found.push({ signature, slot, err, blockTime, commitment: this.#commitmentOf(slot), memo })
    }
    return found
  }

  prioritizationFees(addresses: readonly Uint8Array[]): PrioritizationFee[] {
    return this.#samples.prioritizationFees(addresses)
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#samples.performanceSamples(limit)
  }

  #append(block: Block): void {
    this.#newest = block
    this.#blocks.set(block.slot, block)
    this.#blockBytes += block.bytes
    this.#heightOf.set(keyOf(block.facts.hash), block.blockHeight)
    if (this.#heightOf.size > blockhashesKept)
      this.#heightOf.delete(this.#heightOf.keys().next().value!)
    this.#samples.closed(block)
    this.#trim()
  }

  #trim(): void {
    const { historySlots, historyBytes } = this.#bounds
    while (
      this.#blocks.size > historySlotsMin &&
      (this.#blocks.size > historySlots || this.#blockBytes > historyBytes)
    ) {
      const oldest = this.#blocks.values().next().value!
      this.#blocks.delete(oldest.slot)
      this.#blockBytes -= oldest.bytes
      this.#history.drop(oldest.stored)
    }
  }

  #viewBlock(commitment: Commitment): Block {
    return commitment === Commitment.processed
      ? this.newest
      : this.#blocks.get(this.slot(commitment))!
  }

  #commitmentOf(slot: number): Commitment {
    if (slot <= this.#finalized) return Commitment.finalized
    return slot <= this.#confirmed ? Commitment.confirmed : Commitment.processed
  }
}

function isBefore(a: StoredTransaction, b: StoredTransaction): boolean {
  return a.slot < b.slot || (a.slot === b.slot && a.index < b.index)
}
