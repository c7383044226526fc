// Prints reports and refusals. Thread: main.
// Results go to stdout, everything else to stderr, so that a script can read one and a person both.
// Text is made safe for a terminal here: control characters of stored values are replaced.
import type { Refusal } from '../base/errors.ts'
import type { Report } from './verb.ts'

export type Form = 'table' | 'json'

export interface Streams {
  readonly stdout: { write(text: string): unknown }
  readonly stderr: { write(text: string): unknown }
}

const processStreams: Streams = { stdout: process.stdout, stderr: process.stderr }

export function printReport(report: Report, form: Form, streams = processStreams): void {
  if (report.isPrinted === true) return
  if (form === 'json') streams.stdout.write(`${JSON.stringify(report.json)}\n`)
  else if (report.text !== '') streams.stdout.write(`${report.text}\n`)
}

/** Prints a refusal in the requested form; `hint` is a line that names where to read more. */
export function printRefusal(
  refusal: Pick<Refusal, 'code' | 'message'>,
  form: Form,
  hint?: string,
  streams = processStreams,
): void {
  const { code } = refusal
  const message = withoutTokens(refusal.message)
  if (form === 'json') {
    streams.stderr.write(`${JSON.stringify({ error: { code, message } })}\n`)
    return
  }
  streams.stderr.write(`sluice: ${safeText(message)}\n`)
  if (hint !== undefined) streams.stderr.write(`${hint}\n`)
}

/** Columns under a heading. An empty table is rendered as `whenEmpty`. */
export function tableOf(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  whenEmpty: string,
): string {
  if (rows.length === 0) return whenEmpty
  return columns([head.map((title) => title.toUpperCase()), ...rows])
}

/** One record as lines of name and value. */
export function recordOf(pairs: readonly (readonly [string, string])[]): string {
  return columns(pairs.map(([name, value]) => [`${name}:`, value]))
}

/** A time in ISO 8601, to the second; `-` when absent. */
export function timeOf(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '-'
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/** Text of unknown origin, fit for a terminal: one line, no escape sequences. */
export function safeText(value: string): string {
  return value.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
}

/** Hides tokens: an operator may paste one as a label, and errors end up in logs and chats. */
function withoutTokens(message: string): string {
  return message.replaceAll(/slu_[0-9A-Za-z]{32,}/g, 'slu_(hidden)')
}

function columns(rows: readonly (readonly string[])[]): string {
  const clean = rows.map((row) => row.map((cell) => safeText(cell).replaceAll('\n', ' ') || '-'))
  const widths = (clean[0] ?? []).map((_, column) =>
    Math.max(...clean.map((row) => row[column]?.length ?? 0)),
  )
  return clean
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
