// The data folder of each release, started by this one: everything that was in it is found.
//
// test/golden/releases has, per release, the folder (a tar, Brotli) and what must be found in it. A
// folder is made by the built server of that release on the embedded chain, with
// --chain.traffic=1 --metrics.generator.tps=10 --chain.snapshotSlots=20: five subscriptions by its
// command (`demo` of the first start; `acme` with a rotated token in grace; `globex` with network,
// note and paused destination; `initech` suspended; `hooli` ended), an airdrop that becomes final, a
// few calls, an orderly stop, a second start that continues, one query of all tables, a stop. The
// rows of a table count up to the eighth block before its newest, so that none was still to come.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStore } from '../../src/customers/subscriptions/store.ts'
import { type TableName, timeSourceOf } from '../../src/indexer/tables.ts'
import { type Server, sluiceHere, startServer } from '../testkit/server.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

interface Found {
  readonly madeAt: string
  readonly subscriptions: Readonly<Record<string, { subscription: object; credentials: object }>>
  readonly usage: Readonly<Record<string, object>>
  readonly audit: object
  readonly index: Readonly<Record<string, { order: string; upTo: number; rows: number }>>
  readonly tipAccounts: readonly string[]
  readonly chain: {
    readonly genesisHash: string
    readonly slot: number
    readonly account: string
    readonly balance: number
    readonly signature: string
    readonly transactionSlot: number
    readonly fee: number
    readonly blockTime: number
  }
  readonly newestSeq: number
  /** Of the subscriptions in that folder, and of nothing else. */
  readonly throwawaySecrets: Readonly<Record<string, string>> & {
    readonly acmeIndexer: { readonly user: string; readonly password: string }
  }
}

const folder = join(root, 'test', 'golden', 'releases')
const releases = readdirSync(folder).flatMap((name) =>
  name.endsWith('.json') ? [name.slice(0, -'.json'.length)] : [],
)

