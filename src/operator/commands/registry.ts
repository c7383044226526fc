// Opens the registry for one command and closes it afterwards.
// The store is imported on demand: verbs that do not need it start without loading LMDB.
// In a cluster the registry here is brought up to date first, and changes are made in PostgreSQL.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { type Outcome, refuse } from '../../base/errors.ts'
import { silentLog } from '../../base/telemetry/log.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { By, Subscription } from '../../customers/subscriptions/subscription.ts'
import type { Verbs } from '../../customers/subscriptions/verbs.ts'
import type { Config } from '../config/config.ts'
import { knownOf } from '../config/known.ts'
import { userName } from '../config/load.ts'
import { confirm } from './ask.ts'
import { type Call, type FlagSpec, flagOf, type PositionalSpec } from './verb.ts'

export const refSpec: PositionalSpec = {
  name: 'id|label',
  doc: 'Which subscription.',
  words: 'labels',
}
export const reasonFlag: FlagSpec = {
  name: 'reason',
  value: 'text',
  doc: 'Why; stored in the audit table. Never put a secret into it.',
}

export function registryPath(config: Pick<Config, 'data'>): string {
  return join(resolve(config.data), 'registry')
}

/** What makes changes: the registry itself, or the cluster's. */
export type Changes = Verbs<'now'> | Verbs<'later'>

type Work<T> = (
  store: Store,
  changes: Changes,
  /** Null without a cluster. */
  shared: SharedRegistry | null,
) => Outcome<T> | Promise<Outcome<T>>

/**
 * Runs `work` on the registry. Only a verb that provisions may create a missing one. `isLocal` does
 * without the cluster: what this folder contains now.
 */
export async function withStore<T>(
  call: Call,
  work: Work<T>,
  { mayCreate = false, isLocal = false }: { mayCreate?: boolean; isLocal?: boolean } = {},
): Promise<Outcome<T>> {
  const { config } = call.loaded
  const path = registryPath(config)
  const isShared = config.cluster.url !== '' && !isLocal
  if (!mayCreate && !isShared && !existsSync(path))
    return refuse(
      'not-found',
      'no-registry',
      `there is no registry in ${resolve(config.data)} yet: set --data, start the server, ` +
        'or add the first subscription with sluice subscription add',
    )
  const { openStore } = await import('../../customers/subscriptions/store.ts')
  const store = openStore(path, { clock: systemClock, known: knownOf(config) })
  try {
    if (!isShared) return await work(store, store, null)
    return await withCluster(config, store, async (shared) => {
      await shared.join()
      return work(store, shared.verbs, shared)
    })
  } finally {
    await store.close()
  }
}

/** Runs `work` with a connection to the cluster of that store. */
export async function withCluster<T>(
  config: Config,
  store: Store,
  work: (shared: SharedRegistry) => Promise<T>,
): Promise<T> {
  const { Cluster } = await import('../../customers/cluster/cluster.ts')
  const { SharedRegistry } = await import('../../customers/cluster/shared-registry.ts')
  const deps = { clock: systemClock, log: silentLog }
  const cluster = new Cluster(config.cluster, deps)
  try {
    return await work(new SharedRegistry({ ...deps, cluster, store, known: knownOf(config) }))
  } finally {
    await cluster.stop()
  }
}

/** Runs `work` on the subscription of the first positional, after a prompt where required. */
export function withSubscription<T>(
  call: Call,
  work: (store: Store, found: Subscription, changes: Changes) => Outcome<T> | Promise<Outcome<T>>,
  question?: (name: string) => string,
): Promise<Outcome<T>> {
  return withStore(call, async (store, changes) => {
    const [ref = ''] = call.positionals
    const found = store.find(ref)
    if (found === null) return notFound(ref)
    if (question === undefined) return work(store, found, changes)
    const agreed = await confirm(call, question(`${found.id} (${found.label})`))
    return agreed.ok ? work(store, found, changes) : agreed
  })
}

/** Who makes the change, and why, for the audit table. */
export function byOf(call: Call): By {
  const reason = flagOf(call, 'reason')
  return { who: userName(), ...(reason === undefined ? {} : { reason }) }
}

export function notFound(ref: string) {
  return refuse(
    'not-found',
    'no-subscription',
    `no subscription "${ref}": sluice subscription list shows them`,
  )
}
