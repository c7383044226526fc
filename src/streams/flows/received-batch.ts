// Updates of a node's stream, made from a batch of its messages.
// An account, transaction or entry is made again for each commitment and replay; its bytes are
// views of the batch: subscribers receive the node's own bytes, and nothing is encoded again.
import { ProtoReader } from '../../base/proto-reader.ts'
import {
  batchColumn,
  batchColumns,
  type GeyserBatch,
  unreadable,
} from '../../chain/solana/geyser-batch.ts'
import { readWrapped, updateField } from '../../chain/solana/geyser-parts.ts'
import type {
  BlockMetaUpdate,
  BlockUpdate,
  EntryUpdate,
  SlotStatus,
  SlotUpdate,
  SolanaUpdate,
} from '../../chain/solana/updates.ts'
import { ReceivedAccount } from './received-account.ts'
import { type BatchSource, ReceivedItem } from './received-item.ts'
import { ReceivedTransaction } from './received-transaction.ts'

/** All updates of a node's stream except blocks, which are assembled here. */
export type ReceivedUpdate = Exclude<SolanaUpdate, BlockUpdate>

const NONE = new Uint8Array(0)
const slotStatusMax = 6

export class ReceivedBatch implements BatchSource {
  readonly bytes: Buffer
  readonly messageBytes: number
  readonly table: GeyserBatch['table']
  /** Messages in it. */
  readonly length: number

  constructor({ bytes, messageBytes, table }: GeyserBatch) {
    this.bytes = bytes
    this.messageBytes = messageBytes
    this.table = table
    this.length = table.length / batchColumns
  }

  /**
   * The update in a message; 'other' for a message without one (a ping, a pong, an unrequested
   * kind), null for malformed bytes.
   */
  update(position: number): ReceivedUpdate | 'other' | null {
    switch (this.table[position * batchColumns + batchColumn.field]) {
      case updateField.account:
        return new ReceivedAccount(this, position)
      case updateField.transaction:
        return new ReceivedTransaction(this, position)
      case updateField.entry:
        return new ReceivedEntry(this, position)
      case updateField.slot:
        return receiveSlot(new ReceivedItem(this, position))
      case updateField.blockMeta:
        return receiveBlockMeta(new ReceivedItem(this, position))
      case unreadable:
        return null
      default:
        return 'other'
    }
  }
}

class ReceivedEntry extends ReceivedItem implements EntryUpdate {
  readonly kind = 'entry'

  get index(): number {
    return this.column(batchColumn.extra)
  }
}

function receiveSlot({ body, createdAtMs }: ReceivedItem): SlotUpdate | null {
  let slot = 0
  let parent: number | null = null
  let status = 0
  const reader = new ProtoReader(body)
  while (reader.next()) {
    if (reader.field === 1) slot = reader.number
    else if (reader.field === 2) parent = reader.number
    else if (reader.field === 3) status = reader.number
  }
  // Unknown statuses are discarded.
  if (reader.isBroken || status > slotStatusMax) return null
  return { kind: 'slot', slot, createdAtMs, parent, status: status as SlotStatus, body }
}

function receiveBlockMeta({ body, createdAtMs }: ReceivedItem): BlockMetaUpdate | null {
  const meta = {
    slot: 0,
    blockhash: '',
    parentSlot: 0,
    parentBlockhash: '',
    blockHeight: null as number | null,
    blockTime: null as number | null,
    executedTransactionCount: 0,
    entriesCount: 0,
    rewards: NONE as Uint8Array,
  }
  const reader = new ProtoReader(body)
  while (reader.next()) {
    if (reader.field === 1) meta.slot = reader.number
    else if (reader.field === 2) meta.blockhash = reader.text
    else if (reader.field === 3) meta.rewards = reader.bytes
    else if (reader.field === 4) meta.blockTime = Number(BigInt.asIntN(64, readWrapped(reader)))
    else if (reader.field === 5) meta.blockHeight = Number(readWrapped(reader))
    else if (reader.field === 6) meta.parentSlot = reader.number
    else if (reader.field === 7) meta.parentBlockhash = reader.text
    else if (reader.field === 8) meta.executedTransactionCount = reader.number
    else if (reader.field === 9) meta.entriesCount = reader.number
  }
  return reader.isBroken ? null : { kind: 'blockMeta', createdAtMs, ...meta, body }
}
