// `sluice subscription ...`: provisions customers.
// Secrets are printed once, to stdout, by the verb that issued them, and are in no other output.
import { accept, type Outcome, type Refusal } from '../../base/errors.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import {
  asOf,
  type CredentialState,
  type IndexerCredentials,
  products,
  type SetRequest,
  type Subscription,
} from '../../customers/subscriptions/subscription.ts'
import { outcomeUnknown } from '../../customers/subscriptions/verbs.ts'
import { recordOf, tableOf } from './output.ts'
import { byOf, type Changes, reasonFlag, refSpec, withStore, withSubscription } from './registry.ts'
import { type Call, type FlagSpec, flagOf, listOf, misuse, type Report, type Verb } from './verb.ts'

const fieldFlags: readonly FlagSpec[] = [
  { name: 'product', value: 'a,b', many: true, doc: `Products: ${products.join(', ')}.` },
  { name: 'plan', value: 'name', doc: 'Plan [standard].' },
  {
    name: 'cidr',
    value: 'c',
    many: true,
    doc: 'Client networks that may use the token; "" is all.',
  },
  { name: 'destination', value: 'ip:port', doc: 'Where shreds are sent (shredstream).' },
  { name: 'upstream', value: 'set', doc: 'Upstream set a dedicated node is bound to.' },
  { name: 'until', value: 'date', doc: 'Its last day, as 2026-12-31 (UTC); "" removes the end.' },
  reasonFlag,
]

export const subscriptionVerbs: readonly Verb[] = [
  {
    words: ['subscription', 'add'],
    summary: 'Add a subscription and show its secrets once.',
    examples: [
      'subscription add acme --product bundle,indexer --plan standard',
      'subscription add acme --product bundle --cidr 198.51.100.0/24',
    ],
    positionals: [{ name: 'label', doc: 'Your name for it.' }],
    flags: fieldFlags,
    run: add,
  },
  {
    words: ['subscription', 'set'],
    summary: 'Change the given fields of a subscription.',
    examples: ['subscription set acme --plan unlimited --reason upgrade'],
    positionals: [refSpec],
    flags: [{ name: 'label', value: 'label', doc: 'A new label.' }, ...fieldFlags],
    run: set,
  },
  {
    words: ['subscription', 'list'],
    summary: 'List subscriptions in order of creation.',
    examples: ['subscription list --state active', 'subscription list --json'],
    flags: [
      {
        name: 'state',
        value: 'state',
        options: ['active', 'suspended', 'expired', 'ended'],
        doc: 'Only those in this state.',
      },
    ],
    run: list,
  },
  {
    words: ['subscription', 'show'],
    summary: 'Show one subscription.',
    examples: ['subscription show acme'],
    positionals: [refSpec],
    run: show,
  },
  move({
    name: 'suspend',
    summary: 'Disable its token until it is resumed.',
    done: 'is suspended: its token no longer works.',
    warning: 'Its token stops working at once.',
  }),
  move({
    name: 'resume',
    summary: 'Enable the token of a suspended subscription.',
    done: 'is resumed: its token works.',
  }),
  move({
    name: 'end',
    summary: 'End it; frees label and destination.',
    done: 'has ended: its token no longer works, its label and destination are free.',
    warning: 'This cannot be undone.',
  }),
]

/** The fields of a subscription as text. */
export function subscriptionText(stored: Subscription, state?: CredentialState): string {
  const subscription = asOf(stored, Date.now())
  const { destination } = subscription
  const pairs: [string, string][] = [
    ['id', subscription.id],
    ['label', subscription.label],
    ['state', subscription.state],
    ['products', subscription.products.join(', ')],
    ['plan', subscription.plan],
    ['cidrs', subscription.cidrs.join(', ') || 'anywhere'],
    ['token', `...${subscription.tokenLast4}`],
    ['destination', destination === null ? '' : `${destination.address} (${destination.state})`],
    ['upstream', subscription.upstream ?? ''],
    ['note', subscription.note],
    ['created', subscription.createdAt],
    ['changed', subscription.changedAt],
  ]
  if (subscription.until !== undefined) pairs.push(['last day', subscription.until])
  if (destination?.standing) pairs.push(['sending to', destination.standing])
  if (state?.graceUntil) pairs.push(['old token until', state.graceUntil])
  return recordOf(pairs)
}

interface Secrets {
  readonly token?: string
  readonly indexer?: IndexerCredentials | null
}

/** The secrets of a change that may have been stored or not; null where it has none. */
export function secretsInDoubt({ code, data }: Pick<Refusal, 'code' | 'data'>): Report | null {
  if (code !== outcomeUnknown) return null
  // Reason for the cast: the data of such a refusal is the result of a change.
  const { token, indexer } = data as Secrets
  if (token === undefined && !indexer) return null
  const secrets = { ...(token === undefined ? {} : { token }), ...(indexer ? { indexer } : {}) }
  const text = `Valid only if the change took effect.\n${secretsText(secrets)}`
  return { json: { outcome: 'unknown', ...secrets }, text }
}

