// Makes the blocks: lands transactions in the open slot, ends it, opens the next. Thread: main of
// the devnode. Publishes to the sink: written accounts, then the transaction; entries; block;
// statuses.
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { TransactionLayout } from '../solana/transaction.ts'
import { type SlotStatus, slotStatus } from '../solana/updates.ts'
import { writeLocks } from '../solana/write-locks.ts'
import type { Executed, VmAccount } from './executed.ts'
import { feeOf } from './fee.ts'
import { metaOf, versionOf } from './landing.ts'
import { Block, packEntries } from './ledger/block.ts'
import type { LedgerState } from './ledger/state.ts'
import { packTransaction, StoredTransaction } from './ledger/stored-transaction.ts'
import { messageContent, signaturesOf } from './message-content.ts'
import { durableNonce } from './nonce.ts'
import { OpenSlot } from './open-slot.ts'
import { reportBlock, type SolanaSink } from './sink.ts'
import { sysvarAccounts } from './sysvars.ts'

/** A block is confirmed at once, by the only validator's own vote, and finalized 32 slots later. */
const finalizedAfter = 32
const slotHashesMax = 512

export interface ProducerDeps {
  readonly ledger: LedgerState
  readonly sink: SolanaSink
  readonly clock: Clock
  /** Writes accounts to the VM that no transaction wrote. */
  writeVm(accounts: readonly VmAccount[]): void
}

export class Producer {
  readonly #deps: ProducerDeps
  readonly #layout = new TransactionLayout()
  #open: OpenSlot
  #nonce: Uint8Array
  #blockTime: number
  /** The first slot of this process; earlier ones were finalized before the start. */
  readonly #firstSlot: number

  /** Continues after the ledger's newest block. */
  constructor(deps: ProducerDeps) {
    this.#deps = deps
    const { newest } = deps.ledger
    this.#firstSlot = newest.slot + 1
    this.#blockTime = newest.blockTime
    this.#nonce = durableNonce(newest.facts.hash)
    this.#open = this.#openSlot()
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
    const writable = keys.filter((_, at) => locks[at])
    ledger.land(stored, { price: Number(fee.price), writable, signature: txnSignature, keys })
    this.#open.add({ signatures, keys, isWritable: (at) => locks[at]! })
    sink.transaction(slot, content, written)
    return stored
  }

  /** Completes the block of the open slot, raises commitments, opens the next slot. */
  endSlot(): Block {
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
    const block = new Block(facts, ledger.opened, packEntries(open.entries))
    ledger.close(block)
    reportBlock(sink, block, open.entries.length)
    this.#raise(open.slot)
    this.#nonce = durableNonce(facts.hash)
    this.#open = this.#openSlot()
    return block
  }

  #sysvars(): VmAccount[] {
    const { ledger } = this.#deps
    const blocks: Block[] = []
    for (let slot = ledger.newest.slot; blocks.length < slotHashesMax; slot--) {
      const block = ledger.block(slot)
      if (block === null) break
      blocks.push(block)
    }
    return sysvarAccounts({
      slot: ledger.stateSlot(Commitment.processed),
      slotsPerEpoch: ledger.epochSchedule.slotsPerEpoch,
      unixTime: this.#blockTime,
      epochStart: blocks.at(-1)?.blockTime ?? this.#blockTime,
      blocks,
      rentExemptMinimum: (bytes) => ledger.rentExemptMinimum(bytes),
    })
  }

  #raise(slot: number): void {
    const { ledger } = this.#deps
    ledger.confirm(slot)
    this.#status(slot, slotStatus.confirmed)
    const finalized = slot - finalizedAfter
    if (finalized < this.#firstSlot) return
    ledger.finalize(finalized)
    this.#status(finalized, slotStatus.finalized)
  }

  #openSlot(): OpenSlot {
    const { ledger, sink, clock, writeVm } = this.#deps
    const { slot: parent, facts } = ledger.newest
    const slot = parent + 1
    // Wall clocks may step back; a chain's time does not.
    this.#blockTime = Math.max(this.#blockTime, Math.floor(clock.nowMs() / 1000))
    this.#status(slot, slotStatus.firstShredReceived)
    this.#status(slot, slotStatus.createdBank)
    const open = new OpenSlot(slot, facts.hash, (entry) => sink.entry(slot, entry))
    const accounts = this.#sysvars()
    writeVm(accounts)
    for (const account of accounts) {
      const version = versionOf(account, { slot, ledger })
      ledger.write(version)
      sink.account(slot, { ...version, txnSignature: null })
    }
    return open
  }

  #status(slot: number, status: SlotStatus): void {
    this.#deps.sink.status({ slot, parent: slot === 0 ? null : slot - 1, status })
  }
}