describe.each(releases)('the data folder of release %s', (release) => {
  const found = JSON.parse(readFileSync(join(folder, `${release}.json`), 'utf8')) as Found
  const { throwawaySecrets: secrets } = found
  const data = mkdtempSync(join(tmpdir(), 'sluice-release-'))
  let server: Server

  beforeAll(async () => {
    const input = brotliDecompressSync(readFileSync(join(folder, `${release}.tar.br`)))
    execFileSync('tar', ['-x', '-C', data], { input })
    const atMs = Date.parse(found.madeAt)
    const store = openStore(join(data, 'registry'), {
      clock: { nowMs: () => atMs, monotonicMs: () => atMs },
    })
    // By the clock of that time: grace and windows end.
    for (const [label, { subscription, credentials }] of Object.entries(found.subscriptions)) {
      expect(store.find(label)).toEqual(subscription)
      expect(store.credentials(label)).toEqual(credentials)
      expect(store.usage(label)).toEqual(found.usage[label])
    }
    await store.close()
    server = await startServer({
      data,
      flags: [
        '--chain.traffic=1',
        '--metrics.generator.tps=10',
        // The rows are of the past.
        '--indexer.retentionDays=3650',
      ],
    })
  })

  afterAll(() => server?.dispose())

  async function rpc(method: string, params: readonly unknown[], token = secrets.acme!) {
    const answer = await fetch(server.url('rpc'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': token },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    return { status: answer.status, body: await answer.text() }
  }

  async function result(method: string, ...params: unknown[]) {
    return JSON.parse((await rpc(method, params)).body).result
  }

  async function rows(sql: string): Promise<Readonly<Record<string, string>>[]> {
    const { user, password } = secrets.acmeIndexer
    const answer = await fetch(server.url('indexer'), {
      method: 'POST',
      headers: {
        'x-token': secrets.acme!,
        'x-clickhouse-user': user,
        'x-clickhouse-key': password,
      },
      body: `${sql} FORMAT JSON`,
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return JSON.parse(text).data
  }

  test('has its tokens: good ones work, the suspended and the ended one do not', async () => {
    for (const label of ['demo', 'acme', 'globex'])
      expect([label, (await rpc('getHealth', [], secrets[label])).status]).toEqual([label, 200])
    for (const label of ['initech', 'hooli'])
      expect([label, (await rpc('getHealth', [], secrets[label])).status]).toEqual([label, 401])
    const { graceUntil: end } = found.subscriptions.acme!.credentials as { graceUntil: string }
    const isInGrace = Date.now() < Date.parse(end)
    expect((await rpc('getHealth', [], secrets.acmeRetiring)).status).toBe(isInGrace ? 200 : 401)
  })

  test('has its audit chain and its tip accounts', async () => {
    const audit = await sluiceHere(data, 'audit', 'verify', '--output=json')
    expect(JSON.parse(audit.stdout)).toEqual(found.audit)
    const tips = await sluiceHere(data, 'tip-accounts', '--output=json')
    expect(JSON.parse(tips.stdout).tipAccounts).toEqual(found.tipAccounts)
  })

  test('has its chain, which continues', async () => {
    const { chain } = found
    expect(await result('getGenesisHash')).toBe(chain.genesisHash)
    const isAhead = async () => (await result('getSlot', { commitment: 'finalized' })) > chain.slot
    await until(isAhead, 'slots after the last one')
    expect((await result('getBalance', chain.account)).value).toBe(chain.balance)
    const options = { maxSupportedTransactionVersion: 0, commitment: 'finalized' }
    expect(await result('getTransaction', chain.signature, options)).toMatchObject({
      slot: chain.transactionSlot,
      blockTime: chain.blockTime,
      meta: { err: null, fee: chain.fee },
    })
  })

  test('has the rows of its index, and gets more', async () => {
    const counts = Object.entries(found.index).map(
      ([table, { order, upTo }]) =>
        `SELECT '${table}' AS name, count() AS n FROM ${table} WHERE ${order} <= ${upTo}`,
    )
    const counted = await rows(counts.join(' UNION ALL '))
    const expected = Object.entries(found.index).map(([name, table]) => [name, table.rows])
    expect(Object.fromEntries(counted.map(({ name, n }) => [name, Number(n)]))).toEqual(
      Object.fromEntries(expected),
    )
    const { signature, transactionSlot, fee } = found.chain
    expect(
      await rows(`SELECT slot, fee FROM transactions WHERE signature = '${signature}'`),
    ).toEqual([{ slot: `${transactionSlot}`, fee: `${fee}` }])
    // What was written without a time gets that of its block.
    const untimed = Object.entries(found.index).flatMap(([table, { order, upTo }]) => {
      const source = timeSourceOf(table as TableName)
      if (source === undefined) return []
      const { column, block, from, number } = source
      const hasBlock = `${block} IN (SELECT ${number} FROM ${from})`
      return [
        `SELECT count() AS n FROM ${table}
          WHERE ${order} <= ${upTo} AND ${column} IS NULL AND ${hasBlock}`,
      ]
    })
    expect(untimed.length).toBeGreaterThan(5)
    const left = `SELECT sum(n) AS n FROM (${untimed.join(' UNION ALL ')})`
    await until(async () => Number((await rows(left))[0]!.n) === 0, 'times of old rows')
    const newest = `SELECT max(slot) > ${found.index.blocks!.upTo + 30} AS isAhead FROM blocks`
    await until(async () => Number((await rows(newest))[0]!.isAhead) === 1, 'rows')
  })

  test('has its event numbers: the next ones are higher', async () => {
    const status = async () => (await fetch(`${server.url('metrics')}/v1/status`)).json()
    const newest = async () => ((await status()) as { newest_seqno: number }).newest_seqno
    await until(async () => (await newest()) > 0, 'an event')
    expect(await newest()).toBeGreaterThan(found.newestSeq)
  })

  test('has the format number of this release from then on', () => {
    const format = JSON.parse(readFileSync(join(data, 'format.json'), 'utf8'))
    expect(format).toEqual({ format: 1, release: expect.any(String) })
  })
})
