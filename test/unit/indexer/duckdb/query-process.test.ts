// A query process compromised by the SQL it runs can only end itself.
import { expect, test, vi } from 'vitest'
import { QueryProcess } from '../../../../src/indexer/duckdb/query-process.ts'

vi.mock('../../../../src/base/package-root.ts', () => ({
  workerEntry: () => new URL('../../../testkit/hostile-query.mjs', import.meta.url),
}))

test('a query process that sends frames that are not maps fails to start with a Fault', async () => {
  const options = { folder: '/nowhere', number: 1, memoryBytes: 512_000_000, threads: 1 }
  const results = { path: '/nowhere/results.sock', secret: '' }
  await expect(QueryProcess.start({ ...options, results })).rejects.toMatchObject({
    kind: 'query-process',
    message: 'query process start failed: it ended',
    retryable: true,
  })
})
