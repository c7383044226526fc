// `sluice indexer enroll|list|revoke`: credentials with which an indexer on another machine reads
// the feeds of the gateways, and nothing else. A credential is printed once and stored hashed.
import { accept } from '../../base/errors.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import { notEnrolled } from '../../customers/subscriptions/verbs.ts'
import { tableOf } from './output.ts'
import { byOf, confirm, reasonFlag, withStore } from './registry.ts'
import { secretsText } from './subscription.ts'
import { flagOf, flagTable, listOf, misuse, type Verb } from './verb.ts'

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
          return accept({ json: { indexer: shown(subscription), token }, text })
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
        const indexers = store.enrolled().map(shown)
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
        return accept({ json: { indexer: shown(ended.value) }, text: done })
      }),
  },
]

function shown({ id, label: name, state, cidrs, tokenLast4, createdAt }: Subscription) {
  return { id, name, state: state === 'ended' ? 'revoked' : state, cidrs, tokenLast4, createdAt }
}
