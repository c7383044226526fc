// The file of a recorded load: its calls, and the intended start of each.
//
//   {"format":"sluice-load","version":1,"kind":"rpc","warmUpMs":1000,"durationMs":…,"calls":[…]}
//   [0,0]            offset of an intended start in milliseconds, number of its call
//   [0.2,1]
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { accept, messageOf, type Outcome, refuse } from '../base/errors.ts'
import { type ArrivalPlan, Arrivals } from './arrivals.ts'

const format = 'sluice-load'
const version = 1
const linesPerWrite = 10_000
/** Offsets are kept to a nanosecond. */
const decimals = 6

export interface Recording {
  readonly kind: string
  readonly calls: readonly string[]
  readonly warmUpMs: number
  readonly durationMs: number
  readonly starts: Float64Array
  /** The call of each start. */
  readonly startCalls: Uint32Array
}

export interface RecordedLoad {
  readonly kind: string
  readonly calls: readonly string[]
  readonly plan: ArrivalPlan
  readonly warmUpMs: number
}

/** Writes the intended starts of a plan, which do not depend on what the endpoint did. */
export function writeRecording(path: string, load: RecordedLoad): void {
  const { kind, calls, plan, warmUpMs } = load
  const { durationMs } = plan
  const file = openSync(path, 'w')
  try {
    const head = { format, version, kind, warmUpMs, durationMs, calls }
    let lines = [JSON.stringify(head)]
    for (
      const arrivals = new Arrivals(plan);
      Number.isFinite(arrivals.nextMs);
      arrivals.advance()
    ) {
      lines.push(`[${Number(arrivals.nextMs.toFixed(decimals))},${arrivals.call}]`)
      if (lines.length < linesPerWrite) continue
      writeSync(file, `${lines.join('\n')}\n`)
      lines = []
    }
    if (lines.length > 0) writeSync(file, `${lines.join('\n')}\n`)
  } finally {
    closeSync(file)
  }
}

export function readRecording(path: string): Outcome<Recording> {
  let lines: string[]
  try {
    lines = readFileSync(path, 'utf8').split('\n')
  } catch (error) {
    return refuse('not-found', 'no-file', `the recording cannot be read: ${messageOf(error)}`)
  }
  const bad = (what: string) => refuse('invalid', 'bad-recording', `${path} ${what}`)
  const head = headOf(lines[0] ?? '')
  if (head === null) return bad('is no recording of sluice bench load')
  const rows = lines.slice(1).filter((line) => line !== '')
  const starts = new Float64Array(rows.length)
  const startCalls = new Uint32Array(rows.length)
  for (const [index, row] of rows.entries()) {
    const match = /^\[(\d+(?:\.\d+)?(?:e-?\d+)?),(\d+)\]$/.exec(row)
    const call = Number(match?.[2])
    if (match === null || !(call < head.calls.length)) return bad(`is damaged in line ${index + 2}`)
    starts[index] = Number(match[1])
    startCalls[index] = call
  }
  if (rows.length === 0) return bad('has no calls')
  return accept({ ...head, starts, startCalls })
}

/** The plan that plays a recording `speed` times as fast. */
export function replayPlan(recording: Recording, speed: number): ArrivalPlan {
  const { durationMs, calls, starts, startCalls } = recording
  return {
    kind: 'recorded',
    rate: (starts.length * 1000 * speed) / durationMs,
    seed: 1,
    durationMs: durationMs / speed,
    callCount: calls.length,
    starts,
    calls: startCalls,
    speed,
  }
}

type Head = Pick<Recording, 'kind' | 'calls' | 'warmUpMs' | 'durationMs'>

function headOf(line: string): Head | null {
  try {
    const head = JSON.parse(line) as Partial<Head> & { format?: unknown; version?: unknown }
    const { kind, calls, warmUpMs, durationMs } = head
    if (head.format !== format || head.version !== version) return null
    if (typeof kind !== 'string' || typeof warmUpMs !== 'number') return null
    if (typeof durationMs !== 'number' || !Array.isArray(calls)) return null
    return calls.every((call) => typeof call === 'string')
      ? { kind, calls, warmUpMs, durationMs }
      : null
  } catch {
    return null
  }
}
