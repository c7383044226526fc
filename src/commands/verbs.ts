// Lists every verb of the command, in the order of the help. Thread: main.
// A new verb is a file of its own and one line here; help and completion are derived from it.
import { auditVerbs } from './audit.ts'
import { benchVerbs } from './bench.ts'
import { callVerb } from './call.ts'
import { completionVerb } from './completion.ts'
import { configVerbs } from './config.ts'
import { contextVerbs } from './context.ts'
import { destinationVerbs } from './destination.ts'
import { devnodeVerb } from './devnode.ts'
import { doctorVerb } from './doctor.ts'
import { indexerVerbs } from './indexer.ts'
import { noteVerbs } from './note.ts'
import { productsVerb } from './products.ts'
import { queryVerb } from './query.ts'
import { replayVerb } from './replay.ts'
import { serveVerb } from './serve.ts'
import { shredsVerbs } from './shreds.ts'
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

export const verbs: readonly Verb[] = [
  serveVerb,
  devnodeVerb,
  ...subscriptionVerbs,
  ...tokenVerbs,
  ...destinationVerbs,
  ...indexerVerbs,
  ...noteVerbs,
  usageVerb,
  ...auditVerbs,
  productsVerb,
  ...configVerbs,
  doctorVerb,
  statusVerb,
  topVerb,
  tipAccountsVerb,
  tipsVerb,
  queryVerb,
  callVerb,
  ...contextVerbs,
  tailVerb,
  replayVerb,
  ...shredsVerbs,
  ...benchVerbs,
  completionVerb(() => verbs),
  versionVerb,
]
