// A gateway whose index has what the shared event log has: after a start it goes on there.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Server, startServer } from '../testkit/server.ts'
import { hangMs, until } from '../testkit/until.ts'
import { fillEvents, fillFrames } from './event-fill.ts'
import { stopAll } from './event-gateway.ts'
import { newFolder, removeFolders, seed } from './gateway-stage.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
/** Two of seven frames. */
const filled = Math.floor((fillFrames * 2) / 7)
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

/** Rows that the index of the running gateway was given since its start. */
async function rows(): Promise<number> {
  const meters = await (await fetch(`${server!.url('metrics')}/metrics`)).text()
  return Number(/^sluice_index_rows_total\{table="tps"\} (\d+)$/m.exec(meters)?.[1] ?? 0)
}

describe.skipIf(!isHere)('the index of a gateway that starts again', () => {
  it('is not given the events that it has', async () => {
    await fillEvents(postgres.url)
    const data = newFolder()
    const flags = [`--cluster.url=${postgres.url}`, '--cluster.gateway=here', '--chain.slotMs=150']
    server = await startServer({ data, isWhole: true, flags })
    await until(async () => (await rows()) >= filled, 'all rows', hangMs)
    await server.stop()
    server = await startServer({ data, isWhole: true, flags })
    await until(async () => (await rows()) > 0, 'new rows', hangMs)
    expect(await rows()).toBeLessThan(filled / 2)
  })
})
