// Runs one SQL statement for `sluice query` and prints the result.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { noAnswer } from './endpoint-url.ts'
import { safeText } from './output.ts'
import { type Answer, askIndexer, QueryFailure, type QueryTarget } from './query-client.ts'

export const queryForms = ['table', 'json', 'csv'] as const
export type QueryForm = (typeof queryForms)[number]

const formats: Readonly<Record<QueryForm, string>> = {
  table: 'JSONCompact',
  json: 'JSONEachRow',
  csv: 'CSVWithNames',
}
/** A table is buffered as a whole, and a longer one is of no use. */
const TABLE_ROWS_MAX = 10_000
const PROGRESS_MS = 200
const notFoundCodes = [47, 60, 81]

export async function runQuery(
  target: QueryTarget,
  sql: string,
  form: QueryForm,
  signal?: AbortSignal,
): Promise<Outcome<null>> {
  const progress = new Progress(process.stderr.isTTY === true)
  try {
    const answer = await askIndexer(target, sql, settingsOf(form), signal)
    if (form === 'table' && answer.format === formats.table) await printTable(answer, progress)
    else await printBytes(answer, progress)
    return accept(null)
  } catch (error) {
    return failed(error, target, signal)
  } finally {
    progress.end()
  }
}

function settingsOf(form: QueryForm): Record<string, string> {
  const common = { default_format: formats[form] }
  if (form !== 'table') return common
  return { ...common, max_result_rows: String(TABLE_ROWS_MAX), result_overflow_mode: 'break' }
}

async function printTable(answer: Answer, progress: Progress): Promise<void> {
  const beganMs = performance.now()
  const parts: Buffer[] = []
  for await (const part of answer.bytes) {
    parts.push(part)
    progress.add(part.length)
  }
  const result = JSON.parse(Buffer.concat(parts).toString('utf8')) as TabularResult
  progress.end()
  const table = renderTable(result)
  if (table !== '') process.stdout.write(`${table}\n`)
  const count = result.data.length
  const took = `${((performance.now() - beganMs) / 1000).toFixed(2)} s`
  if (count >= TABLE_ROWS_MAX)
    process.stderr.write(
      `only the first ${count} rows are shown; --output csv or json prints all\n`,
    )
  else if (process.stderr.isTTY)
    process.stderr.write(`${count} ${count === 1 ? 'row' : 'rows'}, ${took}, ${answer.engine}\n`)
}

async function printBytes(answer: Answer, progress: Progress): Promise<void> {
  for await (const part of answer.bytes) {
    progress.add(part.length)
    if (!process.stdout.write(part))
      await new Promise((resolve) => process.stdout.once('drain', resolve))
  }
}

function failed(error: unknown, target: QueryTarget, signal?: AbortSignal): Outcome<null> {
  if (signal?.aborted === true) return refuse('rejected', 'cancelled', 'the query was cancelled')
  if (!(error instanceof QueryFailure)) return noAnswer(target.url, error, true)
  const kind = notFoundCodes.includes(error.code) ? 'not-found' : 'rejected'
  return refuse(kind, `exception-${error.code}`, error.message)
}

/** A line on the terminal while a query runs; cleared when it ends. */
class Progress {
  readonly #beganMs = performance.now()
  readonly #timer: NodeJS.Timeout | null
  #bytes = 0
  #isShown = false

  constructor(isWatched: boolean) {
    this.#timer = isWatched ? setInterval(() => this.#show(), PROGRESS_MS) : null
  }

  add(bytes: number): void {
    this.#bytes += bytes
  }

  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    if (this.#isShown) process.stderr.write('\r\x1b[K')
    this.#isShown = false
  }

  #show(): void {
    // Would overwrite lines of the result on the same terminal.
    if (this.#bytes > 0 && process.stdout.isTTY) return
    this.#isShown = true
    const seconds = ((performance.now() - this.#beganMs) / 1000).toFixed(1)
    process.stderr.write(`\r\x1b[Krunning, ${seconds} s, ${(this.#bytes / 1e6).toFixed(1)} MB`)
  }
}

interface TabularResult {
  readonly meta: readonly { readonly name: string; readonly type: string }[]
  readonly data: readonly (readonly unknown[])[]
}

const CELL_CHARS_MAX = 80

/** Numbers are right-aligned, everything else left-aligned; long cells are truncated. */
export function renderTable({ meta, data }: TabularResult): string {
  if (meta.length === 0) return ''
  const rows = data.map((row) => row.map(cellText))
  const widths = meta.map(({ name }, at) =>
    rows.reduce((width, row) => Math.max(width, row[at]?.length ?? 0), safeText(name).length),
  )
  const isNumber = meta.map(({ type }) => /^(Nullable\()?(U?Int|Float|Decimal)/.test(type))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) =>
        isNumber[at] ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0),
      )
      .join('  ')
      .trimEnd()
  return [
    line(meta.map(({ name }) => safeText(name))),
    widths.map((width) => '-'.repeat(width)).join('  '),
    ...rows.map(line),
  ].join('\n')
}

function cellText(value: unknown): string {
  if (value === null) return 'NULL'
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  const clean = safeText(text).replaceAll('\n', ' ')
  return clean.length > CELL_CHARS_MAX ? `${clean.slice(0, CELL_CHARS_MAX - 1)}…` : clean
}
