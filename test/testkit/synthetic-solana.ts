// A synthetic Solana chain: the same seed gives the same updates, slot by slot.
// For tests and benches of what reads the hub; nothing in it executes anything.
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import type {
  AccountContent,
  TokenBalanceContent,
  TransactionContent,
} from '../../src/chain/solana/geyser-decode.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  entryUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { slotStatus } from '../../src/chain/solana/updates.ts'

/** InstructionError(0, Custom(7)) in bincode. */
const CUSTOM_ERROR = Uint8Array.of(8, 0, 0, 0, 0, 25, 0, 0, 0, 7, 0, 0, 0)

const ownBytesMax = 2_000

export interface SyntheticOptions {
  readonly seed?: number
  readonly firstSlot?: number
  readonly accounts?: number
  readonly owners?: number
  readonly transactionsPerSlot?: number
  readonly dataBytes?: number
  readonly confirmedAfter?: number
  readonly finalizedAfter?: number
  /** Slots without a block. */
  readonly isSkipped?: (slot: number) => boolean
  /** What the first block names; empty where a node leaves it out. */
  readonly parentBlockhash?: string
}

export class SyntheticSolana {
  readonly keys: readonly Uint8Array[]
  readonly owners: readonly Uint8Array[]
  readonly #options: Required<SyntheticOptions>
  readonly #random: () => number
  #slot: number
  /** Slots that were published, with their parents. */
  readonly #published: { readonly slot: number; readonly parent: number }[] = []
  #height = 0
  #writeVersion = 0n
  #blockhash: string

