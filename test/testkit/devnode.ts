// Starts `sluice devnode` as a child process, as a developer would, on free ports.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { endWithProcess } from './end-with-process.ts'
import type { Server } from './server.ts'
import { until } from './until.ts'

/** Slots of 200 ms and longer need more patience of a test, and nothing else. */
export const slotMsOfTests = Number(process.env.SLUICE_TEST_SLOT_MS ?? 60)

/** Also called from dist. */
const main = join(packageRoot(), 'dist', 'src', 'main.js')

export interface Devnode extends Pick<Server, 'url' | 'stop' | 'dispose' | 'stdout' | 'stderr'> {
  readonly ledger: string
  readonly pid: number
  /** Of the process that runs the node; the command only supervises it. */
  nodePid(): number
}

export function devnodeWords(...flags: string[]): string[] {
  return [main, 'devnode', ...flags]
}

export async function startDevnode(
  options: {
    readonly ledger?: string
    readonly slotMs?: number
    /** Any free ones by default. */
    readonly ports?: readonly string[]
    readonly flags?: readonly string[]
    readonly env?: Readonly<Record<string, string>>
  } = {},
): Promise<Devnode> {
  const ledger = options.ledger ?? mkdtempSync(join(tmpdir(), 'sluice-devnode-'))
  const { ports = ['--rpc-port=0', '--ws-port=0', '--grpc-port=0'] } = options
  const words = devnodeWords(
    `--ledger=${ledger}`,
    `--slot-ms=${options.slotMs ?? slotMsOfTests}`,
    ...ports,
  )
  const child = spawn(process.execPath, [...words, ...(options.flags ?? [])], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
  })
  endWithProcess(child)
  const output = { out: '', err: '' }
  child.stdout.on('data', (chunk) => {
    output.out += chunk
  })
  child.stderr.on('data', (chunk) => {
    output.err += chunk
  })
  const addressOf = (name: string) => new RegExp(`^${name} +(\\S+)$`, 'm').exec(output.out)?.[1]
  await until(() => {
    if (child.exitCode !== null) throw new Error(`devnode ended: ${output.err}${output.out}`)
    return addressOf('grpc') !== undefined
  }, 'the devnode to open')
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      await once(child, 'exit')
    }
    return child.exitCode
  }
  return {
    ledger,
    pid: child.pid!,
    nodePid: () => Number(childrenOf(child.pid!)[0]),
    url: (name) => addressOf(name)!.replace(/^grpc:/, 'http:'),
    stdout: () => output.out,
    stderr: () => output.err,
    stop,
    async dispose() {
      await stop()
      rmSync(ledger, { recursive: true, force: true })
    },
  }
}

function childrenOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
}
