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
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { backoffMs } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import type { TableSize, TableSizes } from '../catalogue.ts'
import type { QueryError } from '../clickhouse/exceptions.ts'
import { readException } from '../clickhouse/server/server-exception.ts'
import { awayText } from '../config.ts'
import type { ColumnType, Table, TableName } from '../tables.ts'
import { tableNames, tables, timeSourceOf } from '../tables.ts'

// HTTP client of one ClickHouse server. Thread: main (queries), writer process (rows).
// Credentials of the URL are sent in headers; neither they nor the URL appear in any message.

const keepAliveMs = 8_000
const connectMs = 5_000
const answerMsMax = 60_000
/** A server that does not tell its version for so long is away. */
const versionMsMax = 5_000
export const connectionsAtStart = 5
const answerBytesMax = 16 * 1024 * 1024
const errorBytesMax = 256 * 1024

interface Call {
  /** The statement; with rows it is sent in the URL, else in the body. */
  readonly sql: string
  readonly rows?: string | AsyncIterable<Uint8Array>
  /** URL parameters, in this order: `readonly` last, because it forbids settings after it. */
  readonly params?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Timeout until the first byte of the answer; 0 = none. */
  readonly firstByteMs?: number
}

type Streamed =
  | { readonly ok: true; readonly body: Readable; readonly tag: string | null }
  | { readonly ok: false; readonly exception: QueryError }

export class ClickhouseClient {
  readonly #pool: Pool
  readonly #path: string
  readonly #headers: Readonly<Record<string, string>>

  constructor(url: string, options: { readonly connections: number }) {
    const { origin, pathname, username, password } = readAddress(url)
    this.#path = pathname
    this.#headers = {
      'x-clickhouse-user': decodeURIComponent(username) || 'default',
      ...(password !== '' && { 'x-clickhouse-key': decodeURIComponent(password) }),
    }
    this.#pool = new Pool(origin, {
      connections: options.connections,
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      connect: { timeout: connectMs },
      bodyTimeout: 0,
    })
  }

  /** The whole answer as a string. Rejects with a Fault: a server exception, or unreachable. */
  async run(call: Call): Promise<string> {
    const streamed = await this.stream({ firstByteMs: answerMsMax, ...call })
    if (!streamed.ok) throw faultOf(streamed.exception)
    try {
      return (await collect(streamed.body, answerBytesMax)).toString()
    } catch (error) {
      throw unreachable(error)
    }
  }

  /** Runs a query and returns its rows. */
  async rows<Row>(sql: string, call: Omit<Call, 'sql'> = {}): Promise<Row[]> {
    const text = await this.run({ ...call, sql: `${sql} FORMAT JSONEachRow` })
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Row)
  }

  /** Streams the answer. Rejects with a Fault when the server is unreachable, or on `signal`. */
  async stream({ sql, rows, params, signal, firstByteMs = 0 }: Call): Promise<Streamed> {
    const search = new URLSearchParams()
    if (rows !== undefined) search.set('query', sql)
    for (const [name, value] of Object.entries(params ?? {})) search.set(name, value)
    const query = search.toString()
    let answer: Awaited<ReturnType<Pool['request']>>
    try {
      answer = await this.#pool.request({
        method: 'POST',
        path: query === '' ? this.#path : `${this.#path}?${query}`,
        headers: this.#headers,
        // Reason for the cast: undici takes any async iterable, and its types do not say so.
        body: (rows ?? sql) as string | Readable,
        headersTimeout: firstByteMs,
        ...(signal !== undefined && { signal }),
      })
    } catch (error) {
      throw unreachable(error)
    }
    const { statusCode, headers, body } = answer
    if (statusCode === 200 && headers['x-clickhouse-exception-code'] === undefined) {
      const tag = headers['x-clickhouse-exception-tag']
      return { ok: true, body, tag: typeof tag === 'string' ? tag : null }
    }
    const text = (await collect(body, errorBytesMax).catch(() => '')).toString()
    // From a proxy whose server cannot be reached; the server's own errors have a code.
    const isAway = statusCode >= 502 && statusCode <= 504 && !text.includes('Code: ')
    if (isAway) throw unreachable(new Error(`a proxy answered ${statusCode}`))
    return { ok: false, exception: readException(text, statusCode) }
  }

  async stop(): Promise<void> {
    await this.#pool.destroy()
  }
}

