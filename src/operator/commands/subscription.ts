// `sluice subscription ...`: provisions customers. `token rotate` and `indexer rotate` replace
// their secrets, `note add` keeps what happened to them, `destination` and `consumer` show and
// change where their shreds go and where their streams are.
// Secrets are printed once, to stdout, by the verb that issued them, and are in no other output.
import { parseDuration } from '../../base/clock.ts'
import { commitmentNames } from '../../base/commitment.ts'
import { accept, Fault, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import type { NamedConsumer } from '../../customers/subscriptions/consumers.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import {
  asOf,
  type CredentialState,
  type IndexerCredentials,
  type NoteKind,
  noteKinds,
  products,
  type SetRequest,
  type Subscription,
} from '../../customers/subscriptions/subscription.ts'
import { isoTime } from '../../customers/subscriptions/usage.ts'
import { outcomeUnknown } from '../../customers/subscriptions/verbs.ts'
import { recordOf, tableOf } from './output.ts'
import { byOf, type Changes, reasonFlag, refSpec, withStore, withSubscription } from './registry.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  listOf,
  misuse,
  type Report,
  type Verb,
} from './verb.ts'

const fieldFlags: readonly FlagSpec[] = [
  ...flagTable(`
  --product <a,b> ...      Products: ${products.join(', ')}.
  --plan <name>            Plan [standard].
  --cidr <c> ...           Client networks that may use the token; "" is all.
  --destination <ip:port>  Where shreds are sent (shredstream).
  --upstream <set>         Upstream set a dedicated node is bound to.
  --until <date>           Its last day, as 2026-12-31 (UTC); "" removes the end.`),
  reasonFlag,
]

export const subscriptionVerbs: readonly Verb[] = [
  {
    words: ['subscription', 'add'],
    api: 'change',
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
    api: 'change',
    summary: 'Change the given fields of a subscription.',
    examples: ['subscription set acme --plan unlimited --reason upgrade'],
    positionals: [refSpec],
    flags: [{ name: 'label', value: 'label', doc: 'A new label.' }, ...fieldFlags],
    run: set,
  },
  {
    words: ['subscription', 'list'],
    api: 'read',
    summary: 'List subscriptions in order of creation.',
    examples: ['subscription list --state active', 'subscription list --json'],
    flags: flagTable('--state <state active|suspended|expired|ended>  Only those in this state.'),
    run: list,
  },
  {
    words: ['subscription', 'show'],
    api: 'read',
    summary: 'Show one subscription.',
    examples: ['subscription show acme'],
    positionals: [refSpec],
    run: show,
  },
  move(
    'suspend',
    'Disable its token until it is resumed.',
    'is suspended: its token no longer works.',
    'Its token stops working at once.',
  ),
  move('resume', 'Enable the token of a suspended subscription.', 'is resumed: its token works.'),
  move(
    'end',
    'End it; frees label and destination.',
    'has ended: its token no longer works, its label and destination are free.',
    'This cannot be undone.',
  ),
]

// Without --grace the old token is revoked at once, as a leak requires.
export const tokenVerbs: readonly Verb[] = [
  {
    words: ['token', 'rotate'],
    api: 'change',
    summary: 'Issue a new token and show it once; the old one stops working.',
    examples: ['token rotate acme --reason leak', 'token rotate acme --grace 24h --yes'],
    asks: true,
    positionals: [refSpec],
    flags: [
      { name: 'grace', value: 'time', doc: 'How long the old token still works, such as 1h [0s].' },
      reasonFlag,
    ],
    async run(call) {
      const graceMs = parseDuration(flagOf(call, 'grace') ?? '0s')
      if (graceMs === null) return misuse('--grace must be a time such as 90s, 30m, 1h or 7d')
      const effect = `The old token stops working ${graceMs === 0 ? 'at once' : 'after --grace'}.`
      return withSubscription(
        call,
        async (store, found, changes) => {
          const hadTwo = store.credentials(found.id)?.graceUntil != null
          const rotated = await changes.rotate(found.id, { graceMs }, byOf(call))
          if (!rotated.ok) return rotated
          const { subscription, token } = rotated.value
          const graceUntil = store.credentials(found.id)?.graceUntil ?? null
          const old = graceUntil === null ? 'no longer works' : `works until ${graceUntil}`
          const third = hadTwo ? ' The one before that no longer works.' : ''
          const done = `${subscription.label} has a new token; the old one ${old}.${third}`
          const text = `${done}\n\n${secretsText({ token })}`
          return accept({ json: { subscription, token, graceUntil }, text })
        },
        (name) => ({ text: `rotate ${name}? ${effect}`, isFinal: graceMs === 0 }),
      )
    },
  },
]

