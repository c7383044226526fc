// Lists the gateways for `sluice status`: all of the cluster, with the processes of this hub.
import type { Components } from './components.ts'

/** A gateway writes its row every second; one that missed three is away. */
const awayMs = 3_000

interface GatewayStatus {
  readonly name: string
  readonly state: 'up' | 'starting' | 'away'
  /** Since it last wrote its row; null where PostgreSQL has none of it. */
  readonly seenMs: number | null
  /** Of a gateway of this hub. */
  readonly pid: number | null
  readonly restarts: number | null
}

export async function gatewayStatus({ cluster, gateways }: Components) {
  if (cluster === null) return {}
  // Without PostgreSQL the processes of this hub are still known.
  const rows = await cluster.gateways().catch(() => [])
  const newest = new Map(rows.toSorted((a, b) => b.ageMs - a.ageMs).map((row) => [row.name, row]))
  const own = new Map((gateways?.report() ?? []).map((report) => [report.name, report]))
  const names = [...new Set([...newest.keys(), ...own.keys()])].toSorted()
  const list = names.map((name): GatewayStatus => {
    const seenMs = newest.get(name)?.ageMs ?? null
    const report = own.get(name)
    const isUp = report?.isUp ?? (seenMs !== null && seenMs < awayMs)
    const state = isUp ? 'up' : report === undefined ? 'away' : 'starting'
    return { name, state, seenMs, pid: report?.pid ?? null, restarts: report?.restarts ?? null }
  })
  return { gateways: list }
}
