// The state of the embedded chain: accounts, blocks, transactions. Thread: main of the devnode.
// The RPC methods read it through the interface in ledger.ts.
//
//   open slot 133   transactions land as they run: processed reads of state see them
//   block 132       complete and confirmed: the slot of processed and confirmed
//   block 100       finalized: older versions of accounts are dropped
import { Commitment } from '../../base/commitment.ts'
import { isSameKey } from '../../chain/solana/base58.ts'
import type { TransactionContent } from '../../chain/solana/geyser-decode.ts'
import { memoPrograms } from '../../chain/solana/json-parsed/instructions.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import { blockhashBlocks, type SignatureStatus } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { LatestBlockhash } from '../../chain/solana-rpc/chain-reads.ts'
import { type BlockFee, RecentFees } from '../../chain/solana-rpc/recent-fees.ts'
import { rentExemptMinimum } from '../rent.ts'
import { Accounts } from './accounts.ts'
import type { Archive } from './archive.ts'
import { Blocks, History, type Indexed, type LedgerBounds } from './blocks.ts'
import type {
  Block,
  EpochSchedule,
  Ledger,
  LedgerAccount,
  LedgerTransaction,
  PerformanceSample,
  Position,
  SignatureInfo,
  SignatureRange,
  StoredTransaction,
  TokenIndex,
} from './ledger.ts'
import { isOlder } from './ledger.ts'

export type LedgerIdentity = Pick<Ledger, 'genesisHash' | 'identity' | 'faucet' | 'epochSchedule'>

/**
 * Reads of the chain up to the heads of whoever shows it: the chain itself, or a node of a cluster,
 * which sees less.
 */
export abstract class LedgerReads implements Ledger {
  abstract readonly genesisHash: string
  abstract readonly identity: string
  abstract readonly faucet: string
  abstract readonly epochSchedule: EpochSchedule
  abstract readonly firstAvailableSlot: number
  protected abstract readonly state: LedgerState

  abstract slot(commitment: Commitment): number
  abstract stateSlot(commitment: Commitment): number
  abstract prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): BlockFee[]
  abstract performanceSamples(limit: number): PerformanceSample[]
  /** The slot of the newest block that is shown. */
  protected abstract shownSlot(commitment: Commitment): number
  /** The slot up to which accounts and transactions are shown. */
  protected abstract head(commitment: Commitment): number

  blockHeight(commitment: Commitment): number {
    return this.newestBlock(commitment).blockHeight
  }

  latestBlockhash(commitment: Commitment): LatestBlockhash {
    return {
      blockhash: this.newestBlock(commitment).blockhash,
      slot: this.slot(commitment),
      lastValidBlockHeight: this.blockHeight(commitment) + blockhashBlocks,
    }
  }

  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean {
    return this.state.isBlockhashValidAt(blockhash, this.newestBlock(commitment).blockHeight)
  }

  transactionCount(commitment: Commitment): number {
    return this.newestBlock(commitment).facts.transactionsTotal
  }

  supply(commitment: Commitment): bigint {
    return this.newestBlock(commitment).facts.supply
  }

  rentExemptMinimum(dataBytes: number): bigint {
    return rentExemptMinimum(dataBytes)
  }

  account(pubkey: Uint8Array, commitment: Commitment): LedgerAccount | null {
    return this.state.accountAt(pubkey, this.head(commitment))
  }

  accountsByOwner(owner: Uint8Array, commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.state.indexedAt('program', owner, this.head(commitment))
  }

  tokenAccounts(
    index: TokenIndex,
    key: Uint8Array,
    commitment: Commitment,
  ): IterableIterator<LedgerAccount> {
    return this.state.indexedAt(index, key, this.head(commitment))
  }

  accounts(commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.state.accountsAt(this.head(commitment))
  }

  block(slot: number): Block | null {
    return this.isSeen(slot) ? this.state.history.block(slot) : null
  }

  blockSlots(
    range: { readonly from: number; readonly to: number; readonly limit: number },
    commitment: Commitment,
  ): number[] {
    const to = Math.min(range.to, this.shownSlot(commitment))
    return this.state.history.slots({ ...range, to })
  }

  blockCommitment(slot: number): Commitment | null {
    return this.isSeen(slot) && this.state.history.has(slot) ? this.commitmentOf(slot) : null
  }

  transaction(signature: Uint8Array): LedgerTransaction | null {
    const found = this.state.history.find(signature)
    return found !== null && this.isSeen(found.slot) ? found.read() : null
  }

  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    const found = this.state.history.find(signature)
    if (found === null || !this.isSeen(found.slot)) return null
    const { slot, err } = found
    const commitment = this.commitmentOf(slot)
    const confirmations = commitment === Commitment.finalized ? null : this.votesOn(slot)
    return { slot, confirmations, err, commitment }
  }

  signaturesForAddress(address: Uint8Array, options: SignatureRange): SignatureInfo[] {
    const newestSlot = this.head(options.commitment)
    return this.state.history.page(address, { ...options, newestSlot }).map((transaction) => {
      const { signature, slot, index, err, blockTime } = transaction
      const memo = memoOf(transaction.bytes, options.shapes)
      return { signature, slot, index, err, blockTime, commitment: this.commitmentOf(slot), memo }
    })
  }

  protected newestBlock(commitment: Commitment): Block {
    return this.state.history.block(this.shownSlot(commitment))!
  }

  protected votesOn(slot: number): number {
    return this.head(Commitment.processed) - slot
  }

  protected isSeen(slot: number): boolean {
    return slot <= this.head(Commitment.processed)
  }

  protected commitmentOf(slot: number): Commitment {
    const { processed, confirmed, finalized } = Commitment
    if (slot <= this.shownSlot(finalized)) return finalized
    return slot <= this.shownSlot(confirmed) ? confirmed : processed
  }
}

