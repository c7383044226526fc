// A query process that was taken over by the SQL it runs cannot do more than end itself.
import { expect, test, vi } from 'vitest'
import { QueryProcess } from '../../../../../src/products/indexer/duckdb/query-process.ts'

vi.mock('../../../../../src/threads/entry.ts', () => ({
  workerEntry: () => new URL('../../../../support/hostile-query.mjs', import.meta.url),
}))

test('is a Fault of its start when it sends frames that are not maps', async () => {
  const options = { folder: '/nowhere', number: 1, memoryBytes: 512_000_000, threads: 1 }
  await expect(QueryProcess.start(options)).rejects.toMatchObject({
    kind: 'query-process',
    message: 'a query process did not start: it ended',
    retryable: true,
  })
})
