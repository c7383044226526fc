// An account update as a node sent it. Thread: main. Made by solana-received.ts.
// Its fields are found in one walk over the message, the first time one of them is read.
import type { AccountUpdate } from '../chain/ports.ts'
import { ProtoReader } from '../solana/proto-reader.ts'

const NONE: Uint8Array = new Uint8Array(0)

interface Fields {
  pubkey: Uint8Array
  lamports: bigint
  owner: Uint8Array
  executable: boolean
  rentEpoch: bigint
  data: Uint8Array
  writeVersion: bigint
  txnSignature: Uint8Array | null
}

export class ReceivedAccount implements AccountUpdate {
  readonly kind = 'account'
  readonly slot: number
  readonly createdAtMs: number
  readonly isStartup: boolean
  readonly body: Uint8Array
  readonly #infoStart: number
  readonly #infoEnd: number
  #fields: Fields | null = null

  private constructor(
    body: Uint8Array,
    at: { slot: number; createdAtMs: number; isStartup: boolean; start: number; end: number },
  ) {
    this.body = body
    this.slot = at.slot
    this.createdAtMs = at.createdAtMs
    this.isStartup = at.isStartup
    this.#infoStart = at.start
    this.#infoEnd = at.end
  }

  /** From a SubscribeUpdateAccount; null for bytes that are none. */
  static from(body: Uint8Array, createdAtMs: number): ReceivedAccount | null {
    const at = { slot: 0, createdAtMs, isStartup: false, start: 0, end: 0 }
    const reader = new ProtoReader(body)
    while (reader.next()) {
      if (reader.field === 1) {
        at.start = reader.start
        at.end = reader.end
      } else if (reader.field === 2) at.slot = reader.number
      else if (reader.field === 3) at.isStartup = reader.flag
    }
    return reader.isBroken ? null : new ReceivedAccount(body, at)
  }

  get info(): Uint8Array {
    return this.body.subarray(this.#infoStart, this.#infoEnd)
  }

  get pubkey(): Uint8Array {
    return this.#read().pubkey
  }

  get lamports(): bigint {
    return this.#read().lamports
  }

  get owner(): Uint8Array {
    return this.#read().owner
  }

  get executable(): boolean {
    return this.#read().executable
  }

  get rentEpoch(): bigint {
    return this.#read().rentEpoch
  }

  get data(): Uint8Array {
    return this.#read().data
  }

  get writeVersion(): bigint {
    return this.#read().writeVersion
  }

  get txnSignature(): Uint8Array | null {
    return this.#read().txnSignature
  }

  #read(): Fields {
    if (this.#fields !== null) return this.#fields
    const fields: Fields = {
      pubkey: NONE,
      lamports: 0n,
      owner: NONE,
      executable: false,
      rentEpoch: 0n,
      data: NONE,
      writeVersion: 0n,
      txnSignature: null,
    }
    const reader = new ProtoReader(this.body, this.#infoStart, this.#infoEnd)
    while (reader.next()) {
      if (reader.field === 1) fields.pubkey = reader.bytes
      else if (reader.field === 2) fields.lamports = reader.big
      else if (reader.field === 3) fields.owner = reader.bytes
      else if (reader.field === 4) fields.executable = reader.flag
      else if (reader.field === 5) fields.rentEpoch = reader.big
      else if (reader.field === 6) fields.data = reader.bytes
      else if (reader.field === 7) fields.writeVersion = reader.big
      else if (reader.field === 8) fields.txnSignature = reader.bytes
    }
    this.#fields = fields
    return fields
  }
}
