// Creates the tables on a ClickHouse server, and reports who may read them. Thread: writer process
// and main, once at start.
//
//   chain._transactions   ReplacingMergeTree, ORDER BY the key: rows are written here
//   chain.transactions    a view with FINAL over it: customers read it, deduplicated by key
//   chain._marks          mark of each feed; the newest version of a feed is valid
//   chain._lease          which Sluice server writes (lease.ts)
//
// `usage` has no view: which rows are visible is decided per query. Everything is IF NOT EXISTS,
// so an operator may create tables beforehand (replicated, distributed, with other codecs).
// Columns are only ever added; a table with the key of an earlier version is copied once.
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { TableSize, TableSizes } from '../catalogue.ts'
import { type ColumnType, type Table, type TableName, tableNames, tables } from '../tables.ts'
import type { ClickhouseClient } from './client.ts'

export const database = 'chain'
export const marksTable = `${database}._marks`
export const leaseTable = `${database}._lease`
/** Internal tables, hidden from customers. */
export const hiddenTables = ['_marks', '_lease'] as const
/** A day of slots at 400 ms, and about a day of events. */
const slotsPerPartition = 216_000
const seqsPerPartition = 1_000_000
const attemptsMax = 5
const backoff = { firstMs: 200, lastMs: 800 }
const copyMsMax = 600_000

export function storedName(table: TableName): string {
  return `${database}._${table}`
}

/**
 * Creates what is missing. The writer and the query engine may do this at the same moment, and
 * ClickHouse then fails one of them: so it is retried a few times.
 */
export async function ensureTables(client: ClickhouseClient, facts: ServerFacts): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      return await createTables(client, facts)
    } catch (error) {
      if (attempt === attemptsMax) throw error
      await sleep(backoffMs(attempt, backoff))
    }
}

async function createTables(client: ClickhouseClient, facts: ServerFacts): Promise<void> {
  await client.run({ sql: `CREATE DATABASE IF NOT EXISTS ${database}` })
  await client.run({
    sql: `CREATE TABLE IF NOT EXISTS ${marksTable} (feed String, mark UInt64, version UInt64)
      ENGINE = ReplacingMergeTree(version) ORDER BY feed`,
  })
  await client.run({
    sql: `CREATE TABLE IF NOT EXISTS ${leaseTable}
      (claim String, holder String, at DateTime, released UInt8)
      ENGINE = ReplacingMergeTree() ORDER BY claim`,
  })
  for (const name of tableNames) await client.run({ sql: createTableSql(name, facts) })
  const present = await columnsOf(client)
  for (const name of tableNames) {
    const existing = new Set(present.get(`_${name}`))
    for (const [column, type] of Object.entries(tables[name].columns))
      if (!existing.has(column))
        await client.run({
          sql: `ALTER TABLE ${storedName(name)}
            ADD COLUMN ${quoted(column)} ${storedType(type, facts)}`,
        })
    if (name !== 'usage') await createView(client, name, facts, present.get(name))
  }
}

/**
 * Moves the rows of tables that have another key into new ones; for the holder of the lease. A
 * crash in between is repaired by the next start: rows are deduplicated by their key. Tables that
 * an operator created with another engine stay as they are.
 */
