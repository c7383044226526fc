// Starts the built server as a child process, as an operator would, on free ports and a fresh
// data folder; and runs the operator's command against it.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandPath } from './command.ts'
import { endWithProcess } from './end-with-process.ts'
import { runHere } from './run-here.ts'
import { hangMs, until } from './until.ts'

/** Benches call this from dist. */

export interface EndpointAddress {
  readonly host: string
  readonly port: number
  readonly tls: boolean
}

export interface Server {
  readonly data: string
  readonly child: ChildProcess
  readonly doors: Readonly<Record<string, EndpointAddress>>
  /** What the first start printed; empty when the registry was not empty. */
  readonly token: string
  readonly indexer: { readonly user: string; readonly password: string }
  stdout(): string
  stderr(): string
  url(endpoint: string): string
  /** Ends it by a signal and gives its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
  /** stop() and removal of the data folder. */
  dispose(): Promise<void>
}

export interface ServerOptions {
  readonly flags?: readonly string[]
  readonly data?: string
  readonly env?: Readonly<Record<string, string>>
  readonly nodeFlags?: readonly string[]
  /** Everything that a default start opens. Without it the indexer, which has processes of its
   *  own, is disabled unless a flag names it: most tests do not use it. */
  readonly isWhole?: boolean
  /** Words of a command that runs the server's: to limit descriptors, to drop capabilities. */
  readonly through?: readonly string[]
  /** In a process group of its own, so that a test can signal the whole group. */
  readonly isGroup?: boolean
}

/** Where the traffic does not matter: that of a default start takes half a core. */
export const littleTraffic = ['--chain.traffic=5', '--metrics.generator.tps=50']

/** Starts neither the chain nor the indexer, which take most of what a start takes. */
export const onlyMetrics = ['rpc', 'websocket', 'grpc', 'tpu', 'shredstream', 'indexer'].map(
  (endpoint) => `--${endpoint}.enabled=false`,
)

/** A busy machine may need longer for a query than the plan allows. One that is killed for it costs
 *  a back-off, in which the next ones are refused. */
const patientQueries = ['--plans.standard.indexer.timeMs=5m']

/** Endpoints listen on free ports unless a flag sets one. */
export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const data = options.data ?? mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const doorsFile = join(data, 'doors.json')
  rmSync(doorsFile, { force: true })
  const ports = ['rpc', 'websocket', 'grpc', 'metrics', 'tpu', 'shredstream', 'indexer'].flatMap(
    (endpoint) =>
      options.flags?.some((flag) => flag.startsWith(`--${endpoint}.port`))
        ? []
        : [`--${endpoint}.port=0`],
  )
  const slotMs = process.env.SLUICE_TEST_SLOT_MS
  const namesSlotMs = options.flags?.some((flag) => flag.startsWith('--chain.slotMs')) === true
  const namesIndexer = options.flags?.some((flag) => flag.startsWith('--indexer.')) === true
  const isWhole = options.isWhole === true || namesIndexer
  const [program, ...before] = [...(options.through ?? []), process.execPath]
  const child = spawn(
    program!,
    [
      ...before,
      ...(options.nodeFlags ?? []),
      commandPath,
      'serve',
      `--data=${data}`,
      ...ports,
      ...(isWhole ? patientQueries : ['--indexer.enabled=false']),
      ...(slotMs === undefined || namesSlotMs ? [] : [`--chain.slotMs=${slotMs}`]),
      ...(options.flags ?? []),
    ],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      detached: options.isGroup ?? false,
    },
  )
  // A test that fails half-way must not leave a server running.
  endWithProcess(child)
  const output = { out: '', err: '' }
  child.stdout?.on('data', (chunk) => {
    output.out += chunk
  })
  child.stderr?.on('data', (chunk) => {
    output.err += chunk
  })
  await until(() => {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`server ended: ${output.err}${output.out}`)
    // The banner is written first, but its pipe may be read later than the file is seen.
    return existsSync(doorsFile) && output.out.endsWith('\n')
  }, 'the doors to open').catch((error: Error) => {
    child.kill('SIGKILL')
    throw new Error(`${error.message}; ${output.err.trim().split('\n').join(' | ')}`)
  })
  const doors = JSON.parse(readFileSync(doorsFile, 'utf8')) as Record<string, EndpointAddress>
  const printed = (name: string) => new RegExp(`^${name}=(.+)$`, 'm').exec(output.out)?.[1] ?? ''
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      const killer = setTimeout(() => child.kill('SIGKILL'), hangMs)
      await once(child, 'exit')
      clearTimeout(killer)
    }
    return child.exitCode
  }
  return {
    data,
    child,
    doors,
    token: printed('TOKEN'),
    indexer: { user: printed('INDEXER_USER'), password: printed('INDEXER_PASSWORD') },
    stdout: () => output.out,
    stderr: () => output.err,
    url: (endpoint) => {
      const address = doors[endpoint]
      if (address === undefined) throw new Error(`no endpoint ${endpoint}`)
      const scheme = endpoint === 'websocket' ? 'ws' : 'http'
      return `${scheme}${address.tls ? 's' : ''}://${address.host}:${address.port}`
    },
    stop,
    dispose: async () => {
      await stop()
      rmSync(data, { recursive: true, force: true })
    },
  }
}

export interface CommandResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs `sluice …` on a data folder, as a process. */
export async function sluice(data: string, ...args: string[]): Promise<CommandResult> {
  const child = spawn(process.execPath, [commandPath, ...args, `--data=${data}`], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { out: '', err: '' }
  child.stdout.on('data', (chunk) => {
    output.out += chunk
  })
  child.stderr.on('data', (chunk) => {
    output.err += chunk
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout: output.out, stderr: output.err }
}

/** Runs it in the process of the test, for what is the same there: see run-here.ts. */
export function sluiceHere(data: string, ...args: string[]): Promise<CommandResult> {
  return runHere(...args, `--data=${data}`)
}

export interface Provisioned {
  readonly subscription: { readonly id: string; readonly label: string }
  readonly token: string
  readonly indexer?: { readonly user: string; readonly password: string }
}

/** `sluice subscription add …` with its JSON; throws when it is refused. */
export async function provision(
  data: string,
  label: string,
  ...flags: string[]
): Promise<Provisioned> {
  const result = await sluiceHere(data, 'subscription', 'add', label, ...flags, '--output=json')
  if (result.code !== 0) throw new Error(`add refused: ${result.stderr}`)
  return JSON.parse(result.stdout) as Provisioned
}
