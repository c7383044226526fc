// Sends the rows of an insert only while the writer's term lasts. Thread: writer process.
//
//   rows ─► piece ─► before the end? ─► piece ─► ... ─► the last bytes     complete: inserted
//                        └─ no: the connection is closed in the middle of a row: ClickHouse inserts
//                           nothing of it
//
// ClickHouse has no condition on an insert: so the time is compared before each piece is written,
// in the same turn, also after the process was paused. Who takes over ends what is still running.
import { setTimeout as sleep } from 'node:timers/promises'
import { machineMs } from '../../base/clock.ts'
import { Fault } from '../../base/errors.ts'
import { clickhouseString } from '../clickhouse/sql/quoting.ts'
import type { ClickhouseClient } from './client.ts'

/** A term of the cluster's lease `index`. */
export interface Term {
  /** Grows with each holder; a time in milliseconds. */
  readonly number: number
  /** By `machineMs`: nothing is written after it. */
  untilMs(): number
}

const idPrefix = 'sluice-index-'
/** Less than what sockets buffer: a long insert is compared with the time again and again. */
const pieceBytes = 64 * 1024
const rowEnd = Buffer.from('}\n')
const pollMs = 50
/** An insert that runs longer has no rows to come: its writer is paused, and then refused. */
const endMsMax = 60_000

export function insertId(term: Term, number: number): string {
  return `${idPrefix}${term.number}-${number}`
}

export function checkTerm({ untilMs }: Term): void {
  if (machineMs() >= untilMs())
    throw new Fault('index-lease', 'the lease of the index has ended: another gateway may write')
}

/** The rows in pieces; every piece but the last ends within a row. */
export async function* untilTermEnds(text: string, term: Term): AsyncGenerator<Uint8Array> {
  const rows = Buffer.from(text)
  for (let begin = 0; begin < rows.length; ) {
    const end = endOfPiece(rows, begin)
    checkTerm(term)
    yield rows.subarray(begin, end)
    begin = end
  }
}

/** Ends the inserts of earlier terms. */
export async function endInserts(client: ClickhouseClient): Promise<void> {
  const endMs = performance.now() + endMsMax
  const running = `query_id LIKE '${idPrefix}%'`
  for (let isFirst = true; performance.now() < endMs; isFirst = false) {
    const rows = await client.rows<{ query_id: string }>(
      `SELECT query_id FROM system.processes WHERE ${running} AND query NOT LIKE 'KILL%'`,
    )
    if (rows.length === 0) return
    const ids = rows.map(({ query_id }) => clickhouseString(query_id)).join(', ')
    // A server that does not let us end them ends them by itself.
    if (isFirst)
      await client.run({ sql: `KILL QUERY WHERE query_id IN (${ids}) ASYNC` }).catch(() => {})
    await sleep(pollMs)
  }
}

/** The last piece is only the end of the last row. */
function endOfPiece(rows: Uint8Array, begin: number): number {
  const last = rows.length - 2
  if (begin >= last) return rows.length
  let end = Math.min(begin + pieceBytes, last)
  while (end < last && rowEnd.includes(rows[end - 1]!)) end++
  return end
}
