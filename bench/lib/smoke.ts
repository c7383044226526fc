// Runs every bench once and briefly, as a check that it ends and that its answers are right: figures
// do not matter, so several run at once. Thread: main of the bench process.
// Each is a process with a group of its own, which is killed when it runs over its limit; a
// process that it leaves running fails it too.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { endLeftOver, runVariable } from '../../test/testkit/left-over.ts'
import { type BenchResult, notInSmoke } from './bench.ts'

/** Of each contender. Where nothing has come by then, a bench waits for the first message. */
const secondsEach = 0.05
/** A limit on hanging, not on speed: a bench takes 0.5 to 10 s on two quiet cores. */
export const hangSeconds = 120
const endMsMax = 5_000
/** Benches wait for servers to start much of their time. */
const atOnce = availableParallelism() + 1

/** What `--once` prints. */
export interface OnceResult extends BenchResult {
  /** Of the bench and its processes. */
  readonly cpuSeconds: number
}

export interface Smoked {
  readonly name: string
  readonly seconds: number
  /** Known of a bench that ended well. */
  readonly cpuSeconds?: number
  /** Undefined when it ended and its answers were right. */
  readonly problem?: string
  /** Contenders that were left out, each with the reason. */
  readonly leftOut: readonly string[]
  readonly isSkipped: boolean
}

export interface SmokeOptions {
  /** The file that runs the bench of `--once name`. */
  readonly entry: string
  readonly hangSeconds: number
  /** What the processes of a bench may take to end after it. */
  readonly endMs?: number
  onResult(result: Smoked): void
}

/** Resolves when all have ended; results are reported as they come. */
export async function runSmoke(names: readonly string[], options: SmokeOptions): Promise<void> {
  const waiting = [...names]
  const next = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift())
      options.onResult(await smoke(name, options))
  }
  await Promise.all(Array.from({ length: atOnce }, next))
}

async function smoke(
  name: string,
  { entry, hangSeconds, endMs = endMsMax }: SmokeOptions,
): Promise<Smoked> {
  const startMs = performance.now()
  const words = [entry, '--once', name, '--seconds', String(secondsEach)]
  const run = randomUUID()
  const env = { ...process.env, [runVariable]: run }
  const child = spawn(process.execPath, words, { detached: true, env })
  const end = () => killGroup(child)
  process.once('exit', end)
  const output = { out: '', err: '' }
  child.stdout.on('data', (text) => {
    output.out += text
  })
  child.stderr.on('data', (text) => {
    output.err += text
  })
  let isHung = false
  const timer = setTimeout(() => {
    isHung = true
    end()
  }, hangSeconds * 1000)
  const code = await new Promise<number | null>((resolve) => child.once('exit', resolve))
  clearTimeout(timer)
  process.removeListener('exit', end)
  const left = await endLeftOver(run, endMs)
  const seconds = (performance.now() - startMs) / 1000
  if (isHung) {
    const at = output.err.trim().split('\n').at(-1)
    return failed(name, seconds, `did not end within ${hangSeconds} s; last: ${at}`)
  }
  if (code !== 0) return failed(name, seconds, lastLines(output.err) || `ended with ${code}`)
  if (left.length > 0) return failed(name, seconds, `left running: ${left[0]!.command}`)
  const warning = /\(node:\d+\) (\w*Warning.*)/.exec(output.err)?.[1]
  if (warning !== undefined) return failed(name, seconds, warning)
  const { rows, notes, cpuSeconds } = JSON.parse(
    output.out.trim().split('\n').at(-1)!,
  ) as OnceResult
  const leftOut = notes.filter(
    (note) => / left out: (?!--full)/.test(note) && !note.endsWith(notInSmoke),
  )
  return { name, seconds, cpuSeconds, leftOut, isSkipped: rows.length === 0 }
}

function failed(name: string, seconds: number, problem: string): Smoked {
  return { name, seconds, problem, leftOut: [], isSkipped: false }
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-8).join(' | ')
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

/** A line for each bench, with time by the clock and of processors: what failed, what was left out
 *  and why. */
export function formatSmoked(smoked: Smoked): string {
  const { name, seconds, cpuSeconds, problem, leftOut, isSkipped } = smoked
  const state = problem !== undefined ? 'FAILED' : isSkipped ? 'skipped' : 'ok'
  const reasons = problem !== undefined ? [problem] : leftOut
  const cpu = cpuSeconds === undefined ? '' : `${cpuSeconds.toFixed(1).padStart(7)} s of CPU`
  const line = `${state.padEnd(8)}${name.padEnd(22)}${seconds.toFixed(1).padStart(5)} s${cpu}`
  return [line, ...reasons.map((reason) => `        ${reason}`)].join('\n')
}
