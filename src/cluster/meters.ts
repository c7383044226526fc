// Declares the meters of what several gateways share. Thread: main; read at scrape time.
// Declared in every start, for docs and boards; without a cluster they have no series.
import type { Meters } from '../telemetry/meters.ts'
import type { Cluster } from './cluster.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { SharedEvents } from './shared-events.ts'
import type { SharedRegistry } from './shared-registry.ts'
import type { Shares } from './shares.ts'

/** Each is null without a cluster. */
export interface ClusterParts {
  readonly cluster: Cluster | null
  readonly sharedRegistry: SharedRegistry | null
  readonly shares: Shares | null
  readonly destinationLeases: LeaseKeeper | null
}

type Series = readonly (readonly [Record<never, never>, number])[]

const connections = ['reading', 'writing'] as const

export function declareClusterMeters(meters: Meters, parts: ClusterParts): void {
  const { cluster, sharedRegistry, shares, destinationLeases } = parts
  const follower = sharedRegistry?.follower ?? null
  const read = <T>(part: T | null, value: (part: T) => number) => {
    return (): Series => (part === null ? [] : [[{}, value(part)]])
  }
  meters.gaugesRead(
    'sluice_cluster_up',
    '1 while the connection to PostgreSQL is open',
    { connection: connections },
    () =>
      cluster === null
        ? []
        : connections.map((name) => [{ connection: name }, Number(cluster[name].isUp())] as const),
  )
  meters.gaugesRead(
    'sluice_cluster_registry_age_seconds',
    'Time since the registry here was last known to be the newest of the cluster',
    {},
    read(follower, (one) => one.ageMs() / 1000),
  )
  meters.gaugesRead(
    'sluice_cluster_registry_forked',
    '1 while PostgreSQL has another change at a number than this gateway, and is not followed',
    {},
    read(follower, (one) => Number(one.state() === 'forked')),
  )
  meters.counterRead(
    'sluice_cluster_registry_healed_total',
    'Changes that PostgreSQL had lost and this gateway added again',
    {},
    read(follower, (one) => one.healed()),
  )
  meters.gaugesRead(
    'sluice_cluster_gateways',
    'Gateways that exchange shares of budgets; 0 while this one is cut off',
    {},
    read(shares, (one) => (one.isAway ? 0 : one.live)),
  )
  meters.counterRead(
    'sluice_cluster_settle_failed_total',
    'Exchanges of shares that failed',
    {},
    read(shares, (one) => one.stats().failures),
  )
  meters.counterRead(
    'sluice_cluster_settled_rows_total',
    'Shares that were exchanged',
    {},
    read(shares, (one) => one.stats().rows),
  )
  meters.gaugesRead(
    'sluice_cluster_leases',
    'Destinations of shreds that this gateway serves',
    {},
    read(destinationLeases, (one) => one.size),
  )
  meters.counterRead(
    'sluice_cluster_lease_terms_total',
    'Leases of destinations that this gateway has taken',
    {},
    read(destinationLeases, (one) => one.taken),
  )
  const seconds = meters.histogram(
    'sluice_cluster_settle_seconds',
    'Time of an exchange of shares with PostgreSQL',
  )
  shares?.onSettled((took) => seconds.observe(took))
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
