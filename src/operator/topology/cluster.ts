// Constructs the components that connect this gateway to its cluster.
// What talks to PostgreSQL is imported on demand: a gateway on its own does not load it.
import type { Cluster } from '../../customers/cluster/cluster.ts'
import { LeaseKeeper } from '../../customers/cluster/lease-keeper.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import { Shares } from '../../customers/cluster/shares.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { SharedEvents } from '../../streams/log/shared-events.ts'
import { knownOf } from '../config/known.ts'
import type { Context } from './context.ts'

/** How long a start waits for PostgreSQL before it goes on without. */
const readyMs = 5_000
/** A start waits this long for the shared event log, then serves without it. */
const firstReadMs = 5_000
/** Of one statement of the event log: its lease is over after that. */
const eventsMs = 2_000

export async function openCluster({ config, clock, log }: Context): Promise<Cluster> {
  const { Cluster } = await import('../../customers/cluster/cluster.ts')
  const cluster = new Cluster(config.cluster, { clock, log })
  cluster.announce()
  return cluster
}

/** Each destination of shreds is served by exactly one gateway. */
export function leaseDestinations(
  { clock }: Context,
  { cluster }: { readonly cluster: Cluster | null },
): LeaseKeeper {
  // Reason for the assertion: this component is enabled together with the cluster.
  const leases = cluster!.leasesOn(cluster!.leasing)
  return new LeaseKeeper({ leases, clock, kind: 'shred', session: cluster!.session })
}

/** Exchanges once before the first caller is admitted. */
export async function openShares(
  { clock }: Context,
  { cluster }: { readonly cluster: Cluster | null },
): Promise<Shares> {
  // Reason for the assertion: this component is enabled together with the cluster.
  const { exchanging, session } = cluster!
  const { PostgresLedger } = await import('../../customers/cluster/postgres/ledger.ts')
  const shares = new Shares({ ledger: new PostgresLedger(exchanging, session), clock })
  await exchanging.ready(readyMs)
  await shares.start()
  return shares
}

/** Follows the cluster's registry from before the first caller is admitted. */
export async function joinRegistry(
  { config, clock, log }: Context,
  { cluster, registry }: { readonly cluster: Cluster | null; readonly registry: Store },
): Promise<SharedRegistry> {
  // Reason for the assertion: this component is enabled together with the cluster.
  const joined = cluster!
  const { SharedRegistry } = await import('../../customers/cluster/shared-registry.ts')
  const shared = new SharedRegistry({
    cluster: joined,
    store: registry,
    known: knownOf(config),
    clock,
    log,
  })
  await shared.join()
  shared.follower.start()
  joined.publish('registry', () => registry.head().seq)
  joined.publish('state', () => shared.follower.state())
  return shared
}

/** Reads the shared log; the first read is awaited where PostgreSQL answers. */
export async function followEvents(
  { clock, log }: Context,
  { cluster, events }: { readonly cluster: Cluster | null; readonly events: EventLog },
): Promise<SharedEvents> {
  // Reason for the assertion: this component is enabled together with the cluster.
  const joined = cluster!
  const { PostgresEventLog } = await import('../../customers/cluster/postgres/event-log.ts')
  const { SharedEvents } = await import('../../streams/log/shared-events.ts')
  const own = joined.connect('events', eventsMs)
  const shared = new SharedEvents(events, {
    shared: new PostgresEventLog(own, joined.session),
    leases: joined.leasesOn(own),
    clock,
    log: log.area('cluster'),
  })
  await shared.ready(firstReadMs)
  return shared
}
