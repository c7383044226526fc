// The one index of several gateways, as their operator runs it: a ClickHouse server behind a relay,
// and two `sluice indexer serve` that read the feeds of all gateways, one of which writes.
import { type ChildProcess, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { commandPath } from '../testkit/command.ts'
import { endWithProcess } from '../testkit/end-with-process.ts'
import { sluice } from '../testkit/server.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import type { Certificates } from './certificates.ts'

export const programs = 2
const restartMs = 500

/** A gateway whose feeds are read. */
interface Feeding {
  readonly data: string
  readonly feedPort: number
  readonly certificates: Certificates | null
}

export class IndexServer {
  readonly clickhouse: ClickhouseServer
  readonly link: TcpCut
  readonly #credentialFile: string
  readonly #indexers: ChildProcess[] = []
  #gateways: readonly Feeding[] = []
  #isOver = false

  private constructor(clickhouse: ClickhouseServer, link: TcpCut, folder: string) {
    this.clickhouse = clickhouse
    this.link = link
    this.#credentialFile = join(folder, 'indexer-credential')
  }

  /** Null where none is installed. */
  static async start(folder: string): Promise<IndexServer | null> {
    if (!hasClickhouseServer()) return null
    const clickhouse = await startClickhouseServer()
    const link = await TcpCut.open(new URL(clickhouse.url).host)
    return new IndexServer(clickhouse, link, folder)
  }

  /** Through the relay. */
  get url(): string {
    return `http://writer:${this.clickhouse.password}@${this.link.target}`
  }

  /** `url`: of the registry. */
  async enroll(gateways: readonly Feeding[], url: string): Promise<void> {
    this.#gateways = gateways
    const config = `${this.#credentialFile}.yaml`
    writeFileSync(config, JSON.stringify({ cluster: { url } }))
    const words = ['indexer', 'enroll', '--name=both', `--config=${config}`]
    const { code, stdout, stderr } = await sluice(gateways[0]!.data, ...words)
    if (code !== 0) throw new Error(`no indexer is enrolled: ${stderr}`)
    writeFileSync(this.#credentialFile, stdout, { mode: 0o600 })
    for (let count = 0; count < programs; count++) this.#serve(count)
  }

  /** Of one program with its writer. */
  signal(number: number, name: NodeJS.Signals): void {
    const { pid, exitCode, signalCode } = this.#indexers[number]!
    if (exitCode === null && signalCode === null) process.kill(-pid!, name)
  }

  async dispose(): Promise<void> {
    this.#isOver = true
    for (const number of this.#indexers.keys()) this.signal(number, 'SIGKILL')
    this.link.close()
    await this.clickhouse.stop()
  }

  /** In a process group of its own: with the program its writer is frozen and killed. */
  #serve(number: number): void {
    if (this.#isOver) return
    const words = [
      ...this.#gateways.flatMap(({ feedPort, certificates }) => {
        const scheme = certificates === null ? 'http' : 'https'
        return ['--gateway', `${scheme}://127.0.0.1:${feedPort}`]
      }),
      ...['--credential-file', this.#credentialFile, '--indexer.engine=clickhouse'],
      `--indexer.url=${this.url}`,
    ]
    const known = this.#gateways.find(({ certificates }) => certificates !== null)?.certificates
    const env = { ...process.env, ...known?.environment }
    const child = spawn(process.execPath, [commandPath, 'indexer', 'serve', ...words], {
      ...{ stdio: 'ignore', detached: true, env },
    })
    endWithProcess(child)
    // As a service manager does it.
    child.once('exit', () => setTimeout(() => this.#serve(number), restartMs))
    this.#indexers[number] = child
  }
}
