// Opens the registry for one command and closes it afterwards.
// The store is imported on demand: verbs that do not need it start without loading LMDB.
// In a cluster the registry here is brought up to date first, and changes are made in PostgreSQL.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, isBug, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { silentLog } from '../../base/telemetry/log.ts'
import { askOperator, type OperatorAnswer } from '../../base/transport/unix-socket.ts'
import type { Cluster } from '../../customers/cluster/cluster.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import type { Known } from '../../customers/subscriptions/changes.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { By, Subscription } from '../../customers/subscriptions/subscription.ts'
import type { Verbs } from '../../customers/subscriptions/verbs.ts'
import { type Config, knownOf, type offerOf } from '../config/config.ts'
import { userName } from '../config/load.ts'
import { type Call, type FlagSpec, flagOf, hasSwitch, type PositionalSpec } from './verb.ts'

export const refSpec: PositionalSpec = {
  name: 'id|label',
  doc: 'Which subscription.',
  words: 'labels',
  key: 'subscription',
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

/** Longest wait until the running servers have a change. */
const inForceMsMax = 1_500
const retryMs = 20
/** A gateway that was silent for longer is gone. */
export const goneMs = 5_000

/** What the server on the data folder offers; null without one. */
export async function offerOfServer({ data }: Config): Promise<ReturnType<typeof offerOf> | null> {
  const answer = await askOperator(data, 'offer')
  // Reason for the cast: both sides are ours; an older server refuses the question.
  return answer.ok ? (answer.value as ReturnType<typeof offerOf>) : null
}

/**
 * Runs `work` on the registry. Only a verb that provisions may create a missing one. `isLocal` does
 * without the cluster: what this folder contains now. `isChecked`: a request is checked against
 * what the running server offers. A change is in force at the running servers on return.
 */
export async function withStore<T>(
  call: Call,
  work: Work<T>,
  options: { mayCreate?: boolean; isLocal?: boolean; isChecked?: boolean } = {},
): Promise<Outcome<T>> {
  const { mayCreate = false, isLocal = false, isChecked = false } = options
  const { config } = call.loaded
  const path = registryPath(config)
  const isShared = config.cluster.url !== '' && !isLocal
  if (!mayCreate && !isShared && !existsSync(path))
    return refuse(
      'not-found',
      'no-registry',
      `there is no registry in ${resolve(config.data)} yet: set --data, start the server, ` +
        'or add the first subscription with npx --no -- sluice subscription add',
    )
  const { openStore } = await import('../../customers/subscriptions/store.ts')
  const offer = isChecked ? await offerOfServer(config) : null
  const known = offer === null ? knownOf(config) : { ...offer.known, holder: 'the running server' }
  const store = openStore(path, { clock: systemClock, known })
  try {
    const head = () => store.head().seq
    if (!isShared) return await inForce(call, head, () => work(store, store, null))
    return await withCluster(call, { store, known }, async (shared) => {
      await shared.join()
      return inForce(call, head, () => work(store, shared.verbs, shared), shared)
    })
  } finally {
    await store.close()
  }
}

/** Returns what `work` does once every running server that answers has its changes. */
async function inForce<T>(
  { loaded: { config }, warn = (text) => process.stderr.write(`${text}\n`) }: Call,
  head: () => number,
  work: () => Outcome<T> | Promise<Outcome<T>>,
  shared: SharedRegistry | null = null,
): Promise<Outcome<T>> {
  const isBehind = () => shared !== null && shared.follower.state !== 'following'
  const wasBehind = isBehind()
  const before = head()
  const outcome = await work()
  if (!outcome.ok) return outcome
  // The change is made, and its secrets are shown once: what fails from here on is a warning.
  try {
    if (wasBehind && isBehind())
      warn("the cluster's registry could not be followed: this is the last known one")
    else if (isBehind()) throw new Fault('cluster', 'the change could not be read back')
    const seq = head()
    const isApplied = async () =>
      (await hasApplied(config, seq)) && (shared === null || (await haveApplied(shared, seq)))
    const endMs = systemClock.monotonicMs() + inForceMsMax
    while (seq !== before && !(await isApplied())) {
      if (systemClock.monotonicMs() > endMs) {
        warn('not every running server has confirmed the change yet')
        break
      }
      await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
  } catch (error) {
    if (isBug(error)) throw error
    warn(`whether every running server has the change is not known: ${messageOf(error)}`)
  }
  return outcome
}

/** Whether the server on the data folder has that change; true without one. */
async function hasApplied({ data }: Config, seq: number): Promise<boolean> {
  const answer = await askOperator(data, 'apply')
  if (!answer.ok) return answer.reason !== 'fault'
  return (answer.value as { readonly version: number }).version >= seq
}

/** Whether every gateway that runs has that change. */
async function haveApplied({ cluster }: SharedRegistry, seq: number): Promise<boolean> {
  const gateways = await cluster.gateways()
  // One that has not joined yet has no number: it reads the registry when it does.
  return gateways.every(
    ({ ageMs, info: { registry = seq } }) => ageMs >= goneMs || Number(registry) >= seq,
  )
}

/** Runs `work` with connections to the cluster of that store. */
export async function withCluster<T>(
  { loaded: { config }, cluster: kept }: Call,
  { store, known }: { readonly store: Store; readonly known: Known },
  work: (shared: SharedRegistry) => Promise<T>,
): Promise<T> {
  const cluster = kept ?? (await connectCluster(config))
  const { SharedRegistry } = await import('../../customers/cluster/shared-registry.ts')
  try {
    return await work(new SharedRegistry({ ...silent, cluster, store, known }))
  } finally {
    if (kept === undefined) await cluster.stop()
  }
}

const silent = { clock: systemClock, log: silentLog }

export async function connectCluster(config: Config): Promise<Cluster> {
  const { Cluster } = await import('../../customers/cluster/cluster.ts')
  return new Cluster(config.cluster, silent)
}

/** Runs `work` on the subscription of the first positional, after a prompt where required. */
export function withSubscription<T>(
  call: Call,
  work: (
    store: Store,
    found: Subscription,
    changes: Changes,
    shared: SharedRegistry | null,
  ) => Outcome<T> | Promise<Outcome<T>>,
  question?: (name: string) => Question,
): Promise<Outcome<T>> {
  return withStore(call, async (store, changes, shared) => {
    const [ref = ''] = call.positionals
    const found = store.find(ref)
    if (found === null) return notFound(ref)
    const name = `${found.id} (${found.label})`
    const agreed = question === undefined ? accept(null) : await confirm(call, question(name))
    return agreed.ok ? work(store, found, changes, shared) : agreed
  })
}

/** Who makes the change, and why, for the audit table. */
export function byOf(call: Call): By {
  const reason = flagOf(call, 'reason')
  return { who: call.who ?? userName(), ...(reason === undefined ? {} : { reason }) }
}

export function notFound(ref: string) {
  return refuse(
    'not-found',
    'no-subscription',
    `no subscription "${ref}": npx --no -- sluice subscription list shows them`,
  )
}

interface Question {
  readonly text: string
  /** True where the change cannot be undone: without a terminal it is refused unless --yes. */
  readonly isFinal: boolean
}

/** Accepts when --yes was given or the answer is yes, or when nothing is lost without asking. */
export async function confirm(
  call: Call,
  { text: question, isFinal }: Question,
): Promise<Outcome<null>> {
  if (hasSwitch(call, 'yes')) return accept(null)
  const isTerminal = process.stdin.isTTY && process.stderr.isTTY
  if (!isTerminal && isFinal)
    return refuse(
      'rejected',
      'not-confirmed',
      'nothing was changed: this cannot be undone and there is no terminal to ask on; add --yes',
    )
  if (!isTerminal) return accept(null)
  const answer = await readAnswer(`${question} [y/N] `)
  if (/^y(es)?$/i.test(answer.trim())) return accept(null)
  return refuse('rejected', 'not-confirmed', 'nothing was changed')
}

/** Ctrl-C and Ctrl-D at the prompt close it without an answer: that is a no. */
function readAnswer(prompt: string): Promise<string> {
  return new Promise((done) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr })
    terminal.once('close', () => done(''))
    terminal.question(prompt, (answer) => {
      done(answer)
      terminal.close()
    })
  })
}

