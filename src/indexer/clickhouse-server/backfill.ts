// Gives rows that were written before their table had a time the one of their block, on a
// ClickHouse server. Thread: writer process, between its writes.
//
//   rows of a range of the key without a time ─ JOIN blocks ─► INSERT: replaces them by their key
//                                              then the mark: what was done is not done again
//
// A range is small, so that a write waits for one insert at most. A crash repeats a range, which
// changes nothing. Rows without a block stay NULL.
import { type Table, type TableName, tableNames, tables, timeSourceOf } from '../tables.ts'
import type { ClickhouseClient } from './client.ts'
import { known, marksTable, quoted, type ServerFacts, storedName } from './schema.ts'

/** Slots, or numbers of events: about a million rows of the busiest table at most. */
const rangeMax = 250
const secondsMax = 60
/** Names of these marks begin so; those of feeds do not. */
export const timeMark = 'time of '

export interface TimeFill {
  readonly table: TableName
  /** Everything up to here is done. */
  done: number
}

interface Deps {
  readonly client: ClickhouseClient
  readonly facts: ServerFacts
  /** Writes the mark. */
  mark(name: string, value: number): Promise<void>
  /** Of the next insert; throws when another program writes now. */
  insertId(): string
}

/** The tables that may have rows without a time, with their marks. */
export async function openTimeFills({ client }: Deps): Promise<TimeFill[]> {
  const marks = await client.rows<{ feed: string; mark: string }>(
    `SELECT feed, toString(max(mark)) AS mark FROM ${marksTable}
      WHERE feed LIKE '${timeMark}%' GROUP BY feed`,
  )
  const done = new Map(marks.map(({ feed, mark }) => [feed, Number(mark)]))
  return tableNames
    .filter((table) => timeSourceOf(table) !== undefined)
    .map((table) => ({ table, done: done.get(`${timeMark}${table}`) ?? -1 }))
}

/** Fills the next range; false when no row without a time is left. */
export async function fillNext(fill: TimeFill, deps: Deps): Promise<boolean> {
  const { table } = fill
  // Only where the next range has no such row, the whole table is searched.
  const low = (await firstWithout(fill, deps, rangeMax)) ?? (await firstWithout(fill, deps))
  if (low === null) return false
  const high = low + rangeMax - 1
  await deps.client.run({
    sql: fillSql(table, low, high),
    params: { ...known(deps.facts, { max_execution_time: secondsMax }), query_id: deps.insertId() },
    firstByteMs: secondsMax * 1_000,
  })
  await deps.mark(`${timeMark}${table}`, high)
  fill.done = high
  return true
}

/** The first key after the mark, and at most so many further, of a row without a time. */
async function firstWithout(
  { table, done }: TimeFill,
  { client }: Deps,
  width = Number.POSITIVE_INFINITY,
): Promise<number | null> {
  const [key = ''] = tables[table].key
  const upTo = Number.isFinite(width) ? `AND ${key} <= ${done + width}` : ''
  const [found] = await client.rows<{ low: string; n: string }>(
    `SELECT toString(min(${key})) AS low, toString(count()) AS n FROM ${storedName(table)}
      WHERE ${key} > ${done} ${upTo} AND ${quoted(timeSourceOf(table)!.column)} IS NULL`,
  )
  return found === undefined || Number(found.n) === 0 ? null : Number(found.low)
}

function fillSql(table: TableName, low: number, high: number): string {
  const { columns, key }: Table = tables[table]
  const { column, block, from, number, time } = timeSourceOf(table)!
  const others = Object.keys(columns).filter((name) => name !== column)
  const list = others.map(quoted).join(', ')
  const range = `${key[0]} >= ${low} AND ${key[0]} <= ${high}`
  const named = `SELECT ${block} FROM ${storedName(table)} WHERE ${range}`
  return `INSERT INTO ${storedName(table)} (${list}, ${quoted(column)})
    SELECT ${list}, filled FROM
      (SELECT ${list} FROM ${storedName(table)} FINAL WHERE ${range} AND ${quoted(column)} IS NULL)
    ALL INNER JOIN
      (SELECT ${number} AS ${block}, toNullable(max(${quoted(time)})) AS filled
        FROM ${storedName(from)} WHERE ${number} IN (${named}) AND toInt64(${quoted(time)}) > 0
        GROUP BY ${number})
    USING ${block}`
}
