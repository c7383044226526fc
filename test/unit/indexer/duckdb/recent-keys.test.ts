// Which rows of queries and tips are surely new, so that no file is searched for them.
import { expect, test } from 'vitest'
import { RecentKeys } from '../../../../src/indexer/duckdb/hot-file.ts'
import { batch } from '../../../testkit/row-samples.ts'

/** Rows of `usage`: each is the time and the id of a query. */
function usage(...queries: readonly (readonly [number, string])[]) {
  return batch(
    'usage',
    queries.map(([at, id]) => ['sub_a', at, id, 1, 1, 1, 0]),
  )
}

const stored = 1_000

test('queries that end in another order than they began are new', () => {
  const recent = new RecentKeys()
  expect(recent.add(usage([1_010, 'b'], [1_005, 'a']), stored)).toBe(true)
  expect(recent.add(usage([1_002, 'c'], [1_010, 'd']), 1_010)).toBe(true)
})

test('a key that was written, or is twice in the batch, is not new', () => {
  const recent = new RecentKeys()
  expect(recent.add(usage([1_005, 'a']), stored)).toBe(true)
  expect(recent.add(usage([1_006, 'b'], [1_005, 'a']), 1_005)).toBe(false)
  expect(recent.add(usage([1_007, 'c'], [1_007, 'c']), 1_006)).toBe(false)
})

test('nothing is known of rows that are as old as those of an earlier opening', () => {
  const recent = new RecentKeys()
  expect(recent.add(usage([1_000, 'a'], [1_005, 'b']), stored)).toBe(false)
})

test('nothing is known of rows that are as old as forgotten ones', () => {
  const recent = new RecentKeys()
  const many = Array.from({ length: 5_000 }, (_, n) => [2_000 + n, `q-${n}`] as const)
  expect(recent.add(usage(...many), stored)).toBe(true)
  expect(recent.add(usage([6_990, 'late']), 6_999)).toBe(true)
  expect(recent.add(usage([2_100, 'later']), 6_999)).toBe(false)
})

test('rows of a feed with positions are left to the search', () => {
  const tps = batch('tps', [[7, 1, 1, null]])
  expect(new RecentKeys().add(tps, Number.NEGATIVE_INFINITY)).toBe(false)
})
