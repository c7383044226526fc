// Finds out what the ClickHouse server itself would refuse if the gate had a hole. Thread: main,
// once at start. It asks as customers' queries are asked, and reports what came out.
import { messageOf } from '../../../base/errors.ts'
import type { Log } from '../../../telemetry/log.ts'
import type { ClickhouseClient } from './client.ts'
import { storedName } from './schema.ts'

export interface Users {
  /** Who writes rows and makes tables. */
  readonly writer: ClickhouseClient
  /** Who runs customers' queries; maybe the same. */
  readonly query: ClickhouseClient
}

/** Logs which walls stand behind the gate, as a warning where one is missing. */
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
