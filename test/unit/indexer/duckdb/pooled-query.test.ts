// A query that is cancelled or times out never ends as a result that looks complete.
import { PassThrough } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { PooledQuery } from '../../../../src/indexer/duckdb/query-pool.ts'
import { type QueryProcess, ResultBytes } from '../../../../src/indexer/duckdb/query-process.ts'
import type { QueryReport } from '../../../../src/indexer/duckdb/query-protocol.ts'
import { emptySnapshot } from '../../../../src/indexer/duckdb/store-files.ts'
import { QueryWatch } from '../../../../src/indexer/duckdb/watch.ts'
import { queryOf } from '../../../testkit/query-stage.ts'

/** A query in a process whose report and bytes the test decides. */
function stage() {
  const pipe = new PassThrough()
  const bytes = new ResultBytes(pipe)
  const death = { rssBytes: 0 }
  let resolve: (report: QueryReport | null) => void = () => {}
  const reported = new Promise<QueryReport | null>((settle) => {
    resolve = settle
  })
  // Reason for the cast: this has everything that a run uses of its process.
  const process = {
    rssBytesMax: 1e9,
    isGone: false,
    bytes,
    rssBytes: () => death.rssBytes,
    run: () => {
      bytes.begin()
      return reported
    },
    interrupt: () => {},
    kill: () => {},
  } as unknown as QueryProcess
  const done: { isWorn?: boolean; reason?: string } = {}
  const watch = new QueryWatch(() => 0)
  const run = new PooledQuery(queryOf('SELECT 1'), process, 0, {
    watch,
    onKilled: (reason) => {
      done.reason = reason
    },
    onDone: (isWorn) => {
      done.isWorn = isWorn
    },
  })
  const die = (signal: NodeJS.Signals, rssBytes: number) => {
    death.rssBytes = rssBytes
    watch.tick()
    Object.assign(process, { isGone: true, signal })
    bytes.end()
    resolve(null)
  }
  return { run, pipe, done, die, report: (report: QueryReport) => resolve(report) }
}

const stale: QueryReport = { rows: 0, readRows: 0, bytes: 0, error: null, isStale: true }
const complete = (bytes: number): QueryReport => ({
  rows: 1,
  readRows: 1,
  bytes,
  error: null,
  isStale: false,
})

test.each([
  ['reused', 'the timeout', 'time', 394, false],
  ['not reused', 'the memory limit', null, 241, true],
] as const)('a process is %s after %s', async (...[, , reason, code, isWorn]) => {
  const { run, done, report } = stage()
  const started = run.start(emptySnapshot)
  if (reason !== null) run.end(reason)
  report({ ...stale, isStale: false, error: { code, name: '', message: '' } })
  await started
  expect(done).toEqual({ isWorn })
})

test.each([
  ['SIGKILL', 10_000_000, 301, 'outside'],
  ['SIGTERM', 10_000_000, 301, 'outside'],
  ['SIGKILL', 850_000_000, 241, 'memory'],
  ['SIGABRT', 10_000_000, 241, 'memory'],
  ['SIGSEGV', 10_000_000, 1002, 'crash'],
] as const)('a process that ends by %s with %i bytes is code %i', async (...row) => {
  const [signal, rssBytes, code, reason] = row
  const { run, die, done } = stage()
  const started = run.start(emptySnapshot)
  die(signal, rssBytes)
  expect(await started).toMatchObject({ ok: false, error: { code } })
  expect(done.reason).toBe(reason)
})

describe('a query that is ended from outside', () => {
  test.each([
    ['cancel', 394],
    ['time', 159],
  ] as const)(
    'by %s while its view was stale is an error, not an empty result',
    async (reason, code) => {
      const { run, report } = stage()
      const started = run.start(emptySnapshot)
      run.end(reason)
      report(stale)
      expect(await started).toMatchObject({ ok: false, error: { code } })
    },
  )

  test('is an error when the engine had finished, but its rows were not read', async () => {
    const { run, pipe, report } = stage()
    const started = run.start(emptySnapshot)
    pipe.write('row\n')
    report(complete(4))
    const outcome = await started
    if (outcome === 'stale' || !outcome.ok) throw new Error('it started')
    run.end('cancel')
    const read: Uint8Array[] = []
    for await (const chunk of outcome.result.chunks) read.push(chunk)
    expect(read).toEqual([])
    expect(outcome.result.failed()).toMatchObject({ code: 394 })
  })

  test('is complete when the end came after its last row was read', async () => {
    const { run, pipe, report } = stage()
    const started = run.start(emptySnapshot)
    pipe.write('row\n')
    report(complete(4))
    const outcome = await started
    if (outcome === 'stale' || !outcome.ok) throw new Error('it started')
    for await (const _ of outcome.result.chunks) run.end('cancel')
    expect(outcome.result.failed()).toBe(null)
  })

  test('requests a new snapshot when it was stale and the query was not ended', async () => {
    const { run, report } = stage()
    const started = run.start(emptySnapshot)
    report(stale)
    expect(await started).toBe('stale')
  })
})