export class LedgerState extends LedgerReads {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
  epochSchedule: EpochSchedule
  protected readonly state = this
  readonly #accounts = new Accounts()
  readonly history: BlockHistory
  readonly #samples = new Samples()
  /** Of offered and of paid rates: versions of agave differ. */
  readonly #fees = [new RecentFees(false), new RecentFees(true)] as const
  readonly #blocks: Blocks
  #openSlot = 0
  #confirmed = 0
  #finalized = 0
  #open: StoredTransaction[] = []
  #supply = 0n
  #writeVersion = 0n
  /** The oldest slot that someone still reads accounts at, though a later one is finalized. */
  oldestView: () => number = () => Number.POSITIVE_INFINITY

  /** `archive` has the whole history; without it there is what fits into the bounds of memory. */
  constructor(identity: LedgerIdentity, bounds: LedgerBounds, archive: Archive | null = null) {
    super()
    this.genesisHash = identity.genesisHash
    this.identity = identity.identity
    this.faucet = identity.faucet
    this.epochSchedule = identity.epochSchedule
    this.history = new BlockHistory(bounds, archive)
    this.#blocks = this.history.recent
  }

  // Changes: the chain alone makes them.

  /** The last complete block. */
  get newest(): Block {
    return this.#blocks.newest
  }

  get accountCount(): number {
    return this.#accounts.size
  }

  get blockBytes(): number {
    return this.#blocks.bytes
  }

  nextWriteVersion(): bigint {
    this.#writeVersion += 1n
    return this.#writeVersion
  }

