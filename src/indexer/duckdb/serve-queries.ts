// The query process: sandboxed, expendable and resource-limited. Thread: main of its own process
// (workers/index-query.ts). The server calls it over one pipe and reads result bytes from another.
//
//   fd 3  frames: open, run, cancel          fd 4  bytes of results, nothing else
//
// It drops privileges before it receives a customer's query: its user, its priority, and every
// path but the index's folder. Its memory is bounded by the kernel (RLIMIT_DATA, set by the
// server), by DuckDB, by itself, and by the server from outside.
import { existsSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { Socket } from 'node:net'
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { QueryDatabase } from './query-database.ts'
import {
  type QueryGreeting,
  type QueryJob,
  type QueryProcessConfig,
  type QueryReport,
  resultPipe,
} from './query-protocol.ts'
import { type ByteSink, QueryRunner } from './query-runner.ts'
import { type StoreSnapshot, stepDownTo } from './store-files.ts'

const niceness = 10
const watchMs = 10

/** The calls of the process. */
export function queryService() {
  let runner: QueryRunner | null = null
  let database: QueryDatabase | null = null
  return {
    open: async (config: QueryProcessConfig): Promise<QueryGreeting> => {
      const { folder, scratch } = await settle(config)
      const { memoryBytes, threads } = config
      database = await QueryDatabase.open({ folder, scratch, memoryBytes, threads })
      runner = new QueryRunner(database, new PipeSink(new Socket({ fd: resultPipe })))
      watchOwnMemory(config.rssBytesMax)
      // Last, because a query may be waiting for this process to be ready.
      // A process that was started even nicer may not raise its priority.
      setPriority(Math.max(niceness, getPriority()))
      return { version: database.version }
    },
    run: (job: QueryJob): Promise<QueryReport> => {
      if (runner === null) throw new Error('the process is not open')
      return runner.run(job)
    },
    /** Closes the files that are no longer in the snapshot. */
    refresh: async (snapshot: StoreSnapshot): Promise<null> => {
      await database?.refresh(snapshot).catch(() => {})
      return null
    },
    cancel: (): null => {
      runner?.cancel()
      return null
    },
  }
}

/** Drops privileges as far as the system allows; returns the folders' paths from then on. */
async function settle(config: QueryProcessConfig): Promise<{ folder: string; scratch: string }> {
  const scratch = join(config.folder, config.scratch)
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  process.chdir(config.folder)
  // The reader may lack access to the parent folders, but not to its working directory.
  const here = '/proc/self/cwd'
  const reader = existsSync(here) ? await stepDownTo(config.folder) : null
  if (reader === null) return { folder: config.folder, scratch }
  await chown(scratch, reader, reader)
  process.setgroups?.([])
  process.setgid?.(reader)
  process.setuid?.(reader)
  return { folder: here, scratch: `${here}/${config.scratch}` }
}

/** Faster than the server's watch, and not blocked while DuckDB works on its own threads. */
function watchOwnMemory(rssBytesMax: number): void {
  setInterval(() => {
    if (process.memoryUsage.rss() > rssBytesMax) process.kill(process.pid, 'SIGKILL')
  }, watchMs).unref()
}

/** Writes with backpressure: each waits until the pipe has drained, or until `wake`. */
class PipeSink implements ByteSink {
  readonly #pipe: Socket
  #waiting: (() => void) | null = null

  constructor(pipe: Socket) {
    this.#pipe = pipe
    pipe.on('drain', () => this.wake())
    // The server no longer reads the bytes; the rest is handled by frames.
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
