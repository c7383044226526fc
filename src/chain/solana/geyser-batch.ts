// A batch of SubscribeUpdate messages: their bytes, and a table of where the parts of each lie.
// The table is made once, where the stream is read; an update is then made
// from its row without parsing, as often as it is needed, and costs no memory in between.
//
//   bytes: | 0 | length | message 0 | 0 | length | message 1 | …
//   table: | field, body, created_at, slot, info, extra | row 1 | …          f64 each
import { ProtoReader, WIRE_VARINT } from '../../base/protobuf.ts'
import { readEnvelope, updateField } from './geyser-parts.ts'

export const signatureBytes = 64

export interface GeyserBatch {
  /** Whole gRPC frames, and between them what a connection needs. */
  readonly bytes: Buffer
  /** Of the messages alone. */
  readonly messageBytes: number
  /** `batchColumns` numbers for each message. */
  readonly table: Float64Array<ArrayBuffer>
}

/** The columns of a row; positions are offsets in `bytes`. */
export const batchColumn = {
  /** One of `updateField`; 0 without an update, `unreadable` for malformed bytes. */
  field: 0,
  bodyStart: 1,
  bodyEnd: 2,
  createdAtMs: 3,
  slot: 4,
  /** The SubscribeUpdateAccountInfo or SubscribeUpdateTransactionInfo inside the body. */
  infoStart: 5,
  infoEnd: 6,
  /** 1 for an account of the startup; the index of an entry. */
  extra: 7,
} as const
export const batchColumns = 8
/**
 * Tags of `bank_id`, a number: a counter of one validator's process, which changes with every
 * failover. It does not reach customers.
 */
const bankIdTags: Readonly<Partial<Record<number, number>>> = {
  [updateField.account]: 4 << 3,
  [updateField.slot]: 5 << 3,
  [updateField.transaction]: 3 << 3,
  [updateField.blockMeta]: 10 << 3,
  [updateField.entry]: 7 << 3,
}
export const unreadable = -1

/**
 * Makes the table. `offsets` has the start and end of each message in turn; `nowMs` replaces a
 * missing created_at.
 */
export function batchOf(bytes: Buffer, offsets: readonly number[], nowMs: number): GeyserBatch {
  const table = new Float64Array((offsets.length / 2) * batchColumns)
  const batch = { bytes, table, messageBytes: 0 }
  for (let index = 0, row = 0; index < offsets.length; index += 2, row += batchColumns) {
    const start = offsets[index]!
    const end = offsets[index + 1]!
    batch.messageBytes += end - start
    if (!writeRow(batch, row, start, end, nowMs)) table[row + batchColumn.field] = unreadable
  }
  return batch
}

/** False for malformed bytes. */
function writeRow(
  { bytes, table }: GeyserBatch,
  row: number,
  start: number,
  end: number,
  nowMs: number,
): boolean {
  const envelope = readEnvelope(bytes, start, end)
  if (envelope === null) return false
  const { field } = envelope
  table[row + batchColumn.field] = field
  table[row + batchColumn.bodyStart] = envelope.start
  table[row + batchColumn.bodyEnd] = envelope.end
  table[row + batchColumn.createdAtMs] = envelope.createdAtMs ?? nowMs
  const bankIdTag = bankIdTags[field]
  if (bankIdTag === undefined) return true
  if (!readBody({ bytes, table }, row, bankIdTag)) return false
  // Readers of a transaction's info check neither it nor the length of its signature.
  return field !== updateField.transaction || isMessage(bytes, table, row)
}

/** False for malformed bytes. Cuts the node's bank id out of the body. */
function readBody(
  { bytes, table }: Pick<GeyserBatch, 'bytes' | 'table'>,
  row: number,
  bankIdTag: number,
): boolean {
  const field = table[row + batchColumn.field]
  const hasInfo = field === updateField.account || field === updateField.transaction
  const extraField = field === updateField.account ? 3 : field === updateField.entry ? 2 : -1
  const end = table[row + batchColumn.bodyEnd]!
  const reader = new ProtoReader(bytes, table[row + batchColumn.bodyStart], end)
  while (reader.next()) {
    if (reader.field === (hasInfo ? 2 : 1)) table[row + batchColumn.slot] = reader.number
    else if (hasInfo && reader.field === 1) {
      table[row + batchColumn.infoStart] = reader.start
      table[row + batchColumn.infoEnd] = reader.end
    } else if (reader.field === extraField) table[row + batchColumn.extra] = reader.number
    else if (reader.field === bankIdTag >> 3) {
      const isLast = endOf(bytes, reader) === end && bytes[reader.start - 1] === bankIdTag
      if (isLast && reader.wire === WIRE_VARINT) {
        table[row + batchColumn.bodyEnd] = reader.start - 1
        return true
      }
      // Not the last field, as encoders write it: the others move up, and are read again.
      const kept = cutField(bytes, table[row + batchColumn.bodyStart]!, end, reader.field)
      table[row + batchColumn.bodyEnd] = kept
      return kept >= 0 && readBody({ bytes, table }, row, bankIdTag)
    }
  }
  return !reader.isBroken
}

/** Moves the other fields up, in one pass over any number of them; -1 for malformed bytes. */
function cutField(bytes: Buffer, from: number, to: number, field: number): number {
  let kept = from
  let at = from
  const reader = new ProtoReader(bytes, from, to)
  while (reader.next()) {
    const end = endOf(bytes, reader)
    if (reader.field !== field) kept += bytes.copy(bytes, kept, at, end)
    at = end
  }
  return reader.isBroken ? -1 : kept
}

/** After the field that was read; a number has its bytes behind the start. */
function endOf(bytes: Buffer, { wire, start, end }: ProtoReader): number {
  let at = end
  if (wire === WIRE_VARINT) for (at = start + 1; bytes[at - 1]! >= 0x80; at++);
  return at
}

function isMessage(bytes: Buffer, table: GeyserBatch['table'], row: number): boolean {
  const { infoStart, infoEnd } = batchColumn
  const reader = new ProtoReader(bytes, table[row + infoStart]!, table[row + infoEnd]!)
  let isSigned = false
  while (reader.next())
    if (reader.field === 1) isSigned = reader.end - reader.start === signatureBytes
  return isSigned && !reader.isBroken
}
