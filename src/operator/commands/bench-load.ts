// `sluice bench load`: an open-loop load on an endpoint, ours or not.
import { formatDuration } from '../../base/duration.ts'
import { messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { type LoadRun, type LoadSettings, type LoadWatch, runLoad } from '../../loadtest/load.ts'
import { findLoad } from '../../loadtest/load-find.ts'
import {
  errorsOf,
  errorsTable,
  loadPlots,
  loadResult,
  loadSentences,
} from '../../loadtest/load-result.ts'
import type { LoadTally } from '../../loadtest/load-tally.ts'
import { type Condition, meets } from '../../loadtest/quantities.ts'
import { writeRecording } from '../../loadtest/recording.ts'
import { figureIn, type Result } from '../../loadtest/result.ts'
import { shortNumber, valueText } from '../../loadtest/result-text.ts'
import { conditionsOf, loadFlags, loadSettings } from './bench-load-settings.ts'
import { type BenchFiles, LiveLine, reportResult, watchStopSignals } from './bench-output.ts'
import { type Call, flagOf, type Report, type Verb } from './verb.ts'

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
