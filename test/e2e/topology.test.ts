// The table of src/topology.ts against a running server: endpoints, components, threads, processes.
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Solana } from '../../src/client/frames.ts'
import { topology } from '../../src/topology.ts'
import { expectDescribed } from '../testkit/api-schemas.ts'
import { littleTraffic, type Server, sluiceHere, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

let server: Server
interface Status {
  readonly components: string
  readonly threads: Readonly<Record<string, number>>
}
let status: Status

/** Rows of what this server has no use for: it is one process in plaintext. */
const unused: ReadonlySet<string> = new Set([
  'certificates',
  'cluster',
  'sharedRegistry',
  'sharedEvents',
  'shares',
  'gateways',
  'destinationLeases',
  'usagePush',
  'notices',
])
const rows = Object.entries(topology).filter(([name]) => !unused.has(name))
const ownedNames = (kind: 'thread' | 'process') =>
  rows
    .flatMap(([, { owns = [] }]) => owns.filter((owned) => owned.kind === kind))
    .map(({ name }) => name)
    .sort()

beforeAll(async () => {
  server = await startServer({
    isWhole: true,
    flags: [...littleTraffic, '--operator.enabled=true', '--operator.port=0'],
  })
  // Pools start their threads with the first work, which little traffic may bring a little later.
  await until(async () => {
    const { stdout } = await sluiceHere(server.data, 'status', '--output=json')
    status = JSON.parse(stdout)
    const counts = Object.values(status.threads)
    return counts.length >= ownedNames('thread').length && counts.every((count) => count > 0)
  }, 'every kind of thread')
})
afterAll(() => server.dispose())

test('GET /v1/solana has the node, its blocks as JSON-RPC has them, and every product', async () => {
  const read = async () =>
    (await (await fetch(`${server.url('metrics')}/v1/solana`)).json()) as Solana
  const newest = ({ sets }: Solana) =>
    sets[0]?.stream?.blocks.findLast(({ cost_units: units, transactions }) => {
      return units !== null && transactions > 0
    })
  let document!: Solana
  // A node whose probe is late for a moment is not up.
  await until(async () => {
    document = await read()
    const [set] = document.sets
    const isUp = set?.nodes?.[0]?.state === 'up' && set.stream?.up === true
    return isUp && newest(document) !== undefined
  }, 'a block whose transactions were read, of a node that is up')
  expectDescribed('get', '/v1/solana', { status: 200, body: document })
  const [set] = document.sets
  expect(set?.nodes).toMatchObject([{ node: 'default/1', state: 'up', first_share: 1 }])
  expect(Object.keys(document.products ?? {})).toEqual([
    ...['rpc', 'websocket', 'grpc', 'tpu', 'shredstream'],
  ])
  expect(set?.stream?.up).toBe(true)
  const { slot, ...found } = newest(document)!
  const options = { maxSupportedTransactionVersion: 0, commitment: 'confirmed' }
  const response = await fetch(server.url('rpc'), {
    method: 'POST',
    headers: { 'x-token': server.token, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getBlock', params: [slot, options] }),
  })
  const { result } = (await response.json()) as { result: { transactions: Landed[] } }
  const metas = result.transactions.map(({ meta }) => meta)
  const sum = (of: (meta: Landed['meta']) => number) =>
    metas.reduce((total, meta) => total + of(meta), 0)
  expect(found).toMatchObject({
    transactions: metas.length,
    failed: metas.filter(({ err }) => err !== null).length,
    fee_lamports: sum(({ fee }) => fee),
    cost_units: sum(({ costUnits }) => costUnits),
  })
})

interface Landed {
  readonly meta: { readonly fee: number; readonly costUnits: number; readonly err: unknown }
}

test('the open endpoints are those of the topology', () => {
  const endpoints = rows.flatMap(([name, { kind }]) => (kind === 'endpoint' ? [name] : []))
  expect(Object.keys(server.doors)).toEqual(endpoints)
})

test('every component runs, except those of TLS and of several gateways', () => {
  expect(status.components.split(' ')).toEqual(rows.map(([name]) => name))
})

test('the worker threads are those of the topology', () => {
  expect(Object.keys(status.threads).sort()).toEqual(ownedNames('thread'))
  for (const count of Object.values(status.threads)) expect(count).toBeGreaterThan(0)
})

test('the child processes are those of the topology', async () => {
  const names = () => [...new Set(childrenOf(server.child.pid!).map(entryOf))].sort()
  await until(() => names().length >= ownedNames('process').length, 'the child processes')
  expect(names()).toEqual(ownedNames('process'))
})

/** With those of the programs that it runs. */
function childrenOf(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const texts = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8'))
  const own = texts.flatMap((text) => text.split(' ').filter((word) => word !== '')).map(Number)
  return own.flatMap((child) => [child, ...childrenOf(child)])
}

/** The worker file that a child process runs. */
function entryOf(pid: number): string {
  const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  return basename(words.find((word) => word.includes('/workers/')) ?? words[0]!, '.js')
}
