// Makes the blocks: lands transactions in the open slot, ends it, opens the next. Thread: main of
// the devnode. Publishes to the sink: written accounts, then the transaction; entries; block;
// statuses.
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { sysvars } from '../chain/solana/programs.ts'
import { TransactionLayout } from '../chain/solana/transaction.ts'
import { slotStatus } from '../chain/solana/updates.ts'
import { writeLocks } from '../chain/solana/write-locks.ts'
import type { Executed, VmAccount } from './executed.ts'
import { feeOf } from './fee.ts'
import { metaOf, versionOf } from './landing.ts'
import { Block, packEntries } from './ledger/block.ts'
import type { LedgerAccount } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import { packTransaction, StoredTransaction } from './ledger/stored-transaction.ts'
import { messageContent, signaturesOf } from './message-content.ts'
import { durableNonce } from './nonce.ts'
import { OpenSlot } from './open-slot.ts'
import { reportBlock, type SolanaSink } from './sink.ts'
import { addSlot, slotHistoryOf } from './slot-history.ts'
import { sysvarAccount } from './sysvars.ts'
import { openingAccounts } from './validator.ts'

/** A block is confirmed at once, by the only validator's own vote, and finalized 32 slots later. */
const finalizedAfter = 32

export interface ProducerDeps {
  readonly ledger: LedgerState
  readonly sink: SolanaSink
  readonly clock: Clock
  /** The validator's vote account. */
  readonly vote: Uint8Array
  /** No slot up to this one may come again, though its block may be lost. */
  readonly seen: number
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
  /** Earlier slots were finalized before the start, or by a jump; later ones have no gaps. */
  #firstSlot: number
  /** How far the chain's time is ahead of the wall clock. */
  #aheadMs: number

  /** Continues after the ledger's newest block, and after what was seen. */
  constructor(deps: ProducerDeps) {
    this.#deps = deps
    const { newest } = deps.ledger
    this.#firstSlot = Math.max(newest.slot, deps.seen) + 1
    // A chain that travelled in time goes on from there.
    this.#aheadMs = Math.max(0, newest.blockTime * 1000 - deps.clock.nowMs())
    this.#blockTime = newest.blockTime
    this.#nonce = durableNonce(newest.facts.hash)
    this.#slotHistory = slotHistoryOf(deps.ledger)
    this.#open = this.#openSlot(this.#firstSlot)
    // It is not on disk: programs of the first slot see it too.
    this.#writeSlotHistory(this.#firstSlot)
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
    const index = ledger.openCount
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
  jump(to: { readonly slot: number; readonly timeMs: number }): [before: Block, after: Block] {
    const { ledger, clock } = this.#deps
    const before = this.#close()
    this.#raise(before)
    const unfinalized = Math.max(this.#firstSlot, ledger.slot(Commitment.finalized) + 1)
    for (let slot = unfinalized; slot <= before.slot; slot++) this.#finalize(slot)
    this.#aheadMs = Math.max(this.#aheadMs, to.timeMs - clock.nowMs())
    this.#open = this.#openSlot(Math.max(to.slot, before.slot + 1))
    const after = this.#close()
    this.#confirm(after)
    this.#finalize(after.slot)
    this.#firstSlot = after.slot + 1
    this.#open = this.#openSlot(after.slot + 1)
    return [before, after]
  }

  /** Completes the block of the open slot. */
  #close(): Block {
    const { ledger, sink } = this.#deps
    const open = this.#open
    const parent = ledger.newest
    const facts = {
      slot: open.slot,
      parentSlot: parent.slot,
      hash: open.end(),
      parentHash: parent.facts.hash,
      blockHeight: parent.blockHeight + 1,
      blockTime: this.#blockTime,
      transactionsTotal: parent.facts.transactionsTotal + ledger.openCount,
      supply: ledger.supply(Commitment.processed),
    }
    addSlot(this.#slotHistory, open.slot)
    // Readers of geyser take it for the end of the slot's accounts: a validator writes it last.
    sink.account(open.slot, { ...this.#writeSlotHistory(open.slot), txnSignature: null })
    const block = new Block(facts, ledger.opened, packEntries(open.entries))
    ledger.close(block)
    reportBlock(sink, block, open.entries.length)
    this.#nonce = durableNonce(facts.hash)
    return block
  }

  #raise(block: Block): void {
    this.#confirm(block)
    const finalized = block.slot - finalizedAfter
    if (finalized >= this.#firstSlot) this.#finalize(finalized)
  }

  #confirm({ slot, parentSlot: parent }: Block): void {
    const { ledger, sink } = this.#deps
    ledger.confirm(slot)
    sink.status({ slot, parent, status: slotStatus.confirmed })
  }

  #finalize(slot: number): void {
    const { ledger, sink } = this.#deps
    const parent = ledger.block(slot)?.parentSlot ?? slot - 1
    ledger.finalize(slot)
    sink.status({ slot, parent, status: slotStatus.finalized })
  }

  #openSlot(slot: number): OpenSlot {
    const { ledger, sink } = this.#deps
    const { slot: parent, facts } = ledger.newest
    ledger.open(slot)
    // Wall clocks may step back; a chain's time does not.
    this.#blockTime = Math.max(this.#blockTime, Math.floor(this.nowMs / 1000))
    sink.status({ slot, parent, status: slotStatus.firstShredReceived })
    sink.status({ slot, parent, status: slotStatus.createdBank })
    const open = new OpenSlot(slot, facts.hash, (entry) => sink.entry(slot, entry))
    const { vote } = this.#deps
    this.#write(slot, openingAccounts(ledger, { vote, slot, unixTime: this.#blockTime }))
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
