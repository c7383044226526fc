// `sluice bench load`: an open-loop load on an endpoint, ours or not.
import { formatDuration } from '../../base/clock.ts'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { parseCalls } from '../../loadtest/calls.ts'
import {
  type LoadKind,
  type LoadRun,
  type LoadSettings,
  type LoadWatch,
  loadKinds,
  runLoad,
} from '../../loadtest/load.ts'
import {
  errorsOf,
  errorsTable,
  findLoad,
  loadFigures,
  loadPlots,
  loadResult,
  loadSentences,
} from '../../loadtest/load-result.ts'
import type { LoadTally } from '../../loadtest/load-tally.ts'
import { readRecording, replayPlan, writeRecording } from '../../loadtest/recording.ts'
import type { Condition, Result } from '../../loadtest/result.ts'
import {
  figureIn,
  meets,
  parseConditions,
  parseRate,
  shortNumber,
  valueText,
} from '../../loadtest/result.ts'
import { parseTarget } from '../../loadtest/target.ts'
import {
  type BenchFiles,
  LiveLine,
  outputFlags,
  reportResult,
  timesOf,
  watchStopSignals,
} from './bench-output.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  misuse,
  numberOf,
  type Report,
  type Verb,
} from './verb.ts'

const connectionsMax = 10_000
const threadsMax = 64
const seedMax = 0xffff_ffff
const speedMax = 100
/** A gRPC connection carries many calls at once, the others one. */
const connectionsOfGrpc = 4
const connectionsOfOthers = 64
const findRate = 100

export const loadFlags: readonly FlagSpec[] = [
  ...flagTable(`
  --to <kind=url>      The endpoint: ${loadKinds.join(', ')}=url[,token=…].
  --rate <n>           Calls per second, such as 5000 or 5k; where --find begins.
  --arrivals <kind constant|poisson>  Evenly spaced, or as independent users arrive [constant].
  --for <time>         How long to measure [60s; 5s for each step of --find].
  --warm-up <time>     Load before the measured part [1s].
  --call <call>        Method, path, query, or a file with one call per line.
  --connections <n 1..${connectionsMax}>  Connections; a call that finds all of them busy waits
                       [64; grpc 4].
  --threads <n 1..${threadsMax}>  Generator threads [1].
  --timeout <time>     Longest wait for an answer [10s].
  --seed <n 0..${seedMax}>  Seed of poisson arrivals [1].
  --find <conditions>  Search the highest rate that meets them, such as 'p99<5ms,errors<0.1%'.
  --require <conditions>  Exit 1 unless the result meets them.
  --record <file>      Write the intended starts and calls to a file.
  --replay <file>      Run a recorded load instead of --rate and --call.
  --speed <n>          How much faster to replay, 1 to 100 [1].`),
  ...outputFlags,
]

export const benchLoadVerb: Verb = {
  words: ['bench', 'load'],
  summary: 'Put an endpoint under an open-loop load and measure latency from the intended start.',
  examples: ['bench load --to rpc=http://127.0.0.1:8899 --rate 5k --for 30s'],
  needsNoConfig: true,
  flags: loadFlags,
  async run(call) {
    const settings = loadSettings(call)
    if (!settings.ok) return settings
    const required = conditionsOf(call, 'require')
    if (!required.ok) return required
    const wanted = conditionsOf(call, 'find')
    if (!wanted.ok) return wanted
    const stop = watchStopSignals()
    const line = new LiveLine()
    const watch = watchOf(line, stop.signal)
    try {
      const job = { settings: settings.value, required: required.value, watch }
      return flagOf(call, 'find') === undefined
        ? await once(call, job)
        : await search(call, job, wanted.value)
    } finally {
      line.clear()
      stop.release()
    }
  },
}

interface LoadJob {
  readonly settings: LoadSettings
  readonly required: readonly Condition[]
  readonly watch: ReturnType<typeof watchOf>
}

async function once(call: Call, { settings, required, watch }: LoadJob): Promise<Outcome<Report>> {
  const record = flagOf(call, 'record')
  if (record !== undefined) {
    try {
      writeRecording(record, { ...settings, kind: settings.target.kind })
    } catch (error) {
      const reason = messageOf(error)
      return refuse('unavailable', 'no-file', `the recording cannot be written: ${reason}`)
    }
  }
  const ran = await runLoad(settings, watch)
  if (!ran.ok) return ran
  const result = loadResult(ran.value)
  watch.line.clear()
  return reportResult(call, result, filesOf(ran.value, result, required))
}

async function search(
  call: Call,
  { settings, required, watch }: LoadJob,
  wanted: readonly Condition[],
): Promise<Outcome<Report>> {
  const found = await findLoad(settings, wanted, watch)
  if (!found.ok) return found
  const { run, result, plot, table } = found.value
  const files = filesOf(run, result, required)
  watch.line.clear()
  const tables = [table, ...(files.tables ?? [])]
  return reportResult(call, result, { ...files, plots: [plot, ...files.plots], tables })
}

