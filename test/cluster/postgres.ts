// A PostgreSQL server of its own for a test: Debian's package, on a free loopback port, in a folder
// of its own, run as the user postgres where the test is root; gone when disposed. Absent, its
// tests are skipped.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { freePort } from '../testkit/free-port.ts'
import { until } from '../testkit/until.ts'

export interface Postgres {
  readonly url: string
  readonly port: number
  readonly folder: string
  /** Rows of one statement, on a connection of its own. */
  sql<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  /** A database of its own on this server, so that a file's tests share one server. */
  database(): Promise<string>
  /** Ends it as an operator would; `start` starts it again on the same port and data. */
  stop(): void
  start(): void
  /** Starts it while this process goes on. */
  restart(): Promise<void>
  /** SIGKILL to all its processes at once. */
  kill(): Promise<void>
  /** SIGSTOP to all its processes, and SIGCONT. */
  pause(): void
  resume(): void
  /** A copy of the stopped server's data; stops and starts it. */
  copy(): string
  /** Replaces the data by that copy; stops and starts it. */
  restore(copy: string): void
  dispose(): void
}

const programs = [
  '/usr/lib/postgresql/15/bin',
  '/usr/lib/postgresql/16/bin',
  '/usr/lib/postgresql/17/bin',
]
const isRoot = process.getuid?.() === 0

/** Why no server can be started here. */
export function postgresMissing(): string | undefined {
  return folderOfPrograms() === null ? 'no PostgreSQL (package postgresql)' : undefined
}

/** True where a test with a real server can run; prints the reason where it cannot. */
export function hasPostgres(): boolean {
  const reason = postgresMissing()
  if (reason !== undefined) console.warn(`skipped: ${reason}`)
  return reason === undefined
}

/** Data of an empty server, made once per process: to copy it takes a tenth of the time. */
let empty: string | null = null

export async function startPostgres(): Promise<Postgres> {
  empty ??= emptyServer()
  const { bin, base, folder } = newServerFolder()
  run('cp', ['-a', empty, folder])
  const server = new PostgresProcess(bin, base, await freePort())
  server.start()
  return disposedAtExit(server)
}

const servers = new Set<PostgresProcess>()

/** A test that fails half-way must leave no server running. */
export function disposedAtExit(server: PostgresProcess): PostgresProcess {
  if (servers.size === 0)
    process.once('exit', () => {
      for (const one of servers) one.dispose()
    })
  servers.add(server)
  return server
}

