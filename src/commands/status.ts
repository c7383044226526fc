// `sluice status`: what the running server says of itself, through the operator socket.
// Thread: main. Without a server it says so and exits 1.
import { resolve } from 'node:path'
import { accept, refuse } from '../base/errors.ts'
import { askOperator } from '../transport/operator-socket.ts'
import { recordOf } from './output.ts'
import type { Verb } from './verb.ts'

export const statusVerb: Verb = {
  words: ['status'],
  summary: 'Show the live state of the running server; exit 1 when none runs.',
  async run({ loaded }) {
    const data = resolve(loaded.config.data)
    const answer = await askOperator(data, 'status')
    if (answer.ok) {
      const state = answer.value as Readonly<Record<string, unknown>>
      return accept({ json: { running: true, ...state }, text: recordOf(flatten(state)) })
    }
    if (answer.reason !== 'no-server') return refuse('unavailable', 'no-answer', answer.message)
    return accept({
      json: { running: false, data },
      text: `No server runs on ${data}. Start it with npm start, or give --data.`,
      exit: 1,
    })
  },
}

/** Nested values as `a.b: value` lines, in the order in which the server gave them. */
function flatten(value: unknown, key = ''): [string, string][] {
  if (typeof value !== 'object' || value === null) return [[key, String(value ?? '')]]
  const entries = Object.entries(value)
  if (entries.length === 0) return [[key, 'none']]
  return entries.flatMap(([name, child]) => flatten(child, key === '' ? name : `${key}.${name}`))
}
