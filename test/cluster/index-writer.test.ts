// Two gateways on one PostgreSQL, and two indexers that read both and share one ClickHouse server:
// one of them writes. It is killed, paused and stopped, and so is a gateway that is read; the other
// one takes over, and the rows are those of the source, each once.
//
//   devnode ◄──┬── gateway ◄─┬─┬─ indexer ──┐
//      ▲       └── gateway ◄─┴─┴─ indexer ──┴─► ClickHouse, compared with a follower at the devnode
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { inPieces, openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import type { RowBatch } from '../../src/indexer/engine.ts'
import {
  type ClickhouseServer,
  hasClickhouseServer,
  startClickhouseServer,
} from '../testkit/clickhouse-server.ts'
import { commandPath } from '../testkit/command.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { endWithProcess } from '../testkit/end-with-process.ts'
import { Follower } from '../testkit/follower.ts'
import { type Provisioned, provision, type Server, sluice, startServer } from '../testkit/server.ts'
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
  /** Of its feeds: the same after a restart. */
  port: number
  server: Server
}

let postgres: Postgres
let clickhouse: ClickhouseServer
let source: Devnode
let follower: Follower
let customer: Provisioned
let credentialFile = ''
const gateways: Gateway[] = []
const indexers: Indexer[] = []
/** Ids of the queries that were answered. */
const asked: string[] = []

function start(
  { name, data, port }: Omit<Gateway, 'server'>,
  flags: readonly string[] = [],
): Promise<Server> {
  const node = (key: string) => `--upstreams.default.nodes.0.${key}=${source.url(key)}`
  return startServer({
    data,
    isGroup: true,
    flags: [
      ...['rpc', 'websocket', 'grpc', 'tpu', 'shredstream'].map((one) => `--${one}.enabled=false`),
      ...['--chain.source=upstream', '--metrics.source=embedded'],
      ...[node('rpc'), node('grpc')],
      ...[`--cluster.url=${postgres.url}`, `--cluster.gateway=${name}`],
      ...['--indexer.engine=clickhouse', `--indexer.url=${clickhouse.url}`],
      ...['--indexer.feeds.enabled', `--indexer.feeds.port=${port}`],
      ...flags,
    ],
  })
}

interface Indexer {
  child: ChildProcess
  output: string
}

/** In a process group of its own: with the main process its writer is paused and killed. */
function index(): Indexer {
  const words = [
    ...gateways.flatMap(({ port }) => ['--gateway', `127.0.0.1:${port}`]),
    ...['--credential-file', credentialFile, '--indexer.engine=clickhouse'],
    ...[`--indexer.url=${clickhouse.url}`, '--indexer.clickhouse.insertMs=200'],
  ]
  const child = spawn(process.execPath, [commandPath, 'indexer', 'serve', ...words], {
    ...{ stdio: ['ignore', 'pipe', 'pipe'], detached: true },
  })
  endWithProcess(child)
  const indexer: Indexer = { child, output: '' }
  for (const stream of [child.stdout!, child.stderr!])
    stream.on('data', (chunk) => {
      indexer.output += chunk
    })
  return indexer
}

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
  clickhouse = await startClickhouseServer()
  source = await startDevnode({ slotMs: 200, flags: ['--traffic=40'] })
  follower = new Follower(new URL(source.url('grpc')).host, '', confirmed)
  for (const name of ['g1', 'g2']) {
    const gateway = { name, data: newFolder(), port: 0 }
    const server = await start(gateway)
    gateways.push({ ...gateway, port: server.doors['indexer.feeds']!.port, server })
  }
  const [{ data }] = gateways as [Gateway]
  customer = await provision(data, 'analyst', '--product=indexer', '--plan=unlimited')
  const enrolled = await sluice(data, 'indexer', 'enroll', '--name=both')
  credentialFile = join(newFolder(), 'credential')
  writeFileSync(credentialFile, enrolled.stdout, { mode: 0o600 })
  indexers.push(index(), index())
})