  write(account: LedgerAccount): void {
    if (account.writeVersion > this.#writeVersion) this.#writeVersion = account.writeVersion
    this.#accounts.write(account)
  }

  /** Adds lamports to the supply, or takes them away (fees are burned). */
  mint(lamports: bigint): void {
    this.#supply += lamports
  }

  /** The supply, the open slot included. */
  get lamports(): bigint {
    return this.#supply
  }

  land(transaction: StoredTransaction, content: TransactionContent, known: Indexed): void {
    this.#open.push(transaction)
    this.history.add(transaction, known)
    for (const fees of this.#fees) fees.land(content.message, content.meta)
  }

  /** The open slot's transactions; the caller makes its block of them. */
  get opened(): readonly StoredTransaction[] {
    return this.#open
  }

  close(block: Block): void {
    this.#open = []
    for (const fees of this.#fees) fees.close(block.slot)
    this.#append(block)
  }

  /** Appends a block from the journal with its transactions. */
  restore(block: Block): void {
    for (const transaction of block.stored) this.history.add(transaction)
    this.#append(block)
    this.#supply = block.facts.supply
  }

  /** Finalizes everything: the state after genesis, or as it was read from disk. */
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
    this.#accounts.settle(Math.min(slot, this.oldestView()))
    this.#finalized = slot
  }

  writtenIn(slot: number): IterableIterator<LedgerAccount> {
    return this.#accounts.writtenIn(slot)
  }

  newestAccount(pubkey: Uint8Array): LedgerAccount | null {
    return this.#accounts.newest(pubkey)
  }

  stored(signature: Uint8Array): StoredTransaction | null {
    return this.history.findRecent(signature)
  }

  /** The slot whose transactions run from now on. */
  open(slot: number): void {
    this.#openSlot = slot
  }

  // Reads: the RPC methods.

  slot(commitment: Commitment): number {
    if (commitment === Commitment.processed) return this.newest.slot
    return commitment === Commitment.confirmed ? this.#confirmed : this.#finalized
  }

  protected shownSlot(commitment: Commitment): number {
    return this.slot(commitment)
  }

  protected head(commitment: Commitment): number {
    return this.stateSlot(commitment)
  }

  /** At processed the open slot: the one after the newest block, unless slots were skipped. */
  stateSlot(commitment: Commitment): number {
    if (commitment !== Commitment.processed) return this.slot(commitment)
    return Math.max(this.#openSlot, this.newest.slot + 1)
  }

  /** Seen from the block of that height. */
  isBlockhashValidAt(blockhash: Uint8Array, height: number): boolean {
    return this.#blocks.isBlockhashValid(blockhash, height)
  }

  override supply(commitment: Commitment): bigint {
    return commitment === Commitment.processed ? this.lamports : super.supply(commitment)
  }

  accountAt(pubkey: Uint8Array, slot: number): LedgerAccount | null {
    return this.#accounts.read(pubkey, slot)
  }

  indexedAt(
    index: TokenIndex | 'program',
    key: Uint8Array,
    slot: number,
  ): IterableIterator<LedgerAccount> {
    return this.#accounts.indexed(index, key, slot)
  }

  accountsAt(slot: number): IterableIterator<LedgerAccount> {
    return this.#accounts.all(slot)
  }

  override block(slot: number): Block | null {
    return this.history.block(slot)
  }

  get firstAvailableSlot(): number {
    return this.history.firstSlot
  }

  /** The oldest slot in memory: older ones are in the archive alone. */
  get recentSlot(): number {
    return this.#blocks.firstSlot
  }

  prioritizationFees(accounts: readonly Uint8Array[], isPaid: boolean): BlockFee[] {
    return this.#fees[isPaid ? 1 : 0].read(accounts)
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#samples.performanceSamples(limit)
  }

  #append(block: Block): void {
    this.history.append(block)
    this.#samples.closed(block)
  }
}

// The memos of a transaction as getSignaturesForAddress shows them.

const layout = new TransactionLayout({ v1: true })

/** `[5] hello; [2] hi`, lengths in bytes; null without a memo. */
export function memoOf(bytes: Uint8Array, shapes: Shapes): string | null {
  if (layout.decode(bytes) !== 'ok') return null
  const known = memoPrograms(shapes)
  const memos: string[] = []
  for (let index = 0; index < layout.instructionCount; index++) {
    const at = layout.keysAt + layout.programIndex[index]! * 32
    const program = bytes.subarray(at, at + 32)
    if (!known.some((key) => isSameKey(program, key))) continue
    const from = layout.dataAt[index]!
    const length = layout.dataLength[index]!
    memos.push(`[${length}] ${Buffer.from(bytes.subarray(from, from + length)).toString()}`)
  }
  return memos.length === 0 ? null : memos.join('; ')
}

// Performance samples of the last blocks.

/** As a validator's cache: 12 hours of samples, one a minute. */
const samplesMax = 720
const samplePeriodSecs = 60

export class Samples {
  readonly #samples: PerformanceSample[] = []
  #sample = { sinceSecs: 0, slots: 0, transactions: 0 }

  closed(block: { slot: number; transactionCount: number; blockTime: number }): void {
    const sample = this.#sample
    if (sample.sinceSecs === 0) sample.sinceSecs = block.blockTime
    sample.slots += 1
    sample.transactions += block.transactionCount
    if (block.blockTime - sample.sinceSecs < samplePeriodSecs) return
    this.#samples.push({
      slot: block.slot,
      numTransactions: sample.transactions,
      numNonVoteTransactions: sample.transactions,
      numSlots: sample.slots,
      samplePeriodSecs,
    })
    if (this.#samples.length > samplesMax) this.#samples.shift()
    this.#sample = { sinceSecs: block.blockTime, slots: 0, transactions: 0 }
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#samples.slice(-limit).reverse()
  }
}

// Blocks and transactions of the chain: recent ones in memory, all of them in the archive. Thread:
// main of the devnode. A block leaves the memory only when the archive can be read up to it.

export class BlockHistory {
  readonly recent: Blocks
  readonly #index = new History()
  readonly #archive: Archive | null

