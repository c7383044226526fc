// How many queries the pool runs at once, how many processes it starts at once, and the memory that
// all of them may take.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { QueryPool } from '../../../../src/indexer/duckdb/query-pool.ts'
import { overheadBytes, QueryProcess } from '../../../../src/indexer/duckdb/query-process.ts'
import { emptySnapshot } from '../../../../src/indexer/duckdb/store-files.ts'

const memoryBytes = 1_000
const totalBytes = (memoryBytes + overheadBytes) * 5
const longMs = 60_000
/** Of the pool: a query that runs longer is not a short one. */
const shortMs = 250
let pool: QueryPool
/** Starts of processes that have not ended yet. */
let starts: { readonly memoryBytes: number; ready(process: QueryProcess): void }[]
let alive: number[]

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'performance'] })
  starts = []
  alive = []
  vi.spyOn(QueryProcess, 'start').mockImplementation(
    (options) => new Promise((ready) => starts.push({ memoryBytes: options.memoryBytes, ready })),
  )
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** Ends the oldest start. */
async function started(): Promise<void> {
  const { memoryBytes, ready } = starts.shift()!
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const made = {
    ...{ memoryBytes, ended, runs: 0, isGone: false, rssBytes: () => 0 },
    refresh: () => Promise.resolve(),
    kill() {
      made.isGone = true
      alive.splice(alive.indexOf(memoryBytes), 1)
      end()
    },
  }
  alive.push(memoryBytes)
  // Reason for the cast: this has everything that the pool uses of a process.
  ready(made as unknown as QueryProcess)
  await vi.advanceTimersByTimeAsync(0)
}

async function poolOf(warm: number, parallel: number): Promise<void> {
  const sizes = { folder: '', processesMax: 6, warm, parallel, threads: 1, memoryBytes }
  pool = new QueryPool({ ...sizes, totalBytes, results: { path: '', secret: '' } }, silentLog)
  const ready = pool.start()
  await started()
  await ready
  expect(starts).toEqual([])
  // The refresh starts what the start left out.
  await pool.refresh(emptySnapshot)
  while (pool.size < warm) {
    await vi.advanceTimersByTimeAsync(0)
    await started()
  }
}

/** A query that waits for a process; `process` once it has one. */
function ask(subscription: string, bytes = memoryBytes): { process?: QueryProcess } {
  const query: { process?: QueryProcess } = {}
  void pool.lend(subscription, bytes, longMs).process.then((process) => {
    if (typeof process === 'object') query.process = process
  })
  return query
}

test('a query that leaves does not wait for a process', async () => {
  await poolOf(1, 1)
  const first = pool.lend('a', memoryBytes, longMs)
  const busy = await first.process
  expect(typeof busy).toBe('object')
  const second = pool.lend('b', memoryBytes, longMs)
  second.leave()
  expect(await second.process).toBe('busy')
  pool.giveBack(busy as QueryProcess)
  // What was lent stays lent.
  const third = pool.lend('c', memoryBytes, longMs)
  const own = await third.process
  third.leave()
  expect(await third.process).toBe(own)
})

test('a process that was killed and has not ended yet is not lent again', async () => {
  await poolOf(1, 1)
  const first = ask('a')
  await vi.advanceTimersByTimeAsync(0)
  // Killed for its memory, while its report was already on the way.
  const killed = first.process!
  Object.assign(killed, { isEnding: true })
  pool.giveBack(killed)
  const next = ask('b')
  await vi.advanceTimersByTimeAsync(0)
  expect(next.process).toBeUndefined()
  killed.kill()
  await vi.advanceTimersByTimeAsync(shortMs)
  await started()
  expect(next.process).toBeDefined()
  expect(next.process).not.toBe(killed)
})

test('runs as many short queries at once as there are cores, though processes are idle', async () => {
  await poolOf(4, 2)
  const queries = ['a', 'b', 'c'].map((one) => ask(one))
  await vi.advanceTimersByTimeAsync(shortMs - 10)
  expect(queries.map(({ process }) => process !== undefined)).toEqual([true, true, false])
  pool.giveBack(queries[0]!.process!)
  await vi.advanceTimersByTimeAsync(0)
  // The process that was used last.
  expect(queries[2]!.process).toBe(queries[0]!.process)
})

test('runs further queries beside long ones at once', async () => {
  await poolOf(4, 2)
  const long = ['a', 'b'].map((one) => ask(one))
  await vi.advanceTimersByTimeAsync(shortMs)
  const short = ask('c')
  await vi.advanceTimersByTimeAsync(0)
  expect(long.every(({ process }) => process !== undefined)).toBe(true)
  expect(short.process).toBeDefined()
})

test('starts one process at a time for queries that wait', async () => {
  await poolOf(1, 2)
  const queries = ['a', 'b', 'c', 'd'].map((one) => ask(one))
  await vi.advanceTimersByTimeAsync(shortMs * 4)
  expect(starts).toHaveLength(1)
  await started()
  expect(queries.filter(({ process }) => process !== undefined)).toHaveLength(2)
  expect(starts).toHaveLength(0)
  await vi.advanceTimersByTimeAsync(shortMs * 2)
  expect(starts).toHaveLength(1)
})

test('all processes together never may take more memory than the bound', async () => {
  await poolOf(2, 6)
  const sums: number[] = []
  for (const bytes of [memoryBytes, overheadBytes, 1e15, memoryBytes, 1e15]) {
    const query = ask(`${bytes}`, bytes)
    for (let ticks = 0; query.process === undefined && ticks < 40; ticks++) {
      await vi.advanceTimersByTimeAsync(shortMs)
      if (starts.length > 0) await started()
      sums.push(alive.reduce((sum, size) => sum + size + overheadBytes, 0))
    }
    expect(query.process).toBeDefined()
    pool.giveBack(query.process!)
  }
  expect(Math.max(...sums)).toBe(totalBytes)
})
