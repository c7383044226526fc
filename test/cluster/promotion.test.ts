// The shared event log when PostgreSQL fails over to a real standby: after a synchronous one goes on
// as if nothing had happened; after an asynchronous one that lacks frames, a new run begins above all
// numbers, also when no gateway is left that remembers them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../testkit/until.ts'
import { eventGateway, stopAll } from './event-gateway.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'
import { type Standby, startStandby, waitForNobody, waitForStandby } from './standby.ts'

const isHere = hasPostgres()
let primary: Postgres
let standby: Standby

beforeAll(async () => {
  if (!isHere) return
  primary = await startPostgres()
  standby = await startStandby(primary)
})

afterAll(async () => {
  await stopAll()
  primary?.dispose()
  standby?.dispose()
})

const url = () => `postgres://sluice@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`

type Gateway = Awaited<ReturnType<typeof eventGateway>>

/** Numbers and contents that this gateway has sent. */
const sent = ({ events }: Gateway) => [...events.after(0)].map((frame) => String(frame.json))

/** The primary dies and the standby takes its place. */
async function failOver(): Promise<void> {
  await primary.kill()
  await standby.promote()
  await waitForNobody(standby)
}

describe.skipIf(!isHere)('a failover of PostgreSQL', () => {
  it('to a synchronous standby changes neither run nor numbers', async () => {
    await waitForStandby(primary)
    const [one, other] = [await eventGateway(url(), 'one'), await eventGateway(url(), 'other')]
    const { run } = one.events
    for (const block of [1, 2, 3]) one.put(block)
    await until(() => other.events.newestSeq === 3, 'three frames')
    await failOver()
    one.put(4)
    // The other may read it before the answer of the append arrives.
    await until(() => [one, other].every(({ events }) => events.newestSeq === 4), 'a fourth frame')
    expect([one.events.run, other.events.run]).toEqual([run, run])
    expect(one.payloads()).toEqual(['1', '2', '3', '4'])
    expect(sent(other)).toEqual(sent(one))
    await stopAll()
  })

  it('to one that lacks frames gives no number another content', async () => {
    primary.dispose()
    primary = standby
    standby = await startStandby(primary)
    const one = await eventGateway(url(), 'one')
    const { run } = one.events
    one.put(5)
    await until(() => one.events.newestSeq === 5, 'the fifth frame')
    await until(
      async () => (await standby.sql('SELECT 1 FROM event_frames')).length === 5,
      'a copy',
    )
    await standby.detach()
    for (const block of [6, 7]) one.put(block)
    await until(() => one.events.newestSeq === 7, 'the frames that are lost')
    // Nobody is left who knows that 6 and 7 were sent.
    await stopAll()
    await failOver()
    const late = await eventGateway(url(), 'late')
    late.put(8)
    await until(() => late.payloads().includes('8'), 'the next frame')
    expect(late.events.newestSeq).toBeGreaterThan(65_536)
    expect(late.events.run).not.toBe(run)
    expect(late.events.canResume(7)).toBe(false)
  })
})
