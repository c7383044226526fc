// Follows blocks on the metrics stream: how parallel each was, and which slots were contended.
//   node examples/metrics.mjs [blocks]
import { MetricsClient, verdictOf } from 'sluice/client'

const count = Number(process.argv[2] ?? Infinity)
const client = new MetricsClient({
  url: process.env.METRICS_URL ?? 'http://127.0.0.1:8443',
  events: ['TPS', 'ContentionData'],
})

let seen = 0
let tps = 0
for await (const { seq, kind, payload } of client) {
  if (kind === 'TPS') tps = payload
  if (kind === 'Gap') console.log(`the source lost events ${payload.from} to ${payload.to}`)
  if (kind !== 'ContentionData') continue
  const { block_number, total_txn_count, parallel_efficiency_pct, contended_slot_count } = payload
  const efficiency =
    total_txn_count === 0
      ? 'empty'
      : `${parallel_efficiency_pct.toFixed(2)} % (${verdictOf(payload) ?? 'no verdict'})`
  console.log(
    `${seq} block ${block_number}: ${tps} TPS, ${efficiency}, ${contended_slot_count} contended`,
  )
  if (++seen >= count) break
}
client.close()
