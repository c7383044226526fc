// `sluice status`: shows the state of the running server, through the operator socket.
// Thread: main. Exits 1 when no server runs.
import { resolve } from 'node:path'
import { accept, refuse } from '../base/errors.ts'
import { askServer } from './ask-server.ts'
import { recordOf, tableOf } from './output.ts'
import type { Verb } from './verb.ts'

export const statusVerb: Verb = {
  words: ['status'],
  summary: 'Show the live state of the running server; exit 1 when none runs.',
  async run({ loaded }) {
    const data = resolve(loaded.config.data)
    const answer = await askServer(data, 'status')
    if (answer.ok) {
      const state = answer.value as Readonly<Record<string, unknown>>
      return accept({ json: { running: true, ...state }, text: statusText(state) })
    }
    if (answer.reason !== 'no-server') return refuse('unavailable', 'no-answer', answer.message)
    return accept({
      json: { running: false, data },
      text: `No server runs on ${data}. Start it with npm start, or set --data.`,
      exit: 1,
    })
  },
}

/** A row of the server's node table; fields that an older server does not send are shown as -. */
interface NodeRow {
  readonly name?: string
  readonly region?: string
  readonly state?: string
  readonly slot?: number | null
  readonly lagSlots?: number | null
  readonly p50Ms?: number | null
  readonly p99Ms?: number | null
  readonly requests?: number
  readonly errors?: number
  readonly share?: number
}

/** One line per value, and a table of the nodes if there are any. */
export function statusText(state: Readonly<Record<string, unknown>>): string {
  const { upstreams, ...rest } = state
  const record = recordOf(flatten(rest))
  if (!Array.isArray(upstreams) || upstreams.length === 0) return record
  const head = 'node region state slot lag p50 p99 calls errors share'.split(' ')
  return `${record}\n\n${tableOf(head, upstreams.map(nodeRow), '')}`
}

function nodeRow(row: NodeRow): string[] {
  const text = (value: unknown, unit = '') => (value == null ? '' : `${value}${unit}`)
  return [
    text(row.name),
    text(row.region),
    text(row.state),
    text(row.slot),
    text(row.lagSlots),
    text(row.p50Ms, ' ms'),
    text(row.p99Ms, ' ms'),
    text(row.requests),
    text(row.errors),
    row.share === undefined ? '' : `${(row.share * 100).toFixed(1)} %`,
  ]
}

/** Nested values as `a.b: value` lines, in the order of the server's reply. */
function flatten(value: unknown, key = ''): [string, string][] {
  if (typeof value !== 'object' || value === null) return [[key, String(value ?? '')]]
  const entries = Object.entries(value)
  if (entries.length === 0) return [[key, 'none']]
  return entries.flatMap(([name, child]) => flatten(child, key === '' ? name : `${key}.${name}`))
}
