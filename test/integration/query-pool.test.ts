// When the pool of query processes starts a further one, and when it does not.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { QueryPool, startDuckdbEngine } from '../../src/indexer/duckdb/query-pool.ts'
import { overheadBytes, type QueryProcess } from '../../src/indexer/duckdb/query-process.ts'
import { emptySnapshot } from '../../src/indexer/duckdb/store-files.ts'
import { queryOf } from '../testkit/query-stage.ts'
import { openResults } from '../testkit/read-back.ts'

const memoryBytes = 256_000_000
const longMs = 60_000
const open: { pool: QueryPool; folder: string; close(): Promise<void> }[] = []

async function poolOf(processes: number, warm = 1): Promise<QueryPool> {
  const totalBytes = (memoryBytes + overheadBytes) * processes
  const folder = await mkdtemp(join(tmpdir(), 'sluice-pool-'))
  const { results, stop } = await openResults()
  const sizes = {
    folder,
    results: results.address,
    processesMax: 4,
    warm,
    parallel: 4,
    threads: 1,
    memoryBytes,
    totalBytes,
  }
  const pool = new QueryPool(sizes, silentLog)
  open.push({ pool, folder, close: stop })
  await pool.start()
  return pool
}

afterEach(async () => {
  vi.useRealTimers()
  for (const { pool, folder, close } of open.splice(0)) {
    await pool.stop()
    await close()
    await rm(folder, { recursive: true, force: true, maxRetries: 10 })
  }
})

test('starts a process for a query that finds none free', async () => {
  const pool = await poolOf(4)
  const first = await pool.lend('a', memoryBytes, longMs).process
  const second = await pool.lend('b', memoryBytes, longMs).process
  expect(second).not.toBe(first)
  expect([typeof first, typeof second]).toEqual(['object', 'object'])
})

test('refuses a query that finds none within its time: it did not run', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-pool-'))
  const { results, stop } = await openResults()
  const sizes = { processesMax: 1, warm: 1 }
  const engine = await startDuckdbEngine(folder, {
    results: results.address,
    log: silentLog,
    ...sizes,
  })
  // The first one has the process, and waits for the files of the index.
  const first = engine.run(queryOf('SELECT 1', { limits: { timeMs: longMs } }), '')
  const second = engine.run(queryOf('SELECT 1', { limits: { timeMs: 1 } }), '')
  expect(await second.ended).toMatchObject({ error: { code: 202 }, isRefused: true })
  first.cancel()
  await engine.stop()
  await stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 10 })
})

test('starts with one process, and the other warm ones with the first query', async () => {
  const pool = await poolOf(4, 2)
  expect(pool.size).toBe(1)
  const first = (await pool.lend('a', memoryBytes, longMs).process) as QueryProcess
  pool.giveBack(first)
  await vi.waitFor(() => expect(pool.size).toBe(2), { timeout: longMs / 2 })
})

test('replaces an idle process that hangs when it is refreshed', async () => {
  const pool = await poolOf(2)
  const first = (await pool.lend('a', memoryBytes, longMs).process) as QueryProcess
  pool.giveBack(first)
  process.kill(first.pid, 'SIGSTOP')
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const refreshed = pool.refresh(emptySnapshot)
  vi.advanceTimersByTime(20_000)
  expect(first.isEnding).toBe(true)
  vi.useRealTimers()
  await refreshed
  const second = await pool.lend('a', memoryBytes, longMs).process
  expect(second).toBeTypeOf('object')
  expect(second).not.toBe(first)
})

test('starts none beyond the memory of all', async () => {
  const pool = await poolOf(1)
  const first = (await pool.lend('a', memoryBytes, longMs).process) as QueryProcess
  expect(await pool.lend('b', memoryBytes, 700).process).toBe('busy')
  expect(pool.size).toBe(1)
  const waiting = pool.lend('b', memoryBytes, longMs).process
  pool.giveBack(first)
  expect(await waiting).toBe(first)
})
