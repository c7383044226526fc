// `sluice replay`: replays a recorded snapshot through the analysis and prints the stream.
// Starts only the metrics product, on a free port and a temporary folder, so that
// it prints exactly what a client of the service would get; both are removed afterwards.
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, type Outcome, refuse } from '../../base/errors.ts'
import { type Log, silentLog } from '../../base/telemetry/log.ts'
import { type Kind, MetricsClient } from '../../client/client.ts'
import { type Config, enabledEndpoints } from '../config/config.ts'
import { loadConfig } from '../config/load.ts'
import { ProgressBar } from './progress-bar.ts'
import { frameText, topics } from './stream-lines.ts'
import { type Call, flagOf, flagTable, isJson, misuse, type Report, type Verb } from './verb.ts'
import { packageVersion } from './version.ts'

const topicNames = Object.keys(topics)
/** Poll interval for the end of the stream once the recording has ended. */
const pollMs = 20

export const replayVerb: Verb = {
  words: ['replay'],
  summary: 'Replay a recorded snapshot and print tps, contention, top or lifecycle.',
  examples: ['replay recording.zst --topic tps --speed recorded'],
  positionals: [{ name: 'snapshot', doc: 'file of a recorded event ring, raw or .zst' }],
  flags: flagTable(`
    --topic <topic ${topicNames.join('|')}>  What to print [contention].
    --speed <speed recorded|fixed|full>  As recorded, a block per 400 ms, or as fast as possible
                                         [full].`),
  async run(call) {
    const path = resolve(call.positionals[0] ?? '')
    if (!existsSync(path)) return refuse('not-found', 'no-file', `there is no file ${path}`)
    const kind = topics[flagOf(call, 'topic') ?? 'contention']
    if (kind === undefined) return misuse(`--topic must be one of ${topicNames.join(', ')}`)
    const data = mkdtempSync(join(tmpdir(), 'sluice-replay-'))
    try {
      const config = await configOf(call, { path, data })
      return await play(config, { kind, isJson: isJson(call) })
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      return refuse('unavailable', error.kind, error.message)
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
  const client = new MetricsClient({ url: `http://${host}:${port}`, open: unused })
  return client.status()
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
