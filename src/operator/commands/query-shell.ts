// The interactive shell of `sluice query`: reads statements until a semicolon, keeps a history.
// Ctrl-C cancels a running query or discards the typed text; Ctrl-D quits.
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { accept, type Outcome } from '../../base/errors.ts'
import { printRefusal } from './output.ts'
import type { QueryTarget } from './query-client.ts'
import { type QueryForm, queryForms, runQuery } from './query-run.ts'
import type { Report } from './verb.ts'

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
    if (this.#running !== null) {
      this.#running.abort()
      return
    }
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
