// `sluice cluster ...`: fills the database of a new cluster and shows its gateways.
import { systemClock } from '../../base/clock.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { knownOf } from '../config/known.ts'
import { recordOf, tableOf } from './output.ts'
import { registryPath, withCluster, withStore } from './registry.ts'
import { type Call, misuse, type Report, type Verb } from './verb.ts'

/** A gateway that was silent for longer is shown as gone. */
const goneMs = 5_000

export const clusterVerbs: readonly Verb[] = [
  {
    words: ['cluster', 'seed'],
    summary: 'Copy the registry of this data folder into the empty database of cluster.url.',
    examples: ['cluster seed --config gateway.yaml'],
    run: seed,
  },
  {
    words: ['cluster', 'status'],
    summary: 'Show the gateways of the cluster and the state of its registry.',
    examples: ['cluster status --config gateway.yaml'],
    run: status,
  },
]

async function seed(call: Call): Promise<Outcome<Report>> {
  const { config } = call.loaded
  if (config.cluster.url === '') return noUrl()
  const { openStore } = await import('../../customers/subscriptions/store.ts')
  const store = openStore(registryPath(config), { clock: systemClock, known: knownOf(config) })
  try {
    return await withCluster(config, store, async (shared) => {
      if (!(await shared.seed()))
        return refuse('rejected', 'cluster-seeded', 'the database has a registry already')
      const { seq } = store.head()
      const subscriptions = store.list().length
      const text = `The database has ${subscriptions} subscriptions and ${seq} changes now.`
      return accept<Report>({ json: { subscriptions, changes: seq }, text })
    })
  } finally {
    await store.close()
  }
}

async function status(call: Call): Promise<Outcome<Report>> {
  if (call.loaded.config.cluster.url === '') return noUrl()
  return withStore(call, async (_store, _changes, shared) => {
    if (shared === null) return noUrl()
    const head = await shared.verbs.head()
    const rows = await shared.cluster.gateways()
    const gateways = rows.map(({ name, ageMs, info }) => ({
      name,
      isRunning: ageMs < goneMs,
      ageSecs: Math.round(ageMs / 1000),
      ...info,
    }))
    const text = statusText(head.seq, gateways)
    return accept<Report>({ json: { registry: head, gateways }, text })
  })
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
  return misuse('cluster.url is not set: set it in --config or SLUICE_CLUSTER__URL')
}
