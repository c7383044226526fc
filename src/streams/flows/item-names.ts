// Names the items of one bank and counts how often each stream of a set sent them: the first
// arrival of an item is published, whichever stream brings it.
//
//   hash ─► table ─► row: | hash | end, kind | name |                 i32 each
//                         | published | stream 0 | stream 1 | …       u16 each
//
// An item passes when its stream has now sent it more often than it was published. A stream that
// starts again begins at 0, so its replay passes nothing that was published.
// A name is read straight from the encoded item, and compared whole: two items are never one.
import { hash, randomBytes } from 'node:crypto'
import { ProtoReader } from '../../base/protobuf.ts'
import { batchColumn, batchColumns, signatureBytes } from '../../chain/solana/geyser-batch.ts'
import { ReceivedBatch } from '../../chain/solana/received-batch.ts'
import type { AccountUpdate, EntryUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import { mergedStreamsMax } from '../../upstream/ports.ts'

/** The kinds of updates that make up a slot. */
export type SlotItem = AccountUpdate | TransactionUpdate | EntryUpdate

/** `contradiction`: the bank has another transaction or entry at that index. */
export type Arrival = 'first' | 'duplicate' | 'contradiction'

const columns = 1 + mergedStreamsMax
const rowsInitial = 256
const keyBytes = 32
const nameBytesMax = keyBytes + signatureBytes
/** Before the name: its hash, where it ends in the row, its kind. */
const headWords = 2
const rowWords = headWords + nameBytesMax / 4
const nameKind = { transaction: 0, entry: 1, account: 2, unsigned: 3, odd: 4 } as const

export class ItemNames {
  #size = 0
  #names = new Int32Array(rowsInitial * rowWords)
  #counts = new Uint16Array(rowsInitial * columns)
  /** A row + 1, from where the highest bits of its hash say on; half of it is empty. */
  #table = new Int32Array(rowsInitial * 2)
  /** Rows of transactions and entries by their index. */
  readonly #positions = new Map<number, number>()

  /** Counts an item that a stream sent; one that contradicts is not counted, where it is judged. */
  arrive(item: SlotItem, stream: number, isJudged: boolean): Arrival {
    name.read(item)
    const place = this.#placeOf(name.words, 0)
    const row = this.#table[place] === 0 ? this.#size : this.#table[place]! - 1
    if (isJudged && item.kind !== 'account' && !this.#agrees(item.kind, row)) return 'contradiction'
    if (row === this.#size) this.#add(place)
    const at = row * columns
    const count = this.#counts[at + 1 + stream]! + 1
    this.#counts[at + 1 + stream] = count
    if (count <= this.#counts[at]!) return 'duplicate'
    this.#counts[at] = count
    return 'first'
  }

  /** The stream will send the slot from its start. */
  restart(stream: number): void {
    for (let at = 1 + stream; at < this.#size * columns; at += columns) this.#counts[at] = 0
  }

  /** Where the table has the name that begins there, or has room for it. */
  #placeOf(words: Int32Array, start: number): number {
    const names = this.#names
    const table = this.#table
    const end = start + (words[start + 1]! >>> 3)
    let place = words[start]! >>> (Math.clz32(table.length) + 1)
    for (; table[place] !== 0; place = (place + 1) & (table.length - 1)) {
      let at = (table[place]! - 1) * rowWords
      let word = start
      while (word < end && names[at] === words[word]) {
        word++
        at++
      }
      if (word === end) break
    }
    return place
  }

  #add(place: number): void {
    const names = this.#names
    const { words } = name
    const start = this.#size * rowWords
    for (let word = 0; word < rowWords; word++) names[start + word] = words[word]!
    this.#table[place] = ++this.#size
    if (this.#size * columns < this.#counts.length) return
    this.#names = copyOf(names, new Int32Array(this.#names.length * 2))
    this.#counts = copyOf(this.#counts, new Uint16Array(this.#counts.length * 2))
    this.#table = new Int32Array(this.#table.length * 2)
    for (let row = 0; row < this.#size; row++)
      this.#table[this.#placeOf(this.#names, row * rowWords)] = row + 1
  }

  #agrees(kind: 'transaction' | 'entry', row: number): boolean {
    // Index 0 is also that of a node which leaves the indexes of transactions out.
    if (kind === 'transaction' && name.index === 0) return true
    const position = name.index * 2 + (kind === 'entry' ? 1 : 0)
    const known = this.#positions.get(position)
    if (known === undefined) this.#positions.set(position, row)
    return known === undefined || known === row
  }
}

function copyOf<T extends Int32Array | Uint16Array>(from: T, to: T): T {
  to.set(from)
  return to
}

/**
 * The same on every node that has the same block: values that each node assigns itself (write
 * versions, times, bank ids) are excluded.
 *
 *   transaction   signature
 *   entry         index, count, hash
 *   account       key, signature of the transaction, which writes it once
 *   unsigned      key, lamports, digest of the data: an account that no transaction wrote
 *   odd           digest of what has another length than it should
 */
class ItemName {
  /** A row. */
  readonly words = new Int32Array(rowWords)
  /** Of a transaction or an entry. */
  index = 0
  /** Nobody who writes accounts knows them: names that meet in a table cannot be chosen. */
  readonly #factors = new Int32Array(new Uint8Array(randomBytes(rowWords * 8)).buffer)
  #view: DataView = new DataView(this.words.buffer)
  #end = 0

  read(item: SlotItem): void {
    this.#end = headWords
    const { source, position = 0, kind } = item
    const isEntry = kind === 'entry'
    if (source instanceof ReceivedBatch) {
      const row = position * batchColumns
      const start = row + (isEntry ? batchColumn.bodyStart : batchColumn.infoStart)
      const end = row + (isEntry ? batchColumn.bodyEnd : batchColumn.infoEnd)
      this.#view = source.view
      this.#read(item, new ProtoReader(source.bytes, source.table[start], source.table[end]))
    } else {
      const bytes = isEntry ? item.body : item.info
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
      this.#read(item, new ProtoReader(bytes))
    }
  }

  #read(item: SlotItem, reader: ProtoReader): void {
    if (item.kind === 'account') this.#readAccount(item, reader)
    else if (item.kind === 'entry') this.#readEntry(reader)
    else this.#readTransaction(reader)
  }

  #readTransaction(reader: ProtoReader): void {
    let at = 0
    let index = 0
    while (reader.next())
      if (reader.field === 1) at = reader.start
      else if (reader.field === 5) index = reader.number
    this.index = index
    this.#append(at, signatureBytes)
    this.#close(nameKind.transaction)
  }

  #readEntry(reader: ProtoReader): void {
    let at = 0
    let length = 0
    let index = 0
    let count = 0
    while (reader.next())
      if (reader.field === 2) index = reader.number
      else if (reader.field === 5) count = reader.number
      else if (reader.field === 4) {
        at = reader.start
        length = reader.end - at
      }
    this.index = index
    if (length !== keyBytes || Math.max(index, count) > 0xffffffff) {
      this.#closeOdd(`e${index} ${count} `, this.#bytes(at, length))
      return
    }
    this.#appendWord(index)
    this.#appendWord(count)
    this.#append(at, length)
    this.#close(nameKind.entry)
  }

  #readAccount(item: AccountUpdate, reader: ProtoReader): void {
    let key = 0
    let length = 0
    let signature = 0
    let signatureLength = -1
    while (reader.next())
      if (reader.field === 1) {
        key = reader.start
        length = reader.end - key
      } else if (reader.field === 8) {
        signature = reader.start
        signatureLength = reader.end - signature
      }
    if (length === keyBytes && signatureLength === signatureBytes) {
      this.#append(key, length)
      this.#append(signature, signatureLength)
      this.#close(nameKind.account)
    } else if (length === keyBytes && signatureLength === -1) {
      const { lamports, data } = item
      this.#append(key, length)
      this.#appendWord(Number(lamports & 0xffffffffn))
      this.#appendWord(Number(lamports >> 32n))
      this.#appendDigest(hash('sha1', data, 'binary'))
      this.#close(nameKind.unsigned)
    } else {
      const { lamports, data } = item
      const by = signatureLength === -1 ? [Buffer.from(`${lamports} `), data] : []
      const signed = this.#bytes(signature, Math.max(signatureLength, 0))
      this.#closeOdd(`a${length} ${signatureLength} `, this.#bytes(key, length), signed, ...by)
    }
  }

  #bytes(start: number, length: number): Uint8Array {
    return new Uint8Array(this.#view.buffer, this.#view.byteOffset + start, length)
  }

  #append(start: number, length: number): void {
    const { words } = this
    const view = this.#view
    let to = this.#end
    for (let at = start; at < start + length; at += 4) words[to++] = view.getInt32(at, true)
    this.#end = to
  }

  #appendWord(word: number): void {
    this.words[this.#end++] = word
  }

  #appendDigest(digest: string): void {
    for (let at = 0; at < digest.length; at += 2)
      this.#appendWord((digest.charCodeAt(at) << 8) | digest.charCodeAt(at + 1))
  }

  #closeOdd(about: string, ...parts: readonly Uint8Array[]): void {
    this.#appendDigest(hash('sha256', Buffer.concat([Buffer.from(about), ...parts]), 'binary'))
    this.#close(nameKind.odd)
  }

  /** The hash is universal in its highest 16 bits: each 16 bits times a number of their place. */
  #close(kind: number): void {
    const { words } = this
    const factors = this.#factors
    const end = this.#end
    words[1] = (end << 3) | kind
    let sum = 0
    for (let at = 1; at < end; at++) {
      const word = words[at]!
      sum += Math.imul(word & 0xffff, factors[at * 2]!)
      sum = (sum + Math.imul(word >>> 16, factors[at * 2 + 1]!)) | 0
    }
    words[0] = sum
  }
}

/** Of the item that arrives: one is read at a time. */
const name = new ItemName()
