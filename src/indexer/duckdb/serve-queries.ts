// The query process: sandboxed, expendable and resource-limited. Thread: main of its own process
// (workers/index-query.ts). The query program calls it; results go to the gateway directly.
//
//   fd 3  frames: open, run, cancel          Unix socket of the gateway: bytes of results
//
// It connects, then drops privileges before it receives a customer's query: its user, its
// priority, and every path but the index's folder. Its memory is bounded by the kernel
// (RLIMIT_DATA, set by the program), by DuckDB, by itself, and by the program from outside.
import { existsSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { ResultConnection } from '../queries/result-connection.ts'
import { QueryDatabase } from './query-database.ts'
import type { QueryGreeting, QueryJob, QueryProcessConfig, QueryReport } from './query-protocol.ts'
import { QueryRunner } from './query-runner.ts'
import { type StoreSnapshot, stepDownTo } from './store-files.ts'

const niceness = 10
const watchMs = 10

/** The calls of the process. */
export function queryService() {
  let runner: QueryRunner | null = null
  let database: QueryDatabase | null = null
  return {
    open: async (config: QueryProcessConfig): Promise<QueryGreeting> => {
      const { folder, scratch, results } = await settle(config)
      const { memoryBytes, threads } = config
      database = await QueryDatabase.open({ folder, scratch, memoryBytes, threads })
      runner = new QueryRunner(database, (ticket) => results.sinkOf(ticket))
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
async function settle(
  config: QueryProcessConfig,
): Promise<{ folder: string; scratch: string; results: ResultConnection }> {
  const scratch = join(config.folder, config.scratch)
  await mkdir(scratch, { recursive: true, mode: 0o700 })
  process.chdir(config.folder)
  // Only the server's user can connect. Without its reader the process has no use, and its query
  // is not the reason.
  const lost = () => void process.kill(process.pid, 'SIGKILL')
  const results = await ResultConnection.open(config.results, lost)
  // The reader may lack access to the parent folders, but not to its working directory.
  const here = '/proc/self/cwd'
  const reader = existsSync(here) ? await stepDownTo(config.folder) : null
  if (reader === null) return { folder: config.folder, scratch, results }
  await chown(scratch, reader, reader)
  process.setgroups?.([])
  process.setgid?.(reader)
  process.setuid?.(reader)
  return { folder: here, scratch: `${here}/${config.scratch}`, results }
}

/** Faster than the program's watch, and not blocked while DuckDB works on its own threads. */
function watchOwnMemory(rssBytesMax: number): void {
  setInterval(() => {
    if (process.memoryUsage.rss() > rssBytesMax) process.kill(process.pid, 'SIGKILL')
  }, watchMs).unref()
}
