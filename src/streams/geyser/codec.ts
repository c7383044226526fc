// Decodes requests and encodes unary answers by the .proto files of the package.
// Updates are not encoded here: solana/geyser-*.ts builds their bytes once.
// A map entry with a key and no value is an empty message: that is how Rust clients send `{}`.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import protobuf from 'protobufjs'

/** A 64-bit number as protobufjs gives it. */
export interface Long64 {
  readonly low: number
  readonly high: number
  readonly unsigned: boolean
}

export interface CuckooRequest {
  readonly data: Uint8Array
  readonly bucketCount: number
  readonly entriesPerBucket: number
  readonly fingerprintBits: number
  readonly hashSeed: Long64
  readonly hashAlgorithm: number
}

export interface StateFilterRequest {
  readonly filter?: 'memcmp' | 'datasize' | 'tokenAccountState' | 'lamports'
  readonly memcmp?: {
    readonly offset: Long64
    readonly data?: 'bytes' | 'base58' | 'base64'
    readonly bytes: Uint8Array
    readonly base58: string
    readonly base64: string
  } | null
  readonly datasize: Long64
  readonly tokenAccountState: boolean
  readonly lamports?: {
    readonly cmp?: 'eq' | 'ne' | 'lt' | 'gt'
    readonly eq: Long64
    readonly ne: Long64
    readonly lt: Long64
    readonly gt: Long64
  } | null
}

export interface AccountsRequest {
  readonly account: readonly string[]
  readonly owner: readonly string[]
  readonly filters: readonly StateFilterRequest[]
  readonly nonemptyTxnSignature?: boolean
  readonly cuckooAccountsFilter?: CuckooRequest | null
  readonly diffOnly?: boolean
}

export interface SlotsRequest {
  readonly filterByCommitment?: boolean
  readonly interslotUpdates?: boolean
}

export interface TransactionsRequest {
  readonly vote?: boolean
  readonly failed?: boolean
  readonly signature?: string
  readonly accountInclude: readonly string[]
  readonly accountExclude: readonly string[]
  readonly accountRequired: readonly string[]
  readonly cuckooAccountInclude?: CuckooRequest | null
  readonly tokenAccounts?: number
  readonly instructions: readonly InstructionRequest[]
  readonly blockTime?: boolean
  readonly accountStates?: boolean
}

export interface InstructionRequest {
  readonly program: string
  readonly dataPrefix: Uint8Array
}

export interface BlocksRequest {
  readonly accountInclude: readonly string[]
  readonly includeTransactions?: boolean
  readonly includeAccounts?: boolean
  readonly includeEntries?: boolean
  readonly cuckooAccountInclude?: CuckooRequest | null
}

export interface KeyChangeRequest {
  readonly filter: string
  readonly add: readonly Uint8Array[]
  readonly remove: readonly Uint8Array[]
  readonly list: number
}

export interface KeysRequest {
  readonly id: number
  readonly changes: readonly KeyChangeRequest[]
}

/** Optional scalars are read with `given`: protobufjs answers defaults for absent ones. */
export interface SubscribeRequest {
  readonly accounts: Readonly<Record<string, AccountsRequest>>
  readonly slots: Readonly<Record<string, SlotsRequest>>
  readonly transactions: Readonly<Record<string, TransactionsRequest>>
  readonly transactionsStatus: Readonly<Record<string, TransactionsRequest>>
  readonly blocks: Readonly<Record<string, BlocksRequest>>
  readonly blocksMeta: Readonly<Record<string, object>>
  readonly entry: Readonly<Record<string, object>>
  readonly commitment?: number
  readonly accountsDataSlice: readonly { readonly offset: Long64; readonly length: Long64 }[]
  readonly ping?: { readonly id: number } | null
  readonly fromSlot?: Long64
  readonly keys?: KeysRequest | null
}

export interface Codec {
  /** Null when the bytes are not such a message. */
  decode<T>(type: string, bytes: Uint8Array): T | null
  encode(type: string, value: object): Uint8Array
  readonly root: protobuf.Root
}

/** Reads proto/ once; costs some 20 ms. */
export function loadCodec(): Codec {
  const folder = protoFolder()
  const root = new protobuf.Root()
  root.loadSync(
    ['geyser.proto', 'health.proto', 'reflection.proto'].map((name) => join(folder, name)),
  )
  root.resolveAll()
  const types = new Map<string, protobuf.Type>()
  const typeOf = (name: string) => {
    const known = types.get(name) ?? root.lookupType(name)
    types.set(name, known)
    return known
  }
  return {
    root,
    decode<T>(type: string, bytes: Uint8Array) {
      try {
        // Reason for the cast: the caller names the interface that mirrors the message.
        return typeOf(type).decode(bytes) as unknown as T
      } catch {
        return null
      }
    },
    encode: (type, value) => typeOf(type).encode(typeOf(type).create(value)).finish(),
  }
}

/** An optional scalar's value, or undefined when the message did not carry it. */
export function given<T extends object, K extends keyof T>(message: T, field: K): T[K] | undefined {
  return Object.hasOwn(message, field) ? message[field] : undefined
}

export function bigintOf(long: Long64): bigint {
  return (BigInt(long.high >>> 0) << 32n) | BigInt(long.low >>> 0)
}

/** The number, or null beyond the safe integers. */
export function numberOf(long: Long64): number | null {
  const value = (long.high >>> 0) * 2 ** 32 + (long.low >>> 0)
  return Number.isSafeInteger(value) ? value : null
}

/** Next to src/ in the sources, one further up from the compiled files. */
function protoFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'proto', 'geyser.proto'))) {
    const parent = dirname(folder)
    if (parent === folder) throw new Error('proto/geyser.proto is missing from the package')
    folder = parent
  }
  return join(folder, 'proto')
}
