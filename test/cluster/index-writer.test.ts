// Two gateways on one PostgreSQL and one ClickHouse server: one writes the index. It is killed,
// paused and stopped; the other one takes over, and the rows are those of the source, each once.
//
//   devnode ◄──┬── gateway ──┐
//      ▲       └── gateway ──┴─► ClickHouse, compared with a follower at the devnode
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { refuseSecondWriter } from '../../src/indexer/clickhouse-server/lease.ts'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import type { RowBatch } from '../../src/indexer/engine.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { Follower } from '../testkit/follower.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'
import { isFull } from './full.ts'
import { newFolder, removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres() && hasClickhouseServer()
/** `SLUICE_CLUSTER_FULL=1` repeats the faults. */
const rounds = isFull ? 10 : 1
const confirmed = 1

interface Gateway {
  readonly name: string
  readonly data: string
  server: Server
}

let postgres: Postgres
let clickhouse: ClickhouseServer
let source: Devnode
let follower: Follower
const gateways: Gateway[] = []

function start(name: string, data: string): Promise<Server> {
  const node = (key: string) => `--upstreams.default.nodes.0.${key}=${source.url(key)}`
  return startServer({
    data,
    // The whole group is paused: with the main process its writer.
    isGroup: true,
    flags: [
      ...['rpc', 'websocket', 'grpc', 'tpu', 'shredstream'].map((one) => `--${one}.enabled=false`),
      ...['--chain.source=upstream', '--metrics.source=embedded'],
      ...[node('rpc'), node('grpc')],
      ...[`--cluster.url=${postgres.url}`, `--cluster.gateway=${name}`],
      ...['--indexer.engine=clickhouse', `--indexer.url=${clickhouse.url}`],
      '--indexer.clickhouse.insertMs=200',
    ],
  })
}

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  clickhouse = await startClickhouseServer()
  source = await startDevnode({ slotMs: 200, flags: ['--traffic=40'] })
  follower = new Follower(new URL(source.url('grpc')).host, '', confirmed)
  for (const name of ['g1', 'g2']) {
    const data = newFolder()
    gateways.push({ name, data, server: await start(name, data) })
  }
})

