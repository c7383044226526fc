// Reads single fields out of geyser messages without decoding the rest.
// Filters need few fields of few updates, so an upstream's messages are decoded lazily. Returns
// views, no copies.
import { ProtoReader } from '../../base/protobuf.ts'
import { decodeTokenBalance, type TokenBalanceContent } from './geyser-decode.ts'

/** What a SubscribeUpdate carries, by the field of its update_oneof. */
export const updateField = {
  account: 2,
  slot: 3,
  transaction: 4,
  block: 5,
  ping: 6,
  blockMeta: 7,
  entry: 8,
  pong: 9,
  transactionStatus: 10,
} as const

const filtersField = 1
const createdAtField = 11

/** The envelope of an update: its kind, the position of its body, when the node made it. */
export interface Envelope {
  /** One of `updateField`; 0 when absent. */
  readonly field: number
  readonly start: number
  readonly end: number
  /** Null when the node does not send it. */
  readonly createdAtMs: number | null
}

/** Of the message from `from` up to `to`; null for bytes that are not a message. */
export function readEnvelope(bytes: Uint8Array, from: number, to: number): Envelope | null {
  let field = 0
  let start = 0
  let end = 0
  let createdAtMs: number | null = null
  const reader = new ProtoReader(bytes, from, to)
  while (reader.next()) {
    if (reader.field === createdAtField) createdAtMs = timestampMs(reader.inside())
    else if (reader.field !== filtersField) {
      field = reader.field
      start = reader.start
      end = reader.end
    }
  }
  return reader.isBroken ? null : { field, start, end, createdAtMs }
}

/** Static keys, then the loaded ones: from a Transaction and a TransactionStatusMeta. */
export function readKeys(transaction: Uint8Array, meta: Uint8Array): Uint8Array[] {
  const keys: Uint8Array[] = []
  const reader = new ProtoReader(transaction)
  while (reader.next()) {
    if (reader.field !== 2) continue
    const message = reader.inside()
    while (message.next()) if (message.field === 2) keys.push(message.bytes)
  }
  const readonlyKeys: Uint8Array[] = []
  const outcome = new ProtoReader(meta)
  while (outcome.next()) {
    if (outcome.field === 12) keys.push(outcome.bytes)
    else if (outcome.field === 13) readonlyKeys.push(outcome.bytes)
  }
  return readonlyKeys.length === 0 ? keys : [...keys, ...readonlyKeys]
}

/** The runtime's error in bincode, from a TransactionStatusMeta; null when it succeeded. */
export function readError(meta: Uint8Array): Uint8Array | null {
  const reader = new ProtoReader(meta)
  while (reader.next()) {
    if (reader.field !== 1) continue
    const error = reader.inside()
    while (error.next()) if (error.field === 1) return error.bytes
    return new Uint8Array(0)
  }
  return null
}

/**
 * The fee in lamports and what it cost its block in compute units, from a
 * SubscribeUpdateTransactionInfo. Nodes before 2.2 report only the units that it consumed.
 */
export function readCost(info: Uint8Array): { readonly fee: number; readonly units: number } {
  let fee = 0
  let consumed = 0
  let cost: number | null = null
  const reader = new ProtoReader(info)
  while (reader.next()) {
    if (reader.field !== 4) continue
    const meta = reader.inside()
    while (meta.next()) {
      if (meta.field === 2) fee = meta.number
      else if (meta.field === 16) consumed = meta.number
      else if (meta.field === 17) cost = meta.number
    }
  }
  return { fee, units: cost ?? consumed }
}

/** The log lines, from a TransactionStatusMeta; null when it has `log_messages_none`. */
export function readLogs(meta: Uint8Array): string[] | null {
  const logs: string[] = []
  const reader = new ProtoReader(meta)
  while (reader.next()) {
    if (reader.field === 6) logs.push(reader.text)
    else if (reader.field === 11 && reader.flag) return null
  }
  return logs
}

/** Token balances before and after, from a TransactionStatusMeta. */
export function readTokenBalances(meta: Uint8Array): {
  readonly before: readonly TokenBalanceContent[]
  readonly after: readonly TokenBalanceContent[]
} {
  const before: TokenBalanceContent[] = []
  const after: TokenBalanceContent[] = []
  const reader = new ProtoReader(meta)
  while (reader.next()) {
    if (reader.field === 7) before.push(decodeTokenBalance(reader.bytes))
    else if (reader.field === 8) after.push(decodeTokenBalance(reader.bytes))
  }
  return { before, after }
}

/** The first field of a message that wraps one number: a UnixTimestamp, a BlockHeight. */
export function readWrapped(reader: ProtoReader): bigint {
  const inner = reader.inside()
  while (inner.next()) if (inner.field === 1) return inner.big
  return 0n
}

function timestampMs(reader: ProtoReader): number {
  let seconds = 0
  let nanos = 0
  while (reader.next()) {
    if (reader.field === 1) seconds = reader.number
    else if (reader.field === 2) nanos = reader.number
  }
  return seconds * 1000 + nanos / 1e6
}
