// `sluice indexer rotate`: replaces the database password.
import { accept } from '../../base/errors.ts'
import { byOf, reasonFlag, refSpec, withSubscription } from './registry.ts'
import { secretsText } from './subscription.ts'
import type { Verb } from './verb.ts'

export const indexerVerbs: readonly Verb[] = [
  {
    words: ['indexer', 'rotate'],
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
          const { label } = subscription
          const done = `${label} has a new indexer password; the old one no longer works.`
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
