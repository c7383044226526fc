// Exits the process within a bound, whatever its threads do.
//
// Node's exit joins every thread of its pool and every worker. LMDB's writer waits there for the
// JavaScript of its transaction, which never runs again, and native code may block a worker: the
// process would hang. The calls of libc end all threads at once.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const exitSecondsMax = 5

/** Ends the process at once, without listeners of 'exit': after a bug, or a stop that timed out. */
export function exitNow(code: number): void {
  callLibc('void _exit(int)', code)
  // Only where the C library does not load.
  process.kill(process.pid, 'SIGKILL')
}

/** Exits after everything has stopped. A thread that still runs delays it by the bound at most. */
export function exitStopped(code: number): void {
  callLibc('uint alarm(uint)', exitSecondsMax)
  process.exit(code)
}

/** Ends the process after an uncaught exception or an unhandled rejection, with its stack. */
export function exitOnBug(): void {
  process.on('uncaughtException', (error) => {
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
    exitNow(1)
  })
}

function callLibc(prototype: string, value: number): void {
  try {
    require('koffi').load('libc.so.6').func(prototype)(value)
  } catch {
    // Another system, or another C library: Node's calls apply.
  }
}
