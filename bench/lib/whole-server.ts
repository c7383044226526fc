// The whole server as a process of its own, on free ports and a fresh data folder, with one token.
// Thread: main of the bench process.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { enabledEndpoints } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { packageRoot } from '../../src/threads/entry.ts'

const main = join(packageRoot(), 'dist', 'src', 'main.js')
const startMsMax = 30_000

export interface WholeServer {
  readonly pid: number
  /** By product. */
  readonly doors: Readonly<Record<string, { readonly port: number }>>
  /** Of a subscription without limits. */
  readonly token: string
  stop(): Promise<void>
}

export async function startWholeServer(flags: readonly string[]): Promise<WholeServer> {
  const data = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const loaded = await loadConfig({ env: {}, flags: [] })
  if (!loaded.ok) throw new Error('the defaults are no configuration')
  const ports = enabledEndpoints(loaded.config).map(({ name }) => `--${name}.port=0`)
  const words = [main, 'serve', `--data=${data}`, ...ports, ...flags]
  const server = spawn(process.execPath, words, { stdio: 'ignore' })
  // A bench that fails or is interrupted must not leave a server running.
  process.once('exit', () => server.kill('SIGKILL'))
  const stop = async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve))
    if (server.exitCode === null && server.kill()) await ended
    rmSync(data, { recursive: true, force: true })
  }
  const file = join(data, 'doors.json')
  const endMs = performance.now() + startMsMax
  while (!existsSync(file)) {
    if (performance.now() > endMs) {
      await stop()
      throw new Error('the server does not start')
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const add = ['subscription', 'add', 'bench', '--product=bundle', '--plan=unlimited']
  const added = await promisify(execFile)(process.execPath, [
    ...[main, ...add, `--data=${data}`, '--output=json'],
  ])
  const { token } = JSON.parse(added.stdout)
  // The server knows it within a second.
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  return { pid: server.pid ?? 0, doors: JSON.parse(readFileSync(file, 'utf8')), token, stop }
}
