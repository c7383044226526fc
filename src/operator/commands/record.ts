// `sluice record ...`: records what comes in to the running server, and replays it.
// The server writes the file; this process then makes the frames of it once, with its own build,
// and appends their digests: that seals the recording.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { formatDuration, parseDuration } from '../../base/clock.ts'
import { accept, Fault, type Outcome, refuse } from '../../base/errors.ts'
import { parseQuantity } from '../../base/units.ts'
import type { RecordState } from '../record/recorder.ts'
import type { Replayed } from '../record/results.ts'
import { tableOf } from './output.ts'
import { askRunning, askServer } from './registry.ts'
import { type Call, flagOf, flagTable, misuse, type Report, type Verb } from './verb.ts'
import { packageVersion } from './version.ts'

const forInitial = '10m'
const forMsMax = 24 * 60 * 60 * 1_000
const bytesInitial = '4GiB'
const bytesMin = 1024 * 1024
const pollMs = 200
const shownMax = 20
const fileSpec = { name: 'file', doc: 'File of a recording.' }

export const recordVerbs: readonly Verb[] = [
  {
    words: ['record'],
    summary: 'Record what comes in to the running server: updates, shreds, events and calls.',
    examples: ['record --for 10m', 'record --for 30s --calls whole --out incident.rec'],
    flags: flagTable(`
    --for <time>    How long [${forInitial}]; Ctrl-C ends it earlier.
    --out <file>    The file [<data>/recordings/<time>.rec].
    --calls <form digest|whole|none>  What is kept of calls: digests, request and answer, or
                    nothing [digest].
    --bytes <size>  Longest file [${bytesInitial}]; then it ends.`),
    run: record,
  },
  {
    words: ['record', 'replay'],
    summary: 'Replay a recording with this build and compare frames and answers.',
    examples: ['record replay incident.rec'],
    positionals: [fileSpec],
    run: (call) => withRecording(call, async (path) => shown(path, await replay(path))),
  },
  {
    words: ['record', 'seal'],
    summary: 'Append the results of this build to a recording that was cut.',
    examples: ['record seal incident.rec'],
    positionals: [fileSpec],
    run: (call) =>
      withRecording(call, async (path) => {
        const state = await askServer(resolve(call.loaded.config.data), 'record-state')
        const running = state.ok ? (state.value as RecordState | null) : null
        if (running?.isOver === false && running.path === path)
          return refuse('rejected', 'recording', `${path} is being recorded`)
        return sealed(path)
      }),
  },
]

async function record(call: Call): Promise<Outcome<Report>> {
  const forMs = parseDuration(flagOf(call, 'for') ?? forInitial)
  if (forMs === null || forMs < 1 || forMs > forMsMax)
    return misuse('--for must be a time such as 30s or 10m, at most 24h')
  const bytesMax = parseQuantity(flagOf(call, 'bytes') ?? bytesInitial, 'bytes')
  if (bytesMax === null || bytesMax < bytesMin) return misuse('--bytes must be at least 1MiB')
  const data = resolve(call.loaded.config.data)
  const name = `${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}Z.rec`
  const out = flagOf(call, 'out')
  const path = out === undefined ? join(data, 'recordings', name) : resolve(out)
  const calls = flagOf(call, 'calls') ?? 'digest'
  const started = await askRunning<RecordState | string>(data, 'record', {
    path,
    forMs,
    bytesMax,
    calls,
  })
  if (!started.ok) return started
  if (typeof started.value === 'string') return refuse('rejected', 'not-recorded', started.value)
  process.stderr.write(`recording to ${path} for ${formatDuration(forMs)}\n`)
  const ended = await untilOver(data, path)
  if (ended === null) {
    process.stderr.write('the server is gone: what it has written is sealed\n')
    return withRecordingAt(path, () => sealed(path))
  }
  process.stderr.write(`recording ended: ${ended.reason}; sealing it\n`)
  return withRecordingAt(path, () => sealed(path, ended))
}

/** Null when the server went away meanwhile. */
async function untilOver(data: string, path: string): Promise<RecordState | null> {
  let isInterrupted = false
  const interrupt = () => {
    isInterrupted = true
  }
  process.once('SIGINT', interrupt)
  process.once('SIGTERM', interrupt)
  try {
    for (;;) {
      const answer = await askServer(data, isInterrupted ? 'record-stop' : 'record-state')
      if (!answer.ok && answer.reason === 'no-server') return null
      // Reason for the cast: the server is of the same kind of build. A busy one answers later.
      const state = answer.ok ? (answer.value as RecordState | null) : null
      // Another start of the server knows nothing of it.
      if (answer.ok && state?.path !== path) return null
      if (state?.isOver === true) return state
      await new Promise((done) => setTimeout(done, pollMs))
    }
  } finally {
    process.off('SIGINT', interrupt)
    process.off('SIGTERM', interrupt)
  }
}

