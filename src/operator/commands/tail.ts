// `sluice tail` and `sluice replay`: print the metrics stream, of a server or of a recording.
// Reconnects and resumes by itself; exits on Ctrl-C, or after --count frames.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, type Outcome, refuse } from '../../base/errors.ts'
import { type Log, silentLog } from '../../base/telemetry/log.ts'
import {
  type ContentionData,
  efficiencyMeanings,
  type Frame,
  type Kind,
  kinds,
  type Lifecycle,
  MetricsClient,
  ServiceError,
  type TopAccesses,
  verdictOf,
} from '../../client/client.ts'
import { type Config, enabledEndpoints } from '../config/config.ts'
import { loadConfig } from '../config/load.ts'
import {
  contextFlag,
  findEndpoint,
  knownCredentials,
  noAnswer,
  noToken,
  tokenFlags,
} from './credentials.ts'
import { ProgressBar } from './output.ts'
import {
  type Call,
  flagOf,
  flagTable,
  isJson,
  misuse,
  numberOf,
  type Report,
  refusedFault,
  type Verb,
} from './verb.ts'
import { packageVersion } from './version.ts'

/** Topic names of the command and their frame kinds. */
export const topics: Readonly<Record<string, Kind>> = {
  tps: 'TPS',
  contention: 'ContentionData',
  top: 'TopAccesses',
  lifecycle: 'Lifecycle',
}

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
  if (isUnauthorized) return noToken(url, hasToken)
  if (failures >= failuresMax) return noAnswer(url, problem ?? 'the stream does not open', false)
  return done(printed)
}

function done(frames: number): Outcome<Report> {
  return accept({ json: { frames }, text: '', isPrinted: true })
}

// Starts only the metrics product, on a free port and a temporary folder, so that
// it prints exactly what a client of the service would get; both are removed afterwards.

/** Poll interval for the end of the stream once the recording has ended. */
const pollMs = 20

export const replayVerb: Verb = {
  words: ['replay'],
  summary: 'Replay a recorded snapshot and print tps, contention, top or lifecycle.',
  examples: ['replay recording.zst --topic tps --speed recorded'],
  positionals: [{ name: 'snapshot', doc: 'file of a recorded event ring, raw or .zst' }],
  flags: flagTable(`
    --topic <topic ${Object.keys(topics).join('|')}>  What to print [contention].
    --speed <speed recorded|fixed|full>  As recorded, a block per 400 ms, or as fast as possible
                                         [full].`),
  async run(call) {
    const path = resolve(call.positionals[0] ?? '')
    if (!existsSync(path)) return refuse('not-found', 'no-file', `there is no file ${path}`)
    const kind = topics[flagOf(call, 'topic') ?? 'contention']
    if (kind === undefined)
      return misuse(`--topic must be one of ${Object.keys(topics).join(', ')}`)
    const data = mkdtempSync(join(tmpdir(), 'sluice-replay-'))
    try {
      const config = await configOf(call, { path, data })
      return await play(config, { kind, isJson: isJson(call) })
    } catch (error) {
      return refusedFault(error)
    } finally {
      rmSync(data, { recursive: true, force: true })
    }
  },
}

/** Enables only the metrics product, whatever the machine's own configuration sets. */
async function configOf(call: Call, at: { path: string; data: string }): Promise<Config> {
  const others = enabledEndpoints(call.loaded.config).filter(({ name }) => name !== 'metrics')
  const loaded = await loadConfig({
    env: {},
    flags: [
      { key: 'data', value: at.data },
      { key: 'metrics.source', value: 'snapshot' },
      { key: 'metrics.path', value: at.path },
      { key: 'metrics.speed', value: flagOf(call, 'speed') ?? 'full' },
      { key: 'metrics.port', value: '0' },
      ...others.map(({ name }) => ({ key: `${name}.enabled`, value: 'false' })),
    ],
  })
  if (!loaded.ok) throw new Fault('bad-configuration', loaded.problems.join('; '))
  return loaded.config
}

