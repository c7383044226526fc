// Writes rows to a ClickHouse server: the `RowSink` of the ClickHouse engine.
// Thread: writer process.
//
//   write(rows, marks) -> by table -> INSERT … JSONEachRow -> marks -> resolved
//
// An acknowledged INSERT survives a crash of the ClickHouse server. Marks are written after their
// rows: after a crash in between the rows are written again, and the tables deduplicate them by
// key. ClickHouse prefers few and large inserts: the writer gathers rows for `insertMs`.
//
// Only the holder of the writer lease writes, and only while it lasts (below). Who takes over from
// a dead one ends inserts that are still running, and deletes what is beyond the marks.
import { setTimeout as sleep } from 'node:timers/promises'
import { Fault, messageOf } from '../../base/errors.ts'
import { clickhouseString } from '../clickhouse/sql/lexer.ts'
import type { Cell, Marks, RowBatch, RowSink, SinkEvents } from '../engine.ts'
import type { ColumnType, Table, TableName } from '../tables.ts'
import { slotTables, tableNames, tables } from '../tables.ts'
import { supersededKind, WriterLease } from './lease.ts'
import type { ServerFacts } from './schema.ts'
import {
  ClickhouseClient,
  connectionsAtStart,
  database,
  digitsOf,
  ensureTables,
  fillNext,
  known,
  marksTable,
  migrateKeys,
  openTimeFills,
  readServerFacts,
  storedName,
  timeMark,
} from './schema.ts'

export interface ClickhouseSinkOptions {
  readonly retentionDays: number
  /** Names this server in the writer lease, for the operator of another server. */
  readonly holder: string
  /** Lifetime of the lease without a heartbeat; for tests. */
  readonly leaseMs?: number
  readonly events?: SinkEvents
}

const rowsPerInsertMax = 100_000
const bytesPerInsertMax = 32 * 1024 * 1024
/** Rows are encoded in pieces of this many, so that an insert stays within its size limit. */
const rowsPerPiece = 5_000
const insertMsMax = 60_000
const upkeepMs = 15_000
const dropEveryMs = 3_600_000
const cutMsMax = 600_000
const cutPollMs = 50

const seqTables = tableNames.filter((name) => tables[name].key[0] === 'seq')
/** A block is written last: where it is, all rows of its slot are. */
const writeOrder = [...tableNames.filter((name) => name !== 'blocks'), 'blocks'] as const

export async function openClickhouseSink(
  url: string,
  options: ClickhouseSinkOptions,
): Promise<RowSink> {
  const client = new ClickhouseClient(url, { connections: connectionsAtStart })
  const lease = new WriterLease(client, options.holder, options.leaseMs)
  try {
    const facts = await readServerFacts(client)
    await ensureTables(client, facts)
    await lease.acquire()
    await migrateKeys(client, facts)
    const sink = new ClickhouseSink({ client, facts, lease }, options)
    await lease.takeOver(async () => {
      await endInserts(client)
      await sink.cutUnmarked()
    })
    sink.start()
    return sink
  } catch (error) {
    await lease.release()
    await client.stop()
    throw error
  }
}

interface Opened {
  readonly client: ClickhouseClient
  readonly facts: ServerFacts
  readonly lease: WriterLease
}

class ClickhouseSink implements RowSink {
  readonly #client: ClickhouseClient
  readonly #facts: ServerFacts
  readonly #lease: WriterLease
  readonly #options: ClickhouseSinkOptions
  #upkeep: NodeJS.Timeout | null = null
  #droppedMs = Number.NEGATIVE_INFINITY
  /** The last write; never rejects. */
  #writing: Promise<unknown> = Promise.resolve()
  /** The highest of the marks. */
  #version = 0
  #inserts = 0
  #isStopped = false
  /** Rows without a time are being given one, or were. */
  #isTimed = false

  constructor({ client, facts, lease }: Opened, options: ClickhouseSinkOptions) {
    this.#client = client
    this.#facts = facts
    this.#lease = lease
    this.#options = options
  }

  /** Begins the upkeep: after what another writer left was cut. */
  start(): void {
    void this.#keepUp()
    this.#upkeep = setInterval(() => void this.#keepUp(), upkeepMs).unref()
  }

