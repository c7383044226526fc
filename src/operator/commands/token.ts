// `sluice token rotate`: replaces a token.
// Without --grace the old one is revoked at once, as a leak requires.
import { parseDuration } from '../../base/duration.ts'
import { accept } from '../../base/errors.ts'
import { byOf, reasonFlag, refSpec, withSubscription } from './registry.ts'
import { secretsText } from './subscription.ts'
import { flagOf, misuse, type Verb } from './verb.ts'

export const tokenVerbs: readonly Verb[] = [
  {
    words: ['token', 'rotate'],
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
