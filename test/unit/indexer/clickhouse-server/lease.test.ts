// A writer whose lease expired while its process was paused must not renew it by a heartbeat:
// another program may have written meanwhile, and then the writer begins anew.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { WriterLease } from '../../../../src/indexer/clickhouse-server/lease.ts'
import type { ClickhouseClient } from '../../../../src/indexer/clickhouse-server/schema.ts'

const lifetimeMs = 15_000
const beatMs = 3_000
let inserts: string[]
let isAway: boolean
let lease: WriterLease

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  inserts = []
  isAway = false
  // Reason for the cast: this has everything that a lease uses of a client.
  const client = {
    run: async ({ sql }: { sql: string }) => {
      if (isAway) throw new Error('away')
      inserts.push(sql)
      return ''
    },
    rows: async () => [],
  } as unknown as ClickhouseClient
  lease = new WriterLease(client, 'host', lifetimeMs)
  await lease.acquire()
  inserts = []
})
afterEach(async () => {
  await lease.release()
  vi.restoreAllMocks()
  vi.useRealTimers()
})

test('is renewed by heartbeats', async () => {
  for (let beats = 1; beats <= 10; beats++) {
    await vi.advanceTimersByTimeAsync(beatMs)
    expect(inserts).toHaveLength(beats)
    expect(() => lease.check()).not.toThrow()
  }
})

test('is renewed after a short outage of the server', async () => {
  isAway = true
  await vi.advanceTimersByTimeAsync(2 * beatMs)
  isAway = false
  await vi.advanceTimersByTimeAsync(beatMs)
  expect(inserts).toHaveLength(1)
  expect(() => lease.check()).not.toThrow()
})

test.each([
  ['a pause of the process', async () => void vi.spyOn(performance, 'now').mockReturnValue(1e6)],
  ['an outage of the server', () => vi.advanceTimersByTimeAsync(5 * beatMs)],
])('is not renewed by a heartbeat after it expired by %s', async (_, expire) => {
  isAway = true
  await expire()
  isAway = false
  await vi.advanceTimersByTimeAsync(beatMs)
  expect(inserts).toEqual([])
  expect(() => lease.check()).toThrow('the writer lease may have ended')
  // The next write acquires it again, after it looked for another writer.
  const { claim } = lease
  await lease.confirm()
  expect(lease.claim).not.toBe(claim)
  expect(() => lease.check()).not.toThrow()
})
