// `sluice operator ...`: issues, lists and revokes credentials of the operator API.
// The API itself has none of these verbs: who has a leaked credential cannot issue another.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import { notEnrolled } from '../../customers/subscriptions/verbs.ts'
import { tableOf } from './output.ts'
import { byOf, confirm, reasonFlag, withStore } from './registry.ts'
import { secretsText } from './subscription.ts'
import { type Call, flagOf, flagTable, listOf, misuse, type Report, type Verb } from './verb.ts'

const nameSpec = { name: 'name', doc: 'Who or what uses it; the audit table has this name.' }

export const operatorVerbs: readonly Verb[] = [
  {
    words: ['operator', 'add'],
    summary: 'Issue a credential of the operator API and show it once.',
    examples: ['operator add billing --reason "usage of each month"'],
    positionals: [nameSpec],
    flags: [reasonFlag],
    run: (call) =>
      withStore(
        call,
        async (_store, changes) => {
          const issued = await changes.addOperator(call.positionals[0]!, byOf(call))
          if (!issued.ok) return issued
          const { subscription, token } = issued.value
          const done = `${subscription.label} may use the operator API.`
          const text = `${done}\n\n${secretsText({ token })}`
          return accept({ json: { operator: shownOperator(subscription), token }, text })
        },
        { mayCreate: true },
      ),
  },
  {
    words: ['operator', 'list'],
    summary: 'List the credentials of the operator API.',
    examples: ['operator list'],
    run: (call) =>
      withStore(call, (store) => {
        const operators = store.operators().map(shownOperator)
        const rows = operators.map((one) => [
          one.id,
          one.name,
          one.state,
          `...${one.tokenLast4}`,
          one.createdAt.slice(0, 10),
        ])
        const head = ['id', 'name', 'state', 'credential', 'created']
        return accept({ json: { operators }, text: tableOf(head, rows, 'No credentials.') })
      }),
  },
  {
    words: ['operator', 'revoke'],
    summary: 'Revoke a credential of the operator API.',
    examples: ['operator revoke billing --reason leak'],
    asks: true,
    positionals: [{ name: 'id|name', doc: 'Which credential.' }],
    flags: [reasonFlag],
    run: (call) => withStore(call, (store, changes) => revoke(call, store, changes)),
  },
]

async function revoke(
  call: Call,
  store: Store,
  changes: Parameters<Parameters<typeof withStore>[1]>[1],
): Promise<Outcome<Report>> {
  const [ref = ''] = call.positionals
  const found = store
    .operators()
    .find(({ id, label, state }) => state === 'active' && (id === ref || label === ref))
  if (found === undefined)
    return refuse('not-found', 'no-operator', `no credential "${ref}" is active`)
  const text = `revoke ${found.id} (${found.label})? This cannot be undone.`
  const agreed = await confirm(call, { text, isFinal: true })
  if (!agreed.ok) return agreed
  const revoked = await changes.revokeOperator(found.id, byOf(call))
  if (!revoked.ok) return revoked
  const done = `${found.label} is revoked: its credential no longer works.`
  return accept({ json: { operator: shownOperator(revoked.value) }, text: done })
}

function shownOperator({ id, label, state, tokenLast4, createdAt, changedAt }: Subscription) {
  const isActive = state === 'active'
  return {
    id,
    name: label,
    state: isActive ? 'active' : 'revoked',
    tokenLast4,
    createdAt,
    revokedAt: isActive ? null : changedAt,
  }
}

// `sluice indexer enroll|list|revoke`: credentials with which an indexer on another machine reads
// the feeds of the gateways, and nothing else. A credential is printed once and stored hashed.

export const enrollVerbs: readonly Verb[] = [
  {
    words: ['indexer', 'enroll'],
    summary: 'Issue a credential for sluice indexer serve and show it once.',
    examples: ['indexer enroll --name north', 'indexer enroll --name north --cidr 10.0.0.0/8'],
    flags: [
      ...flagTable(`
  --name <name>   Your name for the indexer.
  --cidr <c> ...  Networks from which it may connect [anywhere].`),
      reasonFlag,
    ],
    async run(call) {
      const name = flagOf(call, 'name')
      if (name === undefined) return misuse('--name is missing: your name for the indexer')
      return withStore(
        call,
        async (_store, changes) => {
          const issued = await changes.enroll(name, listOf(call, 'cidr') ?? [], byOf(call))
          if (!issued.ok) return issued
          const { subscription, token } = issued.value
          const done = `${name} may read the feeds of the index, where indexer.feeds is enabled.`
          const text = `${done}\n\n${secretsText({ token })}`
          return accept({ json: { indexer: shownIndexer(subscription), token }, text })
        },
        { mayCreate: true },
      )
    },
  },
  {
    words: ['indexer', 'list'],
    summary: 'List the enrolled indexers in order of creation.',
    examples: ['indexer list'],
    run: (call) =>
      withStore(call, (store) => {
        const indexers = store.enrolled().map(shownIndexer)
        const rows = indexers.map((one) => [
          ...[one.name, one.state, `...${one.tokenLast4}`, one.cidrs.join(', ') || 'anywhere'],
          one.createdAt.slice(0, 10),
        ])
        const head = ['indexer', 'state', 'credential', 'cidrs', 'created']
        return accept({ json: { indexers }, text: tableOf(head, rows, 'No indexers.') })
      }),
  },
  {
    words: ['indexer', 'revoke'],
    summary: 'Revoke the credential of an indexer; its streams end at once.',
    examples: ['indexer revoke north --reason leak'],
    asks: true,
    positionals: [{ name: 'name', doc: 'Which indexer.' }],
    flags: [reasonFlag],
    run: (call) =>
      withStore(call, async (store, changes) => {
        const [name = ''] = call.positionals
        const isActive = ({ label, state }: Subscription) => label === name && state !== 'ended'
        if (!store.enrolled().some(isActive)) return notEnrolled(name)
        const text = `revoke the credential of ${name}? It stops working at once.`
        const agreed = await confirm(call, { text, isFinal: true })
        if (!agreed.ok) return agreed
        const ended = await changes.revoke(name, byOf(call))
        if (!ended.ok) return ended
        const done = `The credential of ${name} no longer works.`
        return accept({ json: { indexer: shownIndexer(ended.value) }, text: done })
      }),
  },
]

function shownIndexer({ id, label: name, state, cidrs, tokenLast4, createdAt }: Subscription) {
  return { id, name, state: state === 'ended' ? 'revoked' : state, cidrs, tokenLast4, createdAt }
}
