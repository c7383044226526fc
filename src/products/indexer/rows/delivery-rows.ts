// Converts a delivery into rows of all its tables. Thread: any (pure); runs in the writer process.
import type { Delivery, TipFact, UsageFact } from '../parcels.ts'
import type { RowBatches } from './batches.ts'
import { addEventRows } from './event-rows.ts'
import { addSlotRows } from './slot-rows.ts'

export function addDeliveryRows(delivery: Delivery, rows: RowBatches): void {
  for (const parcel of delivery.slots) addSlotRows(parcel, rows)
  for (const parcel of delivery.events) addEventRows(parcel, rows)
  for (const fact of delivery.tips) addTip(fact, rows)
  for (const fact of delivery.usage) addUsage(fact, rows)
}

function addTip(tip: TipFact, rows: RowBatches): void {
  rows.add('tips', [
    Math.floor(tip.receivedAtMs),
    tip.signature,
    tip.feePayer,
    tip.tipAccount,
    tip.lamports,
    tip.outcome,
    tip.reason,
    tip.landedSlot,
  ])
}

function addUsage(query: UsageFact, rows: RowBatches): void {
  rows.add('usage', [
    query.subscription,
    Math.floor(query.atMs),
    query.queryId,
    query.elapsedMs,
    query.rows,
    query.bytes,
    query.code,
  ])
}
