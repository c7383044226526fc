// Writes log lines to stderr: one JSON object each, or text for a person when it is a terminal.
// Redaction is by construction: a field is a plain scalar that the caller names; requests, headers
// and query strings cannot be passed.
import { isatty, WriteStream } from 'node:tty'
import { pino } from 'pino'
import { logText } from './log-text.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'
export type LogFields = Readonly<Record<string, string | number | boolean | null>>

export interface Log {
  debug(msg: string, fields?: LogFields): void
  info(msg: string, fields?: LogFields): void
  warn(msg: string, fields?: LogFields): void
  error(msg: string, fields?: LogFields): void
  /** The same log under another area (the name of a module). */
  area(name: string): Log
}

const stderr = 2
const unwrittenBytesMax = 1024 * 1024

/**
 * Opens the log on stderr. Writes are synchronous, so the last line before a crash is kept.
 * `always` is in every line.
 */
export function openLog(level: LogLevel, always: LogFields | null = null): Log {
  const root = pino(
    {
      level,
      base: always,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination(),
  )
  return wrap(root, 'sluice')
}

/** A log file on a full disk costs lines, never the process; what is unwritten has a bound. */
function destination() {
  const stream = pino.destination({ dest: stderr, sync: true, maxLength: unwrittenBytesMax })
  // pino takes its own listener away at the first error, and an error without one is thrown.
  stream.on('error', () => {})
  if (!isatty(stderr)) return stream
  // Needs no instance, and respects NO_COLOR.
  const hasColour = WriteStream.prototype.hasColors()
  return { write: (line: string) => stream.write(logText(line, hasColour)) }
}

export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  area: () => silentLog,
}

/** Allows a line at most once a second per key: a recurring fault must not flood the log. */
export class LogThrottle {
  readonly #lastMs = new Map<string, number>()

  allows(key: string, nowMs: number): boolean {
    const last = this.#lastMs.get(key)
    if (last !== undefined && nowMs - last < 1000) return false
    if (this.#lastMs.size >= 1000) this.#lastMs.clear()
    this.#lastMs.set(key, nowMs)
    return true
  }
}

/** Returns a function that logs faults as `msg`, at most once a second. For base/guard.ts. */
export function faultReport(log: Log, msg: string): (fault: unknown) => void {
  const throttle = new LogThrottle()
  return (fault) => {
    if (throttle.allows(msg, performance.now()))
      log.error(msg, { reason: fault instanceof Error ? fault.message : String(fault) })
  }
}

function wrap(root: pino.Logger, area: string): Log {
  return {
    debug: (msg, fields) => root.debug({ area, ...fields }, msg),
    info: (msg, fields) => root.info({ area, ...fields }, msg),
    warn: (msg, fields) => root.warn({ area, ...fields }, msg),
    error: (msg, fields) => root.error({ area, ...fields }, msg),
    area: (name) => wrap(root, name),
  }
}
