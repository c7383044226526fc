// The state of the embedded chain: accounts, blocks, transactions. Thread: main of the devnode.
// The RPC methods read it through the interface in ledger.ts.
//
//   open slot 133   transactions land as they run: processed reads of state see them
//   block 132       complete and confirmed: the slot of processed and confirmed
//   block 100       finalized: older versions of accounts are dropped
import { Commitment } from '../../base/commitment.ts'
import type { TransactionContent } from '../../chain/solana/geyser-content.ts'
import { blockhashBlocks, type SignatureStatus } from '../../chain/solana/updates.ts'
import type { LatestBlockhash } from '../../chain/solana-rpc/chain-reads.ts'
import { type BlockFee, RecentFees } from '../../chain/solana-rpc/recent-fees.ts'
import { rentExemptMinimum } from '../rent.ts'
import { Accounts } from './accounts.ts'
import type { Archive } from './archive.ts'
import type { Block } from './block.ts'
import { BlockHistory } from './block-history.ts'
import type { Blocks, LedgerBounds } from './blocks.ts'
import type { EpochSchedule } from './epoch-schedule.ts'
import type { Indexed } from './history.ts'
import type {
  Ledger,
  LedgerAccount,
  LedgerTransaction,
  PerformanceSample,
  SignatureInfo,
  TokenIndex,
} from './ledger.ts'
import { memoOf } from './memo.ts'
import { Samples } from './samples.ts'
import type { StoredTransaction } from './stored-transaction.ts'

export interface LedgerIdentity {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
  readonly epochSchedule: EpochSchedule
}

export class LedgerState implements Ledger {
  readonly genesisHash: string
  readonly identity: string
  readonly faucet: string
  epochSchedule: EpochSchedule
  readonly #accounts = new Accounts()
  readonly #history: BlockHistory
  readonly #samples = new Samples()
  readonly #fees = new RecentFees()
  readonly #blocks: Blocks
  #openSlot = 0
  #confirmed = 0
  #finalized = 0
  #open: StoredTransaction[] = []
  #supply = 0n
  #writeVersion = 0n

  /** `archive` has the whole history; without it there is what fits into the bounds of memory. */
  constructor(identity: LedgerIdentity, bounds: LedgerBounds, archive: Archive | null = null) {
    this.genesisHash = identity.genesisHash
    this.identity = identity.identity
    this.faucet = identity.faucet
    this.epochSchedule = identity.epochSchedule
    this.#history = new BlockHistory(bounds, archive)
    this.#blocks = this.#history.recent
  }

  // Changes: the chain alone makes them.

  /** The last complete block. */
  get newest(): Block {
    return this.#blocks.newest
  }

  get openCount(): number {
    return this.#open.length
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
    this.#history.add(transaction, known)
    this.#fees.land(content.message, content.meta)
  }

  /** The open slot's transactions; the caller makes its block of them. */
  get opened(): readonly StoredTransaction[] {
    return this.#open
  }

  close(block: Block): void {
    this.#open = []
    this.#fees.close(block.slot)
    this.#append(block)
  }

  /** Appends a block from the journal with its transactions. */
  restore(block: Block): void {
    for (const transaction of block.stored) this.#history.add(transaction)
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
    return this.#history.findRecent(signature)
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

  /** At processed the open slot: the one after the newest block, unless slots were skipped. */
  stateSlot(commitment: Commitment): number {
    if (commitment !== Commitment.processed) return this.slot(commitment)
    return Math.max(this.#openSlot, this.newest.slot + 1)
  }

  blockHeight(commitment: Commitment): number {
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
    return this.#blocks.isBlockhashValid(blockhash, this.#viewBlock(commitment).blockHeight)
  }

  transactionCount(commitment: Commitment): number {
    return this.#viewBlock(commitment).facts.transactionsTotal
  }

  supply(commitment: Commitment): bigint {
    return commitment === Commitment.processed
      ? this.lamports
      : this.#viewBlock(commitment).facts.supply
  }

  rentExemptMinimum(dataBytes: number): bigint {
    return rentExemptMinimum(dataBytes)
  }

  account(pubkey: Uint8Array, commitment: Commitment): LedgerAccount | null {
    return this.#accounts.read(pubkey, this.stateSlot(commitment))
  }

  accountsByOwner(owner: Uint8Array, commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.#accounts.indexed('program', owner, this.stateSlot(commitment))
  }

  tokenAccounts(
    index: TokenIndex,
    key: Uint8Array,
    commitment: Commitment,
  ): IterableIterator<LedgerAccount> {
    return this.#accounts.indexed(index, key, this.stateSlot(commitment))
  }

  accounts(commitment: Commitment): IterableIterator<LedgerAccount> {
    return this.#accounts.all(this.stateSlot(commitment))
  }

  accountsAt(slot: number): IterableIterator<LedgerAccount> {
    return this.#accounts.all(slot)
  }

  block(slot: number): Block | null {
    return this.#history.block(slot)
  }

  get firstAvailableSlot(): number {
    return this.#history.firstSlot
  }

  /** The oldest slot in memory: older ones are in the archive alone. */
  get recentSlot(): number {
    return this.#blocks.firstSlot
  }

  blockSlots(
    range: { readonly from: number; readonly to: number; readonly limit: number },
    commitment: Commitment,
  ): number[] {
    const to = Math.min(range.to, this.slot(commitment))
    return this.#history.slots({ ...range, to })
  }

  blockCommitment(slot: number): Commitment | null {
    return this.#history.has(slot) ? this.#commitmentOf(slot) : null
  }

  transaction(signature: Uint8Array): LedgerTransaction | null {
    return this.#history.find(signature)?.read() ?? null
  }

  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    const found = this.#history.find(signature)
    if (found === null) return null
    const commitment = this.#commitmentOf(found.slot)
    const confirmations =
      commitment === Commitment.finalized ? null : this.stateSlot(Commitment.processed) - found.slot
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
    const newestSlot = this.stateSlot(options.commitment)
    return this.#history.page(address, { ...options, newestSlot }).map((transaction) => {
      const { signature, slot, index, err, blockTime } = transaction
      const memo = memoOf(transaction.bytes)
      return { signature, slot, index, err, blockTime, commitment: this.#commitmentOf(slot), memo }
    })
  }

  prioritizationFees(accounts: readonly Uint8Array[]): BlockFee[] {
    return this.#fees.read(accounts)
  }

  performanceSamples(limit: number): PerformanceSample[] {
    return this.#samples.performanceSamples(limit)
  }

  #append(block: Block): void {
    this.#history.append(block)
    this.#samples.closed(block)
  }

  #viewBlock(commitment: Commitment): Block {
    return this.#blocks.get(this.slot(commitment))!
  }

  #commitmentOf(slot: number): Commitment {
    if (slot <= this.#finalized) return Commitment.finalized
    return slot <= this.#confirmed ? Commitment.confirmed : Commitment.processed
  }
}
