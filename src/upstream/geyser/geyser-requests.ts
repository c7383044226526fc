// Builds requests to a node's geyser.Geyser and parses its unary responses.
// Field numbers are those of proto/geyser.proto.
import { BackWriter } from '../../base/back-writer.ts'
import { Commitment } from '../../base/commitment.ts'
import { ProtoReader } from '../../base/proto-reader.ts'

const field = {
  accounts: 1,
  slots: 2,
  transactions: 3,
  blocksMeta: 5,
  commitment: 6,
  entry: 8,
  ping: 9,
  fromSlot: 11,
} as const
const filterName = 's'

/**
 * Subscribes to accounts, transactions, block metas and slot statuses, by default at `processed`
 * and with entries: higher commitments follow from the statuses and blocks from their content, so
 * that the node sends nothing twice.
 */
export function subscribeRequest(
  fromSlot: number | null,
  commitment: Commitment = Commitment.processed,
): Uint8Array {
  const writer = new BackWriter()
  if (fromSlot !== null) writer.numberAlways(field.fromSlot, fromSlot)
  if (commitment === Commitment.processed) writeFilter(writer, field.entry)
  writer.numberAlways(field.commitment, commitment)
  writeFilter(writer, field.blocksMeta)
  writeFilter(writer, field.transactions)
  writeFilter(writer, field.slots, () => {
    // interslot_updates.
    writer.flag(2, true)
  })
  writeFilter(writer, field.accounts)
  return writer.take()
}

/** SubscribeRequest with only a ping: changes no filter. */
export function pingRequest(id: number): Uint8Array {
  const writer = new BackWriter()
  writer.number(1, id)
  writer.wrap(field.ping, 0)
  return writer.take()
}

/** The first slot that a node can replay (SubscribeReplayInfoResponse); null without replay. */
export function firstAvailableIn(answer: Uint8Array): number | null {
  const reader = new ProtoReader(answer)
  while (reader.next()) if (reader.field === 1) return reader.number
  return null
}

/** Asks for the newest confirmed slot. */
export const confirmedSlotRequest: Uint8Array = Uint8Array.of(1 << 3, Commitment.confirmed)

/** From a GetSlotResponse. */
export function slotIn(answer: Uint8Array): number {
  const reader = new ProtoReader(answer)
  while (reader.next()) if (reader.field === 1) return reader.number
  return 0
}

/** Asks for the newest finalized block. */
export const latestBlockhashRequest: Uint8Array = Uint8Array.of(1 << 3, Commitment.finalized)

/** From a GetLatestBlockhashResponse. */
export function blockIn(answer: Uint8Array): { readonly slot: number; readonly blockhash: string } {
  const reader = new ProtoReader(answer)
  let slot = 0
  let blockhash = ''
  while (reader.next()) {
    if (reader.field === 1) slot = reader.number
    if (reader.field === 2) blockhash = reader.text
  }
  return { slot, blockhash }
}

/** The validator's version out of the JSON of a GetVersionResponse; '' when absent. */
export function solanaVersionIn(answer: Uint8Array): string {
  const reader = new ProtoReader(answer)
  while (reader.next()) {
    if (reader.field !== 1) continue
    const found = /"solana"\s*:\s*"([\w.+-]{1,64})"/.exec(reader.text)
    return found?.[1] ?? ''
  }
  return ''
}

/** A map entry: the filter's name, and the filter, written even when it is empty. */
function writeFilter(writer: BackWriter, map: number, write: () => void = () => {}): void {
  const entry = writer.mark
  const value = writer.mark
  write()
  writer.wrap(2, value)
  writer.string(1, filterName)
  writer.wrap(map, entry)
}
