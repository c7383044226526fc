// `sluice cluster ...`: fills the database of a new cluster and shows its gateways.
import { resolve } from 'node:path'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import type { GatewayRow } from '../../customers/cluster/postgres/tables.ts'
import type { AuditHead } from '../../customers/subscriptions/audit.ts'
import { lockData } from '../../customers/subscriptions/lock.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import { knownOf } from '../config/config.ts'
import { recordOf, tableOf } from './output.ts'
import { askServer, goneMs, withCluster, withStore } from './registry.ts'
import { type Call, misuse, type Report, type Verb } from './verb.ts'

export const clusterVerbs: readonly Verb[] = [
  {
    words: ['cluster', 'seed'],
    summary: 'Copy the registry of this data folder into the empty database of cluster.url.',
    examples: ['cluster seed --config gateway.yaml'],
    run: seed,
  },
  {
    words: ['cluster', 'status'],
    api: 'read',
    summary: 'Show the gateways of the cluster and the state of its registry.',
    examples: ['cluster status --config gateway.yaml', 'cluster status --data /var/lib/sluice'],
    run: status,
  },
]

async function seed(call: Call): Promise<Outcome<Report>> {
  const { config } = call.loaded
  if (config.cluster.url === '') return noUrl()
  // What a server counts after the copy would be in no registry of the cluster.
  const locked = await lockData(resolve(config.data))
  if (!locked.ok) return locked
  const seedFrom = (store: Store) =>
    withCluster(call, { store, known: knownOf(config) }, async (shared) => {
      if (!(await shared.seed()))
        return refuse('rejected', 'cluster-seeded', 'the database has a registry already')
      const [subscriptions, changes] = [store.list().length, store.head().seq]
      const text = `The database has ${subscriptions} subscriptions and ${changes} changes now.`
      return accept<Report>({ json: { subscriptions, changes }, text })
    })
  return withStore(call, seedFrom, { mayCreate: true, isLocal: true }).finally(locked.value.release)
}

/** From PostgreSQL, or without its address from the gateway that runs on the data folder. */
async function status(call: Call): Promise<Outcome<Report>> {
  const { config } = call.loaded
  if (config.cluster.url === '') {
    const answer = await askServer(config.data, 'cluster')
    if (!answer.ok || answer.value === null) return noUrl()
    // Reason for the cast: both sides are ours.
    return accept(statusReport(answer.value as ClusterState))
  }
  return withStore(call, async (_store, _changes, shared) => {
    if (shared === null) return noUrl()
    const registry = await shared.verbs.head()
    return accept(statusReport({ registry, gateways: await shared.cluster.gateways() }))
  })
}

interface ClusterState {
  readonly registry: AuditHead
  readonly gateways: readonly GatewayRow[]
}

function statusReport({ registry, gateways: rows }: ClusterState): Report {
  const gateways = rows.map(({ name, ageMs, info }) => ({
    name,
    isRunning: ageMs < goneMs,
    ageSecs: Math.round(ageMs / 1000),
    ...info,
  }))
  return { json: { registry, gateways }, text: statusText(registry.seq, gateways) }
}

function statusText(
  seq: number,
  gateways: readonly Readonly<Record<string, string | number | boolean>>[],
): string {
  const rows = gateways.map(({ name, isRunning, ageSecs, registry = '', state = '' }) => [
    String(name),
    isRunning === true ? 'running' : `gone for ${ageSecs} s`,
    String(registry),
    String(state),
  ])
  const head = ['gateway', 'is', 'change', 'registry']
  const table = tableOf(head, rows, 'No gateway has joined in the last day.')
  return `${recordOf([['newest change', String(seq)]])}\n\n${table}`
}

function noUrl(): Outcome<Report> {
  return misuse(
    'cluster.url is not set and no gateway of a cluster runs on the data folder: set it in ' +
      '--config or SLUICE_CLUSTER__URL, or name the folder with --data',
  )
}