  constructor(options: SyntheticOptions = {}) {
    this.#options = {
      seed: 1,
      firstSlot: 1000,
      accounts: 40,
      owners: 6,
      transactionsPerSlot: 6,
      dataBytes: 200,
      confirmedAfter: 1,
      finalizedAfter: 4,
      isSkipped: () => false,
      parentBlockhash: encodeBase58(new Uint8Array(32).fill(1)),
      ...options,
    }
    this.#random = randomOf(this.#options.seed)
    this.#slot = this.#options.firstSlot
    this.#blockhash = this.#options.parentBlockhash
    this.keys = this.#many(this.#options.accounts, 32)
    this.owners = this.#many(this.#options.owners, 32)
  }

  /** Number of the slot that `next` will publish. */
  get slot(): number {
    return this.#slot
  }

  /** Everything of one more slot, and new commitments of earlier ones, in order. */
  next(): SolanaUpdate[] {
    const { isSkipped } = this.#options
    while (isSkipped(this.#slot)) this.#slot++
    const slot = this.#slot++
    const parent = this.#published.at(-1)?.slot ?? slot - 1
    this.#published.push({ slot, parent })
    const moment = { slot, createdAtMs: 1_700_000_000_000 + slot * 400 + 0.25 }
    const { transactionsPerSlot } = this.#options
    const status = (at: number, value: 0 | 1 | 2 | 3 | 4 | 5, over = parent) =>
      slotUpdate({ ...moment, slot: at }, { parent: over, status: value })
    const updates: SolanaUpdate[] = [
      status(slot, slotStatus.firstShredReceived),
      status(slot, slotStatus.createdBank),
    ]
    const content = Array.from({ length: transactionsPerSlot }, (_, index) => {
      const transaction = transactionUpdate(moment, this.transaction(index))
      const written = transaction.keys.slice(0, 1 + this.#below(3))
      const accounts = written.map((key) =>
        accountUpdate(moment, this.account(key, transaction.signature)),
      )
      updates.push(...accounts, transaction)
      return { transaction, accounts }
    })
    const entry = entryUpdate(moment, {
      index: 0,
      numHashes: 12500,
      hash: this.#bytes(32),
      executedTransactionCount: transactionsPerSlot,
      startingTransactionIndex: 0,
    })
    const parentBlockhash = this.#blockhash
    this.#blockhash = encodeBase58(this.#bytes(32))
    const meta = blockMetaUpdate(moment, {
      blockhash: this.#blockhash,
      parentSlot: parent,
      parentBlockhash,
      blockHeight: this.#height++,
      blockTime: Math.floor(moment.createdAtMs / 1000),
      executedTransactionCount: transactionsPerSlot,
      entriesCount: 1,
      rewards: [],
    })
    const transactions = content.map(({ transaction }) => transaction)
    const accounts = content.flatMap((one) => one.accounts)
    updates.push(entry, status(slot, slotStatus.completed))
    updates.push({ kind: 'block', ...moment, meta, transactions, accounts, entries: [entry] }, meta)
    updates.push(status(slot, slotStatus.processed))
    const confirmed = this.#published.at(-1 - this.#options.confirmedAfter)
    const finalized = this.#published.at(-1 - this.#options.finalizedAfter)
    if (confirmed !== undefined)
      updates.push(status(confirmed.slot, slotStatus.confirmed, confirmed.parent))
    if (finalized !== undefined)
      updates.push(status(finalized.slot, slotStatus.finalized, finalized.parent))
    return updates
  }

  account(pubkey: Uint8Array, txnSignature: Uint8Array | null): AccountContent {
    const isToken = this.#below(4) === 0
    const data = this.#bytes(isToken ? 165 : this.#below(this.#options.dataBytes + 1))
    if (isToken) data[108] = this.#below(2)
    return {
      pubkey,
      lamports: BigInt(this.#below(5)) * 1_000_000n,
      owner: this.owners[this.#below(this.owners.length)]!,
      executable: false,
      rentEpoch: 2n ** 64n - 1n,
      data,
      writeVersion: ++this.#writeVersion,
      txnSignature: this.#below(8) === 0 ? null : txnSignature,
    }
  }

  transaction(index: number, logBytes = 40): TransactionContent {
    const pick = () => this.keys[this.#below(this.keys.length)]!
    const accountKeys = [...new Set([pick(), pick(), pick(), pick()])]
    const loaded = this.#below(3) === 0 ? [pick()] : []
    const preTokenBalances = this.#balances(accountKeys.length)
    return {
      signatures: [this.#bytes(64)],
      isVote: this.#below(5) === 0,
      index,
      message: {
        numRequiredSignatures: 1,
        numReadonlySignedAccounts: 0,
        numReadonlyUnsignedAccounts: 1,
        accountKeys,
        recentBlockhash: this.#bytes(32),
        instructions: [
          { programIdIndex: 1, accounts: Uint8Array.of(0, 1), data: this.#bytes(12) },
          { programIdIndex: 0, accounts: new Uint8Array(0), data: new Uint8Array(0) },
        ],
        versioned: loaded.length > 0,
        config: null,
        addressTableLookups: loaded.map((accountKey) => ({
          accountKey,
          writableIndexes: Uint8Array.of(1),
          readonlyIndexes: new Uint8Array(0),
        })),
      },
      meta: {
        err: this.#below(4) === 0 ? CUSTOM_ERROR : null,
        fee: 5000n,
        preBalances: accountKeys.map(() => BigInt(this.#below(1_000_000_000)) * 7_000_000_000n),
        postBalances: accountKeys.map(() => BigInt(this.#below(1_000_000_000))),
        innerInstructions: [
          {
            index: 0,
            instructions: [
              {
                programIdIndex: 1,
                accounts: Uint8Array.of(1),
                data: this.#bytes(4),
                stackHeight: 2,
              },
            ],
          },
        ],
        logMessages: ['Program log: Hello', 'x'.repeat(logBytes), ''],
        preTokenBalances,
        postTokenBalances: preTokenBalances.map((balance) =>
          this.#below(2) === 0 ? balance : { ...balance, amount: String(this.#below(1e6)) },
        ),
        rewards: [],
        loadedWritableAddresses: loaded,
        loadedReadonlyAddresses: [],
        returnData: this.#below(2) === 0 ? null : { programId: pick(), data: this.#bytes(8) },
        computeUnitsConsumed: 150n,
        costUnits: 1_481n,
      },
    }
  }

  #balances(accounts: number): TokenBalanceContent[] {
    const count = this.#below(3) === 0 ? Math.min(2, accounts) : 0
    return Array.from({ length: count }, (_, accountIndex) => ({
      accountIndex,
      mint: encodeBase58(this.owners[0]!),
      owner: encodeBase58(this.keys[this.#below(this.keys.length)]!),
      programId: encodeBase58(this.owners[1]!),
      amount: String(this.#below(1e6)),
      decimals: 6,
    }))
  }

  #many(count: number, bytes: number): Uint8Array[] {
    return Array.from({ length: count }, () => this.#bytes(bytes))
  }

  /** Long data repeats: to make it up would take longer than what is tested with it. */
  #bytes(length: number): Uint8Array {
    const bytes = new Uint8Array(length)
    const own = Math.min(length, ownBytesMax)
    for (let at = 0; at < own; at++) bytes[at] = this.#below(256)
    for (let at = own; at < length; at += own) bytes.copyWithin(at, 0, Math.min(own, length - at))
    return bytes
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }
}

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}
