// The row of a gateway in the table of gateways, by which a command sees that a change is in force.
import { expect, test } from 'vitest'
import type { PostgresConnection } from '../../../../src/customers/cluster/postgres/client.ts'
import { startHeartbeat } from '../../../../src/customers/cluster/postgres/tables.ts'

test('a change during a write is written behind it, not with the next second', async () => {
  const written: unknown[] = []
  const answers: (() => void)[] = []
  const connection = {
    isUp: () => true,
    poll: (_sql: string, values: readonly unknown[]) => {
      written.push(values[2])
      return new Promise<void>((resolve) => answers.push(resolve))
    },
    query: async () => [],
  }
  let registry = 1
  const who = { session: 'session', name: 'gateway' }
  // Reason for the cast: nothing else of a connection is used.
  const heartbeat = startHeartbeat(connection as unknown as PostgresConnection, who, () => ({
    registry,
  }))
  registry = 2
  for (const _ of [1, 2]) await heartbeat.write()
  expect(written).toEqual(['{"registry":1}'])
  answers.shift()!()
  await Promise.resolve()
  await Promise.resolve()
  expect(written).toEqual(['{"registry":1}', '{"registry":2}'])
  answers.shift()!()
  await heartbeat.stop()
  expect(written).toHaveLength(2)
})
