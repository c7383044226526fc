// Checks which accesses the ClickHouse server itself would refuse if the query gate failed.
// Thread: main, once at start. Uses the user of customers' queries, and logs the result.
import { messageOf } from '../../../base/errors.ts'
import type { Log } from '../../../telemetry/log.ts'
import type { ClickhouseClient } from './client.ts'
import { storedName } from './schema.ts'

export interface Users {
  /** Writes rows and creates tables. */
  readonly writer: ClickhouseClient
  /** Runs customers' queries; may be the same. */
  readonly query: ClickhouseClient
}

/** Logs which server-side restrictions exist, as a warning when one is missing. */
export async function reportWalls({ writer, query }: Users, log: Log): Promise<void> {
  const [isSystemReadable, seen, stored] = await Promise.all([
    isReadable(query, 'system.processes'),
    rowsIn(query, storedName('usage')),
    rowsIn(writer, storedName('usage')),
  ])
  const walls = {
    queryUser: query === writer ? 'the writer' : 'its own',
    systemTables: isSystemReadable ? 'readable' : 'refused',
    usageRows:
      seen === 0 ? (stored === 0 ? 'none yet' : 'own only') : seen === null ? 'refused' : 'all',
  }
  const isComplete = query !== writer && !isSystemReadable && walls.usageRows !== 'all'
  if (isComplete) log.info('ClickHouse guards customers from each other', walls)
  else log.warn('only the query gate guards customers from each other, see OPERATING.md', walls)
}

async function isReadable(client: ClickhouseClient, table: string): Promise<boolean> {
  return (await rowsIn(client, table)) !== null
}

/** Null when the server refuses. */
async function rowsIn(client: ClickhouseClient, table: string): Promise<number | null> {
  try {
    const [row] = await client.rows<{ n: string }>(`SELECT toString(count()) AS n FROM ${table}`)
    return Number(row?.n)
  } catch (error) {
    if (/cannot be reached/.test(messageOf(error))) throw error
    return null
  }
}
