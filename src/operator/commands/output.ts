// Prints reports and refusals, redraws a screen, shows progress.
// Results go to stdout, everything else to stderr, so that a script can read one and a person both.
// Text is made safe for a terminal here: control characters of stored values are replaced.
import type { WriteStream } from 'node:tty'
import { messageOf, type Refusal } from '../../base/errors.ts'
import type { Report } from './verb.ts'

export type Form = 'table' | 'json'

export interface Streams {
  readonly stdout: { write(text: string): unknown }
  readonly stderr: { write(text: string): unknown }
}

const [red, green, yellow] = [31, 32, 33]
const stateColours: Readonly<Record<string, number>> = {
  ok: green,
  up: green,
  open: green,
  warn: yellow,
  probing: yellow,
  pending: yellow,
  suspended: yellow,
  lagging: yellow,
  degraded: yellow,
  fail: red,
  failed: red,
  down: red,
  closed: red,
  excellent: green,
  bottlenecks: yellow,
  sequential: red,
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
  streams.stderr.write(`${inColour('fail', 'sluice:', process.stderr)} ${safeText(message)}\n`)
  if (hint !== undefined) streams.stderr.write(`${hint}\n`)
}

/** Columns under a heading, states in colour. An empty table is rendered as `whenEmpty`. */
export function tableOf(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  whenEmpty: string,
): string {
  if (rows.length === 0) return whenEmpty
  const states = head.indexOf('state')
  return columns([head.map((title) => title.toUpperCase()), ...rows], states)
}

/** RFC 4180, with a heading; lines end as in other output. */
export function csvOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cell = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
  return [head, ...rows].map((row) => row.map(cell).join(',')).join('\n')
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

/** `states` is the column whose words have a colour. */
function columns(rows: readonly (readonly string[])[], states = -1): string {
  const clean = rows.map((row) => row.map((cell) => safeText(cell).replaceAll('\n', ' ') || '-'))
  const widthsOf = (measure: (cell: string) => number) =>
    (clean[0] ?? []).map((_, column) => Math.max(...clean.map((row) => measure(row[column] ?? ''))))
  const widths = fitted({
    widths: widthsOf((cell) => cell.length),
    least: widthsOf((cell) => Math.max(...wrapped(cell, 0).map((word) => word.length))),
    // A terminal of unknown size has none.
    widthMax: process.stdout.columns || Number.POSITIVE_INFINITY,
  })
  return clean
    .flatMap((row) => {
      const cells = row.map((cell, column) => wrapped(cell, widths[column] ?? 0))
      const height = Math.max(...cells.map((lines) => lines.length))
      return Array.from({ length: height }, (_, line) =>
        cells
          .map((lines, column) => {
            const text = (lines[line] ?? '').padEnd(widths[column] ?? 0)
            const isState = column === states && line < lines.length
            return isState ? inColour(row[column] ?? '', text, process.stdout) : text
          })
          .join('  ')
          .trimEnd(),
      )
    })
    .join('\n')
}

/** Widths that fit a terminal: the widest columns become narrower, down to their longest words. */
function fitted(given: {
  readonly widths: readonly number[]
  readonly least: readonly number[]
  readonly widthMax: number
}): number[] {
  const fit = [...given.widths]
  let over = fit.reduce((sum, width) => sum + width + 2, -2) - given.widthMax
  const spare = () => fit.map((width, column) => width - given.least[column]!)
  for (let most = Math.max(0, ...spare()); over > 0 && most > 0; most = Math.max(...spare())) {
    fit[spare().indexOf(most)]! -= 1
    over -= 1
  }
  return fit
}

/** Lines of at most `width`, broken at spaces and commas; a longer word stays whole. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/(?<=[ ,])/)) {
    if (line !== '' && `${line}${word}`.trimEnd().length > width) {
      lines.push(line.trimEnd())
      line = ''
    }
    line += word
  }
  return [...lines, line.trimEnd()]
}

/** The text in the colour of a state, on a terminal with colours (NO_COLOR turns them off). */
export function inColour(state: string, text: string, stream: Partial<WriteStream>): string {
  const colour = stateColours[state.split(/[ ,:]/)[0] ?? '']
  return colour === undefined || stream.hasColors?.() !== true
    ? text
    : `\u001b[${colour}m${text}\u001b[0m`
}

// Redraws a text on the terminal every second until q, Ctrl-C or a signal.
// Uses the alternate screen, so that the shell's content is there again afterwards, and restores
// the terminal however it ends.

