// Makes the blocks: lands transactions in the open slot, ends it, opens the next. Thread: main of
// the devnode. Publishes to the sink: written accounts, then the transaction; entries; block;
// statuses.
import { hash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { isSameKey, keyOf } from '../chain/solana/base58.ts'
import type { EntryContent, MetaContent } from '../chain/solana/geyser-decode.ts'
import { programs, sysvars } from '../chain/solana/programs.ts'
import { TransactionLayout } from '../chain/solana/transaction.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import { slotStatus } from '../chain/solana/updates.ts'
import { writeLocks } from '../chain/solana/write-locks.ts'
import { type Fee, feeOf } from './fee.ts'
import { metaOf, versionOf } from './landing.ts'
import type { BlockFacts, LedgerAccount } from './ledger/ledger.ts'
import { Block, epochOf, packEntries, packTransaction, StoredTransaction } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import { durableNonce } from './load.ts'
import { messageContent, signaturesOf } from './message-content.ts'
import { reportBlock, type SolanaSink } from './sink.ts'
import { type StakeTotals, totalStake, votesMax, withVotes } from './stakes.ts'
import type { Executed, VmAccount } from './svm.ts'
import {
  addSlot,
  readStakeHistory,
  slotHashesMax,
  slotHistoryOf,
  slotSysvars,
  stakeHistorySysvar,
  sysvarAccount,
} from './sysvars.ts'

/** A block is confirmed at once, by the only validator's own vote, and finalized 32 slots later. */
const finalizedAfter = 32

/** What a script changes about the chain's slots. */
export interface SlotRules {
  /** No block is made for this slot. */
  isSkipped(slot: number): boolean
  /** Under Alpenglow a block is confirmed and finalized together, when the next one is complete. */
  isMigrated(slot: number): boolean
}

export const plainRules: SlotRules = { isSkipped: () => false, isMigrated: () => false }

interface ProducerDeps {
  readonly ledger: LedgerState
  readonly sink: SolanaSink
  readonly clock: Clock
  /** The validator's vote account. */
  readonly vote: Uint8Array
  /** No slot up to this one may come again, though its block may be lost. */
  readonly seen: number
  readonly rules?: SlotRules
  /** Stores a complete block, before anything is reported of it. */
  keep(block: Block): void
  /** Writes accounts to the VM that no transaction wrote. */
  writeVm(accounts: readonly VmAccount[]): void
}

export class Producer {
  readonly #deps: ProducerDeps
  readonly #layout = new TransactionLayout({ v1: true })
  #open: OpenSlot
  #nonce: Uint8Array
  #blockTime: number
  readonly #slotHistory: Buffer
  readonly #rules: SlotRules
  /** Blocks that are not finalized, oldest first. */
  readonly #unfinalized: Block[] = []
  #last: readonly BlockFacts[] = []
  /** How far the chain's time is ahead of the wall clock. */
  #aheadMs: number

  /** Continues after the ledger's newest block, and after what was seen. */
  constructor(deps: ProducerDeps) {
    this.#deps = deps
    const { newest } = deps.ledger
    this.#rules = deps.rules ?? plainRules
    const firstSlot = Math.max(newest.slot, deps.seen) + 1
    // A chain that travelled in time goes on from there.
    this.#aheadMs = Math.max(0, newest.blockTime * 1000 - deps.clock.nowMs())
    this.#blockTime = newest.blockTime
    this.#nonce = durableNonce(newest.facts.hash)
    this.#slotHistory = slotHistoryOf(deps.ledger)
    this.#open = this.#openSlot(firstSlot)
    // It is not on disk: programs of the first slot see it too.
    this.#writeSlotHistory(this.#open.slot)
  }

  /** The chain's time, milliseconds since 1970. */
  get nowMs(): number {
    return this.#deps.clock.nowMs() + this.#aheadMs
  }

  /** The value of a nonce that is set or advanced in the open slot. */
  get nonce(): Uint8Array {
    return this.#nonce
  }

  /** Adds a transaction that ran and paid to the open slot. */
  land(bytes: Uint8Array, executed: Executed): StoredTransaction {
    const { ledger, sink } = this.#deps
    const { slot } = this.#open
    const layout = this.#layout
    layout.decode(bytes)
    const message = messageContent(layout, bytes)
    const signatures = signaturesOf(layout, bytes)
    const { loadedWritable, loadedReadonly } = executed
    const keys = [...message.accountKeys, ...loadedWritable, ...loadedReadonly]
    const fee = feeOf(layout, bytes)
    const meta = metaOf(layout, { executed, keys, fee, ledger })
    const index = ledger.opened.length
    const content = { signatures, isVote: false, index, message, meta }
    const txnSignature = new Uint8Array(signatures[0]!)
    const written = executed.accounts
      .filter(({ lamports, pubkey }) => lamports > 0n || ledger.newestAccount(pubkey) !== null)
      .map((account) => {
        const version = versionOf(account, { slot, ledger })
        ledger.write(version)
        return { ...version, txnSignature }
      })
    const position = { slot, index, blockTime: this.#blockTime }
    const stored = new StoredTransaction(packTransaction(bytes, content), position)
    ledger.mint(-fee.lamports)
    const locks = writeLocks(message, meta)
    ledger.land(stored, content, { signature: txnSignature, keys })
    this.#open.add({ signatures, keys, isWritable: (at) => locks[at]! })
    sink.transaction(slot, content, written)
    return stored
  }

  /** Writes accounts in the open slot outside of any transaction. */
  write(accounts: readonly VmAccount[]): void {
    const { ledger } = this.#deps
    for (const { pubkey, lamports } of accounts)
      ledger.mint(lamports - (ledger.newestAccount(pubkey)?.lamports ?? 0n))
    this.#write(this.#open.slot, accounts)
  }

  /** Completes the block of the open slot, raises commitments, opens the next slot. */
  endSlot(): Block {
    const block = this.#close()
    this.#raise(block)
    this.#open = this.#openSlot(block.slot + 1)
    return block
  }

  /**
   * Completes the block of the open slot and that of a later one, which skips the slots between
   * them. Both are finalized at once: what follows has no gaps.
   */
  jump(to: { readonly slot: number; readonly timeMs: number }): void {
    const { clock } = this.#deps
    const before = this.#close()
    this.#raise(before)
    this.#finalizeUpTo(before.slot)
    this.#aheadMs = Math.max(this.#aheadMs, to.timeMs - clock.nowMs())
    this.#open = this.#openSlot(Math.max(to.slot, before.slot + 1))
    const after = this.#close()
    this.#confirm(after)
    this.#finalize(after)
    this.#open = this.#openSlot(after.slot + 1)
  }

  /** Completes the block of the open slot. */
  #close(): Block {
    const { ledger, sink, keep } = this.#deps
    const open = this.#open
    const parent = ledger.newest
    const facts = {
      slot: open.slot,
      parentSlot: parent.slot,
      hash: open.end(),
      parentHash: parent.facts.hash,
      blockHeight: parent.blockHeight + 1,
      blockTime: this.#blockTime,
      transactionsTotal: parent.facts.transactionsTotal + ledger.opened.length,
      supply: ledger.supply(Commitment.processed),
    }
    addSlot(this.#slotHistory, open.slot)
    // Readers of geyser take it for the end of the slot's accounts: a validator writes it last.
    sink.account(open.slot, { ...this.#writeSlotHistory(open.slot), txnSignature: null })
    const block = new Block(facts, ledger.opened, packEntries(open.entries))
    ledger.close(block)
    keep(block)
    reportBlock(sink, block, open.entries.length)
    this.#nonce = durableNonce(facts.hash)
    return block
  }

  #raise(block: Block): void {
    const isMigrated = this.#rules.isMigrated(block.slot)
    this.#unfinalized.push(block)
    if (!isMigrated) this.#confirm(block)
    this.#finalizeUpTo(isMigrated ? block.parentSlot : block.slot - finalizedAfter)
  }

  #finalizeUpTo(slot: number): void {
    const { ledger } = this.#deps
    while (this.#unfinalized.length > 0 && this.#unfinalized[0]!.slot <= slot) {
      const block = this.#unfinalized.shift()!
      if (block.slot > ledger.slot(Commitment.confirmed)) this.#confirm(block)
      this.#finalize(block)
    }
  }

  #confirm({ slot, parentSlot: parent }: Block): void {
    const { ledger, sink } = this.#deps
    ledger.confirm(slot)
    sink.status({ slot, parent, status: slotStatus.confirmed })
  }

  #finalize({ slot, parentSlot: parent }: Block): void {
    const { ledger, sink } = this.#deps
    ledger.finalize(slot)
    sink.status({ slot, parent, status: slotStatus.finalized })
  }

  #openSlot(from: number): OpenSlot {
    const { ledger, sink } = this.#deps
    let slot = from
    while (this.#rules.isSkipped(slot)) slot++
    const { slot: parent, facts } = ledger.newest
    ledger.open(slot)
    // Wall clocks may step back; a chain's time does not.
    this.#blockTime = Math.max(this.#blockTime, Math.floor(this.nowMs / 1000))
    sink.status({ slot, parent, status: slotStatus.firstShredReceived })
    sink.status({ slot, parent, status: slotStatus.createdBank })
    const ticks = this.#rules.isMigrated(slot) ? 1 : ticksPerSlot
    const open = new OpenSlot(slot, { parentHash: facts.hash, ticks }, (entry) =>
      sink.entry(slot, entry),
    )
    const opened = { vote: this.#deps.vote, slot, unixTime: this.#blockTime }
    this.#last = lastBlocks(ledger, this.#last)
    this.#write(slot, openingAccounts(ledger, this.#last, opened))
    return open
  }

  #writeSlotHistory(slot: number): LedgerAccount {
    const { ledger, writeVm } = this.#deps
    const account = sysvarAccount(sysvars.slotHistory, this.#slotHistory)
    writeVm([account])
    const version = versionOf(account, { slot, ledger })
    ledger.write(version)
    return version
  }

  #write(slot: number, accounts: readonly VmAccount[]): void {
    const { ledger, sink, writeVm } = this.#deps
    writeVm(accounts)
    for (const account of accounts) {
      const version = versionOf(account, { slot, ledger })
      ledger.write(version)
      sink.account(slot, { ...version, txnSignature: null })
    }
  }
}

