// `sluice bench load`: an open-loop load on an endpoint, ours or not. Thread: main.
import { formatDuration, parseDuration } from '../base/duration.ts'
import { accept, type Outcome } from '../base/errors.ts'
import { parseCalls } from '../loadtest/calls.ts'
import { LiveLine } from '../loadtest/live-line.ts'
import { type LoadKind, type LoadSettings, loadKinds, runLoad } from '../loadtest/load.ts'
import { loadFigures, loadPlots, loadResult } from '../loadtest/load-result.ts'
import { meets, parseConditions, parseRate } from '../loadtest/quantities.ts'
import { figureIn } from '../loadtest/result.ts'
import { shortNumber, valueText } from '../loadtest/result-text.ts'
import { watchStopSignals } from '../loadtest/stop-signal.ts'
import { parseTarget } from '../loadtest/target.ts'
import { outputFlags, reportResult } from './bench-output.ts'
import { type Call, flagOf, misuse, numberOf, type Verb } from './verb.ts'

const connectionsMax = 10_000
const threadsMax = 64
const seedMax = 0xffff_ffff

export const benchLoadVerb: Verb = {
  words: ['bench', 'load'],
  summary: 'Put an endpoint under an open-loop load and measure latency from the intended start.',
  needsNoConfig: true,
  flags: [
    { name: 'to', value: 'kind=url', doc: `The endpoint: ${loadKinds.join(', ')}=url[,token=…].` },
    { name: 'rate', value: 'n', doc: 'Calls per second, such as 5000 or 5k.' },
    {
      name: 'arrivals',
      value: 'kind',
      options: ['constant', 'poisson'],
      doc: 'Evenly spaced, or as independent users arrive [constant].',
    },
    { name: 'for', value: 'time', doc: 'How long to measure [60s].' },
    { name: 'warm-up', value: 'time', doc: 'Load before the measured part [1s].' },
    { name: 'call', value: 'call', doc: 'Method, path, query, or a file with one call per line.' },
    {
      name: 'connections',
      value: 'n',
      range: [1, connectionsMax],
      doc: 'Connections; a call that finds all of them busy waits [64].',
    },
    { name: 'threads', value: 'n', range: [1, threadsMax], doc: 'Generator threads [1].' },
    { name: 'timeout', value: 'time', doc: 'Longest wait for an answer [10s].' },
    { name: 'seed', value: 'n', range: [0, seedMax], doc: 'Seed of poisson arrivals [1].' },
    {
      name: 'require',
      value: 'conditions',
      doc: "Exit 1 unless they hold, such as 'p99<5ms,errors<0.1%'.",
    },
    ...outputFlags,
  ],
  async run(call) {
    const settings = settingsOf(call)
    if (!settings.ok) return settings
    const required = conditionsOf(call, 'require')
    if (!required.ok) return required
    const stop = watchStopSignals()
    const line = new LiveLine()
    const ran = await runLoad(settings.value, {
      signal: stop.signal,
      progress: (tally, elapsedMs) => {
        const clock = formatDuration(Math.floor(elapsedMs / 1000) * 1000)
        const p99 = valueText(tally.latency.percentile(99), 'ms')
        const errors = shortNumber(tally.calls - tally.succeeded)
        line.show(`${clock}  ${shortNumber(tally.calls)} calls  p99 ${p99}  errors ${errors}`)
      },
    })
    line.clear()
    stop.release()
    if (!ran.ok) return ran
    const result = loadResult(ran.value)
    const { tally } = ran.value
    const failed = required.value
      .filter((condition) => !meets(figureIn(result, condition.figure)?.value ?? null, condition))
      .map(({ text }) => `${text} does not hold`)
    return reportResult(call, result, {
      title: `Load on ${settings.value.target.label}`,
      plots: loadPlots(tally),
      hgrm: { latency: tally.latency.hgrm(), service: tally.service.hgrm() },
      failed,
      more: [...tally.errors].map(([code, count]) => `error ${code}: ${shortNumber(count)}`),
    })
  },
}

function settingsOf(call: Call): Outcome<LoadSettings> {
  const to = flagOf(call, 'to')
  if (to === undefined) return misuse('--to is missing, such as --to rpc=http://127.0.0.1:8899')
  const target = parseTarget<LoadKind>('to', to, loadKinds)
  if (!target.ok) return target
  const rateText = flagOf(call, 'rate')
  if (rateText === undefined) return misuse('--rate is missing, such as --rate 5000')
  const rate = parseRate(rateText)
  if (rate === null)
    return misuse(`--rate is calls per second, such as 5000 or 5k, not ${rateText}`)
  const times = timesOf(call, { for: '60s', 'warm-up': '1s', timeout: '10s' })
  if (!times.ok) return times
  const calls = parseCalls(target.value.kind, flagOf(call, 'call'))
  if (!calls.ok) return calls
  const { for: forMs = 0, 'warm-up': warmUpMs = 0, timeout: timeoutMs = 0 } = times.value
  if (forMs === 0) return misuse('--for must be longer than 0s')
  return accept({
    target: target.value,
    calls: calls.value,
    plan: {
      kind: flagOf(call, 'arrivals') === 'poisson' ? 'poisson' : 'constant',
      rate,
      seed: numberOf(call, 'seed', 1),
      durationMs: warmUpMs + forMs,
      callCount: calls.value.length,
    },
    warmUpMs,
    connections: numberOf(call, 'connections', 64),
    threads: numberOf(call, 'threads', 1),
    timeoutMs,
  })
}

/** The flags that are times, in milliseconds; `initial` has the default of each. */
export function timesOf<Name extends string>(
  call: Call,
  initial: Readonly<Record<Name, string>>,
): Outcome<Partial<Record<Name, number>>> {
  const times: Partial<Record<Name, number>> = {}
  // Reason for the cast: the keys of a record of Name are Names.
  for (const name of Object.keys(initial) as Name[]) {
    const text = flagOf(call, name) ?? initial[name]
    const ms = parseDuration(text)
    if (ms === null) return misuse(`--${name} is a time such as 30s or 500ms, not ${text}`)
    times[name] = ms
  }
  return accept(times)
}

function conditionsOf(call: Call, flag: string) {
  const text = flagOf(call, flag)
  return text === undefined ? accept([]) : parseConditions(flag, text, loadFigures)
}
