// Builds a block's JSON text lazily in pieces and caches them within a byte bound.
// Each piece takes little time, so that a block of ten thousand transactions does not stall the
// event loop; later requests reuse the cached pieces.
import {
  EventType,
  txnAccessListEntry,
  txnAuthListEntry,
  txnHeaderStart,
} from '../../chain/evm/event-payload.ts'
import { quantityOf, writeHex } from '../../chain/evm/hex.ts'
import { readU32, readU64, readU256 } from '../../chain/evm/words.ts'

/** A piece ends with the transaction that makes it reach this size. */
const pieceBytes = 32 * 1024

export interface TextSource {
  /** The text up to the bracket that opens the transactions. */
  opening(): string
  /** Number of transactions; throws when the block was evicted. */
  count(): number
  /** Writes the transaction at an index, in block order. */
  write(out: JsonBytes, at: number): void
}

export class LazyBlockText {
  readonly #source: TextSource
  readonly #memory: TextCache
  /** Undefined where a piece was built and dropped. */
  readonly #pieces: (Buffer | undefined)[] = []
  /** Index of each piece's first transaction; above the count after the last piece. */
  readonly #starts: number[] = [0]
  #length = 0
  /** Exact once the whole text was built. */
  estimatedBytes: number

  constructor(source: TextSource, estimatedBytes: number, memory: TextCache) {
    this.#source = source
    this.estimatedBytes = estimatedBytes
    this.#memory = memory
  }

  /** The piece at an index, null after the last one. Pieces must be requested in order. */
  piece(index: number): Uint8Array | null {
    const known = this.#pieces[index]
    if (known !== undefined) return known
    const count = this.#source.count()
    const from = this.#starts[index]
    if (from === undefined || from > count) return null
    const { piece, next } = made(this.#source, from, count)
    if (this.#starts.length === index + 1) {
      this.#starts.push(next)
      this.#length += piece.length
      if (next > count) this.estimatedBytes = this.#length
    }
    this.#pieces[index] = piece
    this.#memory.add(this, piece.length)
    return piece
  }

  /** Drops the cached pieces; they are rebuilt on the next request. */
  drop(): void {
    this.#pieces.fill(undefined)
  }
}

/** Bounds the bytes of all cached texts; evicts the text that grew the longest ago first. */
export class TextCache {
  readonly #bytesMax: number
  readonly #texts = new Map<LazyBlockText, number>()
  bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  add(text: LazyBlockText, bytes: number): void {
    const before = this.#texts.get(text) ?? 0
    this.#texts.delete(text)
    this.#texts.set(text, before + bytes)
    this.bytes += bytes
    for (const oldest of this.#texts.keys()) {
      if (this.bytes <= this.#bytesMax) break
      this.remove(oldest)
    }
  }

  remove(text: LazyBlockText): void {
    this.bytes -= this.#texts.get(text) ?? 0
    this.#texts.delete(text)
    text.drop()
  }
}

function made(source: TextSource, from: number, count: number): { piece: Buffer; next: number } {
  if (from === 0) out.ascii(Buffer.from(source.opening()))
  let at = from
  for (; at < count && out.length < pieceBytes; at++) {
    if (at > 0) out.ascii(comma)
    source.write(out, at)
  }
  if (at < count) return { piece: out.take(), next: at }
  out.ascii(closeBlock)
  return { piece: out.take(), next: at + 1 }
}

// Writes a block's transactions in their JSON-RPC form, from the records that a worker copied.
// Thread: main, a slice at a time. Writes bytes directly: objects and JSON.stringify cost many
// times as much.
//
//   records   [type u32, transaction + 1 u32, bytes u32, 0, payload, pad to 8] in source order:
//             headers, access list entries and authorizations, of all transactions mixed

/** Values that all transactions of a block share. */
interface InBlock {
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
    out.hex(quote, this.#records, this.#headerAt(at) + txnHeaderStart.hash, 32)
    out.ascii(quote)
  }

  /** Writes the whole object. */
  writeObject(out: JsonBytes, at: number): void {
    const records = this.#records
    const header = this.#headerAt(at)
    const { index } = this.#places[at]!
    const type = records[header + txnHeaderStart.type]!
    const dataBytes = readU32(records, header + txnHeaderStart.dataLength)
    const isCreation = records[header + txnHeaderStart.isCreation] !== 0
    out.number(this.#opening, index)
    out.hex(keys.hash, records, header + txnHeaderStart.hash, 32)
    out.quantity(keys.type, records, header + txnHeaderStart.type, 1)
    out.hex(keys.from, records, header + txnHeaderStart.sender, 20)
    if (!isCreation) out.hex(keys.to, records, header + txnHeaderStart.to, 20)
    const nonce = isCreation ? keys.toNull : keys.nonce
    out.quantity(nonce, records, header + txnHeaderStart.nonce, 8)
    out.quantity(keys.gas, records, header + txnHeaderStart.gasLimit, 8)
    out.quantity(keys.value, records, header + txnHeaderStart.value, 32)
    out.hex(keys.input, records, header + txnHeaderStart.size, dataBytes)
    this.#writeFees(out, header, type)
    this.#writeLists(out, at, { header, type, dataBytes })
    this.#writeSignature(out, header, type)
    out.ascii(closeText)
  }

  #headerAt(at: number): number {
    return this.#places[at]!.header + headBytes
  }