// Groups the transactions of the open slot into entries, and ends the slot. Thread: main of the
// devnode. Transactions of one entry must not conflict, as validators run them in parallel; one
// that does begins the next entry.

/** Ticks that end every slot, as on the real chain; under Alpenglow there is one. */
const ticksPerSlot = 64
const entryTransactionsMax = 64

interface Locks {
  readonly signatures: readonly Uint8Array[]
  readonly keys: readonly Uint8Array[]
  isWritable(index: number): boolean
}

class OpenSlot {
  readonly slot: number
  readonly entries: EntryContent[] = []
  readonly #chain: EntryChain
  readonly #ticks: number
  readonly #onEntry: (entry: EntryContent) => void
  #signatures: (readonly Uint8Array[])[] = []
  readonly #written = new Set<string>()
  readonly #read = new Set<string>()

  constructor(
    slot: number,
    from: { readonly parentHash: Uint8Array; readonly ticks: number },
    onEntry: (entry: EntryContent) => void,
  ) {
    this.slot = slot
    this.#chain = new EntryChain(from.parentHash)
    this.#ticks = from.ticks
    this.#onEntry = onEntry
  }

  add({ signatures, keys, isWritable }: Locks): void {
    const names = keys.map(keyOf)
    const isConflict = names.some(
      (key, index) => this.#written.has(key) || (isWritable(index) && this.#read.has(key)),
    )
    if (isConflict || this.#signatures.length >= entryTransactionsMax) this.#record()
    this.#signatures.push(signatures)
    names.forEach((key, index) => {
      if (isWritable(index)) this.#written.add(key)
      else this.#read.add(key)
    })
  }

  /** Records the last entry and the ticks; returns the block's hash. */
  end(): Uint8Array {
    this.#record()
    for (let tick = 0; tick < this.#ticks; tick++) this.#emit(this.#chain.tick())
    return this.#chain.hash
  }

  #record(): void {
    if (this.#signatures.length === 0) return
    this.#emit(this.#chain.record(this.#signatures))
    this.#signatures = []
    this.#written.clear()
    this.#read.clear()
  }

  #emit(entry: EntryContent): void {
    this.entries.push(entry)
    this.#onEntry(entry)
  }
}

// Builds the hash chain of entries, as Solana's proof of history does.
// Verifiable with the rules of the real chain; only the number of hashes between entries is
// small, since the embedded chain does not have to prove that time passed.
//
//   entry with transactions: hash = sha256(previous | merkle root of all signatures)
//   tick:                    hash = sha256(previous)

export class EntryChain {
  #hash: Uint8Array
  #index = 0
  #transactions = 0

