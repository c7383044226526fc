// A gateway of a test as far as the shared event log reaches: connection, lease, follower.
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { PostgresConnection } from '../../src/customers/cluster/postgres/client.ts'
import { prepareSchema } from '../../src/customers/cluster/postgres/schema.ts'
import { PostgresEventLog, PostgresLeases } from '../../src/customers/cluster/postgres/tables.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { SharedEvents } from '../../src/streams/log/shared-events.ts'
import { hangMs } from '../testkit/until.ts'

/** What was opened; `stopAll` ends it, the last one first. */
const open: { stop(): Promise<void> }[] = []

export async function stopAll(): Promise<void> {
  for (const one of open.splice(0).reverse()) await one.stop()
}

export async function logOf(url: string, holder: string) {
  const connection = new PostgresConnection({
    url,
    name: holder,
    clock: systemClock,
    log: silentLog,
    onConnect: prepareSchema,
  }).start()
  open.push(connection)
  if (!(await connection.ready(hangMs))) throw new Error(connection.problem)
  const leases = new PostgresLeases(connection, { holder, info: holder, clock: systemClock })
  return { connection, leases, shared: new PostgresEventLog(connection, holder) }
}

export async function eventGateway(url: string, name: string) {
  const { connection, leases, shared } = await logOf(url, name)
  const events = new EventLog({ reserve: () => null, clock: systemClock, isShared: true })
  const follower = new SharedEvents(events, { shared, leases, clock: systemClock, log: silentLog })
  open.push(follower)
  await follower.ready(hangMs)
  const put = (block: number) => {
    const facts = { blockNumber: block, atNs: 1n, key: `b${block}` }
    follower.append('TPS', Buffer.from(`${block}`), 0, facts)
  }
  const payloads = () => [...events.after(0)].map(({ payload }) => String(payload))
  return { connection, events, follower, put, payloads }
}
