// Parses the flags of `sluice bench load` into the settings of a load.
import { accept, type Outcome } from '../../base/errors.ts'
import { parseCalls } from '../../loadtest/calls.ts'
import { type LoadKind, type LoadSettings, loadKinds } from '../../loadtest/load.ts'
import { loadFigures } from '../../loadtest/load-result.ts'
import { type Condition, parseConditions, parseRate } from '../../loadtest/quantities.ts'
import { readRecording, replayPlan } from '../../loadtest/recording.ts'
import { parseTarget, type Target } from '../../loadtest/target.ts'
import { outputFlags, timesOf } from './bench-output.ts'
import { type Call, type FlagSpec, flagOf, flagTable, misuse, numberOf } from './verb.ts'

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
  if (!hasKind(common.target, kind))
    return misuse(`the recording is of ${kind}, --to is ${common.target.kind}`)
  const plan = replayPlan(recording.value, speed)
  return accept({ ...common, calls, plan, warmUpMs: warmUpMs / speed })
}

function hasKind(target: Target<LoadKind>, kind: string): boolean {
  return target.kind === kind
}

function rateOf(call: Call): Outcome<number> {
  const text = flagOf(call, 'rate')
  if (text === undefined && flagOf(call, 'find') !== undefined) return accept(findRate)
  if (text === undefined) return misuse('--rate is missing, such as --rate 5000')
  const rate = parseRate(text)
  if (rate === null) return misuse(`--rate is calls per second, such as 5000 or 5k, not ${text}`)
  return accept(rate)
}