  /** Continues from the last hash of the parent block. */
  constructor(parentHash: Uint8Array) {
    this.#hash = parentHash
  }

  get hash(): Uint8Array {
    return this.#hash
  }

  /** `signatures`: all signatures of each transaction, in order. */
  record(signatures: readonly (readonly Uint8Array[])[]): EntryContent {
    this.#hash = sha256(this.#hash, merkleRoot(signatures.flat()))
    return this.#next(signatures.length)
  }

  tick(): EntryContent {
    this.#hash = sha256(this.#hash)
    return this.#next(0)
  }

  #next(executedTransactionCount: number): EntryContent {
    const startingTransactionIndex = this.#transactions
    this.#transactions += executedTransactionCount
    const index = this.#index++
    return {
      index,
      numHashes: 1,
      hash: this.#hash,
      executedTransactionCount,
      startingTransactionIndex,
    }
  }
}

const leafPrefix = Uint8Array.of(0)
const nodePrefix = Uint8Array.of(1)

/** Merkle root over the leaves; an odd node at the end of a layer is paired with itself. */
export function merkleRoot(leaves: readonly Uint8Array[]): Uint8Array {
  let level = leaves.map((leaf) => sha256(leafPrefix, leaf))
  if (level.length === 0) return new Uint8Array(32)
  while (level.length > 1) {
    const above: Uint8Array[] = []
    for (let at = 0; at < level.length; at += 2)
      above.push(sha256(nodePrefix, level[at]!, level[at + 1] ?? level[at]!))
    level = above
  }
  return level[0]!
}

