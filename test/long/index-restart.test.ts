// The index of a whole server whose processes stop or are killed: no slot of the chain is lost.
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const flags = ['--chain.slotMs=100', '--chain.traffic=200']
let server: Server
/** Headers of the first start, which alone prints the credentials. */
let headers: Readonly<Record<string, string>>

beforeAll(async () => {
  server = await startServer({ flags, isWhole: true, isGroup: true })
  const { user, password } = server.indexer
  headers = {
    authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
    'x-token': server.token,
  }
})
afterAll(() => server?.dispose())

async function restart(): Promise<void> {
  server = await startServer({ data: server.data, flags, isWhole: true, isGroup: true })
}

async function rows<T>(query: string): Promise<T[]> {
  const url = `${server.url('indexer')}/?default_format=JSONCompact`
  const answer = await fetch(url, { method: 'POST', headers, body: query })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(text)
  return (JSON.parse(text) as { data: T[] }).data
}

async function newestSlot(): Promise<number> {
  const [newest] = await rows<[string]>('SELECT max(slot) FROM blocks')
  return Number(newest![0])
}

/** Waits for rows of slots that came after now. */
async function indexFlows(): Promise<void> {
  const before = await newestSlot()
  await until(async () => (await newestSlot()) > before + 10, 'rows of new slots')
}

async function meter(name: string): Promise<number> {
  const text = await (await fetch(`${server.url('metrics')}/metrics`)).text()
  const line = text.split('\n').find((one) => one.startsWith(`${name} `))
  if (line === undefined) throw new Error(`no meter ${name}`)
  return Number(line.split(' ').at(-1))
}

/** Every slot between the first and the last, with as many transactions as its block counts. */
async function expectNoLoss(): Promise<void> {
  const blocks = await rows<[string, number]>('SELECT slot, tx_count FROM blocks ORDER BY slot')
  const slots = blocks.map(([slot]) => Number(slot))
  const holes = slots.slice(1).filter((slot, index) => slot !== slots[index]! + 1)
  expect(holes, `holes before these slots, of ${slots[0]} to ${slots.at(-1)}`).toEqual([])
  const counts = new Map(
    await rows<[string, string]>('SELECT slot, count() FROM transactions GROUP BY slot'),
  )
  for (const [slot, count] of blocks)
    expect([slot, Number(counts.get(slot) ?? 0)]).toEqual([slot, count])
  expect(await meter('sluice_index_lost_total{feed="slots"}')).toBe(0)
  expect(await meter('sluice_upstream_geyser_gap_slots_total{set="default"}')).toBe(0)
}

test('a server that stops and starts', async () => {
  await indexFlows()
  expect(await server.stop()).toBe(0)
  await restart()
  await indexFlows()
  await expectNoLoss()
})

test('a server that is killed with all its processes', async () => {
  await indexFlows()
  const exited = once(server.child, 'exit')
  process.kill(-server.child.pid!, 'SIGKILL')
  await exited
  await restart()
  await indexFlows()
  await expectNoLoss()
})

test('a devnode that is killed under a server that runs on', async () => {
  const { stdout } = await sluice(server.data, 'status', '--output=json')
  process.kill((JSON.parse(stdout) as { chain: { pid: number } }).chain.pid, 'SIGKILL')
  await indexFlows()
  await expectNoLoss()
})