function filesOf(run: LoadRun, result: Result, required: readonly Condition[]): BenchFiles {
  const { tally, settings } = run
  const errors = errorsOf(tally).map(([code, count]) => `errors "${code}": ${shortNumber(count)}`)
  const findings = loadSentences(run)
  return {
    title: `Load on ${settings.target.label}`,
    findings,
    tables: errorsTable(tally),
    plots: loadPlots(tally),
    hgrm: { latency: tally.latency.hgrm(), service: tally.service.hgrm() },
    failed: required
      .filter((condition) => !meets(figureIn(result, condition.figure)?.value ?? null, condition))
      .map(({ text }) => `${text} does not hold`),
    more: [...errors, ...findings.slice(1)],
  }
}

function watchOf(line: LiveLine, signal: AbortSignal) {
  let step = ''
  return {
    signal,
    line,
    step(rate: number) {
      step = `${valueText(rate, 'per second')}  `
    },
    progress(tally: LoadTally, elapsedMs: number) {
      const clock = formatDuration(Math.max(0, Math.floor(elapsedMs / 1000)) * 1000)
      const p99 = valueText(tally.latency.percentile(99), 'ms')
      const errors = shortNumber(tally.calls - tally.succeeded)
      line.show(`${step}${clock}  ${shortNumber(tally.calls)} calls  p99 ${p99}  errors ${errors}`)
    },
  } satisfies LoadWatch & { line: LiveLine; step(rate: number): void }
}

export function loadSettings(call: Call): Outcome<LoadSettings> {
  const to = flagOf(call, 'to')
  if (to === undefined) return misuse('--to is missing, such as --to rpc=http://127.0.0.1:8899')
  const target = parseTarget<LoadKind>('to', to, loadKinds)
  if (!target.ok) return target
  const forInitial = flagOf(call, 'find') === undefined ? '60s' : '5s'
  const times = timesOf(call, { for: forInitial, 'warm-up': '1s', timeout: '10s' })
  if (!times.ok) return times
  const common = {
    target: target.value,
    connections: numberOf(
      call,
      'connections',
      target.value.kind === 'grpc' ? connectionsOfGrpc : connectionsOfOthers,
    ),
    threads: numberOf(call, 'threads', 1),
    timeoutMs: times.value.timeout,
  }
  if (flagOf(call, 'replay') !== undefined) return replaySettings(call, common)
  const { for: forMs, 'warm-up': warmUpMs } = times.value
  if (forMs === 0) return misuse('--for must be longer than 0s')
  const rate = rateOf(call)
  if (!rate.ok) return rate
  const calls = parseCalls(target.value.kind, flagOf(call, 'call'))
  if (!calls.ok) return calls
  if (flagOf(call, 'speed') !== undefined) return misuse('--speed goes with --replay')
  const plan = {
    kind: flagOf(call, 'arrivals') === 'poisson' ? 'poisson' : 'constant',
    rate: rate.value,
    seed: numberOf(call, 'seed', 1),
    durationMs: warmUpMs + forMs,
    callCount: calls.value.length,
  } as const
  return accept({ ...common, calls: calls.value, plan, warmUpMs })
}

export function conditionsOf(call: Call, flag: string): Outcome<readonly Condition[]> {
  const text = flagOf(call, flag)
  return text === undefined ? accept([]) : parseConditions(flag, text, loadFigures)
}

type Common = Pick<LoadSettings, 'target' | 'connections' | 'threads' | 'timeoutMs'>

const notWithReplay = ['rate', 'arrivals', 'for', 'warm-up', 'call', 'seed', 'find', 'record']

function replaySettings(call: Call, common: Common): Outcome<LoadSettings> {
  const other = notWithReplay.find((name) => flagOf(call, name) !== undefined)
  if (other !== undefined) return misuse(`--${other} cannot be used with --replay`)
  const speedText = flagOf(call, 'speed') ?? '1'
  const speed = /^\d{1,3}(\.\d{1,3})?$/.test(speedText) ? Number(speedText) : 0
  if (speed < 1 || speed > speedMax) return misuse(`--speed is 1 to ${speedMax}, not ${speedText}`)
  const recording = readRecording(flagOf(call, 'replay') ?? '')
  if (!recording.ok) return recording
  const { kind, calls, warmUpMs } = recording.value
  if (common.target.kind !== kind)
    return misuse(`the recording is of ${kind}, --to is ${common.target.kind}`)
  const plan = replayPlan(recording.value, speed)
  return accept({ ...common, calls, plan, warmUpMs: warmUpMs / speed })
}

function rateOf(call: Call): Outcome<number> {
  const text = flagOf(call, 'rate')
  if (text === undefined && flagOf(call, 'find') !== undefined) return accept(findRate)
  if (text === undefined) return misuse('--rate is missing, such as --rate 5000')
  const rate = parseRate(text)
  if (rate === null) return misuse(`--rate is calls per second, such as 5000 or 5k, not ${text}`)
  return accept(rate)
}
