// Declares the meters of what several gateways share. Thread: main; read at scrape time.
// Declared in every start, for docs and boards; without a cluster they have no series.
import type { Meters } from '../../base/telemetry/meters.ts'
import type { Cluster } from './cluster.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { SharedRegistry } from './shared-registry.ts'
import type { Shares } from './shares.ts'

/** What is measured of the shared event log. */
interface EventLogFigures {
  readonly backlog: number
  readonly isNumberer: boolean
  readonly invalidRows: number
  ageMs(): number
  onAppended(listener: (seconds: number) => void): void
}

/** Each is null without a cluster. */
export interface ClusterParts {
  readonly cluster: Cluster | null
  readonly sharedRegistry: SharedRegistry | null
  readonly shares: Shares | null
  readonly destinationLeases: LeaseKeeper | null
  readonly sharedEvents: EventLogFigures | null
  readonly indexLease: LeaseKeeper | null
}

type Series = readonly (readonly [Record<never, never>, number])[]

const connections = ['reading', 'writing', 'exchanging', 'leasing', 'events'] as const

export function declareClusterMeters(meters: Meters, parts: ClusterParts): void {
  declareConnectionMeters(meters, parts)
  declareShareMeters(meters, parts)
  declareEventLogMeters(meters, parts)
  declareInvalidRows(meters, parts)
}

function read<T>(part: T | null, value: (part: T) => number): () => Series {
  return () => (part === null ? [] : [[{}, value(part)]])
}

function declareConnectionMeters(meters: Meters, { cluster, sharedRegistry }: ClusterParts): void {
  const follower = sharedRegistry?.follower ?? null
  meters.gaugesRead(
    'sluice_cluster_up',
    '1 while the connection to PostgreSQL is open',
    { connection: connections },
    () =>
      connections.flatMap((name) => {
        const connection = cluster?.connections.get(name)
        return connection ? [[{ connection: name }, Number(connection.isUp())] as const] : []
      }),
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
}

function declareShareMeters(meters: Meters, parts: ClusterParts): void {
  const { shares, destinationLeases, indexLease } = parts
  meters.gaugesRead(
    'sluice_cluster_gateways',
    'Gateways that exchange shares of budgets; 0 while this one is cut off',
    {},
    read(shares, (one) => (one.isAway ? 0 : one.live)),
  )
  meters.gaugesRead(
    'sluice_cluster_settle_age_seconds',
    'Time since shares of budgets were last exchanged with PostgreSQL',
    {},
    read(shares, (one) => one.ageMs() / 1000),
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
  meters.gaugesRead(
    'sluice_cluster_index_writer',
    '1 at the gateway that writes slots and events to the shared ClickHouse server',
    {},
    read(indexLease, (one) => one.size),
  )
  const seconds = meters.histogram(
    'sluice_cluster_settle_seconds',
    'Time of an exchange of shares with PostgreSQL',
  )
  shares?.onSettled((took) => seconds.observe(took))
}

function declareEventLogMeters(meters: Meters, { sharedEvents }: ClusterParts): void {
  meters.gaugesRead(
    'sluice_cluster_log_backlog_frames',
    'Frames of the own source that the shared event log lacks, at the gateway that numbers them',
    {},
    read(sharedEvents, (one) => one.backlog),
  )
  meters.gaugesRead(
    'sluice_cluster_log_age_seconds',
    'Time since the shared event log was last read to its end',
    {},
    read(sharedEvents, (one) => one.ageMs() / 1000),
  )
  meters.gaugesRead(
    'sluice_cluster_numberer',
    '1 at the gateway that numbers the frames of the event log',
    {},
    read(sharedEvents, (one) => Number(one.isNumberer)),
  )
  const seconds = meters.histogram(
    'sluice_cluster_append_seconds',
    'Time of one append to the shared event log',
  )
  sharedEvents?.onAppended((took) => seconds.observe(took))
}

function declareInvalidRows(meters: Meters, { sharedRegistry, sharedEvents }: ClusterParts): void {
  meters.counterRead(
    'sluice_cluster_invalid_rows_total',
    'Rows of PostgreSQL that are not what their table is for; each is left out',
    { table: ['events', 'records'] },
    () => [
      ...read(sharedEvents, (one) => one.invalidRows)().map(
        ([, count]) => [{ table: 'events' }, count] as const,
      ),
      ...read(sharedRegistry, (one) => one.follower.invalidRecords())().map(
        ([, count]) => [{ table: 'records' }, count] as const,
      ),
    ],
  )
}
