// `sluice devnode` as a process of its own, on free ports and a fresh ledger, and calls of its RPC.
// Thread: main of the bench process.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { packageRoot } from '../../src/base/threads/entry.ts'
import { endWithProcess } from '../../test/testkit/end-with-process.ts'

const main = join(packageRoot(), 'dist', 'src', 'main.js')
const startMsMax = 30_000
const confirmMsMax = 30_000
const statusesMax = 256
const connections = 32

export class DevnodeProcess {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #ledger: string
  readonly #pool: Pool

  private constructor(child: ChildProcess, ledger: string, url: string) {
    this.pid = child.pid!
    this.#child = child
    this.#ledger = ledger
    this.#pool = new Pool(url, { connections })
  }

  /** Resolves when it has printed its addresses. */
  static async start(): Promise<DevnodeProcess> {
    const ledger = mkdtempSync(join(tmpdir(), 'sluice-bench-devnode-'))
    const ports = ['--rpc-port=0', '--ws-port=0', '--grpc-port=0']
    const child = spawn(process.execPath, [main, 'devnode', `--ledger=${ledger}`, ...ports], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    endWithProcess(child)
    let printed = ''
    const url = await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('the devnode does not start')), startMsMax)
      child.once('exit', (code) => reject(new Error(`the devnode ended with ${code}`)))
      child.stdout.on('data', (chunk) => {
        printed += chunk
        const address = /^rpc +(http\S+)$/m.exec(printed)?.[1]
        if (address === undefined) return
        clearTimeout(timer)
        resolve(address)
      })
    })
    return new DevnodeProcess(child, ledger, url)
  }

  async call<T>(method: string, ...params: unknown[]): Promise<T> {
    const { body } = await this.#pool.request({
      path: '/',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const { result, error } = (await body.json()) as { result: T; error?: { message: string } }
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return result
  }

  /** Resolves when all are confirmed, with the number of those without an error. */
  async confirmed(signatures: readonly string[]): Promise<number> {
    const endMs = performance.now() + confirmMsMax
    let landed = 0
    for (let at = 0; at < signatures.length; ) {
      const asked = signatures.slice(at, at + statusesMax)
      const { value } = await this.call<{ value: (Status | null)[] }>('getSignatureStatuses', asked)
      if (value.every((status) => status !== null && status.confirmationStatus !== 'processed')) {
        landed += value.filter((status) => status!.err === null).length
        at += asked.length
      } else if (performance.now() > endMs) return landed
      else await new Promise((resolve) => setTimeout(resolve, 5))
    }
    return landed
  }

  async stop(): Promise<void> {
    await this.#pool.close()
    if (this.#child.exitCode === null && this.#child.kill()) await once(this.#child, 'exit')
    rmSync(this.#ledger, { recursive: true, force: true })
  }
}

interface Status {
  readonly err: unknown
  readonly confirmationStatus: string
}