function withRecording(
  call: Call,
  run: (path: string) => Promise<Outcome<Report>>,
): Promise<Outcome<Report>> {
  const path = resolve(call.positionals[0] ?? '')
  return withRecordingAt(path, () => run(path))
}

async function withRecordingAt(
  path: string,
  run: () => Promise<Outcome<Report>>,
): Promise<Outcome<Report>> {
  if (!existsSync(path)) return refuse('not-found', 'no-file', `there is no file ${path}`)
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof Fault)) throw error
    return refuse('invalid', error.kind, error.message)
  }
}

async function replay(path: string): Promise<Replayed> {
  const { replayRecording } = await import('../record/replay.ts')
  return replayRecording(path, packageVersion())
}

async function sealed(path: string, state: RecordState | null = null): Promise<Outcome<Report>> {
  const replayed = await replay(path)
  if (replayed.sealedBy !== null)
    return refuse('rejected', 'sealed', `${path} was sealed by release ${replayed.sealedBy}`)
  const release = String(replayed.meta.release)
  if (release !== packageVersion())
    return refuse(
      'rejected',
      'other-release',
      `${path} was recorded by release ${release}, which alone can seal it: sluice record seal`,
    )
  const { sealRecording } = await import('../record/replay.ts')
  sealRecording(path, replayed)
  const { results, answers, tornBytes } = replayed
  const streams = results.streams.size
  const lines = [
    ...(state === null ? [] : [`${path}: ${(state.bytes / 1e6).toFixed(1)} MB`]),
    ...endLines(replayed),
    `sealed with ${results.frames} frames in ${streams} streams; ${answers.calls} calls`,
    `replay it with any build: sluice record replay ${path}`,
  ]
  const { frames } = results
  const json = { file: path, frames, streams, calls: answers.calls, tornBytes, recording: state }
  return accept({ json, text: lines.join('\n'), exit: state?.isFailure === true ? 1 : 0 })
}

function endLines({ end, tornBytes }: Replayed): string[] {
  const torn = `${tornBytes} bytes after its last whole record are left out`
  if (end === null) return [`the recording ends early, it was cut: ${torn}`]
  return tornBytes === 0 ? [] : [torn]
}

function shown(path: string, replayed: Replayed): Outcome<Report> {
  const { meta, frames, sealedBy, answers, results, shreds, end, tornBytes } = replayed
  const isEqual = frames !== null && frames.differing === 0 && answers.differing === 0
  const build = packageVersion()
  const json = {
    ...{ file: path, recordedBy: meta.release, sealedBy, build, tornBytes, end, shreds, answers },
    frames: frames ?? { compared: 0, made: results.frames },
  }
  const lines = [
    `recorded by release ${String(meta.release)}, replayed by ${build}`,
    ...endLines(replayed),
    ...frameLines(replayed),
    ...answerLines(replayed),
  ]
  return accept({ json, text: lines.join('\n'), exit: isEqual ? 0 : 1 })
}

function frameLines({ frames, results }: Replayed): string[] {
  if (frames === null)
    return [
      `frames: ${results.frames} made, none compared: the recording is not sealed`,
      'seal it with the build that recorded it: sluice record seal <file>',
    ]
  const { compared, identical, differing, differences, notCompared } = frames
  const rows = [...results.streams].map(([name, { digests }]) => [name, String(digests.length)])
  const lines = [
    tableOf(['stream', 'frames'], rows, 'No frames.'),
    `frames: ${compared} compared, ${identical} identical, ${differing} differences`,
  ]
  for (const { stream, kind, frame, slot } of differences.slice(0, shownMax))
    lines.push(`  ${stream}: frame ${frame} ${kind}${slot === null ? '' : `, slot ${slot}`}`)
  for (const { stream, frames: count, release } of notCompared)
    lines.push(`  not compared: ${count} of ${stream}, which only release ${release} makes`)
  return lines
}

function answerLines({ answers }: Replayed): string[] {
  const { calls, compared, differing, differences, notCompared } = answers
  const lines = [`answers: ${calls} calls, ${compared} compared, ${differing} differences`]
  for (const { call, method, expected, actual } of differences.slice(0, shownMax))
    lines.push(`  call ${call} ${method}: recorded ${cut(expected)}, now ${cut(actual)}`)
  for (const [reason, count] of Object.entries(notCompared))
    lines.push(`  not compared: ${count} ${reason}`)
  return lines
}

function cut(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
