// Constructs the components that connect this gateway to its cluster. Thread: main.
import { Cluster } from '../cluster/cluster.ts'
import { declareClusterMeters } from '../cluster/meters.ts'
import { SharedRegistry } from '../cluster/shared-registry.ts'
import { knownOf } from '../config/known.ts'
import type { Store } from '../subscriptions/store.ts'
import type { Context } from './context.ts'

export function openCluster({ config, clock, log }: Context): Cluster {
  const cluster = new Cluster(config.cluster, { clock, log })
  cluster.announce()
  return cluster
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
