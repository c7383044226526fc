// Opens the log: one JSON object a line on stderr, or text for a person when it is a terminal.
// Apart from log.ts, so that a command that only hands a silent log on does not load pino.
import { isatty, WriteStream } from 'node:tty'
import { pino } from 'pino'
import type { Log, LogFields, LogLevel } from './log.ts'

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

// Renders a JSON log line for a person at a terminal.
//
//   20:15:03.123 warn  upstream  node state changed  node=default/1 state=down
//
// Values of unknown origin cannot steer the terminal: control characters are replaced.

const colours: Readonly<Record<string, string>> = {
  debug: '\u001b[2m',
  warn: '\u001b[33m',
  error: '\u001b[31m',
}
const reset = '\u001b[0m'
/** Of `2026-11-15T20:15:03.123Z`. */
const timeAt = [11, 23] as const

/** The line of one JSON object, with its line break; what is no object is returned as it is. */
export function logText(json: string, hasColour: boolean): string {
  let line: Record<string, unknown>
  try {
    line = JSON.parse(json) as Record<string, unknown>
  } catch {
    return json
  }
  const { level = '', time = '', area = '', msg = '', ...fields } = line
  const colour = hasColour ? (colours[String(level)] ?? '') : ''
  const head = `${String(time).slice(...timeAt)} ${String(level).padEnd(5)} ${area}  `
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${shown(value)}`)
  const rest = pairs.length === 0 ? '' : ` ${pairs.join('')}`
  return `${colour}${head}${printable(String(msg))}${rest}${colour === '' ? '' : reset}\n`
}

/** Quoted where it has spaces; further lines, such as those of a stack, are indented. */
function shown(value: unknown): string {
  const text = printable(String(value))
  if (text.includes('\n')) return text.replaceAll('\n', '\n    ')
  return /^[^\s"=]+$/.test(text) ? text : JSON.stringify(text)
}

function printable(text: string): string {
  return text.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
}