export const indexerVerbs: readonly Verb[] = [
  {
    words: ['indexer', 'rotate'],
    api: 'change',
    summary: 'Issue a new indexer password and show it once; the old one stops working.',
    examples: ['indexer rotate acme --reason leak'],
    asks: true,
    positionals: [refSpec],
    flags: [reasonFlag],
    run: (call) =>
      withSubscription(
        call,
        async (_store, found, changes) => {
          const rotated = await changes.rotateIndexer(found.id, byOf(call))
          if (!rotated.ok) return rotated
          const { subscription, indexer } = rotated.value
          const done = `${found.label} has a new indexer password; the old one no longer works.`
          const text = `${done}\n\n${secretsText({ indexer })}`
          return accept({ json: { subscription, indexer }, text })
        },
        (name) => ({
          text: `rotate the indexer password of ${name}? The old one stops working at once.`,
          isFinal: true,
        }),
      ),
  },
]

/** Events outside the registry: refunds, leaks. */
export const noteVerbs: readonly Verb[] = [
  {
    words: ['note', 'add'],
    api: 'change',
    summary: 'Store a note with a subscription and in the audit table.',
    examples: ['note add acme "refund agreed" --kind refund'],
    positionals: [refSpec, { name: 'text', doc: 'The note, one line, never a secret.' }],
    flags: [{ name: 'kind', value: 'kind', options: noteKinds, doc: 'What it is about [other].' }],
    run: (call) =>
      withStore(call, async (_store, changes) => {
        const [ref = '', text = ''] = call.positionals
        // Reason for the cast: the flag's options have been checked.
        const kind = (flagOf(call, 'kind') ?? 'other') as NoteKind
        const noted = await changes.addNote(ref, { kind, text }, byOf(call))
        if (!noted.ok) return noted
        const done = `The note was stored with ${noted.value.label} and in the audit table.`
        const shown = `${done}\n\n${subscriptionText(noted.value)}`
        return accept({ json: { subscription: noted.value }, text: shown })
      }),
  },
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
export function secretsText({ token, indexer }: Secrets): string {
  const lines = ['Shown once; it cannot be shown again:']
  if (token !== undefined) lines.push(`TOKEN=${token}`)
  if (indexer) lines.push(`INDEXER_USER=${indexer.user}`, `INDEXER_PASSWORD=${indexer.password}`)
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

/** `done`: what happened, as the end of a sentence. `warning`: asked about before the change. */
function move(
  name: 'suspend' | 'resume' | 'end',
  summary: string,
  done: string,
  warning?: string,
): Verb {
  return {
    words: ['subscription', name],
    api: 'change',
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
          const text = `${found.label} ${done}\n\n${subscriptionText(moved.value)}`
          return accept({ json: { subscription: moved.value }, text })
        },
        warning === undefined
          ? undefined
          : (subject) => ({ text: `${name} ${subject}? ${warning}`, isFinal: name === 'end' }),
      ),
  }
}

function requestOf(call: Call): SetRequest {
  const request = {
    label: flagOf(call, 'label'),
    products: listOf(call, 'product'),
    plan: flagOf(call, 'plan'),
    cidrs: listOf(call, 'cidr'),
    destination: flagOf(call, 'destination'),
    upstream: flagOf(call, 'upstream'),
    until: flagOf(call, 'until'),
  }
  return Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined))
}

// A new address receives only challenges until it is proven by an echo or by `confirm`.

const addressSpec = {
  name: 'ip:port',
  doc: 'Literal IPv4:port or [IPv6]:port.',
  key: 'address',
} as const

export const destinationVerbs: readonly Verb[] = [
  {
    words: ['destination', 'set'],
    api: 'change',
    summary: 'Propose an address; it must be proven before shreds are sent to it.',
    examples: ['destination set acme 203.0.113.7:20010'],
    positionals: [refSpec, addressSpec],
    flags: [reasonFlag],
    run: (call) =>
      withStore(
        call,
        async (_store, changes) => {
          const [ref = '', address = ''] = call.positionals
          const changed = await changes.setDestination(ref, address, byOf(call))
          if (!changed.ok) return changed
          const { label } = changed.value
          const done = `${address} was proposed for ${label}; shreds are sent once it is proven.`
          return accept(destinationReport(changed.value, done))
        },
        { isChecked: true },
      ),
  },
  destinationVerb('confirm', 'Mark the address as proven.', 'was confirmed: shreds are sent to it'),
  destinationVerb('pause', 'Stop sending shreds.', 'is paused: no shreds are sent'),
  destinationVerb('resume', 'Send shreds again.', 'is resumed: shreds are sent to it'),
  destinationVerb('clear', 'Remove the address.', 'was removed: no shreds are sent', true),
  {
    words: ['destination', 'show'],
    api: 'read',
    summary: 'Show the address and its state.',
    examples: ['destination show acme'],
    positionals: [refSpec],
    run: (call) => withSubscription(call, (_, found) => accept(destinationReport(found))),
  },
]

