// How long the threads of this process's children waited for a core, by the kernel's count: shows
// whether a measurement was disturbed without asking the program that measures.
import { readdirSync, readFileSync } from 'node:fs'

const windowMs = 100
/** Wake-ups of a quiet machine add up to a few milliseconds in a window. */
const waitMsMin = 25

export class CpuWait {
  #waitedMs = 0
  #before = new Map<string, number>()
  readonly #timer = setInterval(() => this.#look(), windowMs)

  /** The sum of all long waits, each in the thread that waited longest. */
  stop(): number {
    clearInterval(this.#timer)
    this.#look()
    return this.#waitedMs
  }

  #look(): void {
    const now = new Map(threadsOfChildren().map((path) => [path, waitMsOf(path)]))
    const waits = [...now].map(([path, ms]) => ms - (this.#before.get(path) ?? ms))
    const longest = Math.max(0, ...waits)
    if (longest >= waitMsMin) this.#waitedMs += longest
    this.#before = now
  }
}

function threadsOfChildren(): string[] {
  const own = `/proc/${process.pid}/task`
  return list(own)
    .flatMap((thread) => read(`${own}/${thread}/children`).trim().split(' '))
    .filter((pid) => pid !== '')
    .flatMap((pid) => list(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}`))
}

/** The second number of schedstat: nanoseconds runnable and not running. */
function waitMsOf(path: string): number {
  return Number(read(`${path}/schedstat`).split(' ')[1] ?? 0) / 1e6
}

function list(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