function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  return hash('sha256', parts.length === 1 ? parts[0]! : Buffer.concat(parts), 'buffer')
}

// What the chain's only validator writes without a transaction when a slot opens: sysvars, its
// votes, and the stake history at the start of an epoch.

function openingAccounts(
  ledger: LedgerState,
  blocks: readonly BlockFacts[],
  open: { readonly vote: Uint8Array; readonly slot: number; readonly unixTime: number },
): VmAccount[] {
  const { vote, slot, unixTime } = open
  const { epochSchedule: schedule, newest } = ledger
  const clock = ledger.newestAccount(sysvars.clock)?.data ?? null
  const accounts = slotSysvars({ slot, schedule, unixTime, clock, blocks })
  const ended = epochOf(newest.slot, schedule)
  if (epochOf(slot, schedule) > ended) accounts.push(nextStakeHistory(ledger, BigInt(ended)))
  const account = ledger.newestAccount(vote)
  if (account === null || account.lamports === 0n) return accounts
  const voted = blocks.slice(0, votesMax + 1).map((block) => block.slot)
  const { slotsPerEpoch } = schedule
  const votes = { slot, slotsPerEpoch, voted: voted.filter((one) => one > 0) }
  const data = withVotes(account.data, { ...votes, unixTime: newest.blockTime })
  return data === null ? accounts : [...accounts, { ...account, data }]
}

/** Newest first. `known` are those of an earlier slot: blocks on disk are read at the start. */
function lastBlocks(ledger: LedgerState, known: readonly BlockFacts[]): readonly BlockFacts[] {
  const facts: BlockFacts[] = []
  for (let block: Block | null = ledger.newest; block !== null && facts.length < slotHashesMax; ) {
    if (known[0] !== undefined && isSameKey(block.facts.hash, known[0].hash))
      return [...facts, ...known].slice(0, slotHashesMax)
    facts.push(block.facts)
    block = block.slot === 0 ? null : ledger.block(block.parentSlot)
  }
  return facts
}

/** Adds the totals of the epoch that has ended. */
function nextStakeHistory(ledger: LedgerState, ended: bigint): VmAccount {
  const history = readStakeHistory(ledger.newestAccount(sysvars.stakeHistory)!.data)
  const stakes = ledger.accountsByOwner(programs.stake, Commitment.processed)
  const entry: [bigint, StakeTotals] = [ended, totalStake(stakes, ended, history)]
  return stakeHistorySysvar([entry, ...history])
}

