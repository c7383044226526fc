// How many queries the pool runs at once, and how many processes it starts at once.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { QueryPool } from '../../../../../src/products/indexer/duckdb/query-pool.ts'
import { QueryProcess } from '../../../../../src/products/indexer/duckdb/query-process.ts'
import { silentLog } from '../../../../../src/telemetry/log.ts'

const memoryBytes = 1_000
const longMs = 60_000
/** Of the pool: a query that runs longer is not a short one. */
const shortMs = 250
let pool: QueryPool
/** Starts of processes that have not ended yet. */
let starts: ((process: QueryProcess) => void)[]

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'performance'] })
  starts = []
  vi.spyOn(QueryProcess, 'start').mockImplementation(
    () => new Promise((resolve) => starts.push(resolve)),
  )
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** Ends the oldest start. */
async function started(): Promise<void> {
  starts.shift()!({
    memoryBytes,
    runs: 0,
    isGone: false,
    ended: new Promise(() => {}),
    rssBytes: () => 0,
    kill() {},
  } as unknown as QueryProcess)
  await vi.advanceTimersByTimeAsync(0)
}

async function poolOf(warm: number, parallel: number): Promise<void> {
  const sizes = { folder: '', processesMax: 6, warm, parallel, threads: 1, memoryBytes }
  pool = new QueryPool({ ...sizes, totalBytes: memoryBytes * 6 }, silentLog)
  const ready = pool.start()
  await started()
  await ready
  while (pool.size < warm) {
    await vi.advanceTimersByTimeAsync(0)
    await started()
  }
}

/** A query that waits for a process; `process` once it has one. */
function ask(subscription: string): { process?: QueryProcess } {
  const query: { process?: QueryProcess } = {}
  void pool.lend(subscription, memoryBytes, longMs).then((process) => {
    if (typeof process === 'object') query.process = process
  })
  return query
}

test('runs as many short queries at once as there are cores, though processes are idle', async () => {
  await poolOf(4, 2)
  const queries = ['a', 'b', 'c'].map(ask)
  await vi.advanceTimersByTimeAsync(shortMs - 10)
  expect(queries.map(({ process }) => process !== undefined)).toEqual([true, true, false])
  pool.giveBack(queries[0]!.process!)
  await vi.advanceTimersByTimeAsync(0)
  // The process that was used last.
  expect(queries[2]!.process).toBe(queries[0]!.process)
})

test('runs further queries beside long ones at once', async () => {
  await poolOf(4, 2)
  const long = ['a', 'b'].map(ask)
  await vi.advanceTimersByTimeAsync(shortMs)
  const short = ask('c')
  await vi.advanceTimersByTimeAsync(0)
  expect(long.every(({ process }) => process !== undefined)).toBe(true)
  expect(short.process).toBeDefined()
})

test('starts one process at a time for queries that wait', async () => {
  await poolOf(1, 2)
  const queries = ['a', 'b', 'c', 'd'].map(ask)
  await vi.advanceTimersByTimeAsync(shortMs * 4)
  expect(starts).toHaveLength(1)
  await started()
  expect(queries.filter(({ process }) => process !== undefined)).toHaveLength(2)
  expect(starts).toHaveLength(0)
  await vi.advanceTimersByTimeAsync(shortMs * 2)
  expect(starts).toHaveLength(1)
})
