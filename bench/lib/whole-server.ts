// The whole server as a process of its own, on free ports and a fresh data folder, with one token.
// Thread: main of the bench process.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { packageRoot } from '../../src/base/threads/entry.ts'
import { enabledEndpoints } from '../../src/operator/config/config.ts'
import { loadConfig } from '../../src/operator/config/load.ts'
import { endWithProcess } from '../../test/testkit/end-with-process.ts'

const main = join(packageRoot(), 'dist', 'src', 'main.js')
const startMsMax = 100_000
/** Of the end of its log, for an error. */
const toldCharsMax = 2_000

export interface WholeServer {
  readonly pid: number
  readonly data: string
  /** By product. */
  readonly doors: Readonly<Record<string, { readonly port: number }>>
  /** Of a subscription without limits, unless other flags are given; else empty. */
  readonly token: string
  stop(): Promise<void>
}

export interface WholeServerOptions {
  /** Of the server and of the command that adds the subscription. */
  readonly env?: Readonly<Record<string, string>>
  /** Flags of `sluice subscription add`; null adds none. */
  readonly subscription?: readonly string[] | null
}

const unlimited = ['--product=bundle', '--plan=unlimited']

export async function startWholeServer(
  flags: readonly string[],
  { env = {}, subscription = unlimited }: WholeServerOptions = {},
): Promise<WholeServer> {
  const data = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const loaded = await loadConfig({ env: {}, flags: [] })
  if (!loaded.ok) throw new Error('the defaults are no configuration')
  const ports = enabledEndpoints(loaded.config).map(({ name }) => `--${name}.port=0`)
  const serve = [main, 'serve', `--data=${data}`, ...ports, ...flags]
  const environment = { ...process.env, ...env }
  const server = spawn(process.execPath, serve, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment,
  })
  let told = ''
  server.stderr.on('data', (text: Buffer) => {
    told = `${told}${text}`.slice(-toldCharsMax)
  })
  // A bench that fails or is interrupted must not leave a server running.
  endWithProcess(server)
  const stop = async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve))
    if (server.exitCode === null && server.kill()) await ended
    rmSync(data, { recursive: true, force: true })
  }
  const file = join(data, 'doors.json')
  const endMs = performance.now() + startMsMax
  while (!existsSync(file)) {
    if (performance.now() > endMs || server.exitCode !== null) {
      await stop()
      throw new Error(`the server does not start: ${told}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const doors = JSON.parse(readFileSync(file, 'utf8'))
  const started = { pid: server.pid ?? 0, data, doors, stop }
  if (subscription === null) return { ...started, token: '' }
  const add = [main, 'subscription', 'add', 'bench', ...subscription]
  const words = [...add, `--data=${data}`, '--output=json']
  const added = await promisify(execFile)(process.execPath, words, { env: environment })
  const { token } = JSON.parse(added.stdout)
  // The server knows it within a second.
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  return { ...started, token }
}