export async function migrateKeys(client: ClickhouseClient, facts: ServerFacts): Promise<void> {
  const found = await client.rows<{ name: string; sorting_key: string }>(
    `SELECT name, sorting_key FROM system.tables
      WHERE database = '${database}' AND engine = 'ReplacingMergeTree'`,
  )
  const keys = new Map(found.map(({ name, sorting_key }) => [name, sorting_key]))
  for (const name of tableNames) {
    const [stored, old] = [storedName(name), `${storedName(name)}_old`]
    const isOther = keys.get(`_${name}`)?.replaceAll(/[` ]/g, '') !== tables[name].key.join()
    if (!keys.has(`_${name}_old`)) {
      if (!isOther || !keys.has(`_${name}`)) continue
      await client.run({ sql: `RENAME TABLE ${stored} TO ${old}` })
    }
    await client.run({ sql: createTableSql(name, facts) })
    const columns = Object.keys(tables[name].columns).map(quoted).join(', ')
    await client.run({
      sql: `INSERT INTO ${stored} (${columns}) SELECT ${columns} FROM ${old}`,
      params: known(facts, { max_partitions_per_insert_block: 0 }),
      firstByteMs: copyMsMax,
    })
    await client.run({ sql: `DROP TABLE ${old}` })
  }
}

async function createView(
  client: ClickhouseClient,
  name: TableName,
  facts: ServerFacts,
  present: readonly string[] | undefined,
): Promise<void> {
  const columns = Object.keys(tables[name].columns)
  if (present !== undefined && present.join() === columns.join()) return
  if (present !== undefined) await client.run({ sql: `DROP TABLE IF EXISTS ${database}.${name}` })
  await client.run({
    sql: `CREATE VIEW IF NOT EXISTS ${database}.${name} AS ${visibleSql(name, facts, columns)}`,
  })
}

/** Rows as a customer sees them, deduplicated by key. */
export function visibleSql(
  name: TableName,
  facts: ServerFacts,
  columns: readonly string[],
): string {
  const types: Table['columns'] = tables[name].columns
  const shown = columns.map((column) => visibleColumn(column, types[column]!, facts))
  return `SELECT ${shown.join(', ')} FROM ${storedName(name)} FINAL`
}

/** Whether the table's view only adds FINAL. */
export function isShownAsStored(name: TableName, { hasDateTime64 }: ServerFacts): boolean {
  return hasDateTime64 || Object.values(tables[name].columns).every((type) => digitsOf(type) === 0)
}

function visibleColumn(column: string, type: ColumnType, facts: ServerFacts): string {
  const digits = digitsOf(type)
  if (digits === 0 || facts.hasDateTime64) return quoted(column)
  // A server without DateTime64 shows whole seconds; the stored value keeps the fraction.
  return `toDateTime(intDiv(${quoted(column)}, ${10 ** digits}), 'UTC') AS ${quoted(column)}`
}

function createTableSql(name: TableName, facts: ServerFacts): string {
  const table: Table = tables[name]
  const columns = Object.entries(table.columns).map(
    ([column, type]) => `${quoted(column)} ${storedType(type, facts)}`,
  )
  return `CREATE TABLE IF NOT EXISTS ${storedName(name)} (${columns.join(', ')})
    ENGINE = ReplacingMergeTree() PARTITION BY ${partitionOf(table, facts)}
    ORDER BY (${table.key.map(quoted).join(', ')})`
}

/** Partitions by the key or a value fixed per key, so that duplicates share a partition. */
function partitionOf({ columns, key }: Table, facts: ServerFacts): string {
  const [first = ''] = key
  if (first === 'slot') return `intDiv(slot, ${slotsPerPartition})`
  if (first === 'seq') return `intDiv(seq, ${seqsPerPartition})`
  const [column, type] = Object.entries(columns).find(([, type]) => digitsOf(type) > 0)!
  if (facts.hasDateTime64) return `toYYYYMMDD(${quoted(column)})`
  return `toYYYYMMDD(toDateTime(intDiv(${quoted(column)}, ${10 ** digitsOf(type)}), 'UTC'))`
}

function storedType(type: ColumnType, { hasDateTime64 }: ServerFacts): string {
  const digits = digitsOf(type)
  const stored = digits > 0 && !hasDateTime64 ? type.replace(/DateTime64\(\d\)/, 'Int64') : type
  return stored
    .replace(/DateTime64\((\d)\)/, "DateTime64($1, 'UTC')")
    .replace(/DateTime(?!64)/, "DateTime('UTC')")
}

/** Fractional digits of a DateTime64; 0 for other types. */
export function digitsOf(type: ColumnType): number {
  return Number(/DateTime64\((\d)\)/.exec(type)?.[1] ?? 0)
}

/** Our column names are plain words, but some are also SQL functions. */
export function quoted(name: string): string {
  return `\`${name}\``
}

async function columnsOf(client: ClickhouseClient): Promise<Map<string, string[]>> {
  const rows = await client.rows<{ table: string; name: string }>(
    `SELECT table, name FROM system.columns WHERE database = '${database}'`,
  )
  const found = new Map<string, string[]>()
  for (const { table, name } of rows) found.set(table, [...(found.get(table) ?? []), name])
  return found
}

/** Rows and bytes of the stored tables; rows whose key was written again count until merged. */
export async function readSizes(client: ClickhouseClient): Promise<TableSizes> {
  const found = await client.rows<{ name: string; n: string; bytes: string }>(
    `SELECT table AS name, toString(sum(rows)) AS n, toString(sum(bytes_on_disk)) AS bytes
      FROM system.parts WHERE active AND database = '${database}' GROUP BY table`,
  )
  const sizes = new Map(found.map(({ name, ...size }) => [name, size]))
  const sizeOf = (name: TableName): TableSize => {
    const { n, bytes } = sizes.get(`_${name}`) ?? { n: 0, bytes: 0 }
    return { rows: Number(n), bytes: Number(bytes) }
  }
  return Object.fromEntries(tableNames.map((name) => [name, sizeOf(name)]))
}

/**
 * Logs which accesses the server itself would refuse if the query gate failed, as a warning when
 * one is missing. `query` runs customers' queries and may be the same user as `writer`.
 */
export async function reportRights(
  { writer, query }: { readonly writer: ClickhouseClient; readonly query: ClickhouseClient },
  log: Log,
): Promise<void> {
  const [processes, seen, stored] = await Promise.all([
    rowsIn(query, 'system.processes'),
    rowsIn(query, storedName('usage')),
    rowsIn(writer, storedName('usage')),
  ])
  const isSystemReadable = processes !== null
  const rights = {
    queryUser: query === writer ? 'the writer' : 'its own',
    systemTables: isSystemReadable ? 'readable' : 'refused',
    usageRows:
      seen === 0 ? (stored === 0 ? 'none yet' : 'own only') : seen === null ? 'refused' : 'all',
  }
  const isComplete = query !== writer && !isSystemReadable && rights.usageRows !== 'all'
  if (isComplete) log.info('ClickHouse guards customers from each other', rights)
  else log.warn('only the query gate guards customers from each other, see OPERATING.md', rights)
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

// Detects the version and features of a ClickHouse server, once at start. Thread: main, writer
// process. Servers may be eight years old, and reject settings that they do not know.

export interface ServerFacts {
  readonly version: string
  /** Times with fractional seconds; absent before 20.1. */
  readonly hasDateTime64: boolean
  /** The type Bool; absent before 21.12. */
  readonly hasBool: boolean
  /** Names of the settings that the server knows. */
  readonly settings: ReadonlySet<string>
}

export async function readServerFacts(client: ClickhouseClient): Promise<ServerFacts> {
  const [version, functions, settings] = await Promise.all([
    client.rows<{ version: string }>('SELECT version() AS version'),
    client.rows<{ name: string }>(
      "SELECT name FROM system.functions WHERE name IN ('toDateTime64', 'toBool')",
    ),
    client.rows<{ name: string }>('SELECT name FROM system.settings'),
  ])
  const has = (name: string) => functions.some((one) => one.name === name)
  return {
    version: version[0]?.version ?? '',
    hasDateTime64: has('toDateTime64'),
    hasBool: has('toBool'),
    settings: new Set(settings.map(({ name }) => name)),
  }
}

/** Filters the settings to those that the server knows, in their order. */
export function known(
  facts: ServerFacts,
  settings: Readonly<Record<string, string | number>>,
): Record<string, string> {
  const found = Object.entries(settings).filter(([name]) => facts.settings.has(name))
  return Object.fromEntries(found.map(([name, value]) => [name, String(value)]))
}
