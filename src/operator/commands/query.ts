// `sluice query`: runs SQL on the indexer over HTTP, like any ClickHouse client.
// With a statement as argument or on standard input it prints the result and exits; on a terminal
// without one it starts the shell.
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { text as textOf } from 'node:stream/consumers'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import {
  contextFlag,
  credentialFlags,
  findEndpoint,
  noAnswer,
  readCredentials,
} from './credentials.ts'
import { printRefusal, safeText } from './output.ts'
import { type Call, flagOf, flagTable, misuse, type Report, type Verb } from './verb.ts'

export const queryForms = ['table', 'json', 'csv'] as const
export type QueryForm = (typeof queryForms)[number]

export const queryVerb: Verb = {
  words: ['query'],
  summary: 'Query the indexer in SQL: one statement, standard input, or a shell.',
  examples: [
    'query "SELECT count() FROM transactions"',
    'query --context demo --output csv < questions.sql',
  ],
  positionals: [{ name: 'sql', doc: 'The statement [standard input].', optional: true }],
  flags: [
    { name: 'url', value: 'url', doc: 'The indexer [the server of the data folder].' },
    contextFlag,
    ...credentialFlags,
    { name: 'ca', value: 'file', doc: 'Certificate of the authority of a TLS endpoint.' },
    ...flagTable(`
    --output <form ${queryForms.join('|')}>  A table, one JSON object per line, or CSV [table].`),
  ],
  async run(call) {
    const target = await targetOf(call)
    if (!target.ok) return target
    const form = (flagOf(call, 'output') ?? 'table') as QueryForm
    const [given] = call.positionals
    if (given === undefined && process.stdin.isTTY) return runShell(target.value, form)
    const sql = given ?? (await textOf(process.stdin))
    if (sql.trim() === '') return misuse('<sql> is empty: give a statement')
    return once(target.value, sql, form)
  },
}

async function once(target: QueryTarget, sql: string, form: QueryForm): Promise<Outcome<Report>> {
  const leave = new AbortController()
  const stop = () => leave.abort()
  process.once('SIGINT', stop)
  const done = await runQuery(target, sql, form, leave.signal)
  process.removeListener('SIGINT', stop)
  return done.ok ? accept({ json: {}, text: '', isPrinted: true }) : done
}

async function targetOf(call: Call): Promise<Outcome<QueryTarget>> {
  const found = await findEndpoint(call, 'indexer')
  if (!found.ok) return found
  const { url, context } = found.value
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ''))
    return misuse('--url must be an http or https address')
  const path = flagOf(call, 'ca')
  let ca: string | null = null
  try {
    ca = path === undefined ? null : readFileSync(path, 'utf8')
  } catch (error) {
    return misuse(messageOf(error))
  }
  const credentials = await readCredentials(call, context)
  return credentials.ok ? accept({ url, ca, ...credentials.value }) : credentials
}

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
    return failureOf(error, target, signal)
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

function failureOf(error: unknown, target: QueryTarget, signal?: AbortSignal): Outcome<null> {
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

// Aborting closes the connection, which is what cancels a query.

export interface QueryTarget {
  readonly url: string
  readonly user: string
  readonly password: string
  readonly token: string
  /** PEM of the authority that signed the server's certificate; null for the system's list. */
  readonly ca: string | null
}

/** An exception of the server: `Code: 62. DB::Exception: …. (SYNTAX_ERROR)`. */
export class QueryFailure extends Error {
  readonly code: number

  constructor(text: string) {
    super(text.trim())
    this.name = 'QueryFailure'
    this.code = Number(/^Code: (\d+)/.exec(text)?.[1] ?? 0)
  }
}

export interface Answer {
  /** The format that the bytes are in, by ClickHouse's name. */
  readonly format: string
  readonly engine: string
  readonly bytes: AsyncIterable<Buffer>
}

/** Upper bound of the exception block that ends a response which failed while streaming. */
const TAIL_BYTES = 32_768

/** Rejects with a QueryFailure, or with the connection's error. */
export async function askIndexer(
  target: QueryTarget,
  sql: string,
  settings: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): Promise<Answer> {
  const response = await send(target, sql, settings, signal)
  const header = (name: string) => String(response.headers[name] ?? '')
  if (response.statusCode !== 200) throw new QueryFailure(await textOf(response))
  const tag = header('x-clickhouse-exception-tag')
  return {
    format: header('x-clickhouse-format'),
    engine: header('x-sluice-engine'),
    bytes: tag === '' ? response : withoutTail(response, tag),
  }
}

function send(
  target: QueryTarget,
  sql: string,
  settings: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
): Promise<IncomingMessage> {
  const url = new URL(target.url)
  url.search = new URLSearchParams(settings).toString()
  const pair = Buffer.from(`${target.user}:${target.password}`).toString('base64')
  const options = {
    method: 'POST',
    headers: { authorization: `Basic ${pair}`, 'x-token': target.token },
    ...(signal === undefined ? {} : { signal }),
    ...(target.ca === null ? {} : { ca: target.ca }),
  }
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    request(url, options, resolve).on('error', reject).end(sql)
  })
}

