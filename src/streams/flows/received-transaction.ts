// Transaction update over a node's message bytes, with lazily read fields.
// Fields are located on the first access to one; keys, error, logs and owners are cached.
import { ProtoReader } from '../../base/proto-reader.ts'
import {
  readError,
  readKeys,
  readLogs,
  readTokenBalances,
} from '../../chain/solana/geyser-parts.ts'
import { encodeTransactionStatus } from '../../chain/solana/geyser-transaction.ts'
import { changedTokenOwnersOf, tokenOwnersOf } from '../../chain/solana/update-build.ts'
import type { TransactionUpdate } from '../../chain/solana/updates.ts'
import { ReceivedItem } from './received-item.ts'

const NONE: Uint8Array = new Uint8Array(0)

/** Fields of a SubscribeUpdateTransactionInfo. */
interface Fields {
  signature: Uint8Array
  isVote: boolean
  index: number
  transaction: Uint8Array
  meta: Uint8Array
}

export class ReceivedTransaction extends ReceivedItem implements TransactionUpdate {
  readonly kind = 'transaction'
  #fields: Fields | null = null
  #keys: readonly Uint8Array[] | null = null
  #err: Uint8Array | null | undefined = undefined
  #logs: readonly string[] | null | undefined = undefined
  #tokenOwners: readonly Uint8Array[] | null = null
  #changedTokenOwners: readonly Uint8Array[] | null = null
  #statusBody: Uint8Array | null = null

  get signature(): Uint8Array {
    return this.#read().signature
  }

  get isVote(): boolean {
    return this.#read().isVote
  }

  get index(): number {
    return this.#read().index
  }

  get keys(): readonly Uint8Array[] {
    this.#keys ??= readKeys(this.#read().transaction, this.#read().meta)
    return this.#keys
  }

  get err(): Uint8Array | null {
    if (this.#err === undefined) this.#err = readError(this.#read().meta)
    return this.#err
  }

  get logs(): readonly string[] | null {
    if (this.#logs === undefined) this.#logs = readLogs(this.#read().meta)
    return this.#logs
  }

  get tokenOwners(): readonly Uint8Array[] {
    if (this.#tokenOwners === null) this.#readOwners()
    return this.#tokenOwners!
  }

  get changedTokenOwners(): readonly Uint8Array[] {
    if (this.#changedTokenOwners === null) this.#readOwners()
    return this.#changedTokenOwners!
  }

  get statusBody(): Uint8Array {
    this.#statusBody ??= encodeTransactionStatus(this)
    return this.#statusBody
  }

  #read(): Fields {
    if (this.#fields !== null) return this.#fields
    const fields: Fields = {
      signature: NONE,
      isVote: false,
      index: 0,
      transaction: NONE,
      meta: NONE,
    }
    const reader = new ProtoReader(this.info)
    while (reader.next()) {
      if (reader.field === 1) fields.signature = reader.bytes
      else if (reader.field === 2) fields.isVote = reader.flag
      else if (reader.field === 3) fields.transaction = reader.bytes
      else if (reader.field === 4) fields.meta = reader.bytes
      else if (reader.field === 5) fields.index = reader.number
    }
    this.#fields = fields
    return fields
  }

  #readOwners(): void {
    const { before, after } = readTokenBalances(this.#read().meta)
    this.#tokenOwners = tokenOwnersOf(before, after)
    this.#changedTokenOwners = changedTokenOwnersOf(before, after)
  }
}
