// What a change asks of the database: each statement is a round trip, and they follow each other.
import { expect, test } from 'vitest'
import type {
  PostgresConnection,
  Queries,
} from '../../../../src/customers/cluster/postgres/client.ts'
import { PostgresRegistry } from '../../../../src/customers/cluster/postgres/registry.ts'
import { emptyHead } from '../../../../src/customers/subscriptions/audit.ts'
import { builtInPlans } from '../../../../src/customers/subscriptions/plans.ts'
import {
  type Registered,
  strictRules,
} from '../../../../src/customers/subscriptions/subscription.ts'

const by = { who: 'test' }

/** A registry whose database has what was last written, and the tables that each statement names. */
function recorded() {
  const asked: string[] = []
  let stored: Registered | null = null
  const queries: Queries = {
    async query<Row>(text: string, values: readonly unknown[] = []) {
      asked.push(/(?:FROM|INTO|UPDATE) (\w+)\b(?!\()/.exec(text)![1]!)
      if (text.startsWith('INSERT INTO records')) stored = JSON.parse((values[2] as string[])[0]!)
      const rows = text.startsWith('SELECT seq, hash') ? [{ ...emptyHead, nowMs: 1 }] : []
      const found = text.startsWith('SELECT record FROM') && stored !== null
      // Reason for the cast: what the two queries ask for; all others find nothing.
      return (found ? [{ record: stored }] : rows) as Row[]
    },
  }
  const writing = {
    query: queries.query,
    poll: queries.query,
    transaction: <T>(work: (in_: Queries) => Promise<T>) => work(queries),
  } as unknown as PostgresConnection
  const replica = {
    head: () => emptyHead,
    holds: () => true,
    audit: () => [],
    registered: () => null,
  }
  const known = { plans: Object.keys(builtInPlans), destinationRules: strictRules }
  const deps = { reading: writing, writing, replica, known, onChanged: async () => {} }
  return { registry: new PostgresRegistry(deps), asked, deps }
}

test('a change that keeps the names does not ask for them', async () => {
  const { registry, asked } = recorded()
  expect(await registry.add({ label: 'one', products: ['bundle'] }, by)).toMatchObject({ ok: true })
  expect(asked.filter((table) => table === 'names')).toHaveLength(3)
  asked.length = 0
  expect(await registry.addNote('one', { kind: 'other', text: 'a' }, by)).toMatchObject({
    ok: true,
  })
  expect(asked).toEqual(['head', 'head', 'records', 'audit', 'records', 'head'])
})

test('one that ends a subscription gives its names up', async () => {
  const { registry, asked } = recorded()
  await registry.add({ label: 'one', products: ['bundle'] }, by)
  asked.length = 0
  expect(await registry.end('one', by)).toMatchObject({ ok: true })
  expect(asked).toContain('names')
})

test('both connections are asked at once who they are: each may be half-open', () => {
  const { deps } = recorded()
  const asked: string[] = []
  const silent = (name: string) => {
    const poll = () => new Promise(() => asked.push(name))
    return { poll } as unknown as PostgresConnection
  }
  const silents = { reading: silent('reading'), writing: silent('writing') }
  void new PostgresRegistry({ ...deps, ...silents }).identity()
  expect(asked).toEqual(['reading', 'writing'])
})