/** Time from one sample to the next, and the least between the end of one and the next. */
const refreshMs = 1000
const pauseMsMin = 100
const enter = '\u001b[?1049h\u001b[?25l'
const leave = '\u001b[?25h\u001b[?1049l'
const home = '\u001b[H'
const clearLine = '\u001b[K'
const clearBelow = '\u001b[J'
const ctrlC = '\u0003'
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The text for a terminal of this width; called once per refresh and after a resize. */
export type Draw = (width: number) => string

/**
 * Calls `sample` every second and draws what it returns. A sample that fails is reported below the
 * last text, and retried.
 */
export async function watchScreen(sample: () => Promise<Draw>): Promise<void> {
  const { stdin, stdout } = process
  let isEnded = false
  let wake = () => {}
  let draw: Draw = () => ''
  let problem = ''
  let timer: NodeJS.Timeout | undefined
  const end = () => {
    isEnded = true
    wake()
  }
  const onKeys = (keys: Buffer) => {
    if (/[qQ]/.test(keys.toString()) || keys.includes(ctrlC)) end()
  }
  const redraw = () => {
    const { columns = 80, rows = 24 } = stdout
    const text = problem === '' ? draw(columns) : `${draw(columns)}\n\n${problem}`
    stdout.write(screenOf(text, rows))
  }
  const restore = () => stdout.write(leave)
  for (const signal of signals) process.on(signal, end)
  process.once('exit', restore)
  stdout.on('resize', redraw)
  if (stdin.isTTY) stdin.setRawMode(true)
  stdin.on('data', onKeys)
  stdout.write(enter)
  try {
    while (!isEnded) {
      const startedMs = performance.now()
      try {
        draw = await untilEnd(sample())
        problem = ''
      } catch (error) {
        problem = `${messageOf(error)}; retrying`
      }
      if (isEnded) break
      redraw()
      await untilEnd(pause(Math.max(pauseMsMin, refreshMs - (performance.now() - startedMs))))
    }
  } finally {
    clearTimeout(timer)
    for (const signal of signals) process.off(signal, end)
    stdout.off('resize', redraw)
    stdin.off('data', onKeys)
    if (stdin.isTTY) stdin.setRawMode(false)
    stdin.pause()
    process.off('exit', restore)
    restore()
  }

  /** Resolves with the work, or early with what was drawn last when the loop is to end. */
  async function untilEnd(work: Promise<Draw>): Promise<Draw> {
    const ended = new Promise<Draw>((resolve) => {
      wake = () => resolve(draw)
    })
    return Promise.race([work, ended])
  }

  function pause(ms: number): Promise<Draw> {
    return new Promise((resolve) => {
      timer = setTimeout(() => resolve(draw), ms)
    })
  }
}

/** Overwrites the screen in place, without a flash; lines beyond its height are left out. */
function screenOf(text: string, rows: number): string {
  const lines = text.split('\n').slice(0, rows)
  return `${home}${lines.map((line) => `${line}${clearLine}`).join('\r\n')}${clearBelow}`
}

export interface Progress {
  readonly pass: number
  readonly events: number
  readonly eventsTotal: number
}

const width = 30
/** Shortest time between two redraws. */
const drawMs = 100

export class ProgressBar {
  readonly #stream: { write(text: string): unknown }
  #drawnMs = Number.NEGATIVE_INFINITY
  #line = ''

  constructor(stream: { write(text: string): unknown } = process.stderr) {
    this.#stream = stream
  }

  readonly onProgress = (progress: Progress): void => {
    const nowMs = performance.now()
    const isWhole = progress.events >= progress.eventsTotal
    if (nowMs - this.#drawnMs < drawMs && !isWhole) return
    this.#drawnMs = nowMs
    this.#line = lineOf(progress)
    this.#stream.write(`\r${this.#line}\u001b[K`)
  }

  readonly onEnd = (): void => {
    if (this.#line !== '') this.#stream.write('\n')
    this.#line = ''
  }

  /** Clears the line for other output; the bar is redrawn with the next progress. */
  clear(): void {
    if (this.#line !== '') this.#stream.write('\r\u001b[K')
    this.#line = ''
  }
}

export function lineOf({ pass, events, eventsTotal }: Progress): string {
  const part = eventsTotal === 0 ? 1 : Math.min(1, events / eventsTotal)
  const filled = Math.round(part * width)
  const bar = `${'#'.repeat(filled)}${'.'.repeat(width - filled)}`
  const which = pass === 0 ? '' : `, pass ${pass + 1}`
  const counted = `${events.toLocaleString('en')} of ${eventsTotal.toLocaleString('en')} events`
  return `[${bar}] ${Math.floor(part * 100)} %  ${counted}${which}`
}
