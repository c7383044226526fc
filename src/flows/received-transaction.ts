// Transaction update over a node's message bytes, with lazily read fields. Thread: main.
// The constructor locates its fields; keys, error, logs and owners are read on first access and
// cached.
import { ProtoReader } from '../base/proto-reader.ts'
import { readError, readKeys, readLogs, readTokenBalances } from '../solana/geyser-parts.ts'
import { encodeTransactionStatus } from '../solana/geyser-transaction.ts'
import { changedTokenOwnersOf, tokenOwnersOf } from '../solana/update-build.ts'
import type { TransactionUpdate } from '../solana/updates.ts'

const NONE: Uint8Array = new Uint8Array(0)

interface Offsets {
  slot: number
  infoStart: number
  infoEnd: number
}

export class ReceivedTransaction implements TransactionUpdate {
  readonly kind = 'transaction'
  readonly slot: number
  readonly createdAtMs: number
  readonly body: Uint8Array
  readonly signature: Uint8Array = NONE
  readonly isVote: boolean = false
  readonly index: number = 0
  readonly #infoStart: number
  readonly #infoEnd: number
  readonly #transaction: Uint8Array = NONE
  readonly #meta: Uint8Array = NONE
  readonly #isBroken: boolean
  #keys: readonly Uint8Array[] | null = null
  #err: Uint8Array | null | undefined = undefined
  #logs: readonly string[] | null | undefined = undefined
  #tokenOwners: readonly Uint8Array[] | null = null
  #changedTokenOwners: readonly Uint8Array[] | null = null
  #statusBody: Uint8Array | null = null

  private constructor(body: Uint8Array, at: Offsets, createdAtMs: number) {
    this.body = body
    this.slot = at.slot
    this.createdAtMs = createdAtMs
    this.#infoStart = at.infoStart
    this.#infoEnd = at.infoEnd
    const reader = new ProtoReader(body, at.infoStart, at.infoEnd)
    while (reader.next()) {
      if (reader.field === 1) this.signature = reader.bytes
      else if (reader.field === 2) this.isVote = reader.flag
      else if (reader.field === 3) this.#transaction = reader.bytes
      else if (reader.field === 4) this.#meta = reader.bytes
      else if (reader.field === 5) this.index = reader.number
    }
    this.#isBroken = reader.isBroken
  }

  /** Parses a SubscribeUpdateTransaction; null for malformed bytes. */
  static from(body: Uint8Array, createdAtMs: number): ReceivedTransaction | null {
    const at: Offsets = { slot: 0, infoStart: 0, infoEnd: 0 }
    const reader = new ProtoReader(body)
    while (reader.next()) {
      if (reader.field === 1) {
        at.infoStart = reader.start
        at.infoEnd = reader.end
      } else if (reader.field === 2) at.slot = reader.number
    }
    if (reader.isBroken) return null
    const update = new ReceivedTransaction(body, at, createdAtMs)
    return update.#isBroken ? null : update
  }

  get info(): Uint8Array {
    return this.body.subarray(this.#infoStart, this.#infoEnd)
  }

  get keys(): readonly Uint8Array[] {
    this.#keys ??= readKeys(this.#transaction, this.#meta)
    return this.#keys
  }

  get err(): Uint8Array | null {
    if (this.#err === undefined) this.#err = readError(this.#meta)
    return this.#err
  }

  get logs(): readonly string[] | null {
    if (this.#logs === undefined) this.#logs = readLogs(this.#meta)
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

  #readOwners(): void {
    const { before, after } = readTokenBalances(this.#meta)
    this.#tokenOwners = tokenOwnersOf(before, after)
    this.#changedTokenOwners = changedTokenOwnersOf(before, after)
  }
}