  async marks(): Promise<Marks> {
    const rows = await this.#client.rows<{ feed: string; mark: string; top: string }>(
      `SELECT feed, toString(argMax(mark, version)) AS mark, toString(max(version)) AS top
        FROM ${marksTable} WHERE feed NOT LIKE '${timeMark}%' GROUP BY feed`,
    )
    for (const { top } of rows) this.#version = Math.max(this.#version, Number(top))
    return Object.fromEntries(rows.map(({ feed, mark }) => [feed, Number(mark)]))
  }

  write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    if (this.#isStopped) return Promise.reject(new Fault('clickhouse', 'the sink is stopped'))
    return this.#inTurn(() => this.#write(batches, marks))
  }

  async blockhashes(from: number, to: number): Promise<ReadonlyMap<number, string>> {
    const rows = await this.#client.rows<{ at: string; blockhash: string }>(
      `SELECT toString(slot) AS at, if(sum(surplus) < 0, '', max(hash)) AS blockhash FROM (
        SELECT slot, blockhash AS hash, -toInt64(tx_count) AS surplus
          FROM ${storedName('blocks')} FINAL WHERE slot BETWEEN ${from} AND ${to}
        UNION ALL SELECT slot, '' AS hash, toInt64(uniqExact(idx)) AS surplus
          FROM ${storedName('transactions')} WHERE slot BETWEEN ${from} AND ${to} GROUP BY slot
      ) GROUP BY slot HAVING max(hash) != ''`,
    )
    return new Map(rows.map(({ at, blockhash }) => [Number(at), blockhash]))
  }

  cut(from: number, to: number): Promise<void> {
    return this.#inTurn(async () => {
      await this.#delete(slotTables, `slot >= ${from} AND slot <= ${to}`)
      await this.#setMarks({ slots: from - 1 })
    })
  }

  /**
   * Deletes what is beyond the marks, whose rows may be incomplete: the writer before us died. They
   * come again, perhaps from another node, whose write versions are other keys of
   * `account_updates`.
   */
  async cutUnmarked(): Promise<void> {
    const { slots, events } = await this.marks()
    if (slots !== undefined) await this.#delete(slotTables, `slot > ${slots}`)
    if (events !== undefined) await this.#delete(seqTables, `seq > ${events}`)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#upkeep !== null) clearInterval(this.#upkeep)
    await this.#writing
    await this.#lease.release()
    await this.#client.stop()
  }

  /** Writes, cuts and fills of times, one after the other: none reads what another removes. */
  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#writing.then(task)
    this.#writing = done.catch(() => {})
    return done
  }

  async #write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    try {
      for (const table of writeOrder) {
        const own = batches.filter((batch) => batch.table === table && batch.count > 0)
        for (const text of this.#insertsOf(own)) await this.#insert(storedName(table), text)
      }
      await this.#setMarks(marks)
    } catch (error) {
      throw error instanceof Fault ? error : new Fault('clickhouse', messageOf(error))
    }
  }

  async #setMarks(marks: Marks): Promise<void> {
    // Versions increase even when the clock goes back, or the writer before had another one.
    this.#version = Math.max(Date.now(), this.#version + 1)
    const version = this.#version
    const lines = Object.entries(marks).map(
      ([feed, mark]) => `${JSON.stringify({ feed, mark, version })}\n`,
    )
    if (lines.length > 0) await this.#insert(marksTable, lines.join(''))
  }

  /** The rows of one table as bodies of inserts, each within the size limits. */
  *#insertsOf(batches: readonly RowBatch[]): Iterable<string> {
    let text = ''
    let rows = 0
    for (const batch of batches)
      for (let begin = 0; begin < batch.count; begin += rowsPerPiece) {
        const end = Math.min(batch.count, begin + rowsPerPiece)
        text += encodeRows(batch, { begin, end }, this.#facts)
        rows += end - begin
        if (rows + rowsPerPiece <= rowsPerInsertMax && text.length < bytesPerInsertMax) continue
        yield text
        text = ''
        rows = 0
      }
    if (rows > 0) yield text
  }

  /** Inserting rows again, after a failure, is harmless. */
  async #insert(table: string, rows: string): Promise<void> {
    await this.#confirm()
    const sql = `INSERT INTO ${table} FORMAT JSONEachRow`
    // Rows that were deleted come again, in the same blocks.
    const params = { query_id: this.#insertId(), ...known(this.#facts, { insert_deduplicate: 0 }) }
    const fenced = inPieces(rows, () => this.#lease.check())
    await this.#client.run({ sql, rows: fenced, params, firstByteMs: insertMsMax })
  }

  /** Who takes over finds and ends an insert by it. */
  #insertId(): string {
    return `${idPrefix}${this.#lease.claim}-${++this.#inserts}`
  }

  async #delete(names: readonly TableName[], where: string): Promise<void> {
    await this.#confirm()
    for (const name of names) {
      const sql = `SELECT 1 FROM ${storedName(name)} WHERE ${where} LIMIT 1`
      if ((await this.#client.rows(sql)).length === 0) continue
      this.#lease.check()
      await this.#client.run({ sql: `ALTER TABLE ${storedName(name)} DELETE WHERE ${where}` })
    }
    // The mutations run asynchronously; until they are done, queries still see those rows.
    const endMs = performance.now() + cutMsMax
    const left = `SELECT 1 FROM system.mutations WHERE database = '${database}' AND is_done = 0`
    const late = 'rows of the old chain are still being deleted'
    while ((await this.#client.rows(left)).length > 0) {
      if (performance.now() > endMs) throw new Fault('clickhouse', late, { retryable: true })
      await sleep(cutPollMs)
    }
  }

  async #confirm(): Promise<void> {
    try {
      await this.#lease.confirm()
    } catch (error) {
      if (error instanceof Fault && error.kind === supersededKind)
        this.#options.events?.superseded?.(error.message)
      throw error
    }
  }

  async #keepUp(): Promise<void> {
    try {
      await this.#countParts()
      if (performance.now() - this.#droppedMs >= dropEveryMs) {
        await this.#dropOld()
        this.#droppedMs = performance.now()
      }
      await this.#fillTimes()
    } catch (error) {
      if (!this.#isStopped) this.#options.events?.failed(`index upkeep failed: ${messageOf(error)}`)
    }
  }

  /** Range by range, between the writes; continued by the next upkeep after a failure. */
  async #fillTimes(): Promise<void> {
    if (this.#isTimed) return
    this.#isTimed = true
    const mark = (name: string, value: number) => this.#setMarks({ [name]: value })
    const insertId = () => {
      this.#lease.check()
      return this.#insertId()
    }
    const deps = { client: this.#client, facts: this.#facts, mark, insertId }
    try {
      for (const fill of await openTimeFills(deps))
        for (let isMore = true; isMore && !this.#isStopped; ) {
          isMore = await this.#inTurn(async () => {
            await this.#confirm()
            return fillNext(fill, deps)
          })
        }
    } catch (error) {
      this.#isTimed = false
      throw error
    }
  }

  async #countParts(): Promise<void> {
    const rows = await this.#client.rows<{ name: string; most: string }>(
      `SELECT table AS name, toString(max(parts)) AS most FROM (
        SELECT table, partition, count() AS parts FROM system.parts
          WHERE active AND database = '${database}' GROUP BY table, partition) GROUP BY table`,
    )
    const own = rows.filter(({ name }) => isOurs(name))
    const counts = Object.fromEntries(own.map(({ name, most }) => [name.slice(1), Number(most)]))
    this.#options.events?.parts(counts)
  }

  /** Drops partitions without a write within the retention time, and marks of runs that ended. */
  async #dropOld(): Promise<void> {
    const oldMs = Date.now() - this.#options.retentionDays * 86_400_000
    const ended = `(feed LIKE 'tips %' OR feed LIKE 'usage %') AND version < ${oldMs}`
    if ((await this.#client.rows(`SELECT 1 FROM ${marksTable} WHERE ${ended} LIMIT 1`)).length > 0)
      await this.#client.run({ sql: `ALTER TABLE ${marksTable} DELETE WHERE ${ended}` })
    const rows = await this.#client.rows<{ table: string; partition: string }>(
      `SELECT table, partition FROM system.parts WHERE active AND database = '${database}'
        GROUP BY table, partition
        HAVING max(modification_time) < now() - ${this.#options.retentionDays * 86_400}`,
    )
    for (const { table, partition } of rows) {
      if (!isOurs(table) || !/^\d{1,20}$/.test(partition)) continue
      const sql = `ALTER TABLE ${database}.${table} DROP PARTITION ${partition}`
      await this.#client.run({ sql })
    }
  }
}

