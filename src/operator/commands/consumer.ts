// `sluice consumer ...`: shows and resets where the consumers of a subscription are in its stream.
import { commitmentNames } from '../../base/commitment.ts'
import { accept, refuse } from '../../base/errors.ts'
import type { NamedConsumer } from '../../customers/subscriptions/consumers.ts'
import { isoTime } from '../../customers/subscriptions/usage.ts'
import { tableOf } from './output.ts'
import { confirm, notFound, refSpec, withStore } from './registry.ts'
import type { Verb } from './verb.ts'

const nameSpec = { name: 'consumer', doc: 'Which consumer; all of them when absent.' }

export const consumerVerbs: readonly Verb[] = [
  {
    words: ['consumer', 'list'],
    api: 'read',
    summary: 'Show the consumers of a subscription and where they continue.',
    examples: ['consumer list acme'],
    positionals: [refSpec, { ...nameSpec, optional: true }],
    run: (call) =>
      withStore(call, async (store, _changes, shared) => {
        const [ref = '', name] = call.positionals
        const found = store.find(ref)
        if (found === null) return notFound(ref)
        const all = await (shared ?? store).consumers.list(found.id)
        const consumers = all.filter((one) => name === undefined || one.name === name).map(shown)
        const rows = consumers.map((one) => [
          one.name,
          one.slot ?? '',
          one.commitment ?? '',
          one.used,
        ])
        const head = ['consumer', 'continues at slot', 'commitment', 'last used']
        const text = tableOf(
          head,
          rows.map((row) => row.map(String)),
          'No consumers.',
        )
        return accept({ json: { id: found.id, label: found.label, consumers }, text })
      }),
  },
  {
    words: ['consumer', 'reset'],
    api: 'change',
    summary: 'Forget where a consumer is; its next stream begins anew.',
    examples: ['consumer reset acme orders', 'consumer reset acme --yes'],
    asks: true,
    positionals: [refSpec, { ...nameSpec, optional: true }],
    run: (call) =>
      withStore(call, async (store, _changes, shared) => {
        const [ref = '', name] = call.positionals
        const found = store.find(ref)
        if (found === null) return notFound(ref)
        const which = name === undefined ? 'all consumers' : `the consumer ${name}`
        const text = `Forget where ${which} of ${found.id} (${found.label}) is?`
        const agreed = await confirm(call, { text, isFinal: true })
        if (!agreed.ok) return agreed
        const count = await (shared ?? store).consumers.remove(found.id, name)
        if (count === 0 && name !== undefined)
          return refuse('not-found', 'no-consumer', `${found.label} has no consumer "${name}"`)
        const done = `${count} reset. A stream that is open ends, and the next one begins anew.`
        return accept({ json: { id: found.id, label: found.label, reset: count }, text: done })
      }),
  },
]

function shown({ name, position, atMs }: NamedConsumer) {
  // Reason for the cast: what the server stored; the first of its members are in every version.
  const at = position === null ? null : (JSON.parse(position) as Place)
  const commitment = at === null ? null : (commitmentNames[at.commitment] ?? null)
  return { name, slot: at?.floor ?? null, commitment, used: isoTime(atMs) }
}

interface Place {
  readonly floor: number
  readonly commitment: number
}
