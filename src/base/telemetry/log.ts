// Declares what a module logs with; open-log.ts writes the lines.
// Redaction is by construction: a field is a plain scalar that the caller names; requests, headers
// and query strings cannot be passed.

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

/** Returns a function that logs faults as `msg`, at most once a second. For base/errors.ts. */
export function faultReport(log: Log, msg: string): (fault: unknown) => void {
  const throttle = new LogThrottle()
  return (fault) => {
    if (throttle.allows(msg, performance.now()))
      log.error(msg, { reason: fault instanceof Error ? fault.message : String(fault) })
  }
}
