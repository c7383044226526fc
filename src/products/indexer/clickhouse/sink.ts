// Writes rows to a ClickHouse server: the `RowSink` of the ClickHouse engine.
// Thread: writer process.
//
//   write(rows, marks) -> by table -> INSERT … JSONEachRow -> marks -> resolved
//
// An acknowledged INSERT survives a crash of the ClickHouse server. Marks are written after their
// rows: after a crash in between the rows are written again, and the tables deduplicate them by
// key. Writes are sequential; ClickHouse prefers few and large inserts, so `lingerMs` is long.
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffMs } from '../../../base/backoff.ts'
import { Fault, messageOf } from '../../../base/errors.ts'
import type { Marks, RowBatch, RowSink } from '../engine.ts'
import { type FeedName, type TableName, tableNames, tables } from '../tables.ts'
import { ClickhouseClient } from './client.ts'
import { WriterLease } from './lease.ts'
import { encodeRows } from './rows.ts'
import { database, ensureTables, marksTable, storedName } from './schema.ts'
import { readServerFacts, type ServerFacts } from './server-facts.ts'

export interface ClickhouseSinkOptions {
  readonly retentionDays: number
  /** Names this server in the writer lease, for the operator of another server. */
  readonly holder: string
  /** Lifetime of the lease without a heartbeat; for tests. */
  readonly leaseMs?: number
  /** How long a write is retried before it rejects with a Fault. */
  readonly retryMs?: number
  /** Reports failures outside writes: old rows that could not be dropped. */
  warn?(text: string): void
}

const connections = 2
const rowsPerInsertMax = 100_000
const bytesPerInsertMax = 32 * 1024 * 1024
/** Rows are encoded in pieces of this many, so that an insert stays within its size limit. */
const rowsPerPiece = 5_000
/** Batching delay: each write creates a part per table and partition, which ClickHouse merges. */
const lingerMs = 500
const retryMsUsual = 30_000
const backoff = { firstMs: 100, lastMs: 5_000 }
const insertMsMax = 60_000
const dropEveryMs = 3_600_000
const cutMsMax = 600_000
const cutPollMs = 50

export async function openClickhouseSink(
  url: string,
  options: ClickhouseSinkOptions,
): Promise<RowSink> {
  const client = new ClickhouseClient(url, { connections })
  try {
    const facts = await readServerFacts(client)
    await ensureTables(client, facts)
    const lease = new WriterLease(client, options.holder, options.leaseMs)
    await lease.acquire()
    return new ClickhouseSink({ client, facts, lease }, options)
  } catch (error) {
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
  readonly lingerMs = lingerMs
  readonly #client: ClickhouseClient
  readonly #facts: ServerFacts
  readonly #lease: WriterLease
  readonly #options: ClickhouseSinkOptions
  readonly #dropTimer: NodeJS.Timeout
  /** The last write; never rejects. */
  #writing: Promise<unknown> = Promise.resolve()
  #version = 0
  #isStopped = false

  constructor({ client, facts, lease }: Opened, options: ClickhouseSinkOptions) {
    this.#client = client
    this.#facts = facts
    this.#lease = lease
    this.#options = options
    void this.#dropOld()
    this.#dropTimer = setInterval(() => void this.#dropOld(), dropEveryMs).unref()
  }

  async marks(): Promise<Marks> {
    const rows = await this.#client.rows<{ feed: FeedName; mark: string }>(
      `SELECT feed, toString(argMax(mark, version)) AS mark FROM ${marksTable} GROUP BY feed`,
    )
    return Object.fromEntries(rows.map(({ feed, mark }) => [feed, Number(mark)]))
  }

  write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    if (this.#isStopped) return Promise.reject(new Fault('clickhouse', 'the sink is stopped'))
    const written = this.#writing.then(() => this.#write(batches, marks))
    this.#writing = written.catch(() => {})
    return written
  }

  async blockhash(slot: number): Promise<string | null> {
    const rows = await this.#client.rows<{ blockhash: string }>(
      `SELECT blockhash FROM ${storedName('blocks')} FINAL WHERE slot = ${slot}`,
    )
    return rows[0]?.blockhash ?? null
  }

  async cut(from: number, to: number): Promise<void> {
    await this.#writing
    await this.#lease.confirm()
    const cutTables = tableNames.filter((name) => tables[name].feed === 'slots')
    for (const name of cutTables)
      await this.#client.run({
        sql: `ALTER TABLE ${storedName(name)} DELETE WHERE slot >= ${from} AND slot <= ${to}`,
      })
    // The mutations run asynchronously; until they are done, queries still see those rows.
    const endMs = performance.now() + cutMsMax
    const left = `SELECT 1 FROM system.mutations WHERE database = '${database}' AND is_done = 0`
    while ((await this.#client.rows(left)).length > 0) {
      if (performance.now() > endMs)
        throw new Fault('clickhouse', 'rows of the old chain are still being deleted', {
          retryable: true,
        })
      await sleep(cutPollMs)
    }
    await this.#setMarks({ slots: from - 1 })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#dropTimer)
    await this.#writing
    await this.#lease.release()
    await this.#client.stop()
  }

  async #write(batches: readonly RowBatch[], marks: Marks): Promise<void> {
    try {
      for (const table of tableNames) {
        const own = batches.filter((batch) => batch.table === table && batch.count > 0)
        for (const text of this.#insertsOf(own)) await this.#insert(storedName(table), text)
      }
      await this.#setMarks(marks)
    } catch (error) {
      throw error instanceof Fault ? error : new Fault('clickhouse', messageOf(error))
    }
  }

  async #setMarks(marks: Marks): Promise<void> {
    // Versions increase even when the clock goes back.
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

  /** Retries with exponential back-off while that may help; duplicate inserts are harmless. */
  async #insert(table: string, rows: string): Promise<void> {
    const endMs = performance.now() + (this.#options.retryMs ?? retryMsUsual)
    const sql = `INSERT INTO ${table} FORMAT JSONEachRow`
    for (let failures = 1; ; failures++) {
      try {
        await this.#lease.confirm()
        await this.#client.run({ sql, rows, firstByteMs: insertMsMax })
        return
      } catch (error) {
        const isFinal = !(error instanceof Fault) || !error.retryable || this.#isStopped
        const pauseMs = backoffMs(failures, backoff)
        if (isFinal || performance.now() + pauseMs > endMs) throw error
        await sleep(pauseMs)
      }
    }
  }

  /** Drops partitions without a write within the retention time. */
  async #dropOld(): Promise<void> {
    try {
      const rows = await this.#client.rows<{ table: string; partition: string }>(
        `SELECT table, partition FROM system.parts WHERE active AND database = '${database}'
          GROUP BY table, partition
          HAVING max(modification_time) < now() - ${this.#options.retentionDays * 86_400}`,
      )
      for (const { table, partition } of rows) {
        if (!isOurs(table) || !/^\d{1,20}$/.test(partition)) continue
        await this.#client.run({
          sql: `ALTER TABLE ${database}.${table} DROP PARTITION ${partition}`,
        })
      }
    } catch (error) {
      if (!this.#isStopped) this.#options.warn?.(`dropping old rows failed: ${messageOf(error)}`)
    }
  }
}

function isOurs(table: string): boolean {
  return table.startsWith('_') && tableNames.includes(table.slice(1) as TableName)
}