function emptyServer(): string {
  const { bin, base, folder } = newServerFolder()
  process.once('exit', () => rmSync(base, { recursive: true, force: true }))
  const words = ['-U', 'sluice', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C']
  run(join(bin, 'initdb'), ['-D', folder, ...words])
  return folder
}

/** A folder that the server's user may write to; `folder` does not exist yet. */
export function newServerFolder() {
  const bin = folderOfPrograms()
  if (bin === null) throw new Error('no PostgreSQL')
  const base = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  if (isRoot) execFileSync('chown', ['postgres', base])
  chmodSync(base, 0o755)
  return { bin, base, folder: join(base, 'data') }
}

export class PostgresProcess implements Postgres {
  readonly port: number
  readonly folder: string
  readonly url: string
  readonly #bin: string
  readonly #base: string
  #databases = 0
  #copies = 0
  #isDisposed = false

  constructor(bin: string, base: string, port: number) {
    this.#bin = bin
    this.#base = base
    this.port = port
    this.folder = join(base, 'data')
    this.url = `postgres://sluice@127.0.0.1:${port}/postgres`
  }

  async sql<Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return sqlOn<Row>(this.url, text, values)
  }

  async database(): Promise<string> {
    const name = `test${++this.#databases}`
    await this.sql(`CREATE DATABASE ${name}`)
    return this.url.replace(/postgres$/, name)
  }

  start(): void {
    run(join(this.#bin, 'pg_ctl'), this.#startWords())
  }

  async restart(): Promise<void> {
    await runAside(join(this.#bin, 'pg_ctl'), this.#startWords())
  }

  #startWords(): string[] {
    const options = [
      `-p ${this.port}`,
      '-c listen_addresses=127.0.0.1',
      `-c unix_socket_directories=''`,
      '-c shared_buffers=16MB',
      '-c max_connections=100',
      // A standby comes back to its restarted primary at once.
      '-c wal_retrieve_retry_interval=200ms',
    ]
    const log = join(this.#base, 'log')
    return [
      ...['-D', this.folder, '-l', log, '-o', options.join(' ')],
      ...['-w', '-t', '60', 'start'],
    ]
  }

  stop(): void {
    run(join(this.#bin, 'pg_ctl'), ['-D', this.folder, '-m', 'fast', '-w', '-t', '60', 'stop'])
  }

  async kill(): Promise<void> {
    const pids = this.#pids()
    signalAll(pids, 'SIGKILL')
    const isGone = (pid: number) => !existsSync(`/proc/${pid}`) || stateOf(pid) === 'Z'
    await until(() => pids.every(isGone), 'PostgreSQL to be gone')
    rmSync(join(this.folder, 'postmaster.pid'), { force: true })
  }

  pause(): void {
    signalAll(this.#pids(), 'SIGSTOP')
  }

  resume(): void {
    signalAll(this.#pids(), 'SIGCONT')
  }

  copy(): string {
    const copy = join(this.#base, `copy${++this.#copies}`)
    this.stop()
    run('cp', ['-a', this.folder, copy])
    this.start()
    return copy
  }

  restore(copy: string): void {
    this.stop()
    rmSync(this.folder, { recursive: true, force: true })
    run('cp', ['-a', copy, this.folder])
    this.start()
  }

  dispose(): void {
    if (this.#isDisposed) return
    this.#isDisposed = true
    signalAll(this.#pids(), 'SIGKILL')
    rmSync(this.#base, { recursive: true, force: true, maxRetries: 5 })
  }

  /** The server and its children: backends run in sessions of their own. */
  #pids(): number[] {
    const file = join(this.folder, 'postmaster.pid')
    if (!existsSync(file)) return []
    const [first = ''] = readFileSync(file, 'utf8').split('\n')
    const server = Number(first)
    const children = readdirSync('/proc')
      .map(Number)
      .filter((pid) => Number.isInteger(pid) && parentOf(pid) === server)
    return [server, ...children]
  }
}

/** Rows of one statement, on a connection of its own. */
export async function sqlOn<Row>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query('SET search_path = sluice, public')
    return (await client.query({ text, values: [...values] })).rows as Row[]
  } finally {
    await client.end()
  }
}

function folderOfPrograms(): string | null {
  return programs.find((folder) => existsSync(join(folder, 'initdb'))) ?? null
}

function run(program: string, args: readonly string[]): void {
  const [first, ...rest] = wordsOf(program, args)
  const done = spawnSync(first!, rest, { cwd: '/', stdio: 'ignore' })
  if (done.status !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${done.status}`)
}

/** Runs a program of PostgreSQL while this process goes on. */
export async function runAside(program: string, args: readonly string[]): Promise<void> {
  const [first, ...rest] = wordsOf(program, args)
  const [status] = await once(spawn(first!, rest, { cwd: '/', stdio: 'ignore' }), 'exit')
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${status}`)
}

/** PostgreSQL refuses to run as root. */
function wordsOf(program: string, args: readonly string[]): string[] {
  return isRoot ? ['runuser', '-u', 'postgres', '--', program, ...args] : [program, ...args]
}

function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids)
    try {
      process.kill(pid, signal)
    } catch {
      // It ended in between.
    }
}

function statOf(pid: number): string[] {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

function stateOf(pid: number): string | undefined {
  return statOf(pid)[0]
}

function parentOf(pid: number): number {
  return Number(statOf(pid)[1])
}
