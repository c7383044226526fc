// Names the items of one bank and counts how often each stream of a set sent them: the first
// arrival of an item is published, whichever stream brings it.
//
//   name ─► row: | published | stream 0 | stream 1 | …     u16 each
//
// An item passes when its stream has now sent it more often than it was published. A stream that
// starts again begins at 0, so its replay passes nothing that was published.
import { hash } from 'node:crypto'
import { ProtoReader } from '../../base/proto-reader.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import type { AccountUpdate, EntryUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import { mergedStreamsMax } from '../../upstream/ports.ts'

/** The kinds of updates that make up a slot. */
export type SlotItem = AccountUpdate | TransactionUpdate | EntryUpdate

/** `contradiction`: the bank has another transaction or entry at that index. */
export type Arrival = 'first' | 'duplicate' | 'contradiction'

const columns = 1 + mergedStreamsMax
const rowsInitial = 256

export class ItemNames {
  readonly #rows = new Map<string, number>()
  /** Rows of transactions and entries by their index. */
  readonly #positions = new Map<number, number>()
  #counts = new Uint16Array(rowsInitial * columns)

  /** Counts an item that a stream sent; one that contradicts is not counted, where it is judged. */
  arrive(item: SlotItem, stream: number, isJudged: boolean): Arrival {
    const name = nameOf(item)
    const row = this.#rows.get(name) ?? this.#rows.size
    if (isJudged && item.kind !== 'account' && !this.#agrees(item, row)) return 'contradiction'
    if (row === this.#rows.size) this.#add(name)
    const at = row * columns
    const count = this.#counts[at + 1 + stream]! + 1
    this.#counts[at + 1 + stream] = count
    if (count <= this.#counts[at]!) return 'duplicate'
    this.#counts[at] = count
    return 'first'
  }

  /** The stream will send the slot from its start. */
  restart(stream: number): void {
    for (let at = 1 + stream; at < this.#rows.size * columns; at += columns) this.#counts[at] = 0
  }

  #add(name: string): void {
    this.#rows.set(name, this.#rows.size)
    if (this.#rows.size * columns <= this.#counts.length) return
    const counts = new Uint16Array(this.#counts.length * 2)
    counts.set(this.#counts)
    this.#counts = counts
  }

  #agrees(item: TransactionUpdate | EntryUpdate, row: number): boolean {
    // Index 0 is also that of a node which leaves the indexes of transactions out.
    if (item.kind === 'transaction' && item.index === 0) return true
    const position = item.index * 2 + (item.kind === 'entry' ? 1 : 0)
    const known = this.#positions.get(position)
    if (known === undefined) this.#positions.set(position, row)
    return known === undefined || known === row
  }
}

/**
 * Dedup key: the same on every node that has the same block. Values that each node assigns itself
 * (write versions, times, bank ids) are excluded.
 */
function nameOf(item: SlotItem): string {
  switch (item.kind) {
    case 'transaction':
      return `t${keyOf(item.signature)}`
    case 'entry':
      return `e${entryNameOf(item.body)}`
    case 'account': {
      const { pubkey, txnSignature, data, lamports } = item
      // A transaction writes an account once; other writes are identified by their content.
      const by = txnSignature === null ? `${lamports} ${hash('sha1', data)}` : keyOf(txnSignature)
      return `a${keyOf(pubkey)}${by}`
    }
  }
}

/** Index, hash and count. */
function entryNameOf(body: Uint8Array): string {
  let [index, count, hashKey] = [0, 0, '']
  const reader = new ProtoReader(body)
  while (reader.next())
    if (reader.field === 2) index = reader.number
    else if (reader.field === 4) hashKey = keyOf(reader.bytes)
    else if (reader.field === 5) count = reader.number
  return `${index} ${count} ${hashKey}`
}
