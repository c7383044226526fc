// Writes a block's transactions in their JSON-RPC form, from the records that a worker copied.
// Thread: main, a slice at a time. Writes bytes directly: objects and JSON.stringify cost many
// times as much.
//
//   records   [type u32, transaction + 1 u32, bytes u32, 0, payload, pad to 8] in source order:
//             headers, access list entries and authorizations, of all transactions mixed
import {
  txnAccessListEntry,
  txnAuthListEntry,
  txnHeaderStart,
} from '../../chain/evm/event-payload.ts'
import { EventType } from '../../chain/evm/event-type.ts'
import { quantityOf } from '../../chain/evm/hex.ts'
import { readU32, readU64, readU256 } from '../../chain/evm/words.ts'
import type { JsonBytes } from './json-bytes.ts'

/** Values that all transactions of a block share. */
export interface InBlock {
  readonly blockHash: string
  readonly blockNumber: number
  readonly baseFee: bigint
}

/** Offsets of a transaction's records. */
interface Place {
  readonly index: number
  header: number
  lists: number[] | null
}

const headBytes = 16
const exactMax = Number.MAX_SAFE_INTEGER
const none: readonly number[] = []

export class TransactionText {
  readonly #records: Uint8Array
  readonly #places: readonly Place[]
  readonly #baseFee: bigint
  /** The text that every transaction of the block begins with. */
  readonly #opening: Uint8Array

