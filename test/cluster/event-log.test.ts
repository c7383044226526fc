// The shared event log on a real PostgreSQL: fenced appends, partitions, followers, a lost tail.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../testkit/until.ts'
import { eventGateway, logOf, stopAll } from './event-gateway.ts'
import { hasPostgres, type Postgres, startPostgres } from './postgres.ts'

const isHere = hasPostgres()
let postgres: Postgres
let url = ''

beforeAll(async () => {
  if (isHere) postgres = await startPostgres()
})

beforeEach(async () => {
  if (isHere) url = await postgres.database()
  return stopAll
})

afterAll(() => postgres?.dispose())

const gateway = (name: string) => eventGateway(url, name)

const frames = (...texts: string[]) => texts.map((text) => Buffer.from(`{"kind":"TPS"}\n${text}`))

describe.skipIf(!isHere)('an append', () => {
  it('is refused after its term and with a number that is taken', async () => {
    const [one, other] = [await logOf(url, 'one'), await logOf(url, 'other')]
    const [lease] = await one.leases.hold(['events'], 60_000, 1)
    expect(await one.shared.append(lease!, 1, frames('a', 'b'))).toBe(true)
    expect(await one.shared.append(lease!, 2, frames('c'))).toBe(false)
    expect(await one.shared.append(lease!, 4, frames('c'))).toBe(false)
    expect(await other.shared.append(lease!, 3, frames('c'))).toBe(false)
    await one.leases.giveBack('events')
    expect(await one.shared.append(lease!, 3, frames('c'))).toBe(false)
    const [next] = await other.leases.hold(['events'], 60_000, 1)
    expect(await one.shared.append(lease!, 3, frames('c'))).toBe(false)
    expect(await other.shared.append(next!, 3, frames('d'))).toBe(true)
    const stored = await one.shared.after(0, 10)
    expect(stored.map(({ seq, frame }) => `${seq} ${String(frame).at(-1)}`)).toEqual([
      '1 a',
      '2 b',
      '3 d',
    ])
    expect(await one.shared.head()).toMatchObject({ next: 4 })
  })

  it('opens a partition every 100,000 numbers and drops the old ones whole', async () => {
    const { connection, leases, shared } = await logOf(url, 'one')
    const [lease] = await leases.hold(['events'], 60_000, 1)
    for (const first of [99_999, 199_999, 299_999, 399_999]) {
      await connection.query('UPDATE event_head SET next = $1', [first])
      expect(await shared.append(lease!, first, frames('x', 'y'))).toBe(true)
    }
    const kept = await shared.after(0, 100)
    // Partition 1 was dropped when 4 was made.
    expect(kept.map(({ seq }) => seq)).toEqual([200_000, 299_999, 300_000, 399_999, 400_000])
  })
})

describe.skipIf(!isHere)('a row that is no frame', () => {
  it.each([
    ['facts', '{"kind":"TPS","facts":{"block":1}}\n400'],
    ['kind', '{"kind":"Reorg"}\n{"depth":1}'],
    ['json', 'not JSON'],
    ['payload', '{"kind":"TPS"}\nnot JSON'],
  ])('stops no gateway, neither a running nor a starting one (%s)', async (what, text) => {
    const one = await gateway('one')
    one.put(1)
    await until(() => one.events.newestSeq === 1, 'block 1')
    await one.connection.query('INSERT INTO event_frames VALUES (2, $1)', [Buffer.from(text)])
    await one.connection.query('UPDATE event_head SET next = 3')
    one.put(3)
    await until(() => one.payloads().at(-1) === '3', 'block 3')
    const late = await gateway('late')
    const kinds = [...late.events.after(0)].map(({ seq, kind }) => `${seq} ${kind}`)
    expect(kinds).toEqual(['1 TPS', what === 'kind' ? '2 unknown' : '2 Gap', '3 TPS'])
    expect(late.follower.invalidRows).toBe(what === 'kind' ? 0 : 1)
  })
})

describe.skipIf(!isHere)('gateways with one log', () => {
  it('publish the frames of one of them, and take over what it did not append', async () => {
    const [one, other] = [await gateway('one'), await gateway('other')]
    one.put(1)
    await until(() => one.follower.isNumberer, 'a numberer')
    other.put(1)
    one.put(2)
    other.put(2)
    await until(() => other.events.newestSeq === 2 && one.events.newestSeq === 2, 'both')
    // Only the other one's source has block 3: it is appended as soon as the first one is gone.
    other.put(3)
    expect(other.follower.isNumberer).toBe(false)
    await one.follower.stop()
    await until(() => other.events.newestSeq === 3, 'block 3')
    expect(other.payloads()).toEqual(['1', '2', '3'])
    expect(other.events.run).toBe(one.events.run)
    const late = await gateway('late')
    expect(late.payloads()).toEqual(['1', '2', '3'])
  })

  it('append nothing twice when the source of the next numberer is behind', async () => {
    const [one, other] = [await gateway('one'), await gateway('other')]
    one.put(1)
    await until(() => one.events.newestSeq === 1, 'block 1')
    other.put(1)
    for (const block of [2, 3]) one.put(block)
    await until(() => other.events.newestSeq === 3, 'block 3')
    await one.follower.stop()
    await until(() => other.follower.isNumberer, 'the other numberer')
    for (const block of [2, 3, 4]) other.put(block)
    await until(() => other.payloads().includes('4'), 'block 4')
    expect(other.payloads()).toEqual(['1', '2', '3', '4'])
  })

  it('report blocks that no source has as a Gap with their numbers', async () => {
    const one = await gateway('one')
    one.put(1)
    await until(() => one.events.newestSeq === 1, 'block 1')
    await one.follower.stop()
    const other = await gateway('other')
    other.put(5)
    await until(() => other.events.newestSeq === 3, 'block 5')
    expect(other.payloads()).toEqual(['1', '{"from":0,"to":0,"from_block":2,"to_block":4}', '5'])
  })

  it('begin another run above all numbers when PostgreSQL lost the newest frames', async () => {
    const [one, other] = [await gateway('one'), await gateway('other')]
    for (const block of [1, 2, 3]) one.put(block)
    await until(() => other.events.newestSeq === 3, 'three frames')
    let restarts = 0
    other.events.onRestart(() => restarts++)
    const { run } = one.events
    // As a standby that was promoted without the last two commits.
    await one.connection.query('DELETE FROM event_frames WHERE seq > 1')
    await one.connection.query('UPDATE event_head SET next = 2')
    one.put(4)
    const isBeyond = () => other.events.newestSeq > 65_536 && one.events.newestSeq > 65_536
    await until(isBeyond, 'another run')
    expect(one.events.run).not.toBe(run)
    expect(other.events.run).toBe(one.events.run)
    expect(restarts).toBe(1)
    // The lost ones are numbered again.
    await until(() => other.payloads().at(-1) === '4', 'the next block')
    expect(other.payloads()).toEqual(['2', '3', '4'])
  })
})
