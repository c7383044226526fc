// A gateway whose index has what the shared event log has: after a start it goes on there.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsLease } from '../../src/base/shared-log.ts'
import { encodeFrame } from '../../src/streams/log/shared-events.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { hangMs, until } from '../testkit/until.ts'
import { logOf, stopAll } from './event-gateway.ts'
import { newFolder, removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
/** More than is read in the time that the index writer takes to start. */
const frames = 30_000
const pageFrames = 500
let postgres: Postgres
let server: Server | null = null

beforeAll(async () => {
  if (!isHere) return
  postgres = await startPostgres()
  await seed(postgres.url)
})

afterAll(async () => {
  await server?.dispose()
  await stopAll()
  postgres?.dispose()
  delete process.env.SLUICE_CLUSTER__URL
  removeFolders()
})

async function fill(): Promise<void> {
  const { leases, shared } = await logOf(postgres.url, 'filler')
  const [lease] = await leases.hold([eventsLease], 60_000, 1)
  const { next } = await shared.head()
  for (let at = 0; at < frames; at += pageFrames) {
    const page = Array.from({ length: pageFrames }, (_, index) => {
      const block = at + index + 1
      const facts = { blockNumber: block, atNs: 1n, key: `b${block}` }
      return encodeFrame({ kind: 'TPS', payload: Buffer.from(String(block)), facts })
    })
    expect(await shared.append(lease!, next + at, page)).toBe(true)
  }
  await leases.giveBack(eventsLease)
}

/** Rows that the index of the running gateway was given since its start. */
async function rows(): Promise<number> {
  const meters = await (await fetch(`${server!.url('metrics')}/metrics`)).text()
  return Number(/^sluice_index_rows_total\{table="tps"\} (\d+)$/m.exec(meters)?.[1] ?? 0)
}

describe.skipIf(!isHere)('the index of a gateway that starts again', () => {
  it('is not given the events that it has', async () => {
    await fill()
    const data = newFolder()
    const flags = [`--cluster.url=${postgres.url}`, '--cluster.gateway=here', '--chain.slotMs=150']
    server = await startServer({ data, isWhole: true, flags })
    await until(async () => (await rows()) >= frames, 'all rows', hangMs)
    await server.stop()
    server = await startServer({ data, isWhole: true, flags })
    await until(async () => (await rows()) > 0, 'new rows', hangMs)
    expect(await rows()).toBeLessThan(frames / 2)
  })
})
