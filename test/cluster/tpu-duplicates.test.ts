// Transactions that several gateways of a cluster get: one that another gateway has sent does not
// leave a second time, and only the first of several senders resends it.
import type { KeyPairSigner } from '@solana/kit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { Connection } from '../../src/cluster/postgres/client.ts'
import { PostgresDigests } from '../../src/cluster/postgres/digests.ts'
import { prepareSchema } from '../../src/cluster/postgres/schema.ts'
import { embeddedDigests, SentDigests } from '../../src/cluster/sent-digests.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { askOperator } from '../../src/transport/operator-socket.ts'
import { FakeClock, FakeSender } from '../testkit/fake-senders.ts'
import { NodeStub } from '../testkit/node-stub.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { newAddress, newPayer, sign, transfer } from '../testkit/tipped.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'
import { until } from '../testkit/until.ts'
import { removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
const waitMs = 30_000
const tipAccounts = [newAddress()]
let postgres: Postgres
let payer: KeyPairSigner
let lamports = 1_000_000n
const ends: (() => unknown)[] = []

beforeAll(async () => {
  payer = await newPayer()
  if (isHere) postgres = await startPostgres()
}, 60_000)
afterAll(async () => {
  for (const end of ends.reverse()) await end()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
}, 60_000)

const tipped = () =>
  sign(payer, [transfer({ from: payer, to: tipAccounts[0]!, lamports: lamports++ })])
const digestOf = (byte: number) => Buffer.alloc(32, byte)
const textOf = (byte: number) => digestOf(byte).toString('latin1')

async function connect(url: string, name: string): Promise<Connection> {
  const about = { url, name, clock: systemClock, log: silentLog, onConnect: prepareSchema }
  const connection = new Connection(about).start()
  ends.push(() => connection.stop())
  expect(await connection.ready(waitMs)).toBe(true)
  return connection
}

const implementations = {
  embedded: async () => ({ elsewhere: embeddedDigests, read: async () => {} }),
  PostgreSQL: async () => {
    const elsewhere = new SentDigests(
      new PostgresDigests(await connect(await postgres.database(), 'alone'), 'alone'),
    )
    return { elsewhere, read: () => elsewhere.read() }
  },
}

describe.each(Object.entries(implementations))('a gateway alone, %s', (name, open) => {
  it.skipIf(name !== 'embedded' && !isHere)(
    'sent each transaction first, also one that it publishes twice, and learns none',
    async () => {
      const { elsewhere, read } = await open()
      const learned: string[] = []
      elsewhere.onLearned((digest) => learned.push(digest))
      const bytes = [1, 2, 2, 3]
      const answers = bytes.map((byte) => elsewhere.publish(textOf(byte)))
      expect(await Promise.all(answers)).toEqual(bytes.map(() => false))
      expect(await elsewhere.publish(textOf(1))).toBe(false)
      await read()
      expect(learned).toEqual([])
    },
  )
})

describe.skipIf(!isHere)('digests of sent transactions', () => {
  it('belong to the gateway that published them first, and are learned by the others', async () => {
    const url = await postgres.database()
    const a = new PostgresDigests(await connect(url, 'a'), 'a')
    const b = new PostgresDigests(await connect(url, 'b'), 'b')
    expect(await a.send([digestOf(1), digestOf(2)])).toEqual([])
    // A lost answer is repeated: its own rows are not another gateway's.
    expect(await a.send([digestOf(2)])).toEqual([])
    expect(await b.send([digestOf(2), digestOf(3)])).toEqual([digestOf(2)])
    const learned = await b.after(0, 100)
    expect(learned.flatMap(({ digests }) => digests)).toEqual([digestOf(1), digestOf(2)])
    const news = await a.after(learned[0]!.number, 100)
    expect(news.flatMap(({ digests }) => digests)).toEqual([digestOf(3)])
    expect(await a.after(news.at(-1)!.number, 100)).toEqual([])
  })

  it('are read once and in order by a gateway that only publishes now and then', async () => {
    const url = await postgres.database()
    const a = new PostgresDigests(await connect(url, 'a'), 'a')
    const b = new PostgresDigests(await connect(url, 'b'), 'b')
    const connections = await Promise.all([1, 2, 3].map((at) => connect(url, `w${at}`)))
    const seen: number[] = []
    let position = 0
    let isOver = false
    const reading = (async () => {
      for (let isLast = false; !isLast; ) {
        isLast = isOver
        for (const { number, digests } of await b.after(position, 7)) {
          position = number
          for (const digest of digests) seen.push(Buffer.from(digest).readUInt32LE())
        }
      }
    })()
    const writers = connections.map(async (connection, writer) => {
      const digests = new PostgresDigests(connection, `w${writer}`)
      for (let at = 0; at < 60; at++) {
        const digest = Buffer.alloc(32)
        digest.writeUInt32LE(at * 3 + writer)
        await digests.send([digest])
      }
    })
    await Promise.all(writers)
    isOver = true
    await reading
    // The last read may have been limited.
    for (const { digests } of await b.after(position, 1_000))
      for (const digest of digests) seen.push(Buffer.from(digest).readUInt32LE())
    expect(seen.sort((one, other) => one - other)).toEqual(Array.from({ length: 180 }, (_, n) => n))
    expect(await a.send([])).toEqual([])
  })

  it('are removed after their time, and are published again after PostgreSQL was killed', async () => {
    const url = await postgres.database()
    const short = new PostgresDigests(await connect(url, 'short'), 'short', 50)
    await short.send([digestOf(1)])
    await new Promise((resolve) => setTimeout(resolve, 100))
    await short.send([digestOf(2)])
    expect((await short.after(0, 10)).length).toBe(1)

    const own = new SentDigests(new PostgresDigests(await connect(url, 'own'), 'own'))
    const other = new SentDigests(new PostgresDigests(await connect(url, 'other'), 'other'))
    const learned = new Set<string>()
    other.onLearned((digest) => learned.add(digest))
    own.publish(textOf(7))
    await own.send()
    await other.read()
    expect(learned).toContain(textOf(7))
    await postgres.kill()
    const publishing = own.publish(textOf(8))
    await own.send()
    expect(await publishing).toBe(false)
    expect(own.stats()).toMatchObject({ published: 1, dropped: 1, failures: 1 })
    postgres.start()
    // The unlogged table is empty: positions from before are still good.
    let byte = 9
    await until(
      async () => {
        own.publish(textOf(byte++))
        await own.send()
        await other.read()
        return learned.has(textOf(byte - 1))
      },
      'a digest after the restart',
      waitMs,
    )
  })
})

describe.skipIf(!isHere)('one transaction to several gateways', () => {
  it('leaves each once when all get it at once, and only the first resends it', async () => {
    const url = await postgres.database()
    const names = ['a', 'b', 'c']
    const clock = new FakeClock()
    const rows: string[] = []
    const gateways = await Promise.all(
      names.map(async (name) => {
        const digests = new SentDigests(new PostgresDigests(await connect(url, name), name))
        digests.start()
        const stage = new TpuStage()
        const sender = new FakeSender()
        await stage.start({ tipAccounts }, [sender], { clock, elsewhere: digests })
        stage.tpu.listen((row) => rows.push(row.signature))
        ends.push(() => stage.dispose())
        ends.push(() => digests.stop())
        return { stage, sender, digests }
      }),
    )
    const sends = () => gateways.map(({ sender }) => sender.sent.length)
    const sum = () => sends().reduce((total, count) => total + count, 0)
    const bytes = await tipped()
    const answers = await Promise.all(gateways.map(({ stage }) => stage.send(bytes)))
    const [signature] = answers.map(({ json }) => json.result as string)
    expect(signature).toBeTypeOf('string')
    for (const { json } of answers) expect(json.result).toBe(signature)
    const late = () => gateways.map(({ digests }) => digests.stats().late)
    const hasAll = () => {
      const published = gateways.map(({ digests }) => digests.stats().published)
      return published.every((count, at) => count === sends()[at])
    }
    await until(hasAll, 'the exchange', waitMs)
    const first = sum()
    expect(first).toBeGreaterThanOrEqual(1)
    expect(first).toBeLessThanOrEqual(names.length)
    expect(late().filter((count) => count === 0).length).toBe(names.length - first + 1)
    // Again, when each has learned it: nothing leaves.
    const isLearned = () =>
      gateways.every(({ digests, sender }) => {
        const { learned } = digests.stats()
        return learned > 0 || (sender.sent.length === 1 && digests.stats().late === 0)
      })
    await until(isLearned, 'all to know it', waitMs)
    for (const { stage } of gateways) expect((await stage.send(bytes)).json.result).toBe(signature)
    expect(sum()).toBe(first)
    for (let resends = 1; resends <= 4; resends++) {
      clock.ms += 2_500
      await until(() => sum() >= first + resends, 'a resend', waitMs)
      expect(sum()).toBe(first + resends)
    }
    // Each gateway knows its outcome, and one of them adds it to the table `tips`.
    clock.ms += 120_000
    const outcomes = () => gateways.flatMap(({ stage }) => stage.tpu.report(9).last)
    await until(() => outcomes().length === first, 'the outcomes', waitMs)
    await until(() => rows.length > 0, 'the row', waitMs)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(rows).toEqual([signature])
  })

  it('does not leave a second gateway, by two servers as they are started', async () => {
    await seed(postgres.url)
    const nodes = [new NodeStub(), new NodeStub()]
    const others = ['rpc', 'websocket', 'grpc', 'metrics', 'shredstream', 'indexer']
    const servers = await Promise.all(
      nodes.map(async (node, at) => {
        ends.push(() => node.close())
        const port = await node.listen()
        const server = await startServer({
          flags: [
            ...others.map((name) => `--${name}.enabled=false`),
            `--cluster.url=${postgres.url}`,
            `--cluster.gateway=g${at}`,
            '--chain.source=upstream',
            `--upstreams.default.nodes.0.rpc=http://127.0.0.1:${port}`,
            `--tpu.upstreams=http://127.0.0.1:${port}`,
            `--tpu.tipAccounts=${tipAccounts[0]}`,
          ],
        })
        ends.push(() => server.dispose())
        return server
      }),
    )
    const [first, second] = servers as [Server, Server]
    const bytes = await tipped()
    const signature = await submit(first, bytes)
    expect(signature).toBeTypeOf('string')
    await until(
      async () => (await meter(second, 'sluice_cluster_digests_learned_total')) === 1,
      'the other gateway to know it',
      waitMs,
    )
    expect(await submit(second, bytes)).toBe(signature)
    expect(nodes[0]!.sent.length).toBeGreaterThan(0)
    expect(nodes[1]!.sent.length).toBe(0)
    expect(await meter(second, 'sluice_tpu_duplicates_total')).toBe(1)
    // Without PostgreSQL it serves on.
    postgres.stop()
    const other = await tipped()
    expect(await submit(second, other)).toBeTypeOf('string')
    await until(() => nodes[1]!.sent.length > 0, 'the send', waitMs)
  }, 120_000)
})

async function submit(server: Server, bytes: Uint8Array): Promise<unknown> {
  const params = [Buffer.from(bytes).toString('base64'), { encoding: 'base64' }]
  const answer = await fetch(server.url('tpu'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params }),
  })
  return ((await answer.json()) as { result?: string }).result
}

async function meter(server: Server, name: string): Promise<number> {
  const answer = await askOperator(server.data, 'meters')
  if (!answer.ok) throw new Error(answer.message)
  const found = new RegExp(`^${name} (\\d+)$`, 'm').exec(String(answer.value))
  return Number(found?.[1] ?? Number.NaN)
}