afterAll(async () => {
  follower?.stop()
  for (const indexer of indexers) signal(indexer, 'SIGKILL')
  for (const { server } of gateways) await server.dispose()
  await source?.dispose()
  await clickhouse?.stop()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

function signal({ child }: Pick<Indexer, 'child'>, name: NodeJS.Signals): void {
  if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, name)
}

const ask = async (sql: string) => (await clickhouse.ask(sql)).trim()
const indexed = async () => Number(await ask('SELECT max(slot) FROM chain.blocks'))

/** The indexer that writes; with another one that must have ended. */
async function writer(except?: Indexer): Promise<Indexer> {
  let found: Indexer | undefined
  const live = `SELECT any(holder) FROM chain._lease GROUP BY claim
    HAVING max(released) = 0 ORDER BY max(at) DESC LIMIT 1`
  await until(async () => {
    const pid = Number(/ pid (\d+) /.exec(await ask(live))?.[1])
    found = indexers.find((one) => one !== except && one.child.pid === pid)
    return found !== undefined
  }, 'one writer')
  return found!
}

/** Waits until the index has ten slots more; customers ask both gateways meanwhile. */
async function grows(): Promise<void> {
  const to = (await indexed()) + 10
  await until(async () => (await indexed()) >= to, `slot ${to} in the index`)
  for (const gateway of gateways) await query(gateway)
}

async function query({ server, name }: Gateway): Promise<void> {
  const { user, password } = customer.indexer!
  const pair = Buffer.from(`${user}:${password}`).toString('base64')
  const id = `${name}-${asked.length}`
  const headers = { authorization: `Basic ${pair}`, 'x-token': customer.token }
  const url = `${server.url('indexer')}/?query_id=${id}`
  await until(async () => {
    const answer = await fetch(url, { method: 'POST', headers, body: 'SELECT 1' })
    return answer.ok
  }, 'an answer')
  asked.push(id)
}

/** Each returns which indexer writes afterwards. */
const faults = {
  async kill(victim: Indexer) {
    signal(victim, 'SIGKILL')
    const next = await writer(victim)
    indexers[indexers.indexOf(victim)] = index()
    return next
  },
  async pause(victim: Indexer) {
    signal(victim, 'SIGSTOP')
    const next = await writer(victim)
    await grows()
    signal(victim, 'SIGCONT')
    // It finds out by itself, and the other one stays the writer.
    const before = victim.output.length
    await until(() => victim.output.slice(before).includes('standby'), 'the paused one to know')
    return next
  },
  async stop(victim: Indexer) {
    process.kill(victim.child.pid!, 'SIGTERM')
    const [code] = await once(victim.child, 'exit')
    expect(code).toBe(0)
    const next = await writer(victim)
    indexers[indexers.indexOf(victim)] = index()
    return next
  },
}

/** What was asked there is read before it dies, with all that was not. */
async function killGateway(gateway: Gateway): Promise<void> {
  await hasUsage()
  signal(gateway.server, 'SIGKILL')
  await gateway.server.stop()
  await until(async () => (await indexed()) > 0, 'the index')
  const to = (await indexed()) + 10
  await until(async () => (await indexed()) >= to, 'slots of the other gateway')
  gateway.server = await start(gateway)
}

const usage = async () => (await ask('SELECT query_id FROM chain._usage FINAL')).split('\n')
const hasUsage = () =>
  until(async () => (await usage()).length === asked.length, `the ${asked.length} queries`)

describe.skipIf(!isHere)('the index of two gateways (skipped: no PostgreSQL or ClickHouse)', () => {
  it('has every row of the source once, whichever program is killed, paused or stopped', async () => {
    await until(async () => (await indexed().catch(() => 0)) > 0, 'the first rows')
    const first = await indexed()
    for (const gateway of gateways) await query(gateway)
    for (let round = 0; round < rounds; round++) {
      for (const [name, fault] of Object.entries(faults)) {
        const before = await writer()
        const next = await fault(before)
        expect(next, name).not.toBe(before)
        await grows()
      }
      for (const gateway of gateways) await killGateway(gateway)
    }
    await grows()
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
    await hasUsage()
    expect((await usage()).toSorted()).toEqual(asked.toSorted())
  })

  it('is read no more by an indexer whose credential was revoked', async () => {
    const [{ data }] = gateways as [Gateway]
    await sluice(data, 'indexer', 'revoke', 'both', '--yes')
    const { output } = await writer()
    const refused = 'gateway refused the credential'
    await until(async () => (await writer()).output.split(refused).length > 2, 'both refusals')
    expect(output).not.toContain('slu_')
    const at = await indexed()
    await follower.reaches(at + 10)
    expect(await indexed()).toBeLessThan(at + 10)
  })
})

describe.skipIf(!isHere)('a writer that may have lost its lease', () => {
  const open = (holder: string) =>
    openClickhouseSink(clickhouse.url, { retentionDays: 30, holder, leaseMs: 600_000 })
  beforeAll(async () => {
    for (const indexer of indexers.splice(0)) signal(indexer, 'SIGKILL')
    await Promise.all(gateways.splice(0).map(({ server }) => server.dispose()))
    await clickhouse.ask('DROP DATABASE chain')
  })

  it('inserts nothing of the rows that it has begun to send', async () => {
    await (await open('one')).stop()
    const lines = Array.from({ length: 20_000 }, (_, n) =>
      JSON.stringify({ seq: n, block_number: n, tps: n }),
    )
    const send = async (checks: number) => {
      let left = checks
      const check = () => {
        if (--left < 0) throw new Error('lost')
      }
      const pieces: Uint8Array[] = []
      const body = inPieces(`${lines.join('\n')}\n`, check)
      const { origin, username, password } = new URL(clickhouse.url)
      const sent = fetch(`${origin}/?query=INSERT INTO chain._tps FORMAT JSONEachRow`, {
        method: 'POST',
        headers: { 'X-ClickHouse-User': username, 'X-ClickHouse-Key': password },
        body: (async function* () {
          for await (const piece of body) {
            pieces.push(piece)
            yield piece
          }
        })(),
        duplex: 'half',
      } as RequestInit)
      return { ok: await sent.then(({ ok }) => ok).catch(() => false), pieces: pieces.length }
    }
    const half = await send(5)
    expect(half).toEqual({ ok: false, pieces: 5 })
    await until(
      async () =>
        (await ask("SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'")) === '0',
      'the end of the insert',
    )
    expect(await ask('SELECT count() FROM chain._tps')).toBe('0')
    const whole = await send(Number.POSITIVE_INFINITY)
    expect(whole.ok && whole.pieces > 5).toBe(true)
    expect(await ask('SELECT count() FROM chain._tps')).toBe('20000')
    await clickhouse.ask('DROP DATABASE chain')
  })

  it('leaves nothing beyond the marks to the next one, whose marks count from then on', async () => {
    const early = await open('one')
    const block = (slot: number): RowBatch => ({
      ...{ table: 'blocks', count: 1 },
      columns: [[slot], [slot - 1], ['hash'], [slot], [1], [0]],
    })
    const tps = (seq: number): RowBatch => ({
      table: 'tps',
      count: 1,
      columns: [[seq], [1], [1], [1]],
    })
    await early.write([block(7), tps(3)], { slots: 7, events: 3, 'tips run': 5 })
    // Of a clock that is ahead of ours.
    await clickhouse.ask("INSERT INTO chain._marks VALUES ('slots', 7, 9000000000000)")
    // Written, and killed before the marks.
    await early.write([block(8), tps(4)], {})
    const late = await open('one')
    expect(await ask('SELECT slot FROM chain.blocks')).toBe('7')
    expect(await ask('SELECT seq FROM chain.tps')).toBe('3')
    expect(await late.marks()).toEqual({ slots: 7, events: 3, 'tips run': 5 })
    await late.write([block(8), block(9)], { slots: 9 })
    expect(await late.marks()).toMatchObject({ slots: 9 })
    await Promise.all([early.stop(), late.stop()])
  })
})

describe.skipIf(!isHere)('a hub', () => {
  it('writes the index of its gateways by itself', async () => {
    await clickhouse.ask('DROP DATABASE IF EXISTS chain')
    const hub = await start({ name: 'hub', data: newFolder(), port: 0 }, ['--cluster.gateways=1'])
    await until(async () => (await indexed().catch(() => 0)) > 0, 'its rows')
    expect(await ask('SELECT uniqExact(holder) FROM chain._lease')).toBe('1')
    await hub.dispose()
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