/** Secrets as shell variables, as the first start of the server prints them. */
export function secretsText(secrets: Secrets): string {
  const lines = ['Shown once; it cannot be shown again:']
  if (secrets.token !== undefined) lines.push(`TOKEN=${secrets.token}`)
  if (secrets.indexer)
    lines.push(
      `INDEXER_USER=${secrets.indexer.user}`,
      `INDEXER_PASSWORD=${secrets.indexer.password}`,
    )
  return lines.join('\n')
}

function add(call: Call): Promise<Outcome<Report>> {
  const [label = ''] = call.positionals
  const given = requestOf(call)
  if (given.products === undefined || given.products.length === 0)
    return Promise.resolve(misuse(`--product is missing: one or more of ${products.join(', ')}`))
  const request = { ...given, label, products: given.products }
  return withStore(
    call,
    async (_store, changes) => {
      const issued = await changes.add(request, byOf(call))
      if (!issued.ok) return issued
      const { subscription, token, indexer } = issued.value
      const isOver = asOf(subscription, Date.now()).state === 'expired'
      const effect = isOver
        ? 'its last day is over, so it is refused'
        : 'its token works from now on'
      const done = `${subscription.label} was added; ${effect}.`
      const record = subscriptionText(subscription)
      const text = `${done}\n\n${record}\n\n${secretsText({ token, indexer })}`
      return accept({ json: { subscription, token, ...(indexer ? { indexer } : {}) }, text })
    },
    { mayCreate: true, isChecked: true },
  )
}

async function set(call: Call): Promise<Outcome<Report>> {
  const [ref = ''] = call.positionals
  const request = requestOf(call)
  if (Object.keys(request).length === 0) return misuse('nothing to change: set at least one flag')
  const work = async (_store: Store, changes: Changes): Promise<Outcome<Report>> => {
    const changed = await changes.set(ref, request, byOf(call))
    if (!changed.ok) return changed
    const { subscription, indexer } = changed.value
    const secrets = indexer === null ? '' : `\n\n${secretsText({ indexer })}`
    return accept({
      json: { subscription, ...(indexer ? { indexer } : {}) },
      text: `${subscription.label} was changed.\n\n${subscriptionText(subscription)}${secrets}`,
    })
  }
  return withStore(call, work, { isChecked: true })
}

function list(call: Call): Promise<Outcome<Report>> {
  const state = flagOf(call, 'state')
  return withStore(call, (store) => {
    const all = store.list().map((one) => asOf(one, Date.now()))
    const found = all.filter((one) => state === undefined || one.state === state)
    const rows = found.map((one) => [
      one.id,
      one.label,
      one.state,
      one.products.join(','),
      one.plan,
      `...${one.tokenLast4}`,
      one.destination === null ? '' : `${one.destination.address} ${one.destination.state}`,
      one.createdAt.slice(0, 10),
    ])
    const head = ['id', 'label', 'state', 'products', 'plan', 'token', 'destination', 'created']
    const empty =
      'No subscriptions. Add one with: npx --no -- sluice subscription add <label> --product bundle'
    return accept({ json: { subscriptions: found }, text: tableOf(head, rows, empty) })
  })
}

function show(call: Call): Promise<Outcome<Report>> {
  return withSubscription(call, (store, stored) => {
    const subscription = asOf(stored, Date.now())
    const credentials = store.credentials(subscription.id)!
    const text = subscriptionText(subscription, credentials)
    return accept({ json: { subscription, credentials }, text })
  })
}

interface MoveSpec {
  readonly name: 'suspend' | 'resume' | 'end'
  readonly summary: string
  /** What happened, as the end of a sentence. */
  readonly done: string
  /** Asked about before the change. */
  readonly warning?: string
}

function move({ name, summary, done, warning }: MoveSpec): Verb {
  return {
    words: ['subscription', name],
    summary,
    examples: [`subscription ${name} acme --reason unpaid`],
    asks: warning !== undefined,
    positionals: [refSpec],
    flags: [reasonFlag],
    run: (call) =>
      withSubscription(
        call,
        async (_store, found, changes) => {
          const moved = await changes[name](found.id, byOf(call))
          if (!moved.ok) return moved
          const json = { subscription: moved.value }
          const text = `${found.label} ${done}\n\n${subscriptionText(moved.value)}`
          return accept({ json, text })
        },
        warning === undefined
          ? undefined
          : (subject) => ({ text: `${name} ${subject}? ${warning}`, isFinal: name === 'end' }),
      ),
  }
}

function requestOf(call: Call): SetRequest {
  const label = flagOf(call, 'label')
  const asked = listOf(call, 'product')
  const plan = flagOf(call, 'plan')
  const cidrs = listOf(call, 'cidr')
  const destination = flagOf(call, 'destination')
  const upstream = flagOf(call, 'upstream')
  const until = flagOf(call, 'until')
  return {
    ...(label === undefined ? {} : { label }),
    ...(asked === undefined ? {} : { products: asked }),
    ...(plan === undefined ? {} : { plan }),
    ...(cidrs === undefined ? {} : { cidrs }),
    ...(destination === undefined ? {} : { destination }),
    ...(upstream === undefined ? {} : { upstream }),
    ...(until === undefined ? {} : { until }),
  }
}