  /** Without an archive there is what fits into the bounds of memory. */
  constructor(bounds: LedgerBounds, archive: Archive | null) {
    this.recent = new Blocks(bounds)
    this.#archive = archive
  }

  get firstSlot(): number {
    return Math.min(this.recent.firstSlot, this.#archive?.firstSlot ?? Number.POSITIVE_INFINITY)
  }

  /** A transaction of the open slot, or of a block that is appended next. */
  add(transaction: StoredTransaction, known?: Indexed): void {
    this.#index.add(transaction, known)
  }

  append(block: Block): void {
    this.#archive?.append(block)
    const keptFrom = (this.#archive?.readableSlot ?? Number.POSITIVE_INFINITY) + 1
    for (const { stored } of this.recent.append(block, keptFrom)) this.#index.drop(stored)
  }

  block(slot: number): Block | null {
    return this.recent.get(slot) ?? this.#archive?.block(slot) ?? null
  }

  has(slot: number): boolean {
    return this.recent.get(slot) !== null || (this.#archive?.has(slot) ?? false)
  }

  /** Slots of blocks from `from` to `to`, both included; at most `limit`. */
  slots(range: { readonly from: number; readonly to: number; readonly limit: number }): number[] {
    const { from, to, limit } = range
    const older = { from, to: Math.min(to, this.recent.firstSlot - 1), limit }
    const slots = older.to < from ? [] : (this.#archive?.slots(older) ?? [])
    return [...slots, ...this.recent.slots({ from, to, limit: limit - slots.length })]
  }

  /** A transaction that is in memory: long enough to recognise a duplicate. */
  findRecent(signature: Uint8Array): StoredTransaction | null {
    return this.#index.find(signature)
  }

  find(signature: Uint8Array): StoredTransaction | null {
    return this.#index.find(signature) ?? this.#archive?.find(signature) ?? null
  }

  /**
   * Transactions of an address up to a slot, newest first. `before` and `until` are signatures,
   * both excluded; an unknown `before` gives none.
   */
  page(
    address: Uint8Array,
    range: Pick<SignatureRange, 'limit' | 'before' | 'until'> & { readonly newestSlot: number },
  ): StoredTransaction[] {
    const before = range.before === null ? null : this.find(range.before)
    if (range.before !== null && before === null) return []
    const until = range.until === null ? null : this.find(range.until)
    const found: StoredTransaction[] = []
    for (const transaction of this.#backwards(address, before)) {
      // Both signatures may be those of other addresses: their positions count.
      if (found.length >= range.limit || (until !== null && !isOlder(until, transaction))) break
      if (transaction.slot <= range.newestSlot) found.push(transaction)
    }
    return found
  }

  *#backwards(address: Uint8Array, before: Position | null): IterableIterator<StoredTransaction> {
    const border = { slot: this.recent.firstSlot, index: 0 }
    const isArchived = before !== null && isOlder(before, border)
    if (!isArchived)
      for (const transaction of this.#index.backwards(address))
        if (before === null || isOlder(transaction, before)) yield transaction
    yield* this.#archive?.backwards(address, isArchived ? before : border) ?? []
  }
}
