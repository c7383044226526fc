// Lists every verb of the command, in the order of the help.
// A new verb is a file of its own and one line here; help and completion are derived from it.
import { auditVerbs } from './audit.ts'
import { benchVerbs } from './bench.ts'
import { callVerb } from './call.ts'
import { clusterVerbs } from './cluster.ts'
import { completionVerb } from './completion.ts'
import { configVerbs } from './config.ts'
import { contextVerbs } from './context.ts'
import { destinationVerbs } from './destination.ts'
import { devnodeVerb } from './devnode.ts'
import { doctorVerb } from './doctor.ts'
import type { VerbGroup } from './help.ts'
import { indexerVerbs } from './indexer.ts'
import { noteVerbs } from './note.ts'
import { productsVerb } from './products.ts'
import { queryVerb } from './query.ts'
import { replayVerb } from './replay.ts'
import { serveVerb } from './serve.ts'
import { shredsVerb } from './shreds.ts'
import { listenVerb } from './shreds-listen.ts'
import { replayShredsVerb } from './shreds-replay.ts'
import { statusVerb } from './status.ts'
import { subscriptionVerbs } from './subscription.ts'
import { tailVerb } from './tail.ts'
import { tipAccountsVerb } from './tip-accounts.ts'
import { tipsVerb } from './tips.ts'
import { tokenVerbs } from './token.ts'
import { topVerb } from './top.ts'
import { usageVerb } from './usage.ts'
import type { Verb } from './verb.ts'
import { versionVerb } from './version.ts'

export const verbGroups: readonly VerbGroup[] = [
  { title: 'Run', verbs: [serveVerb, devnodeVerb] },
  {
    title: 'Provision',
    verbs: [...subscriptionVerbs, ...tokenVerbs, ...destinationVerbs, ...indexerVerbs],
  },
  { title: 'Account for', verbs: [...noteVerbs, usageVerb, ...auditVerbs] },
  {
    title: 'Look at the server',
    verbs: [statusVerb, topVerb, doctorVerb, productsVerb, tipAccountsVerb, tipsVerb, shredsVerb],
  },
  { title: 'Use it', verbs: [queryVerb, callVerb, tailVerb, listenVerb, ...contextVerbs] },
  { title: 'Measure and replay', verbs: [...benchVerbs, replayVerb, replayShredsVerb] },
  {
    title: 'Set up',
    verbs: [...configVerbs, ...clusterVerbs, completionVerb(() => verbs), versionVerb],
  },
]

export const verbs: readonly Verb[] = verbGroups.flatMap((group) => group.verbs)
