// Account update over a node's message bytes, with lazily read fields.
// The fields that filters read are located in one pass over the message, on first access; each
// other field is located when it is read.
import { ProtoReader } from '../../base/proto-reader.ts'
import { batchColumn } from '../../chain/solana/geyser-batch.ts'
import type { AccountUpdate } from '../../chain/solana/updates.ts'
import { ReceivedItem } from './received-item.ts'

const NONE: Uint8Array = new Uint8Array(0)

/** Fields of a SubscribeUpdateAccountInfo as views or offsets; numbers are read later. */
interface Fields {
  pubkey: Uint8Array
  owner: Uint8Array
  dataStart: number
  dataEnd: number
  txnSignature: Uint8Array | null
  executable: boolean
}

const field = { lamports: 2, rentEpoch: 5, writeVersion: 7 } as const

export class ReceivedAccount extends ReceivedItem implements AccountUpdate {
  readonly kind = 'account'
  #fields: Fields | null = null
  #lamports: bigint | null = null

  get isStartup(): boolean {
    return this.column(batchColumn.extra) !== 0
  }

  get pubkey(): Uint8Array {
    return this.#read().pubkey
  }

  get owner(): Uint8Array {
    return this.#read().owner
  }

  get data(): Uint8Array {
    const { dataStart, dataEnd } = this.#read()
    return this.source.bytes.subarray(dataStart, dataEnd)
  }

  get txnSignature(): Uint8Array | null {
    return this.#read().txnSignature
  }

  get executable(): boolean {
    return this.#read().executable
  }

  get lamports(): bigint {
    this.#lamports ??= this.#number(field.lamports)
    return this.#lamports
  }

  get rentEpoch(): bigint {
    return this.#number(field.rentEpoch)
  }

  get writeVersion(): bigint {
    return this.#number(field.writeVersion)
  }

  #read(): Fields {
    if (this.#fields !== null) return this.#fields
    const fields: Fields = {
      pubkey: NONE,
      owner: NONE,
      dataStart: 0,
      dataEnd: 0,
      txnSignature: null,
      executable: false,
    }
    const reader = this.#reader()
    while (reader.next()) {
      if (reader.field === 1) fields.pubkey = reader.bytes
      else if (reader.field === 3) fields.owner = reader.bytes
      else if (reader.field === 4) fields.executable = reader.flag
      else if (reader.field === 6) {
        fields.dataStart = reader.start
        fields.dataEnd = reader.end
      } else if (reader.field === 8) fields.txnSignature = reader.bytes
    }
    this.#fields = fields
    return fields
  }

  #number(which: number): bigint {
    const reader = this.#reader()
    let value = 0n
    while (reader.next()) if (reader.field === which) value = reader.big
    return value
  }

  #reader(): ProtoReader {
    const { infoStart, infoEnd } = batchColumn
    return new ProtoReader(this.source.bytes, this.column(infoStart), this.column(infoEnd))
  }
}
