// Starts what the benches of several gateways call: a server alone, on a PostgreSQL, or as a hub
// with gateways, each in front of a node that answers constants; and measures their calls per
// second of processor time. Thread: main of the bench process; all servers are processes.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../test/cluster/gateway-stage.ts'
import { type Postgres, startPostgres } from '../../test/cluster/postgres.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Contender } from './bench.ts'
import { httpLoad, jsonPost, perCpuSecond } from './http-load.ts'
import { ownProcessorSeconds } from './processor-time.ts'
import type { Shared } from './shared.ts'
import { startWholeServer, type WholeServer } from './whole-server.ts'

export interface CallKind {
  readonly body: string
  readonly expected: string
}

const account = '["9xQeWvG816bUx9EPjHmaT23yvVM2ZWb########",{"commitment":"confirmed"}]'
export const own: CallKind = {
  body: '{"jsonrpc":"2.0","id":1,"method":"getHealth"}',
  expected: '"result":"ok"',
}
export const proxied: CallKind = {
  body: `{"jsonrpc":"2.0","id":1,"method":"getBalance","params":${account}}`,
  expected: '"slot":348211067}',
}

const disabled = ['websocket', 'grpc', 'metrics', 'tpu', 'shredstream', 'indexer']
/** Limits that no load reaches: every call is still counted and charged. */
const plan = {
  creditsPerSecond: 1_000_000_000,
  burst: 1_000_000_000,
  creditsPer30Days: 0,
  callsInFlight: 0,
}
const subscription = ['--product=dedicated-node', '--upstream=bench', '--plan=bench']
const warmUpSeconds = 1

/** A PostgreSQL with an empty registry. */
export async function startSeeded(): Promise<Postgres> {
  const postgres = await startPostgres()
  try {
    await seedDatabase(postgres.url)
    return postgres
  } catch (error) {
    postgres.dispose()
    throw error
  }
}

export async function seedDatabase(url: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-seed-'))
  const operator = openGateway(url, 'operator', { folder })
  try {
    await operator.shared.seed()
  } finally {
    await operator.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

export interface Called extends WholeServer {
  /** The processes that serve, with their hub. */
  pids(): Promise<readonly number[]>
}

/** A server that serves rpc alone; with an address of PostgreSQL in a cluster. */
export async function startCalled(url = '', flags: readonly string[] = []): Promise<Called> {
  const node = startProcess(new URL('../load/clients/proxy-servers.js', import.meta.url))
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-config-'))
  const end = async () => {
    await node.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const config = `--config=${await writeConfig(folder, node, url)}`
    const added = { subscription: [...subscription, config] }
    const server = await startWholeServer([...flags, config], added)
    const stop = async () => {
      await server.stop()
      await end()
    }
    return { ...server, pids: async () => [server.pid], stop }
  } catch (error) {
    await end()
    throw error
  }
}

/** Read by the server and by the command that adds the subscription. */
async function writeConfig(folder: string, node: BenchProcess, url: string): Promise<string> {
  const rpc = `http://127.0.0.1:${await node.call<number>('upstream')}`
  const path = join(folder, 'sluice.yaml')
  const config = {
    chain: { source: 'embedded', traffic: 0 },
    upstreams: { bench: { nodes: [{ rpc }] } },
    plans: { bench: plan },
    ...Object.fromEntries(disabled.map((product) => [product, { enabled: false }])),
    ...(url !== '' && { cluster: { url } }),
  }
  writeFileSync(path, JSON.stringify(config))
  return path
}

/** Calls per second of processor time, summed over the processes that serve. */
export function callsContender(
  name: string,
  kind: CallKind,
  server: Shared<Called>,
  { connections, missing }: { connections: number; missing?: () => string | undefined },
): Contender {
  return {
    name,
    ...(missing !== undefined && { missing }),
    async prepare(context) {
      const called = await server.get(context)
      if (context.smoke !== true) await call(called, kind, connections, warmUpSeconds)
    },
    async run(context) {
      const called = await server.get(context)
      const pids = await called.pids()
      const used = () => pids.reduce((sum, pid) => sum + ownProcessorSeconds(pid), 0)
      return perCpuSecond(used, () => call(called, kind, connections, context.seconds))
    },
    close: () => server.stop(),
  }
}

export function call(
  { doors, token }: WholeServer,
  { body, expected }: CallKind,
  connections: number,
  seconds: number,
) {
  const request = jsonPost(token, body)
  const port = doors.rpc!.port
  return httpLoad({ host: '127.0.0.1', port, seconds, connections, request, expected })
}
