// `sluice tail`: follows the metrics stream of a running server on the terminal.
// Reconnects and resumes by itself; exits on Ctrl-C, or after --count frames.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { type Kind, kinds, type MetricsClient, ServiceError } from '../../client/client.ts'
import { knownCredentials, tokenFlags } from './credentials.ts'
import { contextFlag, findEndpoint, noAnswer } from './endpoint-url.ts'
import { frameText, topics } from './stream-lines.ts'
import { flagTable, isJson, misuse, numberOf, type Report, type Verb } from './verb.ts'

/** Failed reconnects in a row before it gives up: about ten seconds. */
const failuresMax = 6
const anyNumber = `0..${Number.MAX_SAFE_INTEGER}`
const topicNames = [...Object.keys(topics), 'gap', 'all']

export const tailVerb: Verb = {
  words: ['tail'],
  summary: 'Follow the metrics stream: any of tps, contention, top, lifecycle; gaps always.',
  examples: ['tail all', 'tail tps contention --count 10', 'tail lifecycle --json'],
  positionals: [
    {
      name: 'topic',
      doc: `One or more of ${topicNames.join(', ')}, also as a list with commas.`,
      many: true,
      options: topicNames,
    },
  ],
  flags: [
    ...flagTable(`
    --from-seq <n ${anyNumber}>  Resume after this frame, if the server still has it.
    --count <n ${anyNumber}>     Exit after this many frames.
    --url <url>          The metrics service [the server of the data folder].`),
    contextFlag,
    ...tokenFlags,
  ],
  async run(call) {
    const wanted = kindsOf(call.positionals)
    if (wanted === null) return misuse(`<topic> must be one of ${topicNames.join(', ')}`)
    const fromSeq = numberOf(call, 'from-seq', null)
    const found = await findEndpoint(call, 'metrics')
    if (!found.ok) return found
    const { url, context } = found.value
    const known = knownCredentials(call, context)
    if (!known.ok) return known
    const { token } = known.value
    // Imported on demand: it loads an HTTP client that other commands do not need.
    const { MetricsClient } = await import('../../client/node.ts')
    const client = new MetricsClient({
      url,
      // The server takes no empty list; whatever else it sends is not printed.
      events: wanted.size === 0 ? ['TPS'] : [...wanted],
      ...(token === '' ? {} : { token }),
      ...(fromSeq === null ? {} : { resumeFrom: fromSeq }),
    })
    return follow(client, {
      url,
      wanted,
      count: numberOf(call, 'count', null),
      isJson: isJson(call),
      hasToken: token !== '',
    })
  },
}

/** The kinds of these topics, none for `gap`; null when one is unknown. */
function kindsOf(given: readonly string[]): ReadonlySet<Kind> | null {
  const names = given.flatMap((list) => list.split(','))
  if (!names.every((name) => topicNames.includes(name))) return null
  return new Set(names.flatMap((name) => (name === 'all' ? kinds : (topics[name] ?? []))))
}

interface FollowOptions {
  readonly url: string
  readonly wanted: ReadonlySet<Kind>
  /** Null: until Ctrl-C. */
  readonly count: number | null
  readonly isJson: boolean
  readonly hasToken: boolean
}

/** Prints frames until `count` were printed, Ctrl-C, or reconnecting has failed too often. */
async function follow(
  client: MetricsClient,
  { url, wanted, count, isJson, hasToken }: FollowOptions,
): Promise<Outcome<Report>> {
  let failures = 0
  let isUnauthorized = false
  let problem: unknown = null
  client.on('closed', async () => {
    if (++failures >= failuresMax) client.close()
    // A refused upgrade hides its status; the same token on a REST path shows it.
    const status = await client.status().catch((error: unknown) => error)
    problem = status instanceof Error ? status : null
    isUnauthorized = status instanceof ServiceError && status.code === 401
    if (isUnauthorized) client.close()
  })
  client.on('Resume', ({ mode }) => {
    failures = 0
    if (mode === 'snapshot' && client.cursor > 0)
      process.stderr.write(
        'the server no longer has the frames after that; resuming from its newest state\n',
      )
  })
  const stop = () => client.close()
  process.once('SIGINT', stop)
  let printed = 0
  if (count === 0) return done(0)
  for await (const frame of client) {
    if (frame.kind !== 'Gap' && !wanted.has(frame.kind)) continue
    const stream = frame.kind === 'Gap' && !isJson ? process.stderr : process.stdout
    stream.write(frameText(frame, isJson))
    if (++printed === count) break
  }
  process.removeListener('SIGINT', stop)
  if (isUnauthorized) return refuse('unauthenticated', 'unauthorized', tokenAdvice(url, hasToken))
  if (failures >= failuresMax) return noAnswer(url, problem ?? 'the stream does not open', false)
  return done(printed)
}

function tokenAdvice(url: string, hasToken: boolean): string {
  if (hasToken) return `${url} does not accept this token`
  return `${url} wants a token: name a file that contains one with --token-file`
}

function done(frames: number): Outcome<Report> {
  return accept({ json: { frames }, text: '', isPrinted: true })
}
