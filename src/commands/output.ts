// Prints reports and refusals. Thread: main.
// Answers go to stdout, everything else to stderr, so that a script can read one and a person both.
// Text is made safe for a terminal here: control characters of stored values never reach it.
import type { Refusal } from '../base/errors.ts'
import type { Report } from './verb.ts'

export type Form = 'table' | 'json'

export interface Streams {
  readonly stdout: { write(text: string): unknown }
  readonly stderr: { write(text: string): unknown }
}

export const processStreams: Streams = { stdout: process.stdout, stderr: process.stderr }

export function printReport(report: Report, form: Form, streams = processStreams): void {
  if (report.isPrinted === true) return
  if (form === 'json') streams.stdout.write(`${JSON.stringify(report.json)}\n`)
  else if (report.text !== '') streams.stdout.write(`${report.text}\n`)
}

/** A refusal in the asked form; `hint` is a line that says where to read on. */
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

/** Columns under a heading. An empty table is a sentence instead. */
export function tableOf(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  whenEmpty: string,
): string {
  if (rows.length === 0) return whenEmpty
  return columns([head.map((title) => title.toUpperCase()), ...rows])
}

/** Names and values under each other, for one record. */
export function recordOf(pairs: readonly (readonly [string, string])[]): string {
  return columns(pairs.map(([name, value]) => [`${name}:`, value]))
}

/** A time as people write it, to the second; `-` when there is none. */
export function timeOf(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '-'
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/** Text of unknown origin, fit for a terminal: one line, no escape sequences. */
export function safeText(value: string): string {
  return value.replaceAll(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?')
}

/** An operator may paste a token where a label belongs; errors end up in logs and chats. */
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
