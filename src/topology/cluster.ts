// Constructs the components that connect this gateway to its cluster. Thread: main.
import { Cluster } from '../cluster/cluster.ts'
import { declareClusterMeters, declareShareMeters } from '../cluster/meters.ts'
import { PostgresLedger } from '../cluster/postgres/ledger.ts'
import { SharedRegistry } from '../cluster/shared-registry.ts'
import { Shares } from '../cluster/shares.ts'
import { knownOf } from '../config/known.ts'
import type { Store } from '../subscriptions/store.ts'
import type { Context } from './context.ts'

/** How long a start waits for PostgreSQL before it goes on without. */
const readyMs = 5_000

export function openCluster({ config, clock, log }: Context): Cluster {
  const cluster = new Cluster(config.cluster, { clock, log })
  cluster.announce()
  return cluster
}

/** Exchanges once before the first caller is admitted. */
export async function openShares(
  { clock, meters }: Context,
  { cluster }: { readonly cluster: Cluster | null },
): Promise<Shares> {
  // Reason for the assertion: this component is enabled together with the cluster.
  const connection = cluster!.connect('ledger')
  const ledger = new PostgresLedger(connection, cluster!.session)
  const seconds = meters.histogram(
    'sluice_cluster_settle_seconds',
    'Time of an exchange of shares with PostgreSQL',
  )
  const shares = new Shares({ ledger, clock, onSettled: (took) => seconds.observe(took) })
  declareShareMeters(meters, shares)
  await connection.ready(readyMs)
  await shares.start()
  return shares
}

/** Follows the cluster's registry from before the first caller is admitted. */
export async function joinRegistry(
  { config, clock, log, meters }: Context,
  { cluster, registry }: { readonly cluster: Cluster | null; readonly registry: Store },
): Promise<SharedRegistry> {
  // Reason for the assertion: this component is enabled together with the cluster.
  const joined = cluster!
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
  declareClusterMeters(meters, joined, shared.follower)
  return shared
}
