// `sluice tail`: follows the metrics stream of a running server on the terminal. Thread: main.
// Reconnects and resumes by itself; exits on Ctrl-C, or after --count frames.
import { readFileSync } from 'node:fs'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { MetricsClient } from '../client/client.ts'
import { endpointUrl } from './endpoint-url.ts'
import { frameText, topics } from './stream-lines.ts'
import { flagOf, isJson, misuse, numberOf, type Report, type Verb } from './verb.ts'

/** Failed reconnects in a row before it gives up: about ten seconds. */
const failuresMax = 6
const anyNumber = [0, Number.MAX_SAFE_INTEGER] as const

export const tailVerb: Verb = {
  words: ['tail'],
  summary: 'Follow the metrics stream: tps, contention, top or lifecycle.',
  positionals: [{ name: 'topic', doc: `one of ${Object.keys(topics).join(', ')}` }],
  flags: [
    {
      name: 'from-seq',
      value: 'n',
      range: anyNumber,
      doc: 'Resume after this frame, if the server still has it.',
    },
    { name: 'count', value: 'n', range: anyNumber, doc: 'Exit after this many frames.' },
    { name: 'url', value: 'url', doc: 'The metrics service [the server of the data folder].' },
    { name: 'token-file', value: 'file', doc: 'File with a token, for metrics.auth: token.' },
  ],
  async run(call) {
    const [topic = ''] = call.positionals
    const kind = topics[topic]
    if (kind === undefined)
      return misuse(`<topic> must be one of ${Object.keys(topics).join(', ')}`)
    const fromSeq = numberOf(call, 'from-seq', null)
    const found = await endpointUrl(call, 'metrics')
    if (!found.ok) return found
    const url = found.value
    const file = flagOf(call, 'token-file')
    const headers = file === undefined ? {} : { 'x-token': readFileSync(file, 'utf8').trim() }
    // Imported on demand: it loads an HTTP client that other commands do not need.
    const { NodeSocket } = await import('../client/node-socket.ts')
    const client = new MetricsClient({
      url,
      events: [kind],
      open: (target) => new NodeSocket(target, headers),
      ...(fromSeq === null ? {} : { resumeFrom: fromSeq }),
    })
    return follow(client, { url, count: numberOf(call, 'count', null), isJson: isJson(call) })
  },
}

interface FollowOptions {
  readonly url: string
  /** Null: until Ctrl-C. */
  readonly count: number | null
  readonly isJson: boolean
}

/** Prints frames until `count` were printed, Ctrl-C, or reconnecting has failed too often. */
async function follow(
  client: MetricsClient,
  { url, count, isJson }: FollowOptions,
): Promise<Outcome<Report>> {
  let failures = 0
  client.on('closed', () => {
    if (++failures >= failuresMax) client.close()
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
    const stream = frame.kind === 'Gap' && !isJson ? process.stderr : process.stdout
    stream.write(frameText(frame, isJson))
    if (++printed === count) break
  }
  process.removeListener('SIGINT', stop)
  if (failures >= failuresMax)
    return refuse('unavailable', 'no-answer', `no server answers at ${url}`)
  return done(printed)
}

function done(frames: number): Outcome<Report> {
  return accept({ json: { frames }, text: '', isPrinted: true })
}
