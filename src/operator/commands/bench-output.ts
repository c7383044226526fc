// What the verbs of `sluice bench` that measure have in common: flags, files, times,
// Ctrl-C, the line on the terminal, exit code.
// Exit 0 means: complete, fit, and every condition of --require holds.
import { parseDuration } from '../../base/clock.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { defaultFolder, type KeepOptions, keepResult } from '../../loadtest/keep-result.ts'
import { type Figure, type Result, resultTable, verdictLines } from '../../loadtest/result.ts'
import { type Call, flagOf, flagTable, misuse, type Report } from './verb.ts'

export const outputFlags = flagTable(`
  --out <folder>  Folder of the result files [./${defaultFolder}].
  --prom <file>   Also write the figures for node-exporter (textfile).`)

export interface BenchFiles extends Omit<KeepOptions, 'folder' | 'promFile'> {
  /** Sentences on conditions that do not hold; each makes the exit code 1. */
  readonly failed?: readonly string[]
  /** Figures of the printed table; left out, all. */
  readonly shown?: readonly Figure[]
  /** More text under the table. */
  readonly more?: readonly string[]
}

/** Writes the files of a result and reports it. */
export function reportResult(call: Call, result: Result, files: BenchFiles): Outcome<Report> {
  const { failed = [], more = [], shown = result.figures } = files
  let path: string
  try {
    const folder = flagOf(call, 'out') ?? defaultFolder
    path = keepResult(result, { ...files, folder, promFile: flagOf(call, 'prom') })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return refuse('unavailable', 'no-result-file', `the result cannot be written: ${reason}`)
  }
  const problems = [...verdictLines(result), ...failed.map((line) => `FAILED: ${line}`)]
  const text = [
    resultTable({ figures: shown }),
    ...more,
    ...problems,
    `result: ${path} (and .html, .svg)`,
  ].join('\n')
  return accept({
    json: { ...result, failed, path },
    text,
    exit: problems.length === 0 ? 0 : 1,
  })
}

/** The flags that are times, in milliseconds; `initial` has the default of each. */
export function timesOf<Name extends string>(
  call: Call,
  initial: Readonly<Record<Name, string>>,
): Outcome<Readonly<Record<Name, number>>> {
  const times: Partial<Record<Name, number>> = {}
  // Reason for the casts: the keys of a record of Name are Names, and all of them are set.
  for (const name of Object.keys(initial) as Name[]) {
    const text = flagOf(call, name) ?? initial[name]
    const ms = parseDuration(text)
    if (ms === null) return misuse(`--${name} is a time such as 30s or 500ms, not ${text}`)
    times[name] = ms
  }
  return accept(times as Record<Name, number>)
}

interface StopSignal {
  readonly signal: AbortSignal
  /** Removes the handlers. */
  release(): void
}

const exitOfSecond = 130

/** Aborts on Ctrl-C or SIGTERM: a bench keeps what it measured. A second signal ends it at once. */
export function watchStopSignals(): StopSignal {
  const controller = new AbortController()
  const stop = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(exitOfSecond)
    controller.abort(`stopped by ${name}`)
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', stop)
      process.off('SIGTERM', stop)
    },
  }
}

/** Shortest time between two redraws. */
const drawMs = 100

/** On stderr, and only on a terminal: a script or a CI log never sees it. */
export class LiveLine {
  readonly #stream: { write(text: string): unknown; readonly isTTY?: boolean }
  #drawnMs = Number.NEGATIVE_INFINITY
  #isDrawn = false

  constructor(stream: { write(text: string): unknown; isTTY?: boolean } = process.stderr) {
    this.#stream = stream
  }

  show(text: string): void {
    const nowMs = performance.now()
    if (this.#stream.isTTY !== true || nowMs - this.#drawnMs < drawMs) return
    this.#drawnMs = nowMs
    this.#isDrawn = true
    this.#stream.write(`\r${text}\u001b[K`)
  }

  clear(): void {
    if (this.#isDrawn) this.#stream.write('\r\u001b[K')
    this.#isDrawn = false
  }
}