// Ends a slot every so many milliseconds.
// Ticks are due at fixed times, so that a late one does not delay the following ones; a clock that
// is many slots late (a suspended machine) skips them instead of catching up.

const slotsLateMax = 4

export class SlotClock {
  readonly #slotMs: number
  readonly #clock: Clock
  readonly #onSlot: () => void
  #nextMs = 0
  #timer: NodeJS.Timeout | null = null

  constructor(slotMs: number, clock: Clock, onSlot: () => void) {
    this.#slotMs = slotMs
    this.#clock = clock
    this.#onSlot = onSlot
  }

  start(): void {
    this.#nextMs = this.#clock.monotonicMs() + this.#slotMs
    this.#arm()
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #arm(): void {
    const waitMs = Math.max(0, this.#nextMs - this.#clock.monotonicMs())
    this.#timer = setTimeout(() => this.#tick(), waitMs)
  }

  #tick(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#nextMs += this.#slotMs
    if (nowMs - this.#nextMs > slotsLateMax * this.#slotMs) this.#nextMs = nowMs + this.#slotMs
    this.#arm()
    this.#onSlot()
  }
}

export interface SimulateOptions {
  /** Takes the newest blockhash instead of the transaction's own. */
  readonly isBlockhashReplaced: boolean
  /** Verifies signatures first: `err` is SignatureFailure. */
  readonly mustVerify: boolean
}

export interface Simulated {
  /** The slot it ran on. */
  readonly slot: number
  readonly err: TransactionError | null
  readonly logs: readonly string[]
  readonly unitsConsumed: bigint
  /** Null when it never ran. */
  readonly innerInstructions: MetaContent['innerInstructions']
  readonly returnData: MetaContent['returnData']
  /** Null for one that the chain does not take: it pays nothing. */
  readonly fee: bigint | null
  readonly loadedWritableAddresses: readonly Uint8Array[]
  readonly loadedReadonlyAddresses: readonly Uint8Array[]
  /** Null when its signatures did not verify: nothing was read. */
  readonly balances: Pick<
    MetaContent,
    'preBalances' | 'postBalances' | 'preTokenBalances' | 'postTokenBalances'
  > | null
  /** Bytes of all accounts it loaded, as SetLoadedAccountsDataSizeLimit counts them. */
  readonly loadedAccountsDataSize: number
  /** Set when the blockhash was replaced. */
  readonly replacementBlockhash: {
    readonly blockhash: string
    readonly lastValidBlockHeight: number
  } | null
  /** An account as it would be afterwards; null when it would not exist. */
  account(pubkey: Uint8Array): LedgerAccount | null
}

/** `layout` is the parsed transaction of `bytes`. */
export function simulatedOf(
  layout: TransactionLayout,
  bytes: Uint8Array,
  outcome: {
    readonly executed: Executed
    readonly fee: Fee
    readonly ledger: LedgerState
    readonly isBlockhashReplaced: boolean
  },
): Simulated {
  const { executed, fee, ledger, isBlockhashReplaced } = outcome
  const slot = ledger.stateSlot(Commitment.processed)
  const { loadedWritable, loadedReadonly, accounts } = executed
  const keys = [...messageContent(layout, bytes).accountKeys, ...loadedWritable, ...loadedReadonly]
  const meta = metaOf(layout, { executed, keys, fee, ledger })
  const written = new Map(accounts.map((account) => [keyOf(account.pubkey), account]))
  const { blockhash, lastValidBlockHeight } = ledger.latestBlockhash(Commitment.processed)
  return {
    slot,
    err: executed.err,
    logs: executed.logs ?? [],
    unitsConsumed: executed.units,
    innerInstructions: executed.inner,
    returnData: executed.returnData,
    fee: executed.isCharged ? meta.fee : null,
    loadedWritableAddresses: loadedWritable,
    loadedReadonlyAddresses: loadedReadonly,
    balances: executed.err === 'SignatureFailure' ? null : meta,
    loadedAccountsDataSize: executed.loadedBytes,
    replacementBlockhash: isBlockhashReplaced ? { blockhash, lastValidBlockHeight } : null,
    account(pubkey) {
      const after = written.get(keyOf(pubkey))
      if (after === undefined) return ledger.account(pubkey, Commitment.processed)
      return after.lamports === 0n ? null : { ...after, slot, writeVersion: 0n }
    },
  }
}
