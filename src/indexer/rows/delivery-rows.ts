// Converts a delivery into rows of all its tables. Runs in the writer process.
import type { Delivery, TipFact, UsageFact } from '../parcels.ts'
import type { RowBatches } from './batches.ts'
import { addEventRows } from './event-rows.ts'
import { addSlotRows } from './slot-rows.ts'

export function addDeliveryRows({ parcels }: Delivery, rows: RowBatches): void {
  for (const { feed, content } of parcels)
    if (feed === 'slots') addSlotRows(content, rows)
    else if (feed === 'events') addEventRows(content, rows)
    else if (feed === 'tips') addTip(content, rows)
    else addUsage(content, rows)
}

function addTip(tip: TipFact, rows: RowBatches): void {
  const { signature, feePayer, tipAccount, lamports, outcome, reason, landedSlot } = tip
  const at = Math.floor(tip.receivedAtMs)
  rows.add('tips', [at, signature, feePayer, tipAccount, lamports, outcome, reason, landedSlot])
}

function addUsage(query: UsageFact, rows: RowBatches): void {
  const { subscription, queryId, elapsedMs, rows: count, bytes, code } = query
  const at = Math.floor(query.atMs)
  rows.add('usage', [subscription, at, queryId, elapsedMs, count, bytes, code])
}
