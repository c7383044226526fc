// Which code of the target's files ran, from V8's precise block coverage of this thread.
// Started before the files are loaded: a function that was compiled earlier has no counters of
// blocks. A look costs milliseconds, so it is taken after many executions.
import { type Profiler, Session } from 'node:inspector'

interface Script {
  /** 1 for each character of the compiled file that ran in some look. */
  readonly seen: Uint8Array
  readonly now: Uint8Array
}

export class Coverage {
  readonly #session = new Session()
  readonly #isWanted: (url: string) => boolean
  #scripts = new Map<string, Script>()

  constructor(isWanted: (url: string) => boolean) {
    this.#isWanted = isWanted
    this.#session.connect()
    this.#session.post('Profiler.enable')
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  }

  /**
   * Stretches of code that ran since the last look, and in none of those that were marked. Marks
   * them, unless they are only counted.
   */
  look(marks: boolean): number {
    let found = 0
    for (const { url, functions } of this.#take()) {
      if (!this.#isWanted(url)) continue
      const script = this.#scriptOf(url, functions)
      paint(script.now, functions)
      found += take(script, marks)
    }
    return found
  }

  /** As if nothing had run. */
  forget(): void {
    this.#take()
    for (const { seen } of this.#scripts.values()) seen.fill(0)
  }

  stop(): void {
    this.#session.disconnect()
  }

  #take(): readonly Profiler.ScriptCoverage[] {
    let result: readonly Profiler.ScriptCoverage[] = []
    // The session belongs to this thread: the answer is there when the call returns.
    this.#session.post('Profiler.takePreciseCoverage', (error, answer) => {
      if (error !== null) throw error
      result = answer.result
    })
    return result
  }

  #scriptOf(url: string, functions: readonly Profiler.FunctionCoverage[]): Script {
    const length = Math.max(...functions.flatMap((one) => one.ranges.map((r) => r.endOffset)))
    const known = this.#scripts.get(url)
    if (known !== undefined && known.seen.length >= length) return known
    const script = { seen: new Uint8Array(length), now: new Uint8Array(length) }
    if (known !== undefined) script.seen.set(known.seen)
    this.#scripts.set(url, script)
    return script
  }
}

/** V8 leaves out a block that ran as often as what is around it: inner ones follow outer ones. */
function paint(now: Uint8Array, functions: readonly Profiler.FunctionCoverage[]): void {
  now.fill(0)
  for (const { ranges } of functions)
    for (const { startOffset, endOffset, count } of ranges)
      now.fill(count > 0 ? 1 : 0, startOffset, endOffset)
}

function take({ seen, now }: Script, marks: boolean): number {
  let stretches = 0
  let isInside = false
  for (let at = 0; at < seen.length; at++) {
    const isNew = now[at] === 1 && seen[at] === 0
    if (isNew && !isInside) stretches++
    if (isNew && marks) seen[at] = 1
    isInside = isNew
  }
  return stretches
}
