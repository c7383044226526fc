// A change whose COMMIT had no answer, at a database that failed over meanwhile.
import { expect, test } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import type {
  PostgresConnection,
  Queries,
} from '../../../../src/customers/cluster/postgres/client.ts'
import { PostgresRegistry } from '../../../../src/customers/cluster/postgres/registry.ts'
import {
  type AuditEntry,
  type AuditHead,
  emptyHead,
} from '../../../../src/customers/subscriptions/audit.ts'
import { builtInPlans } from '../../../../src/customers/subscriptions/plans.ts'
import { strictRules } from '../../../../src/customers/subscriptions/subscription.ts'
import { outcomeUnknown } from '../../../../src/customers/subscriptions/verbs.ts'

/** Adds a subscription whose COMMIT is not answered; the database has lost it since. */
async function addLost(isFollowed: boolean) {
  let followed: AuditEntry | null = null
  const queries: Queries = {
    async query<Row>(text: string, [, entries]: readonly unknown[] = []) {
      if (text.startsWith('INSERT INTO audit') && isFollowed)
        followed = JSON.parse((entries as string[])[0]!)
      const rows = text.startsWith('SELECT seq, hash') ? [{ ...emptyHead, nowMs: 1 }] : []
      // Reason for the cast: what the head's query asks for; all others find nothing.
      return rows as Row[]
    },
  }
  let commits = 0
  const writing = {
    query: queries.query,
    poll: queries.query,
    ready: async () => true,
    async transaction<T>(work: (in_: Queries) => Promise<T>) {
      const value = await work(queries)
      if (++commits === 1) throw new Fault('cluster', 'the connection ended', { retryable: true })
      return value
    },
  } as unknown as PostgresConnection
  const replica = {
    head: () => emptyHead,
    holds: ({ hash }: AuditHead) => hash === followed?.hash,
    audit: () => [],
    registered: () => null,
  }
  const known = { plans: Object.keys(builtInPlans), destinationRules: strictRules }
  const deps = { reading: writing, writing, replica, known, onChanged: async () => {} }
  return new PostgresRegistry(deps).add({ label: 'one', products: ['bundle'] }, { who: 'test' })
}

test('is reported as not made', async () => {
  expect(await addLost(false)).toMatchObject({ refusal: { kind: 'unavailable', code: 'cluster' } })
})

test('is in doubt where this gateway has read it, which adds it again', async () => {
  expect(await addLost(true)).toMatchObject({ refusal: { code: outcomeUnknown } })
})
