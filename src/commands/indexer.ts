// `sluice indexer rotate`: replaces the database password. Thread: main.
import { accept } from '../base/errors.ts'
import { confirm } from './ask.ts'
import { byOf, notFound, reasonFlag, refSpec, withStore } from './registry.ts'
import { secretsText } from './subscription.ts'
import type { Verb } from './verb.ts'

export const indexerVerbs: readonly Verb[] = [
  {
    words: ['indexer', 'rotate'],
    summary: 'Issue a new indexer password and show it once; the old one stops working.',
    positionals: [refSpec],
    flags: [reasonFlag],
    async run(call) {
      const [ref = ''] = call.positionals
      return withStore(call, async (store) => {
        const found = store.find(ref)
        if (found === null) return notFound(ref)
        const question = `rotate the indexer password of ${found.id} (${found.label})?`
        const agreed = await confirm(call, `${question} The old one stops working at once.`)
        if (!agreed.ok) return agreed
        const rotated = store.rotateIndexer(found.id, byOf(call))
        if (!rotated.ok) return rotated
        const { subscription, indexer } = rotated.value
        return accept({ json: { subscription, indexer }, text: secretsText({ indexer }) })
      })
    },
  },
]