// The folder's lock shows whether there is one: a server that starts or stops has it, too.

export async function askServer(
  data: string,
  ask: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<OperatorAnswer> {
  const answer = await askOperator(data, ask, params)
  if (answer.ok || answer.reason !== 'no-server') return answer
  const { lockHolder } = await import('../../customers/subscriptions/lock.ts')
  const holder = await lockHolder(resolve(data))
  if (holder === null) return answer
  const who = holder.pid === null ? 'a server' : `process ${holder.pid}`
  const message = `${who} uses the data folder but does not answer: it is starting or stopping`
  return { ok: false, reason: 'fault', message }
}

/** For a verb that needs a running server. */
export function noServer(data: string, answer: OperatorAnswer & { ok: false }): Outcome<never> {
  return answer.reason === 'no-server'
    ? refuse('unavailable', 'no-server', `no server runs on ${data}`)
    : refuse('unavailable', 'no-answer', answer.message)
}

/** The answer of a running server, or a refusal that says how to start one. */
export async function askRunning<T>(
  data: string,
  question: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<Outcome<T>> {
  const answer = await askServer(data, question, params)
  // Reason for the cast: the server is of the same kind of build.
  if (answer.ok) return accept(answer.value as T)
  const advice = answer.reason === 'no-server' ? ': start it with npm start' : ''
  return refuse('unavailable', 'no-answer', `${answer.message}${advice}`)
}