/** Parses the URL; errors do not quote it, because it may contain a password. */
function readAddress(url: string): URL {
  const wrong = (why: string) => new Fault('clickhouse-address', `indexer.url ${why}`)
  if (!URL.canParse(url)) throw wrong('is not a URL like http://user:password@host:8123')
  const address = new URL(url)
  if (address.protocol !== 'http:' && address.protocol !== 'https:')
    throw wrong('must begin with http:// or https://')
  return address
}

async function collect(body: Readable, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of body as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > bytesMax) throw new Error('the answer is too long')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** Errors of the rows and of the schema: a retry fails, too. All others may end, as a full disk. */
const finalCodes: readonly number[] = [
  ...[6, 7, 8, 10, 15, 16, 20, 25, 26, 27, 36, 38, 41, 42, 43, 44, 46, 47, 48, 49, 50, 53, 60, 62],
  ...[69, 70, 72, 73, 81, 115, 117, 122, 128, 130, 131, 190, 307, 321, 349, 386, 469],
]

function faultOf({ code, name, message }: QueryError): Fault {
  const retryable = !finalCodes.includes(code)
  return new Fault('clickhouse', `ClickHouse answered ${code} ${name}: ${message}`, { retryable })
}

function unreachable(error: unknown): Fault {
  if (error instanceof Fault) return error
  // The message of a socket error may contain the address.
  const code = (error as { code?: unknown } | null)?.code
  const why = typeof code === 'string' ? code : messageOf(error).slice(0, 40)
  return new Fault('clickhouse-away', `${awayText}: ${why}`, { retryable: true })
}

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
      if (!existing.has(column)) {
        const added = `${quoted(column)} ${storedType(type, facts)}`
        await client.run({ sql: `ALTER TABLE ${storedName(name)} ADD COLUMN ${added}` })
      }
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
  const rows = visibleSql(name, facts, columns)
  await client.run({ sql: `CREATE VIEW IF NOT EXISTS ${database}.${name} AS ${rows}` })
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
    if (messageOf(error).startsWith(awayText)) throw error
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
  const over = new AbortController()
  const { signal } = over
  // Connections whose bytes vanish never answer, and new ones do: one more each second.
  const ask = async (_: unknown, seconds: number) => {
    await sleep(seconds * 1_000, undefined, { signal })
    const sql = 'SELECT version() AS version'
    return client.rows<{ version: string }>(sql, { firstByteMs: versionMsMax, signal })
  }
  const asked = Array.from({ length: connectionsAtStart }, ask)
  const version = await Promise.race(asked).finally(() => over.abort())
  const names = (from: string) => client.rows<{ name: string }>(`SELECT name FROM system.${from}`)
  const [functions, settings] = await Promise.all([
    names("functions WHERE name IN ('toDateTime64', 'toBool')"),
    names('settings'),
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

// Gives rows that were written before their table had a time the one of their block, on a
// ClickHouse server. Thread: writer process, between its writes.
//
//   rows of a range of the key without a time ─ JOIN blocks ─► INSERT: replaces them by their key
//                                              then the mark: what was done is not done again
//
// A range is small, so that a write waits for one insert at most. A crash repeats a range, which
// changes nothing. Rows without a block stay NULL.

/** Slots, or numbers of events: about a million rows of the busiest table at most. */
const rangeMax = 250
const secondsMax = 60
/** Names of these marks begin so; those of feeds do not. */
export const timeMark = 'time of '

interface TimeFill {
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