function isOurs(table: string): boolean {
  return table.startsWith('_') && tableNames.includes(table.slice(1) as TableName)
}

// Sends the rows of an insert only while the writer has the lease.
//
//   rows ─► piece ─► still ours? ─► piece ─► ... ─► the last bytes     complete: inserted
//                        └─ no: the connection is closed in the middle of a row: ClickHouse inserts
//                           nothing of it
//
// ClickHouse has no condition on an insert: so the lease is checked before each piece is written,
// in the same turn, also after the process was paused. Who takes over ends what is still running.

const idPrefix = 'sluice-index-'
/** Less than what sockets buffer: the lease is checked again and again during a long insert. */
const pieceBytes = 64 * 1024
const rowEnd = Buffer.from('}\n')
const pollMs = 50
/** An insert that runs longer has no rows to come: its writer is paused, and then refused. */
const endMsMax = 60_000

/** The rows in pieces, each after a check that may throw; all but the last end within a row. */
export async function* inPieces(text: string, check: () => void): AsyncGenerator<Uint8Array> {
  const rows = Buffer.from(text)
  for (let begin = 0; begin < rows.length; ) {
    const end = endOfPiece(rows, begin)
    check()
    yield rows.subarray(begin, end)
    begin = end
  }
}

/** Ends the inserts of writers before. */
async function endInserts(client: ClickhouseClient): Promise<void> {
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

// Encodes rows as JSONEachRow. 64-bit integers are exact. A DateTime is in
// seconds; a DateTime64 is a UTC string, or the plain count where the server lacks the type.

type Write = (cell: Cell) => string

/** The rows from `begin` up to `end`, one line each. */
export function encodeRows(
  batch: RowBatch,
  range: { readonly begin: number; readonly end: number },
  facts: ServerFacts,
): string {
  const { columns }: Table = tables[batch.table]
  const parts = Object.entries(columns).map(([name, type], index) => ({
    lead: `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`,
    write: writerOf(type, facts),
    cells: batch.columns[index]!,
  }))
  let text = ''
  for (let row = range.begin; row < range.end; row++) {
    for (const { lead, write, cells } of parts) text += lead + write(cells[row]!)
    text += '}\n'
  }
  return withoutLoneSurrogates(text)
}

function writerOf(type: ColumnType, facts: ServerFacts): Write {
  const digits = digitsOf(type)
  const write = digits > 0 && facts.hasDateTime64 ? timeWriter(digits) : String
  if (type.startsWith('Nullable(')) return (cell) => (cell === null ? 'null' : write(cell))
  if (digits > 0) return write
  switch (type) {
    case 'String':
    case 'Array(String)':
      return JSON.stringify
    case 'Float64':
      return (cell) => (Number.isFinite(cell) ? String(cell) : '0')
    default:
      return String
  }
}

/** Rows of one block share their second, so the last string is cached. */
function timeWriter(digits: number): Write {
  const unit = 10n ** BigInt(digits)
  let second = -1n
  let text = ''
  return (cell) => {
    const count = BigInt(cell as number | bigint)
    const whole = count / unit
    if (whole !== second) {
      second = whole
      text = new Date(Number(whole) * 1000).toISOString().slice(0, 19).replace('T', ' ')
    }
    return `"${text}.${String(count % unit).padStart(digits, '0')}"`
  }
}

/** JSON.stringify writes a lone surrogate as an escape, which ClickHouse rejects. */
function withoutLoneSurrogates(text: string): string {
  if (!text.includes('\\ud')) return text
  return text.replaceAll(/(?<=(?:^|[^\\])(?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, '\\ufffd')
}
