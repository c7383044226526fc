// Lists every verb of the command, in the order of the help.
// A new verb is a file of its own and one row here; help and completion are derived from it.
// A row is loaded when its word is typed: a command pays for its own modules alone.
import { familyOf } from './choose-verb.ts'
import type { VerbGroup } from './help.ts'
import type { Verb } from './verb.ts'

interface Row {
  /** The first word of its verbs. */
  readonly words: readonly [string]
  load(): Promise<readonly Verb[]>
}

const groups: readonly { readonly title: string; readonly rows: readonly Row[] }[] = [
  {
    title: 'Run',
    rows: [
      row('serve', async () => [(await import('./serve.ts')).serveVerb]),
      row('indexer', async () => [(await import('./indexer-serve.ts')).indexerServeVerb]),
      row('devnode', async () => [(await import('./devnode.ts')).devnodeVerb]),
    ],
  },
  {
    title: 'Provision',
    rows: [
      row('subscription', async () => (await import('./subscription.ts')).subscriptionVerbs),
      row('token', async () => (await import('./subscription.ts')).tokenVerbs),
      row('operator', async () => (await import('./operator.ts')).operatorVerbs),
      row('consumer', async () => (await import('./consumer.ts')).consumerVerbs),
      row('destination', async () => (await import('./destination.ts')).destinationVerbs),
      row('indexer', async () => (await import('./subscription.ts')).indexerVerbs),
      row('indexer', async () => (await import('./indexer.ts')).enrollVerbs),
    ],
  },
  {
    title: 'Usage and audit',
    rows: [
      row('note', async () => (await import('./subscription.ts')).noteVerbs),
      row('usage', async () => [(await import('./usage.ts')).usageVerb]),
      row('audit', async () => (await import('./audit.ts')).auditVerbs),
      row('backup', async () => [(await import('./backup.ts')).backupVerb]),
      row('restore', async () => [(await import('./backup.ts')).restoreVerb]),
    ],
  },
  {
    title: 'Look at the server',
    rows: [
      row('status', async () => [(await import('./status.ts')).statusVerb]),
      row('top', async () => [(await import('./top.ts')).topVerb]),
      row('doctor', async () => [(await import('./doctor.ts')).doctorVerb]),
      row('products', async () => [(await import('./products.ts')).productsVerb]),
      row('tip-accounts', async () => [(await import('./tips.ts')).tipAccountsVerb]),
      row('tips', async () => [(await import('./tips.ts')).tipsVerb]),
      row('shreds', async () => [(await import('./shreds.ts')).shredsVerb]),
      row('node', async () => (await import('./node.ts')).nodeVerbs),
    ],
  },
  {
    title: 'Use it',
    rows: [
      row('query', async () => [(await import('./query.ts')).queryVerb]),
      row('call', async () => [(await import('./call.ts')).callVerb]),
      row('me', async () => [(await import('./me.ts')).meVerb]),
      row('tail', async () => [(await import('./tail.ts')).tailVerb]),
      row('shreds', async () => [(await import('./shreds-listen.ts')).listenVerb]),
      row('context', async () => (await import('./context.ts')).contextVerbs),
    ],
  },
  {
    title: 'Measure and replay',
    rows: [
      row('bench', async () => (await import('./bench.ts')).benchVerbs),
      row('record', async () => (await import('./record.ts')).recordVerbs),
      row('replay', async () => [(await import('./replay.ts')).replayVerb]),
      row('shreds', async () => [(await import('./shreds-replay.ts')).replayShredsVerb]),
    ],
  },
  {
    title: 'Set up',
    rows: [
      row('config', async () => (await import('./config.ts')).configVerbs),
      row('cluster', async () => (await import('./cluster.ts')).clusterVerbs),
      row('completion', async () => [(await import('./completion.ts')).completionVerb(loadVerbs)]),
      row('version', async () => [(await import('./version.ts')).versionVerb]),
    ],
  },
]

/** Every verb under the title of its group. */
export function loadVerbGroups(): Promise<readonly VerbGroup[]> {
  return Promise.all(groups.map(async ({ title, rows }) => ({ title, verbs: await loadAll(rows) })))
}

export async function loadVerbs(): Promise<readonly Verb[]> {
  return loadAll(groups.flatMap(({ rows }) => rows))
}

/** The verbs that a command line with this first word can mean; all of them where none fits. */
export function loadVerbsFor(first: string): Promise<readonly Verb[]> {
  const rows = groups.flatMap((group) => group.rows)
  const family = familyOf(rows, first)
  return loadAll(family.length > 0 ? family : rows)
}

async function loadAll(rows: readonly Row[]): Promise<readonly Verb[]> {
  return (await Promise.all(rows.map(({ load }) => load()))).flat()
}

function row(word: string, load: Row['load']): Row {
  return { words: [word], load }
}
