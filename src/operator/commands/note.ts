// `sluice note add`: records events outside the registry (refunds, leaks).
import { accept } from '../../base/errors.ts'
import { type NoteKind, noteKinds } from '../../customers/subscriptions/subscription.ts'
import { byOf, refSpec, withStore } from './registry.ts'
import { subscriptionText } from './subscription.ts'
import { flagOf, type Verb } from './verb.ts'

export const noteVerbs: readonly Verb[] = [
  {
    words: ['note', 'add'],
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
