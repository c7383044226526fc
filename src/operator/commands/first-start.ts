// Provisions the subscription `demo` at the first start on an empty registry.
// Only where it gives access to nothing real: every endpoint on loopback, every source embedded.
// The secrets exist in memory until the banner has printed them, once.
import { type Config, isPrivate } from '../config/config.ts'
import type { Service } from '../topology/service.ts'

export interface Demo {
  readonly token: string
  readonly indexer: { readonly user: string; readonly password: string } | null
}

export const demoLabel = 'demo'

/** The credentials provisioned, or null when this is not a first start. */
export async function firstStart(config: Config, service: Service): Promise<Demo | null> {
  // In a cluster the registry is everybody's: subscriptions are added by the operator.
  if (config.cluster.url !== '') return null
  if (!isPrivate(config) || service.store.list().length > 0) return null
  const added = await service.store.add(
    { label: demoLabel, products: ['bundle', 'indexer', 'shredstream'], plan: 'standard' },
    { who: 'first start', reason: 'a subscription to try the service with' },
  )
  if (!added.ok) return null
  service.refresh()
  return { token: added.value.token, indexer: added.value.indexer ?? null }
}
