// Opens the log: one JSON object a line on stderr, or text for a person when it is a terminal.
// Apart from log.ts, so that a command that only hands a silent log on does not load pino.
import { isatty, WriteStream } from 'node:tty'
import { pino } from 'pino'
import type { Log, LogFields, LogLevel } from './log.ts'
import { logText } from './log-text.ts'

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

function wrap(root: pino.Logger, area: string): Log {
  return {
    debug: (msg, fields) => root.debug({ area, ...fields }, msg),
    info: (msg, fields) => root.info({ area, ...fields }, msg),
    warn: (msg, fields) => root.warn({ area, ...fields }, msg),
    error: (msg, fields) => root.error({ area, ...fields }, msg),
    area: (name) => wrap(root, name),
  }
}