afterAll(async () => {
  follower?.stop()
  for (const { server } of gateways) await server.dispose()
  await source?.dispose()
  await clickhouse?.stop()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

async function isWriter({ server }: Gateway): Promise<boolean> {
  const meters = await fetch(`${server.url('metrics')}/metrics`, {
    signal: AbortSignal.timeout(2_000),
  }).then(
    (response) => response.text(),
    () => '',
  )
  return /^sluice_cluster_index_writer 1$/m.test(meters)
}

/** The gateway that writes; with another one that must have ended. */
async function writer(except?: Gateway): Promise<Gateway> {
  let found: Gateway | undefined
  await until(async () => {
    const others = gateways.filter((one) => one !== except)
    const are = await Promise.all(others.map(isWriter))
    found = others[are.indexOf(true)]
    return are.filter(Boolean).length === 1
  }, 'one writer')
  return found!
}

const ask = async (sql: string) => (await clickhouse.ask(sql)).trim()
const indexed = async () => Number(await ask('SELECT max(slot) FROM chain.blocks'))

/** Waits until the index has ten slots more. */
async function grows(): Promise<void> {
  const to = (await indexed()) + 10
  await until(async () => (await indexed()) >= to, `slot ${to} in the index`)
}

const signal = ({ server }: Gateway, name: NodeJS.Signals) => process.kill(-server.child.pid!, name)

const faults = {
  async kill(victim: Gateway) {
    signal(victim, 'SIGKILL')
    await victim.server.stop()
    const next = await writer(victim)
    victim.server = await start(victim.name, victim.data)
    return next
  },
  async pause(victim: Gateway) {
    signal(victim, 'SIGSTOP')
    const next = await writer(victim)
    await grows()
    signal(victim, 'SIGCONT')
    // It finds out by itself, and the other one stays the writer.
    await until(async () => !(await isWriter(victim)), 'the paused one to know')
    return next
  },
  async stop(victim: Gateway) {
    await victim.server.stop()
    const next = await writer(victim)
    victim.server = await start(victim.name, victim.data)
    return next
  },
}

describe.skipIf(!isHere)('the index of two gateways (skipped: no PostgreSQL or ClickHouse)', () => {
  it('has every row of the source once when its writer is killed, paused or stopped', async () => {
    await until(async () => (await indexed().catch(() => 0)) > 0, 'the first rows')
    const first = await indexed()
    for (let round = 0; round < rounds; round++)
      for (const [name, fault] of Object.entries(faults)) {
        const before = await writer()
        const next = await fault(before)
        expect(next, name).not.toBe(before)
        await grows()
      }
    const last = await indexed()
    await follower.reaches(last)
    expect(await indexedBlocks(first, last)).toEqual(sourceBlocks(first, last))
    // Not even rows that the tables would merge into one: nothing was written again.
    for (const [table, key] of [
      ['_blocks', 'slot'],
      ['_transactions', 'slot, idx'],
      ['_account_updates', 'slot, write_version'],
      ['_tps', 'seq'],
    ] as const)
      expect(
        await ask(`SELECT count() - uniqExact(${key}) FROM chain.${table}`),
        `${table} twice`,
      ).toBe('0')
  })

  it('refuses a server that is not of the cluster', async () => {
    const refused = refuseSecondWriter(clickhouse.url, 'alone')
    await expect(refused).rejects.toThrow(/writes on this ClickHouse server: cluster [0-9a-f-]{36}/)
  })
})

describe.skipIf(!isHere)('a writer whose term has ended', () => {
  const open = (number: number, untilMs: () => number) =>
    openClickhouseSink(clickhouse.url, {
      ...{ retentionDays: 30, holder: 'cluster test', leaseMs: 600_000, term: { number, untilMs } },
    })
  const never = () => Number.POSITIVE_INFINITY
  beforeAll(async () => {
    await Promise.all(gateways.splice(0).map(({ server }) => server.dispose()))
    await clickhouse.ask('DROP DATABASE chain')
  })

  it('inserts nothing of the rows that it has begun to send', async () => {
    const rows = 20_000
    let asked = 0
    const whole = await open(1, () => ++asked * 1e12)
    const numbers = Array.from({ length: rows }, (_, row) => row + 1)
    await whole.write(
      [{ table: 'tps', count: rows, columns: [numbers, numbers, numbers, numbers] }],
      {},
    )
    expect(await ask('SELECT count() FROM chain._tps')).toBe(String(rows))
    // Once before the insert and once before each piece: it is sent in several.
    expect(asked).toBeGreaterThan(4)
    await whole.stop()
    await clickhouse.ask('DROP DATABASE chain')
    let left = asked - 1
    const half = await open(2, () => (--left >= 0 ? never() : 0))
    const write = half.write(
      [{ table: 'tps', count: rows, columns: [numbers, numbers, numbers, numbers] }],
      {},
    )
    await expect(write).rejects.toThrow('the lease of the index has ended')
    await until(
      async () =>
        (await ask("SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'")) === '0',
      'the end of the insert',
    )
    expect(await ask('SELECT count() FROM chain._tps')).toBe('0')
    await half.stop()
  })

  it('cannot set the mark back, and leaves no slot beyond it', async () => {
    const early = await open(1_000, never)
    const block = (slot: number): RowBatch => ({
      ...{ table: 'blocks', count: 1 },
      columns: [[slot], [slot - 1], ['hash'], [slot], [1], [0]],
    })
    await early.write([block(7)], { slots: 7 })
    // Written, and killed before the mark.
    await early.write([block(8)], {})
    const late = await open(2_000, never)
    expect(await ask('SELECT slot FROM chain.blocks')).toBe('7')
    await late.write([block(8), block(9)], { slots: 9 })
    await early.write([], { slots: 8 })
    expect(await late.marks()).toEqual({ slots: 9 })
    await Promise.all([early.stop(), late.stop()])
  })
})

/** Blockhash and signatures of each slot. */
type Blocks = Record<number, { blockhash: string; signatures: readonly string[] }>

function sourceBlocks(first: number, last: number): Blocks {
  const blocks = [...follower.blocks.values()].filter(({ slot }) => slot >= first && slot <= last)
  return Object.fromEntries(
    blocks.map(({ slot, blockhash }) => {
      const signatures = [...(follower.signatures.get(slot) ?? [])].map((text) =>
        encodeBase58(Buffer.from(text, 'base64')),
      )
      return [slot, { blockhash, signatures: signatures.toSorted() }]
    }),
  )
}

async function indexedBlocks(first: number, last: number): Promise<Blocks> {
  const within = `slot >= ${first} AND slot <= ${last}`
  const rows = async (sql: string) =>
    (await ask(`${sql} WHERE ${within} ORDER BY slot`)).split('\n').map((line) => line.split('\t'))
  const blocks = await rows('SELECT slot, blockhash FROM chain.blocks')
  const signatures = new Map<string, string[]>()
  for (const [slot, signature] of await rows('SELECT slot, signature FROM chain.transactions'))
    signatures.set(slot!, [...(signatures.get(slot!) ?? []), signature!])
  return Object.fromEntries(
    blocks.map(([slot, blockhash]) => [
      slot,
      { blockhash: blockhash!, signatures: (signatures.get(slot!) ?? []).toSorted() },
    ]),
  )
}
