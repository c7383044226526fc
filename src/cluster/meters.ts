// Declares the meters of what several gateways share. Thread: main; read at scrape time.
import type { Meters } from '../telemetry/meters.ts'
import type { Cluster } from './cluster.ts'
import type { RegistryFollower } from './follower.ts'
import type { SharedEvents } from './shared-events.ts'
import type { Shares } from './shares.ts'

export function declareClusterMeters(
  meters: Meters,
  cluster: Cluster,
  follower: RegistryFollower,
): void {
  const connections = ['reading', 'writing'] as const
  meters.gaugesRead(
    'sluice_cluster_up',
    '1 while the connection to PostgreSQL is open',
    { connection: connections },
    () =>
      connections.map(
        (connection) => [{ connection }, Number(cluster[connection].isUp())] as const,
      ),
  )
  meters.gaugeRead(
    'sluice_cluster_registry_age_seconds',
    'Time since the registry here was last known to be the newest of the cluster',
    () => follower.ageMs() / 1000,
  )
  meters.gaugeRead(
    'sluice_cluster_registry_forked',
    '1 while PostgreSQL has another change at a number than this gateway, and is not followed',
    () => Number(follower.state() === 'forked'),
  )
  meters.counterRead(
    'sluice_cluster_registry_healed_total',
    'Changes that PostgreSQL had lost and this gateway added again',
    {},
    () => [[{}, follower.healed()]],
  )
}

export function declareShareMeters(meters: Meters, shares: Shares): void {
  meters.gaugeRead('sluice_cluster_gateways', 'Gateways that exchange shares of budgets', () =>
    shares.isAway ? 0 : shares.live,
  )
  meters.gaugeRead(
    'sluice_cluster_shares_away',
    '1 while shares of budgets go on without PostgreSQL',
    () => Number(shares.isAway),
  )
  meters.counterRead('sluice_cluster_settle_failed_total', 'Exchanges that failed', {}, () => [
    [{}, shares.stats().failures],
  ])
  meters.counterRead('sluice_cluster_settled_rows_total', 'Shares that were exchanged', {}, () => [
    [{}, shares.stats().rows],
  ])
}

export function declareEventLogMeters(meters: Meters, events: SharedEvents): void {
  meters.gaugeRead(
    'sluice_cluster_log_backlog_frames',
    'Frames of the own source that the shared event log lacks, at the gateway that numbers them',
    () => events.backlog,
  )
  meters.gaugeRead(
    'sluice_cluster_log_age_seconds',
    'Time since the shared event log was last read to its end',
    () => events.ageMs() / 1000,
  )
  meters.gaugeRead(
    'sluice_cluster_numberer',
    '1 at the gateway that numbers the frames of the event log',
    () => (events.isNumberer ? 1 : 0),
  )
}