/** `done`: what happened to the destination, as the end of a sentence. */
function destinationVerb(
  name: 'confirm' | 'pause' | 'resume' | 'clear',
  summary: string,
  done: string,
  asks = false,
): Verb {
  return {
    words: ['destination', name],
    api: 'change',
    summary,
    examples: [`destination ${name} acme`],
    asks,
    positionals: [refSpec],
    flags: [reasonFlag],
    run: (call) =>
      withSubscription(
        call,
        async (_store, found, changes) => {
          const changed = await changes[`${name}Destination`](found.id, byOf(call))
          if (!changed.ok) return changed
          const sentence = `The destination of ${found.label} ${done}.`
          return accept(destinationReport(changed.value, sentence))
        },
        asks
          ? (subject) => ({ text: `${name} the destination of ${subject}?`, isFinal: true })
          : undefined,
      ),
  }
}

/** `done` is the sentence of a change. */
function destinationReport({ id, label, destination }: Subscription, done?: string): Report {
  const isActive = destination?.state === 'active'
  const record =
    destination === null
      ? `${label} has no destination. Set one with: ` +
        `npx --no -- sluice destination set ${label} <ip:port>`
      : recordOf([
          ['subscription', `${id} (${label})`],
          ['address', destination.address],
          ['state', destination.state],
          ['sending to', isActive ? destination.address : (destination.standing ?? 'nowhere')],
        ])
  const isCleared = done !== undefined && destination === null
  const text = isCleared ? done : done === undefined ? record : `${done}\n\n${record}`
  return { json: { id, label, destination }, text }
}

const consumerSpec = { name: 'consumer', doc: 'Which consumer; all of them when absent.' }

export const consumerVerbs: readonly Verb[] = [
  {
    words: ['consumer', 'list'],
    api: 'read',
    summary: 'Show the consumers of a subscription and where they continue.',
    examples: ['consumer list acme'],
    positionals: [refSpec, { ...consumerSpec, optional: true }],
    run: (call) =>
      withSubscription(call, async (store, found, _changes, shared) => {
        const [, name] = call.positionals
        const all = await (shared ?? store).consumers.list(found.id)
        const named = all.filter((one) => name === undefined || one.name === name)
        const consumers = named.map(shownConsumer)
        const rows = consumers.map((one) => Object.values(one).map((cell) => String(cell ?? '')))
        const head = ['consumer', 'continues at slot', 'commitment', 'last used']
        const text = tableOf(head, rows, 'No consumers.')
        return accept({ json: { id: found.id, label: found.label, consumers }, text })
      }),
  },
  {
    words: ['consumer', 'reset'],
    api: 'change',
    summary: 'Forget where a consumer is; its next stream begins anew.',
    examples: ['consumer reset acme orders', 'consumer reset acme --yes'],
    asks: true,
    positionals: [refSpec, { ...consumerSpec, optional: true }],
    async run(call) {
      const [, name] = call.positionals
      const which = name === undefined ? 'all consumers' : `the consumer ${name}`
      return withSubscription(
        call,
        async (store, { id, label }, _changes, shared) => {
          const { consumers } = shared ?? store
          const removed = await consumers.remove(id, name).then(accept, maybeReset)
          if (!removed.ok) return removed
          const count = removed.value
          if (count === 0 && name !== undefined)
            return refuse('not-found', 'no-consumer', `${label} has no consumer "${name}"`)
          const done = `${count} reset. A stream that is open ends, and the next one begins anew.`
          return accept({ json: { id, label, reset: count }, text: done })
        },
        (subject) => ({ text: `Forget where ${which} of ${subject} is?`, isFinal: true }),
      )
    },
  },
]

/** Without an answer of PostgreSQL it may be done: a repeat would forget what was stored since. */
function maybeReset(error: unknown): Outcome<never> {
  if (!(error instanceof Fault && error.retryable)) throw error
  const list = 'npx --no -- sluice consumer list shows which'
  const message = `the consumers may have been reset or not: ${error.message}; ${list}`
  return refuse('unavailable', outcomeUnknown, message)
}

function shownConsumer({ name, position, atMs }: NamedConsumer) {
  // Reason for the cast: what the server stored; the first of its members are in every version.
  const at =
    position === null ? null : (JSON.parse(position) as { floor: number; commitment: number })
  const commitment = at === null ? null : (commitmentNames[at.commitment] ?? null)
  return { name, slot: at?.floor ?? null, commitment, used: isoTime(atMs) }
}
