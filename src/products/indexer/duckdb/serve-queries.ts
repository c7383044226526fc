// A query process: expendable, poor and watched. Thread: main of its own process
// (workers/index-query.ts). The server calls it over one pipe and takes result bytes off another.
//
//   fd 3  frames: open, run, cancel          fd 4  bytes of results, nothing else
//
// It gives up what it does not need before it sees a customer's text: its user, its priority, and
// every path but the index's folder. Its memory is bounded by the kernel (RLIMIT_DATA, set by who
// starts it), by DuckDB, by itself, and by the server from outside.
import { existsSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { Socket } from 'node:net'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { stepDownTo } from './file-access.ts'
import { QueryDatabase } from './query-database.ts'
import {
  type QueryGreeting,
  type QueryJob,
  type QueryPlace,
  type QueryReport,
  resultPipe,
} from './query-protocol.ts'
import { QueryRunner } from './query-runner.ts'
import type { ByteSink } from './result-writer.ts'
import type { Snapshot } from './store-files.ts'

const niceness = 10
const watchMs = 10

export interface QueryService {
  open(place: QueryPlace): Promise<QueryGreeting>
  run(job: QueryJob): Promise<QueryReport>
  /** Opens the files of a view ahead of a query. */
  refresh(snapshot: Snapshot): Promise<null>
  cancel(): null
}

export function queryService(): QueryService {
  let runner: QueryRunner | null = null
  let database: QueryDatabase | null = null
  return {
    open: async (place) => {
      const { folder, scratch } = await settle(place)
      const { memoryBytes, threads } = place
      database = await QueryDatabase.open({ folder, scratch, memoryBytes, threads })
      runner = new QueryRunner(database, new PipeSink(new Socket({ fd: resultPipe })))
      watchOneself(place.rssBytesMax)
      // Last: somebody may be waiting for this process to be ready.
      setPriority(niceness)
      return { version: database.version }
    },
    run: (job) => {
      if (runner === null) throw new Error('the process is not open')
      return runner.run(job)
    },
    refresh: async (snapshot) => {
      await database?.refresh(snapshot).catch(() => {})
      return null
    },
    cancel: () => {
      runner?.cancel()
      return null
    },
  }
}

/** Steps down as far as the system lets it; returns where the folders are from then on. */
async function settle(place: QueryPlace): Promise<{ folder: string; scratch: string }> {
  const scratch = join(place.folder, place.scratch)
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  process.chdir(place.folder)
  // The folders above the index's may be closed to the reader; its own, once entered, is not.
  const here = '/proc/self/cwd'
  const reader = existsSync(here) ? await stepDownTo(place.folder) : null
  if (reader === null) return { folder: place.folder, scratch }
  await chown(scratch, reader, reader)
  process.setgroups?.([])
  process.setgid?.(reader)
  process.setuid?.(reader)
  return { folder: here, scratch: `${here}/${place.scratch}` }
}

/** Nearer than the server's watch, and free while the engine works on threads of its own. */
function watchOneself(rssBytesMax: number): void {
  setInterval(() => {
    if (process.memoryUsage.rss() > rssBytesMax) process.kill(process.pid, 'SIGKILL')
  }, watchMs).unref()
}

/** Writes wait until the pipe has taken what came before, or until somebody wakes them. */
class PipeSink implements ByteSink {
  readonly #pipe: Socket
  #waiting: (() => void) | null = null

  constructor(pipe: Socket) {
    this.#pipe = pipe
    pipe.on('drain', () => this.wake())
    // Nobody takes the bytes any more; frames tell the rest.
    pipe.on('error', () => this.wake())
  }

  write(bytes: Uint8Array): Promise<void> {
    if (this.#pipe.write(bytes) || this.#pipe.destroyed) return Promise.resolve()
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  wake(): void {
    const waiting = this.#waiting
    this.#waiting = null
    waiting?.()
  }
}