/** Buffers the end of the response until it is known whether it is rows or an exception. */
async function* withoutTail(response: IncomingMessage, tag: string): AsyncGenerator<Buffer> {
  let tail: Buffer = Buffer.alloc(0)
  for await (const part of response) {
    const all: Buffer = Buffer.concat([tail, part])
    const ready = Math.max(0, all.length - TAIL_BYTES)
    if (ready > 0) yield all.subarray(0, ready)
    tail = all.subarray(ready)
  }
  const mark = `\r\n__exception__\r\n${tag}\n`
  const at = tail.lastIndexOf(mark)
  if (at < 0) return yield tail
  yield tail.subarray(0, at)
  const text = tail.subarray(at + mark.length).toString('utf8')
  throw new QueryFailure(text.slice(0, text.lastIndexOf('\n', text.indexOf(tag))))
}

const HISTORY_LINES_MAX = 500
const PROMPT = 'sluice> '
const PROMPT_MORE = '     -> '

const HELP = `A statement ends with a semicolon and may take several lines.
  \\d            tables            \\d <table>    columns of a table
  \\o <form>     ${queryForms.join(', ').padEnd(16)}  \\q            leave`

/** Runs until Ctrl-D or \q. */
export async function runShell(target: QueryTarget, first: QueryForm): Promise<Outcome<Report>> {
  const shell = new Shell(target, first)
  await shell.run()
  return accept({ json: {}, text: '', isPrinted: true })
}

class Shell {
  readonly #target: QueryTarget
  readonly #lines: Interface
  readonly #path = join(homedir(), '.sluice_query_history')
  #form: QueryForm
  #typed = ''
  #running: AbortController | null = null

  constructor(target: QueryTarget, form: QueryForm) {
    this.#target = target
    this.#form = form
    this.#lines = createInterface({
      input: process.stdin,
      output: process.stdout,
      prompt: PROMPT,
      history: readHistory(this.#path),
      historySize: HISTORY_LINES_MAX,
      removeHistoryDuplicates: true,
    })
  }

  async run(): Promise<void> {
    process.stdout.write(`${this.#target.url}, \\? for help\n`)
    let kept: readonly string[] = []
    this.#lines.on('history', (history) => {
      kept = history
    })
    this.#lines.on('SIGINT', () => this.#interrupt())
    this.#lines.prompt()
    for await (const line of this.#lines) {
      if (!(await this.#take(line))) break
      this.#lines.setPrompt(this.#typed === '' ? PROMPT : PROMPT_MORE)
      this.#lines.prompt()
    }
    this.#lines.close()
    if (kept.length > 0) writeHistory(this.#path, kept)
  }

  /** Handles a line; false when the shell must quit. */
  async #take(line: string): Promise<boolean> {
    const word = line.trim()
    if (this.#typed === '' && /^(\\q|quit|exit)$/i.test(word.replace(/;$/, ''))) return false
    if (this.#typed === '' && word.startsWith('\\')) {
      const sql = this.#command(word)
      if (sql !== null) await this.#ask(sql)
      return true
    }
    this.#typed = this.#typed === '' ? line.trimStart() : `${this.#typed}\n${line}`
    if (!word.endsWith(';')) return true
    const sql = this.#typed
    this.#typed = ''
    await this.#ask(sql)
    return true
  }

  /** The SQL of a backslash command; null when nothing is to be run. */
  #command(line: string): string | null {
    const [name = '', argument = ''] = line.split(/\s+/)
    if (name === '\\d') return argument === '' ? 'SHOW TABLES' : `DESCRIBE TABLE ${argument}`
    const form = queryForms.find((known) => known === argument)
    if (name === '\\o' && form !== undefined) this.#form = form
    else process.stdout.write(`${HELP}\n`)
    return null
  }

  async #ask(sql: string): Promise<void> {
    this.#running = new AbortController()
    const done = await runQuery(this.#target, sql, this.#form, this.#running.signal)
    this.#running = null
    if (!done.ok) printRefusal(done.refusal, 'table')
  }

  #interrupt(): void {
    if (this.#running !== null) return void this.#running.abort()
    this.#typed = ''
    process.stdout.write('\n')
    this.#lines.setPrompt(PROMPT)
    this.#lines.prompt()
  }
}

/** Newest first, as readline expects it. */
function readHistory(path: string): string[] {
  try {
    const lines = readFileSync(path, 'utf8').split('\n')
    return lines.filter((line) => line !== '').slice(0, HISTORY_LINES_MAX)
  } catch {
    // Absent or unreadable: the shell works without a history.
    return []
  }
}

/** Readable by its owner only; lines that contain a token are left out. */
function writeHistory(path: string, lines: readonly string[]): void {
  const kept = lines.filter((line) => !/slu_\w{20,}/.test(line)).slice(0, HISTORY_LINES_MAX)
  try {
    writeFileSync(path, `${kept.join('\n')}\n`, { mode: 0o600 })
    // The mode above applies to a new file only.
    chmodSync(path, 0o600)
  } catch {
    process.stderr.write(`the history cannot be written to ${path}\n`)
  }
}
