// Makes what only a bank that does not win has: signed transactions, written accounts, entries and
// whole blocks. Nothing of it was executed; the signatures are good, their payer is here only.
import { hash } from 'node:crypto'
import { decodeKey, encodeBase58, keyText } from '../../chain/solana/base58.ts'
import type { EntryContent, TransactionContent } from '../../chain/solana/geyser-decode.ts'
import { Keypair } from '../../chain/solana/keypair.ts'
import { programs } from '../../chain/solana/programs.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  entryUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../chain/solana/received-batch.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import {
  type AccountUpdate,
  type BlockMetaUpdate,
  type EntryUpdate,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import { buildTransaction, memoInstruction } from '../build.ts'
import { messageContent, signaturesOf } from '../message-content.ts'

export interface VoidItems {
  readonly accounts: readonly AccountUpdate[]
  readonly transactions: readonly TransactionUpdate[]
  readonly entries: readonly EntryUpdate[]
}

/** Where a void bank is: after what other transactions and entries. */
export interface VoidAt {
  readonly slot: number
  readonly createdAtMs: number
  readonly transactions: number
  readonly entries: number
}

const lamports = 1_000_000_000n
const fee = 5_000n
const noRentEpoch = 0xffff_ffff_ffff_ffffn
const noData = new Uint8Array(0)

export class VoidBlocks {
  readonly #payer: Keypair
  readonly #layout = new TransactionLayout()
  /** Heads of blocks of the vote-only phase, by the status that completes them. */
  readonly #stallHeads = new WeakMap<SolanaUpdate, BlockMetaUpdate>()
  readonly #made = new WeakSet<SolanaUpdate>()

  /** `seed`: that of the chain's keys. */
  constructor(seed: Uint8Array) {
    this.#payer = Keypair.derive(seed, 'void')
  }

  /** Marks an update that is not of the chain. */
  mark(update: SolanaUpdate): SolanaUpdate {
    this.#made.add(update)
    return update
  }

  /** Whether an update is of a bank that does not win, or of none. */
  isVoid(update: SolanaUpdate): boolean {
    return this.#made.has(update)
  }

  /** The block of the vote-only phase that this status completes; null for any other update. */
  stallHead(update: SolanaUpdate): BlockMetaUpdate | null {
    return this.#stallHeads.get(update) ?? null
  }

  /** The same for every node that sees the slot. */
  contents(slot: number, firstIndex: number): readonly TransactionContent[] {
    return [0, 1].map((number) => this.#transaction(slot, number, firstIndex + number))
  }

  items(at: VoidAt): VoidItems {
    const { slot, createdAtMs } = at
    const moment = { slot, createdAtMs }
    const contents = this.contents(slot, at.transactions)
    const transactions = contents.map((content) => transactionUpdate(moment, content))
    const accounts = transactions.map(({ signature }, index) =>
      accountUpdate(moment, this.#written(signature, BigInt(slot * 2 + index))),
    )
    const entry = voidEntry(slot, { index: at.entries, from: at.transactions, count: 2 })
    const items = { accounts, transactions, entries: [entryUpdate(moment, entry)] }
    for (const list of Object.values(items)) for (const one of list) this.mark(one)
    return items
  }

  /** A whole block that is never confirmed, from its bank to PROCESSED. `parent`: of the chain. */
  block(slot: number, parent: BlockMetaUpdate, createdAtMs: number): SolanaUpdate[] {
    const items = this.items({ slot, createdAtMs, transactions: 0, entries: 0 })
    return this.#block({ slot, createdAtMs }, parent, items).updates
  }

  /** A block of the vote-only phase. */
  stallBlock(
    slot: number,
    parent: BlockMetaUpdate,
    createdAtMs: number,
  ): { readonly updates: SolanaUpdate[]; readonly meta: BlockMetaUpdate } {
    const moment = { slot, createdAtMs }
    const tick = entryUpdate(moment, voidEntry(slot, { index: 0, from: 0, count: 0 }))
    const block = this.#block(moment, parent, { accounts: [], transactions: [], entries: [tick] })
    this.#stallHeads.set(block.updates.at(-1)!, block.meta)
    return block
  }

  #block(
    moment: { readonly slot: number; readonly createdAtMs: number },
    parent: BlockMetaUpdate,
    items: VoidItems,
  ): { updates: SolanaUpdate[]; meta: BlockMetaUpdate } {
    const { slot } = moment
    const status = (value: 0 | 3 | 4 | 5) =>
      slotUpdate(moment, { parent: parent.slot, status: value })
    const meta = blockMetaUpdate(moment, {
      blockhash: encodeBase58(voidHash(`block ${slot}`)),
      parentSlot: parent.slot,
      parentBlockhash: parent.blockhash,
      blockHeight: (parent.blockHeight ?? 0) + 1,
      blockTime: parent.blockTime,
      executedTransactionCount: items.transactions.length,
      entriesCount: items.entries.length,
      rewards: [],
    })
    const updates: SolanaUpdate[] = [
      status(slotStatus.firstShredReceived),
      status(slotStatus.createdBank),
      ...items.accounts,
      ...items.transactions,
      ...items.entries,
      status(slotStatus.completed),
      { kind: 'block', ...moment, meta, ...items },
      meta,
      status(slotStatus.processed),
    ]
    for (const update of updates) this.mark(update)
    return { updates, meta }
  }

  #written(txnSignature: Uint8Array, writeVersion: bigint) {
    return {
      pubkey: this.#payer.publicKey,
      lamports: lamports - fee,
      owner: programs.system,
      executable: false,
      rentEpoch: noRentEpoch,
      data: noData,
      writeVersion,
      txnSignature,
    }
  }

  #transaction(slot: number, number: number, index: number): TransactionContent {
    const layout = this.#layout
    const bytes = buildTransaction({
      signers: [this.#payer],
      blockhash: voidHash('recent'),
      instructions: [memoInstruction(`void ${slot} ${number}`)],
    })
    layout.decode(bytes)
    const program = keyText(programs.memo)
    return {
      signatures: signaturesOf(layout, bytes),
      isVote: false,
      index,
      message: messageContent(layout, bytes),
      meta: {
        err: null,
        fee,
        preBalances: [lamports, 1n],
        postBalances: [lamports - fee, 1n],
        innerInstructions: [],
        logMessages: [`Program ${program} invoke [1]`, `Program ${program} success`],
        preTokenBalances: [],
        postTokenBalances: [],
        rewards: [],
        loadedWritableAddresses: [],
        loadedReadonlyAddresses: [],
        returnData: null,
        computeUnitsConsumed: 1_000n,
        costUnits: 2_000n,
      },
    }
  }
}

/** An entry of `count` transactions from that index on; a tick for 0. */
export function voidEntry(
  slot: number,
  at: { readonly index: number; readonly from: number; readonly count: number },
): EntryContent {
  return {
    index: at.index,
    numHashes: 1,
    hash: voidHash(`entry ${slot} ${at.index}`),
    executedTransactionCount: at.count,
    startingTransactionIndex: at.from,
  }
}

export function voidHash(name: string): Uint8Array {
  return hash('sha256', `void ${name}`, 'buffer')
}

/** Another blockhash, the same for everyone who asks. */
export function otherHash(blockhash: string): string {
  return encodeBase58(hash('sha256', decodeKey(blockhash) ?? new Uint8Array(32), 'buffer'))
}
