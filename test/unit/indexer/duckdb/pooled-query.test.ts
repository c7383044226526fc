// A query that is cancelled or times out never ends as a result that looks complete.
import { describe, expect, test } from 'vitest'
import { PooledQuery } from '../../../../src/indexer/duckdb/query-pool.ts'
import type { QueryProcess, QueryReport } from '../../../../src/indexer/duckdb/query-process.ts'
import { emptySnapshot } from '../../../../src/indexer/duckdb/store-files.ts'
import { QueryWatch } from '../../../../src/indexer/duckdb/watch.ts'
import { queryOf } from '../../../testkit/query-stage.ts'

/** A query in a process whose report the test decides. */
function stage() {
  const death = { rssBytes: 0 }
  let resolve: (report: QueryReport | null) => void = () => {}
  const reported = new Promise<QueryReport | null>((settle) => {
    resolve = settle
  })
  // Reason for the cast: this has everything that a run uses of its process.
  const process = {
    rssBytesMax: 1e9,
    isGone: false,
    rssBytes: () => death.rssBytes,
    run: () => reported,
    interrupt: () => {},
    kill: () => {},
  } as unknown as QueryProcess
  const done: { isWorn?: boolean; reason?: string } = {}
  const watch = new QueryWatch(() => 0)
  const run = new PooledQuery(queryOf('SELECT 1'), process, 0, {
    watch,
    isReaderSlow: () => false,
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
    resolve(null)
  }
  return { run, done, die, report: (report: QueryReport) => resolve(report) }
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
  const ended = run.run(emptySnapshot, '')
  if (reason !== null) run.end(reason)
  report({ ...stale, isStale: false, error: { code, name: '', message: '' } })
  await ended
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
  const ended = run.run(emptySnapshot, '')
  die(signal, rssBytes)
  expect(await ended).toMatchObject({ error: { code }, sent: null })
  expect(done.reason).toBe(reason)
})

test.each([
  ['memory', 241],
  ['time', 159],
] as const)(
  'a query killed for its %s counts also when its report arrives first',
  async (...row) => {
    const [reason, code] = row
    const { run, report, done } = stage()
    const ended = run.run(emptySnapshot, '')
    if (reason === 'time') run.onTimeout()
    run.onKill(reason)
    report(complete(4))
    expect(await ended).toMatchObject({ error: { code }, sent: null })
    expect(done.reason).toBe(reason)
  },
)

test('a cancelled query that had to be killed does not count', async () => {
  const { run, report, done } = stage()
  const ended = run.run(emptySnapshot, '')
  run.end('cancel')
  run.onKill('time')
  report(complete(4))
  expect(await ended).toMatchObject({ error: { code: 394 }, sent: null })
  expect(done.reason).toBeUndefined()
})

describe('a query that is ended from outside', () => {
  test.each([
    ['cancel', 394],
    ['time', 159],
  ] as const)(
    'by %s while its view was stale is an error, not an empty result',
    async (reason, code) => {
      const { run, report } = stage()
      const ended = run.run(emptySnapshot, '')
      run.end(reason)
      report(stale)
      expect(await ended).toMatchObject({ error: { code }, sent: null })
    },
  )

  test('is an error when its process reports a complete result afterwards', async () => {
    const { run, report } = stage()
    const ended = run.run(emptySnapshot, '')
    run.end('cancel')
    report(complete(4))
    expect(await ended).toMatchObject({ error: { code: 394 }, sent: null })
  })

  test('is complete when the end came after its report', async () => {
    const { run, report } = stage()
    const ended = run.run(emptySnapshot, '')
    report(complete(4))
    expect(await ended).toMatchObject({ error: null, sent: 4 })
    run.end('cancel')
  })

  test('requests a new snapshot when it was stale and the query was not ended', async () => {
    const { run, report } = stage()
    const ended = run.run(emptySnapshot, '')
    report(stale)
    expect(await ended).toBe('stale')
  })
})