  /** `gasPrice` is the price paid: the bid, or base fee and tip up to the cap. */
  #writeFees(out: JsonBytes, header: number, type: number): void {
    const records = this.#records
    if (type < 2) {
      out.quantity(keys.gasPrice, records, header + txnHeaderStart.maxFee, 32)
      return
    }
    out.number(keys.gasPrice, this.#paid(header))
    out.quantity(keys.maxFee, records, header + txnHeaderStart.maxFee, 32)
    out.quantity(keys.maxPriorityFee, records, header + txnHeaderStart.maxPriorityFee, 32)
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
    if (type !== 0 || !isZero(records, header + txnHeaderStart.chainId, 32))
      out.quantity(keys.chainId, records, header + txnHeaderStart.chainId, 32)
    out.ascii(quote)
    if (type === 0) return
    out.ascii(keys.accessList)
    const access = lists.filter(
      (record) => readU32(records, record) === EventType.TxnAccessListEntry,
    )
    writeEach(out, access, (record) => writeAccess(out, records, record + headBytes))
    if (type === 3) {
      out.quantity(keys.maxBlobFee, records, header + txnHeaderStart.maxBlobFee, 32)
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
    if (type === 0) {
      const chainId = readU256(records, header + txnHeaderStart.chainId)
      const parity = BigInt(records[header + txnHeaderStart.parity]!)
      // 27 or 28 without replay protection (EIP-155), derived from the chain id with it.
      out.number(keys.v, parity + (chainId === 0n ? 27n : 35n + 2n * chainId))
    } else {
      out.quantity(keys.v, records, header + txnHeaderStart.parity, 1)
      out.quantity(keys.yParity, records, header + txnHeaderStart.parity, 1)
    }
    out.quantity(keys.r, records, header + txnHeaderStart.r, 32)
    out.quantity(keys.s, records, header + txnHeaderStart.s, 32)
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
    out.hex(index === 0 ? quote : nextText, records, at + index * 32, 32)
    out.ascii(quote)
  }
  out.ascii(closeList)
}

function writeAccess(out: JsonBytes, records: Uint8Array, entry: number): void {
  out.hex(keys.address, records, entry + txnAccessListEntry.address, 20)
  out.ascii(keys.storageKeys)
  const count = readU32(records, entry + txnAccessListEntry.keyCount)
  writeHashes(out, records, { at: entry + txnAccessListEntry.size, count })
  out.ascii(closeObject)
}

function writeAuthorization(out: JsonBytes, records: Uint8Array, entry: number): void {
  out.quantity(keys.authChainId, records, entry + txnAuthListEntry.chainId, 32)
  out.hex(keys.authAddress, records, entry + txnAuthListEntry.address, 20)
  out.quantity(keys.nonce, records, entry + txnAuthListEntry.nonce, 8)
  out.quantity(keys.yParity, records, entry + txnAuthListEntry.parity, 1)
  out.quantity(keys.r, records, entry + txnAuthListEntry.r, 32)
  out.quantity(keys.s, records, entry + txnAuthListEntry.s, 32)
  out.ascii(closeText)
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
const closeText = Buffer.from('"}')
const closeBlock = Buffer.from(']}')

// Writes JSON as ASCII directly into bytes, several times faster than through objects.
// The buffer is reused: `take` copies out what was written since the last one.

const startBytes = 64 * 1024
/** From this length on the native conversion to hex is faster than our loop. */
const nativeHexBytes = 128
const zeroDigit = 0x30

class JsonBytes {
  #bytes = Buffer.allocUnsafe(startBytes)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Appends ASCII that is already JSON. */
  ascii(text: Uint8Array): void {
    this.#reserve(text.length)
    this.#bytes.set(text, this.#length)
    this.#length += text.length
  }

  /** Appends a key, `0x` and two digits per byte. */
  hex(key: Uint8Array, source: Uint8Array, at: number, length: number): void {
    this.ascii(key)
    this.#reserve(2 + 2 * length)
    if (length < nativeHexBytes) {
      this.#length = writeHex(this.#bytes, this.#length, source, { at, length })
      return
    }
    const view = Buffer.from(source.buffer, source.byteOffset + at, length)
    this.#length += this.#bytes.write(`0x${view.toString('hex')}`, this.#length, 'latin1')
  }

  /** A key and a little-endian integer as a JSON-RPC quantity: `0x0`, `0x1f`, no leading zero. */
  quantity(key: Uint8Array, source: Uint8Array, at: number, length: number): void {
    this.ascii(key)
    let high = at + length - 1
    while (high > at && source[high] === 0) high--
    this.#reserve(2 + 2 * length)
    const bytes = this.#bytes
    let to = this.#length
    bytes[to++] = zeroDigit
    bytes[to++] = 0x78
    if (source[high]! >= 16) bytes[to++] = digits[source[high]! >>> 4]!
    bytes[to++] = digits[source[high]! & 15]!
    for (let index = high - 1; index >= at; index--) {
      bytes[to++] = digits[source[index]! >>> 4]!
      bytes[to++] = digits[source[index]! & 15]!
    }
    this.#length = to
  }

  /** Appends a key and a number that we computed (so it is short) as a JSON-RPC quantity. */
  number(key: Uint8Array, value: number | bigint): void {
    this.ascii(key)
    const text = quantityOf(value)
    this.#reserve(text.length)
    this.#length += this.#bytes.write(text, this.#length, 'latin1')
  }

  /** Returns a copy of what was written and resets the buffer. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#length))
    this.#length = 0
    // One block with a huge payload must not keep its memory forever.
    if (this.#bytes.length > startBytes) this.#bytes = Buffer.allocUnsafe(startBytes)
    return taken
  }

  #reserve(count: number): void {
    const needed = this.#length + count
    if (needed <= this.#bytes.length) return
    const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length))
    grown.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = grown
  }
}

const digits = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))
const out = new JsonBytes()
