// Parses a node's SubscribeUpdate messages into updates whose fields are read lazily. Thread: main.
// `body` and `info` are views of the message: subscribers receive the node's own bytes, and nothing
// is encoded again.
//
//   message: | filters | tag len |  body  | created_at |      only the body is forwarded
//                                | … info … |

import { ProtoReader } from '../base/proto-reader.ts'
import { readEnvelope, readWrapped, updateField } from '../solana/geyser-parts.ts'
import type {
  BlockMetaUpdate,
  BlockUpdate,
  EntryUpdate,
  SlotStatus,
  SlotUpdate,
  SolanaUpdate,
} from '../solana/updates.ts'
import { ReceivedAccount } from './received-account.ts'
import { ReceivedTransaction } from './received-transaction.ts'

/** All updates of a node's stream except blocks, which are assembled here. */
export type ReceivedUpdate = Exclude<SolanaUpdate, BlockUpdate>

const NONE = new Uint8Array(0)
const slotStatusMax = 6

/**
 * Returns the update in a SubscribeUpdate; 'other' for a message without one (a ping, a pong, an
 * unrequested kind), null for malformed bytes. `nowMs` replaces a missing created_at.
 */
export function receiveUpdate(message: Uint8Array, nowMs: number): ReceivedUpdate | 'other' | null {
  const envelope = readEnvelope(message)
  if (envelope === null) return null
  const body = message.subarray(envelope.start, envelope.end)
  const createdAtMs = envelope.createdAtMs ?? nowMs
  switch (envelope.field) {
    case updateField.account:
      return ReceivedAccount.from(body, createdAtMs)
    case updateField.transaction:
      return ReceivedTransaction.from(body, createdAtMs)
    case updateField.entry:
      return receiveEntry(body, createdAtMs)
    case updateField.slot:
      return receiveSlot(body, createdAtMs)
    case updateField.blockMeta:
      return receiveBlockMeta(body, createdAtMs)
    default:
      return 'other'
  }
}

function receiveEntry(body: Uint8Array, createdAtMs: number): EntryUpdate | null {
  let slot = 0
  let index = 0
  const reader = new ProtoReader(body)
  while (reader.next()) {
    if (reader.field === 1) slot = reader.number
    else if (reader.field === 2) index = reader.number
  }
  return reader.isBroken ? null : { kind: 'entry', slot, createdAtMs, index, body }
}

function receiveSlot(body: Uint8Array, createdAtMs: number): SlotUpdate | null {
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

function receiveBlockMeta(body: Uint8Array, createdAtMs: number): BlockMetaUpdate | null {
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
