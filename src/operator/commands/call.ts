// `sluice call`: calls a method of an endpoint and prints the answer.
// A subscription prints its notifications until Ctrl-C, or --count of them.
import { readFileSync } from 'node:fs'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import {
  type Answer,
  type Caller,
  CallFailure,
  type CallRequest,
  callHttp,
  messageIn,
  sendHttp,
} from './call-http.ts'
import { contextFlag, findEndpoint, knownCredentials, noAnswer, tokenFlags } from './credentials.ts'
import { recordOf, tableOf } from './output.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  isJson,
  misuse,
  numberOf,
  type Report,
  type Verb,
} from './verb.ts'

interface Protocol {
  /** Name of the endpoint in the configuration. */
  readonly endpoint: string
  /** True where the endpoint checks a token; it is sent to no other. */
  readonly takesToken: boolean
  load(): Promise<Caller>
}

const http = async () => callHttp
const socket = async () => (await import('./call-socket.ts')).callSocket
const grpc = async () => (await import('./call-grpc.ts')).callGrpc
const websocket: Protocol = { endpoint: 'websocket', takesToken: true, load: socket }

const protocols: Readonly<Record<string, Protocol>> = {
  rpc: { endpoint: 'rpc', takesToken: true, load: http },
  ws: websocket,
  websocket,
  grpc: { endpoint: 'grpc', takesToken: true, load: grpc },
  tpu: { endpoint: 'tpu', takesToken: false, load: http },
  metrics: { endpoint: 'metrics', takesToken: true, load: http },
}
const names = Object.keys(protocols)

export const endpointFlags: readonly FlagSpec[] = [
  { name: 'url', value: 'url', doc: 'The endpoint [the server of the data folder].' },
  contextFlag,
  ...tokenFlags,
  { name: 'ca', value: 'file', doc: 'Certificate of the authority of a TLS endpoint.' },
]

export const callVerb: Verb = {
  words: ['call'],
  summary: 'Call a method of an endpoint: rpc, ws, grpc, tpu or metrics.',
  examples: [
    'call rpc getSlot',
    'call rpc getBalance 11111111111111111111111111111111',
    'call ws slotSubscribe --count 3',
    `call grpc Subscribe '{"slots":{"all":{}}}' --count 3`,
  ],
  positionals: [
    { name: 'endpoint', doc: `One of ${names.join(', ')}.`, options: names },
    { name: 'method', doc: 'A JSON-RPC method; on grpc a method of geyser.Geyser.' },
    { name: 'params', doc: 'JSON: a list, the message on grpc, or one word.', optional: true },
  ],
  flags: [
    ...flagTable(`
    --count <n 1..${Number.MAX_SAFE_INTEGER}>  Exit after this many notifications of a
                                               subscription.`),
    ...endpointFlags,
  ],
  async run(call) {
    const [name = '', method = '', params] = call.positionals
    if (name === 'indexer')
      return misuse('the indexer takes SQL: npx --no -- sluice query "SELECT 1"')
    const protocol = protocols[name]
    if (protocol === undefined) return misuse(`<endpoint> must be one of ${names.join(', ')}`)
    const leave = new AbortController()
    const request = await requestOf(call, protocol, { method, params, signal: leave.signal })
    if (!request.ok) return request
    const stop = () => leave.abort()
    process.once('SIGINT', stop)
    try {
      return await print(call, (await protocol.load())(request.value))
    } catch (error) {
      const { url } = request.value
      if (leave.signal.aborted) return accept({ json: {}, text: '', isPrinted: true })
      if (error instanceof CallFailure) return refuse('rejected', 'call-failed', error.message)
      return noAnswer(url, error, true)
    } finally {
      process.removeListener('SIGINT', stop)
    }
  },
}

export async function requestOf(
  call: Call,
  { endpoint, takesToken }: Pick<Protocol, 'endpoint' | 'takesToken'>,
  given: { method: string; params: string | undefined; signal: AbortSignal },
): Promise<Outcome<CallRequest>> {
  const found = await findEndpoint(call, endpoint)
  if (!found.ok) return found
  // --url may be written with the protocol's own scheme.
  const url = found.value.url.replace(/^(?:ws|grpc)(s?):/, 'http$1:')
  if (!URL.canParse(url)) return misuse('--url must be an address such as http://127.0.0.1:8899')
  const known = knownCredentials(call, found.value.context)
  if (!known.ok) return known
  const path = flagOf(call, 'ca')
  try {
    const ca = path === undefined ? null : readFileSync(path, 'utf8')
    const params = given.params === undefined ? undefined : paramsOf(given.params, endpoint)
    const token = takesToken ? known.value.token : ''
    return accept({ url, token, ca, method: given.method, params, signal: given.signal })
  } catch (error) {
    if (error instanceof SyntaxError)
      return misuse(`[params] must be JSON, such as '["account"]': ${error.message}`)
    return misuse(messageOf(error))
  }
}

/** A bare word is the one parameter of a JSON-RPC method: an account of digits is no number. */
function paramsOf(text: string, endpoint: string): unknown {
  if (/^\s*[[{]/.test(text) || endpoint === 'grpc') return JSON.parse(text)
  const isLiteral = /^(".*"|true|false|null|-?\d{1,15})$/.test(text)
  return [isLiteral ? JSON.parse(text) : text]
}

/** Prints each answer when it arrives. */
async function print(call: Call, answers: AsyncIterable<Answer>): Promise<Outcome<Report>> {
  const count = numberOf(call, 'count', Number.POSITIVE_INFINITY)
  let updates = 0
  for await (const { result, whole, isUpdate = false } of answers) {
    const text = isJson(call) ? JSON.stringify(whole) : shown(result)
    process.stdout.write(`${text}\n`)
    if (isUpdate && ++updates === count) break
  }
  return accept({ json: {}, text: '', isPrinted: true })
}

function shown(result: unknown): string {
  return typeof result === 'string' ? result : JSON.stringify(result, null, 2)
}

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
      return accept({ json: me, text: meText(me) })
    } catch (error) {
      if (error instanceof SyntaxError) return refuse('rejected', 'not-shown', messageOf(error))
      return noAnswer(url, error, true)
    }
  },
}

function meText(me: Me): string {
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
    ['last 30 days', last30Days === null ? 'not known at the moment' : countsText(last30Days)],
    ['refused', `${countsText(reasons) || 'nothing'}, since ${since}`],
  ])
  const max = { ...limits, calls: limits.callsInFlight, queries: limits.indexer.queries }
  const rows = Object.entries(open).map(([kind, count]) => [
    kind,
    String(count),
    limitText(max[kind as keyof typeof max] as number | null),
  ])
  return `${facts}\n\n${tableOf(['open', 'now', 'most'], rows, '')}`
}

function countsText(counts: Readonly<Record<string, number | string>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
}

function limitText(limit: number | null | undefined): string {
  return limit == null ? 'no limit' : String(limit)
}
