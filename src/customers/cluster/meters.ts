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
}

const connections = ['reading', 'writing', 'exchanging', 'leasing', 'events'] as const

export function declareClusterMeters(meters: Meters, parts: ClusterParts): void {
  declareConnectionMeters(meters, parts)
  declareShareMeters(meters, parts)
  declareEventLogMeters(meters, parts)
  declareInvalidRows(meters, parts)
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
  meters.gaugeRead(
    'sluice_cluster_registry_age_seconds',
    'Time since the registry here was last known to be the newest of the cluster',
    () => follower && follower.ageMs() / 1000,
  )
  meters.gaugeRead(
    'sluice_cluster_registry_forked',
    '1 while PostgreSQL has another change at a number than this gateway, and is not followed',
    () => follower && Number(follower.state === 'forked'),
  )
  meters.totalRead(
    'sluice_cluster_registry_healed_total',
    'Changes that PostgreSQL had lost and this gateway added again',
    () => follower?.healed,
  )
}

function declareShareMeters(meters: Meters, parts: ClusterParts): void {
  const { shares, destinationLeases } = parts
  meters.gaugeRead(
    'sluice_cluster_gateways',
    'Gateways that exchange shares of budgets; 0 while this one is cut off',
    () => shares && (shares.isAway ? 0 : shares.live),
  )
  meters.gaugeRead(
    'sluice_cluster_settle_age_seconds',
    'Time since shares of budgets were last exchanged with PostgreSQL',
    () => shares && shares.ageMs() / 1000,
  )
  meters.totalRead(
    'sluice_cluster_settle_failed_total',
    'Exchanges of shares that failed',
    () => shares?.stats().failures,
  )
  meters.totalRead(
    'sluice_cluster_settled_rows_total',
    'Shares that were exchanged',
    () => shares?.stats().rows,
  )
  meters.gaugeRead(
    'sluice_cluster_leases',
    'Destinations of shreds that this gateway serves',
    () => destinationLeases?.size,
  )
  meters.totalRead(
    'sluice_cluster_lease_terms_total',
    'Leases of destinations that this gateway has taken',
    () => destinationLeases?.taken,
  )
  const seconds = meters.histogram(
    'sluice_cluster_settle_seconds',
    'Time of an exchange of shares with PostgreSQL',
  )
  if (shares !== null) shares.onSettled = (took) => seconds.observe(took)
}

function declareEventLogMeters(meters: Meters, { sharedEvents }: ClusterParts): void {
  meters.gaugeRead(
    'sluice_cluster_log_backlog_frames',
    'Frames of the own source that the shared event log lacks, at the gateway that numbers them',
    () => sharedEvents?.backlog,
  )
  meters.gaugeRead(
    'sluice_cluster_log_age_seconds',
    'Time since the shared event log was last read to its end',
    () => sharedEvents && sharedEvents.ageMs() / 1000,
  )
  meters.gaugeRead(
    'sluice_cluster_numberer',
    '1 at the gateway that numbers the frames of the event log',
    () => sharedEvents && Number(sharedEvents.isNumberer),
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
    function* () {
      if (sharedEvents) yield [{ table: 'events' }, sharedEvents.invalidRows]
      if (sharedRegistry) yield [{ table: 'records' }, sharedRegistry.follower.invalidRecords]
    },
  )
}
