// A ClickHouse server of its own for a test or a bench: Debian's package, on free loopback ports,
// with a folder and a password of its own; gone when stopped. Absent, its tests are skipped.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'
import { hangMs } from './until.ts'

export interface ClickhouseServer {
  /** With its credentials, as `indexer.url` takes it. */
  readonly url: string
  /** Of a user that may read the database `chain` and no other, as `indexer.queryUrl` takes it. */
  readonly queryUrl: string
  readonly password: string
  readonly folder: string
  /** Asks it as its owner and not through the adapter. */
  ask(sql: string): Promise<string>
  pid(): number
  /** SIGKILL, and no new start. */
  kill(): Promise<void>
  /** Starts it again on the same ports and data. */
  restart(): Promise<void>
  stop(): Promise<void>
}

/** True where a test with a real server can run; prints the reason once where it cannot. */
export function hasClickhouseServer(): boolean {
  const found = binary() !== null
  if (!found) console.warn('skipped: no clickhouse-server')
  return found
}

export async function startClickhouseServer(): Promise<ClickhouseServer> {
  const program = binary()
  if (program === null) throw new Error('no clickhouse-server')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-clickhouse-'))
  const password = randomBytes(12).toString('hex')
  const http = await freePort(3)
  const [tcp, interserver] = [http + 1, http + 2]
  for (const name of ['data', 'tmp', 'format', 'files']) mkdirSync(join(folder, name))
  writeFileSync(join(folder, 'config.xml'), configText(folder, { http, tcp, interserver }))
  writeFileSync(join(folder, 'users.xml'), usersText(password))
  const origin = `http://127.0.0.1:${http}`
  const headers = { 'X-ClickHouse-User': 'writer', 'X-ClickHouse-Key': password }

  let child: ChildProcess | undefined
  const run = async () => {
    child = spawn(program, [`--config-file=${join(folder, 'config.xml')}`], {
      stdio: 'ignore',
      cwd: folder,
    })
    await isReady(origin, child, folder)
  }
  const end = async (signal: NodeJS.Signals) => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child!.once('exit', resolve))
    child.kill(signal)
    const hurry = setTimeout(() => child!.kill('SIGKILL'), 10_000)
    await gone
    clearTimeout(hurry)
  }
  try {
    await run()
  } catch (error) {
    await end('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
  return {
    url: `http://writer:${password}@127.0.0.1:${http}`,
    queryUrl: `http://reader:${password}@127.0.0.1:${http}`,
    password,
    folder,
    ask: async (sql) => {
      const answer = await fetch(`${origin}/`, { method: 'POST', body: sql, headers })
      const text = await answer.text()
      if (!answer.ok) throw new Error(text)
      return text
    },
    pid: () => child!.pid!,
    kill: () => end('SIGKILL'),
    restart: async () => {
      await end('SIGTERM')
      await run()
    },
    // Its data goes with it, so it need not be asked politely, which takes seconds.
    stop: async () => {
      await end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function binary(): string | null {
  for (const name of ['clickhouse-server', '/usr/sbin/clickhouse-server'])
    if (spawnSync(name, ['--help'], { stdio: 'ignore' }).error === undefined) return name
  return null
}

async function isReady(origin: string, child: ChildProcess, folder: string): Promise<void> {
  const endMs = performance.now() + hangMs
  for (;;) {
    const isUp = await fetch(`${origin}/ping`).then(
      (answer) => answer.ok,
      () => false,
    )
    if (isUp) return
    if (child.exitCode !== null || performance.now() > endMs)
      throw new Error(`clickhouse-server did not start:\n${tail(join(folder, 'error.log'))}`)
    await sleep(25)
  }
}

function tail(path: string): string {
  try {
    return readFileSync(path, 'utf8').slice(-2_000)
  } catch {
    return '(it wrote no log)'
  }
}

interface Ports {
  readonly http: number
  readonly tcp: number
  readonly interserver: number
}

function configText(folder: string, ports: Ports): string {
  return `<yandex>
  <logger><level>warning</level><log>${folder}/server.log</log>
    <errorlog>${folder}/error.log</errorlog></logger>
  <http_port>${ports.http}</http_port>
  <tcp_port>${ports.tcp}</tcp_port>
  <interserver_http_port>${ports.interserver}</interserver_http_port>
  <listen_host>127.0.0.1</listen_host>
  <path>${folder}/data/</path>
  <tmp_path>${folder}/tmp/</tmp_path>
  <user_files_path>${folder}/files/</user_files_path>
  <format_schema_path>${folder}/format/</format_schema_path>
  <users_config>${folder}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <timezone>UTC</timezone>
  <mark_cache_size>268435456</mark_cache_size>
  <max_concurrent_queries>100</max_concurrent_queries>
</yandex>
`
}

function usersText(password: string): string {
  const user = (name: string, more = '') => `<${name}><password>${password}</password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>${more}</${name}>`
  const chainOnly = '<allow_databases><database>chain</database></allow_databases>'
  return `<yandex>
  <profiles><default></default></profiles>
  <users>${user('default')}${user('writer')}${user('reader', chainOnly)}</users>
  <quotas><default></default></quotas>
</yandex>
`
}
