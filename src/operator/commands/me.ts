// `sluice me`: shows a customer its plan, what it has used and what is open, by GET /v1/me.
import { accept, messageOf, refuse } from '../../base/errors.ts'
import { endpointFlags, requestOf } from './call.ts'
import { messageIn, sendHttp } from './call-http.ts'
import { noAnswer } from './endpoint-url.ts'
import { recordOf, tableOf } from './output.ts'
import type { Verb } from './verb.ts'

type Counts = Readonly<Record<string, number>>

/** The parts of the answer that are shown; --json has all of it. */
interface Me {
  readonly id: string
  readonly products: readonly string[]
  readonly plan: string
  readonly tokenLast4: string
  readonly until: string | null
  readonly limits: Readonly<Record<string, number | null>> & { readonly indexer: Counts }
  readonly window: { readonly from: string; readonly to: string; readonly credits: number }
  readonly last30Days: Counts | null
  readonly open: Counts
  readonly refused: Counts & { readonly since: string }
}

export const meVerb: Verb = {
  words: ['me'],
  summary: 'Show what a token may use, what was used of it and what is open now.',
  examples: ['me', 'me --url https://rpc.example.com --token-file token'],
  positionals: [],
  flags: endpointFlags,
  async run(call) {
    const { signal } = new AbortController()
    const given = { method: '', params: undefined, signal }
    const request = await requestOf(call, { endpoint: 'rpc', takesToken: true }, given)
    if (!request.ok) return request
    const { url } = request.value
    try {
      const at = new URL('/v1/me', url).href
      const { status, body } = await sendHttp({ ...request.value, url: at }, 'GET')
      if (status !== 200)
        return refuse('rejected', 'not-shown', messageIn(body) ?? `HTTP ${status} from ${at}`)
      // Reason for the cast: the server is of the same kind of build.
      const me = JSON.parse(body) as Me
      return accept({ json: me, text: shown(me) })
    } catch (error) {
      if (error instanceof SyntaxError) return refuse('rejected', 'not-shown', messageOf(error))
      return noAnswer(url, error, true)
    }
  },
}

function shown(me: Me): string {
  const { limits, window, last30Days, open, refused } = me
  const { since, ...reasons } = refused
  const facts = recordOf([
    ['subscription', `${me.id}, token ending in ${me.tokenLast4}`],
    ['products', me.products.join(', ')],
    ['plan', me.plan],
    ['last day', me.until ?? 'none'],
    ['window', `${window.from} to ${window.to}`],
    ['credits', `${window.credits} of ${limitText(limits.creditsPer30Days)}`],
    ['rate', `${limitText(limits.creditsPerSecond)} credits a second`],
    ['last 30 days', last30Days === null ? 'not known at the moment' : listOf(last30Days)],
    ['refused', `${listOf(reasons) || 'nothing'}, since ${since}`],
  ])
  const max = { ...limits, calls: limits.callsInFlight, queries: limits.indexer.queries }
  const rows = Object.entries(open).map(([kind, count]) => [
    kind,
    String(count),
    limitText(max[kind as keyof typeof max] as number | null),
  ])
  return `${facts}\n\n${tableOf(['open', 'now', 'most'], rows, '')}`
}

function listOf(counts: Readonly<Record<string, number | string>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
}

function limitText(limit: number | null | undefined): string {
  return limit == null ? 'no limit' : String(limit)
}