async function play(
  config: Config,
  { kind, isJson }: { kind: Kind; isJson: boolean },
): Promise<Outcome<Report>> {
  const bar = new ProgressBar(process.stderr.isTTY ? process.stderr : { write() {} })
  let failed: string | null = null
  let hasEnded = false
  const { startTopology } = await import('../topology/service.ts')
  const service = await startTopology(config, {
    clock: systemClock,
    log: sourceWatch((reason) => {
      failed = reason
    }),
    version: packageVersion(),
    isFresh: true,
    exit: (code) => {
      failed = `exit ${code}`
    },
    playing: {
      onProgress: bar.onProgress,
      onEnd: () => {
        hasEnded = true
      },
    },
  })
  const { host, port } = service.endpoints.metrics!
  const { NodeSocket } = await import('../../client/node-socket.ts')
  const client = new MetricsClient({
    url: `http://${host}:${port}`,
    open: (url) => new NodeSocket(url),
    // Resumes from the first frame: the replay may have started before we could connect.
    resumeFrom: Math.max(0, (await statusOf(host, port)).oldest_seqno - 1),
  })
  let isOver = false
  const hasAll = async () => hasEnded && client.cursor >= (await statusOf(host, port)).newest_seqno
  const watching = (async () => {
    while (!isOver && failed === null && !(await hasAll())) await sleep(pollMs)
  })()
    .catch((error) => {
      failed = error.message
    })
    .finally(() => client.close())
  process.once('SIGINT', () => client.close())
  let printed = 0
  for await (const frame of client) {
    if (frame.kind !== kind && frame.kind !== 'Gap') continue
    bar.clear()
    process.stdout.write(frameText(frame, isJson))
    printed++
  }
  isOver = true
  await watching
  bar.onEnd()
  await service.stop()
  if (failed !== null)
    return refuse('unavailable', 'source-failed', `the recording cannot be replayed: ${failed}`)
  return accept({ json: { frames: printed }, text: '', isPrinted: true })
}

async function statusOf(host: string, port: number) {
  return new MetricsClient({ url: `http://${host}:${port}`, open: unused }).status()
}

function unused(): never {
  throw new Error('REST needs no socket')
}

/** A server would restart its source; here its first crash ends the replay. */
function sourceWatch(onDeath: (reason: string) => void): Log {
  const log: Log = {
    ...silentLog,
    warn: (_, fields) => {
      if (fields?.part === 'execution source') onDeath(String(fields.how).replace(/^threw: /, ''))
    },
    area: () => log,
  }
  return log
}

const topRows = 5

/** A frame with its line break: as on the wire, or as one line; TopAccesses takes several. */
export function frameText(frame: Frame, isJson: boolean): string {
  if (!isJson) return `${lineOf(frame)}\n`
  return `${JSON.stringify({ seq: frame.seq, [frame.kind]: frame.payload })}\n`
}

export function lineOf(frame: Frame): string {
  switch (frame.kind) {
    case 'TPS':
      return `seq ${frame.seq}  tps ${frame.payload}`
    case 'ContentionData':
      return contentionLine(frame.payload)
    case 'TopAccesses':
      return topLines(frame.seq, frame.payload)
    case 'Lifecycle':
      return lifecycleLine(frame.payload)
    case 'Gap':
      return `gap: source events ${frame.payload.from} to ${frame.payload.to} are lost`
  }
}

function contentionLine(data: ContentionData): string {
  const { contention_ratio: ratio, parallel_efficiency_pct: efficiency } = data
  const parts = [
    `block ${data.block_number}`,
    `txns ${data.total_txn_count}`,
    `slots ${data.total_unique_slots}`,
    `contended ${data.contended_slot_count} (${(ratio * 100).toFixed(1)} %)`,
    `critical path ${data.critical_path_txn_count}`,
    `wall ${(data.block_wall_time_ns / 1e6).toFixed(1)} ms`,
    `efficiency ${efficiency.toFixed(1)} %`,
    verdictText(data),
  ]
  return parts.join('  ')
}

/** Without transactions the figure is 0 and has no meaning; a small block cannot be parallel. */
function verdictText(data: ContentionData): string {
  if (data.total_txn_count === 0) return 'no transactions'
  const verdict = verdictOf(data)
  return verdict === null ? 'too little contention to judge' : efficiencyMeanings[verdict]
}

function lifecycleLine(move: Lifecycle): string {
  const from = move.from_stage === undefined ? '' : `${move.from_stage} -> `
  const inStage = move.time_in_previous_stage_ms
  const parts = [
    `block ${move.block_number}`,
    `${from}${move.to_stage}`,
    ...(inStage === undefined ? [] : [`after ${inStage.toFixed(1)} ms`]),
    `age ${move.block_age_ms.toFixed(1)} ms`,
    `txns ${move.txn_count}`,
    move.block_hash,
  ]
  return parts.join('  ')
}

function topLines(seq: number, top: TopAccesses): string {
  const rows = [
    ...top.account.slice(0, topRows).map(({ key, count }) => `  account  ${count}  ${key}`),
    ...top.storage
      .slice(0, topRows)
      .map(({ key, count }) => `  storage  ${count}  ${key.join(' ')}`),
  ]
  return [`seq ${seq}  most accessed`, ...rows].join('\n')
}