  constructor(records: Uint8Array, block: InBlock) {
    this.#records = records
    this.#places = placesOf(records)
    this.#baseFee = block.baseFee
    const number = quantityOf(block.blockNumber)
    this.#opening = Buffer.from(
      `{"blockHash":"${block.blockHash}","blockNumber":"${number}","transactionIndex":"`,
    )
  }

  get count(): number {
    return this.#places.length
  }

  /** Writes the hash of the transaction at `at`, in block order. */
  writeHash(out: JsonBytes, at: number): void {
    out.ascii(quote)
    out.hex(this.#records, this.#headerAt(at) + txnHeaderStart.hash, 32)
    out.ascii(quote)
  }

  /** Writes the whole object. */
  writeObject(out: JsonBytes, at: number): void {
    const records = this.#records
    const header = this.#headerAt(at)
    const { index } = this.#places[at]!
    const type = records[header + txnHeaderStart.type]!
    const dataBytes = readU32(records, header + txnHeaderStart.dataLength)
    out.ascii(this.#opening)
    out.number(index)
    out.ascii(keys.hash)
    out.hex(records, header + txnHeaderStart.hash, 32)
    out.ascii(keys.type)
    out.quantity(records, header + txnHeaderStart.type, 1)
    out.ascii(keys.from)
    out.hex(records, header + txnHeaderStart.sender, 20)
    this.#writeTarget(out, header)
    out.quantity(records, header + txnHeaderStart.nonce, 8)
    out.ascii(keys.gas)
    out.quantity(records, header + txnHeaderStart.gasLimit, 8)
    out.ascii(keys.value)
    out.quantity(records, header + txnHeaderStart.value, 32)
    out.ascii(keys.input)
    out.hex(records, header + txnHeaderStart.size, dataBytes)
    this.#writeFees(out, header, type)
    this.#writeLists(out, at, { header, type, dataBytes })
    this.#writeSignature(out, header, type)
    out.ascii(closing)
  }

  #headerAt(at: number): number {
    return this.#places[at]!.header + headBytes
  }

  /** Writes the receiver, null for a creation, up to the key of the nonce. */
  #writeTarget(out: JsonBytes, header: number): void {
    if (this.#records[header + txnHeaderStart.isCreation] !== 0) {
      out.ascii(keys.toNull)
      return
    }
    out.ascii(keys.to)
    out.hex(this.#records, header + txnHeaderStart.to, 20)
    out.ascii(keys.nonce)
  }

  /** `gasPrice` is the price paid: the bid, or base fee and tip up to the cap. */
  #writeFees(out: JsonBytes, header: number, type: number): void {
    const records = this.#records
    out.ascii(keys.gasPrice)
    if (type < 2) {
      out.quantity(records, header + txnHeaderStart.maxFee, 32)
      return
    }
    out.number(this.#paid(header))
    out.ascii(keys.maxFee)
    out.quantity(records, header + txnHeaderStart.maxFee, 32)
    out.ascii(keys.maxPriorityFee)
    out.quantity(records, header + txnHeaderStart.maxPriorityFee, 32)
  }

  /** Uses bigint only where a number is not exact: bigints cost more than the whole text. */
  #paid(header: number): number | bigint {
    const cap = this.#numberAt(header + txnHeaderStart.maxFee)
    const tip = this.#numberAt(header + txnHeaderStart.maxPriorityFee)
    if (cap >= 0 && tip >= 0 && this.#baseFee <= exactMax - tip)
      return Math.min(Number(this.#baseFee) + tip, cap)
    const paid = this.#baseFee + readU256(this.#records, header + txnHeaderStart.maxPriorityFee)
    const exactCap = readU256(this.#records, header + txnHeaderStart.maxFee)
    if (paid > exactCap) return exactCap
    return paid
  }

  /** A uint256 as a number; -1 when it is beyond 2^53. */
  #numberAt(at: number): number {
    if (!isZero(this.#records, at + 8, 24)) return -1
    const value = readU64(this.#records, at)
    return value <= exactMax ? value : -1
  }

  #writeLists(
    out: JsonBytes,
    at: number,
    { header, type, dataBytes }: { header: number; type: number; dataBytes: number },
  ): void {
    const records = this.#records
    const lists = this.#places[at]!.lists ?? none
    if (type !== 0 || !isZero(records, header + txnHeaderStart.chainId, 32)) {
      out.ascii(keys.chainId)
      out.quantity(records, header + txnHeaderStart.chainId, 32)
    }
    out.ascii(quote)
    if (type === 0) return
    out.ascii(keys.accessList)
    const access = lists.filter(
      (record) => readU32(records, record) === EventType.TxnAccessListEntry,
    )
    writeEach(out, access, (record) => writeAccess(out, records, record + headBytes))
    if (type === 3) {
      out.ascii(keys.maxBlobFee)
      out.quantity(records, header + txnHeaderStart.maxBlobFee, 32)
      out.ascii(keys.blobHashes)
      const count = readU32(records, header + txnHeaderStart.blobCount)
      writeHashes(out, records, { at: header + txnHeaderStart.size + dataBytes, count })
    }
    if (type !== 4) return
    out.ascii(keys.authorizationList)
    const rest = lists.filter((record) => readU32(records, record) !== EventType.TxnAccessListEntry)
    writeEach(out, rest, (record) => writeAuthorization(out, records, record + headBytes))
  }

  #writeSignature(out: JsonBytes, header: number, type: number): void {
    const records = this.#records
    out.ascii(keys.v)
    if (type === 0) {
      const chainId = readU256(records, header + txnHeaderStart.chainId)
      const parity = records[header + txnHeaderStart.parity]!
      out.number(legacyV(chainId, parity))
    } else {
      out.quantity(records, header + txnHeaderStart.parity, 1)
      out.ascii(keys.yParity)
      out.quantity(records, header + txnHeaderStart.parity, 1)
    }
    out.ascii(keys.r)
    out.quantity(records, header + txnHeaderStart.r, 32)
    out.ascii(keys.s)
    out.quantity(records, header + txnHeaderStart.s, 32)
  }
}

/** In block order; a transaction without a header is left out. */
function placesOf(records: Uint8Array): Place[] {
  const places: Place[] = []
  for (let at = 0; at + headBytes <= records.length; ) {
    const index = readU32(records, at + 4) - 1
    places[index] ??= { index, header: -1, lists: null }
    const place = places[index]
    if (readU32(records, at) === EventType.TxnHeaderStart) place.header = at
    else {
      place.lists ??= []
      place.lists.push(at)
    }
    at = (at + headBytes + readU32(records, at + 8) + 7) & ~7
  }
  return places.filter(({ header }) => header !== -1)
}

function isZero(records: Uint8Array, at: number, length: number): boolean {
  for (let index = at; index < at + length; index++) if (records[index] !== 0) return false
  return true
}

/** 27 or 28 without replay protection (EIP-155), derived from the chain id with it. */
function legacyV(chainId: bigint, parity: number): bigint {
  return chainId === 0n ? 27n + BigInt(parity) : 35n + 2n * chainId + BigInt(parity)
}

function writeEach<T>(out: JsonBytes, list: readonly T[], write: (element: T) => void): void {
  out.ascii(openList)
  for (const [index, element] of list.entries()) {
    if (index > 0) out.ascii(comma)
    write(element)
  }
  out.ascii(closeList)
}

function writeHashes(
  out: JsonBytes,
  records: Uint8Array,
  { at, count }: { readonly at: number; readonly count: number },
): void {
  out.ascii(openList)
  for (let index = 0; index < count; index++) {
    out.ascii(index === 0 ? quote : nextText)
    out.hex(records, at + index * 32, 32)
    out.ascii(quote)
  }
  out.ascii(closeList)
}

function writeAccess(out: JsonBytes, records: Uint8Array, entry: number): void {
  out.ascii(keys.address)
  out.hex(records, entry + txnAccessListEntry.address, 20)
  out.ascii(keys.storageKeys)
  const count = readU32(records, entry + txnAccessListEntry.keyCount)
  writeHashes(out, records, { at: entry + txnAccessListEntry.size, count })
  out.ascii(closeObject)
}

function writeAuthorization(out: JsonBytes, records: Uint8Array, entry: number): void {
  out.ascii(keys.authChainId)
  out.quantity(records, entry + txnAuthListEntry.chainId, 32)
  out.ascii(keys.authAddress)
  out.hex(records, entry + txnAuthListEntry.address, 20)
  out.ascii(keys.nonce)
  out.quantity(records, entry + txnAuthListEntry.nonce, 8)
  out.ascii(keys.yParity)
  out.quantity(records, entry + txnAuthListEntry.parity, 1)
  out.ascii(keys.r)
  out.quantity(records, entry + txnAuthListEntry.r, 32)
  out.ascii(keys.s)
  out.quantity(records, entry + txnAuthListEntry.s, 32)
  out.ascii(closing)
}

/** Keys with surrounding quotes: each closes the previous value and opens the next one. */
const keys = {
  hash: Buffer.from('","hash":"'),
  type: Buffer.from('","type":"'),
  from: Buffer.from('","from":"'),
  to: Buffer.from('","to":"'),
  toNull: Buffer.from('","to":null,"nonce":"'),
  nonce: Buffer.from('","nonce":"'),
  gas: Buffer.from('","gas":"'),
  value: Buffer.from('","value":"'),
  input: Buffer.from('","input":"'),
  gasPrice: Buffer.from('","gasPrice":"'),
  maxFee: Buffer.from('","maxFeePerGas":"'),
  maxPriorityFee: Buffer.from('","maxPriorityFeePerGas":"'),
  chainId: Buffer.from('","chainId":"'),
  accessList: Buffer.from(',"accessList":'),
  maxBlobFee: Buffer.from(',"maxFeePerBlobGas":"'),
  blobHashes: Buffer.from('","blobVersionedHashes":'),
  authorizationList: Buffer.from(',"authorizationList":'),
  v: Buffer.from(',"v":"'),
  yParity: Buffer.from('","yParity":"'),
  r: Buffer.from('","r":"'),
  s: Buffer.from('","s":"'),
  address: Buffer.from('{"address":"'),
  storageKeys: Buffer.from('","storageKeys":'),
  authChainId: Buffer.from('{"chainId":"'),
  authAddress: Buffer.from('","address":"'),
} as const

const quote = Buffer.from('"')
const comma = Buffer.from(',')
const nextText = Buffer.from(',"')
const openList = Buffer.from('[')
const closeList = Buffer.from(']')
const closeObject = Buffer.from('}')
const closing = Buffer.from('"}')
