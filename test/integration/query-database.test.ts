// What a query process does when a new snapshot arrives: only what the query needs.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { QueryDatabase, StaleSnapshot } from '../../src/indexer/duckdb/query-database.ts'
import { type DuckdbSink, openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import type { StoreSnapshot } from '../../src/indexer/duckdb/store-files.ts'
import { tables } from '../../src/indexer/tables.ts'
import { batch, transactionRows } from '../testkit/row-samples.ts'

let folder: string
let sink: DuckdbSink
let database: QueryDatabase

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-snapshot-'))
  sink = await openDuckdbSink(folder, { retentionMs: 1e12, retentionBytes: 1e12 })
  database = await QueryDatabase.open({
    folder,
    scratch: join(folder, 'scratch'),
    memoryBytes: 256_000_000,
    threads: 1,
  })
})
afterEach(async () => {
  database.close()
  await sink.stop()
  await rm(folder, { recursive: true, force: true })
})

async function addTransactions(slot: number): Promise<StoreSnapshot> {
  await sink.write([transactionRows({ slot, slots: 1, perSlot: 3 })], { slots: slot })
  return sink.publish()
}

async function addTps(seq: number): Promise<StoreSnapshot> {
  const cells = Object.keys(tables.tps.columns).map((name) => (name === 'seq' ? seq : 1))
  await sink.write([batch('tps', [cells])], { events: seq })
  return sink.publish()
}

/** The statements that DuckDB runs until the table is ready. */
async function statementsFor(snapshot: StoreSnapshot, table: string): Promise<string> {
  const run = vi.spyOn(database.connection, 'run')
  const read = vi.spyOn(database.connection, 'runAndReadAll')
  await database.refresh(snapshot)
  await database.show(new Set([table]), 'sub_a')
  const statements = [...run.mock.calls, ...read.mock.calls].map(([sql]) => sql)
  vi.restoreAllMocks()
  return statements.join(';')
}

async function count(table: string): Promise<number> {
  const found = await database.connection.runAndReadAll(`SELECT count(*) FROM chain.${table}`)
  return Number(found.getRows()[0]![0])
}

test('a snapshot with new rows of other tables costs a query nothing', async () => {
  expect(await statementsFor(await addTransactions(1), 'transactions')).toContain('VIEW')
  const next = await addTps(1)
  expect(await statementsFor(next, 'transactions')).toBe('')
  expect(await count('transactions')).toBe(3)
  expect(await statementsFor(next, 'tps')).toContain('VIEW')
  expect(await count('tps')).toBe(1)
})

test('new rows cost one statement for the files and one for the view', async () => {
  await statementsFor(await addTransactions(1), 'transactions')
  await addTransactions(2)
  const statements = await statementsFor(await addTransactions(3), 'transactions')
  expect(statements.match(/ATTACH|VIEW|duckdb_columns/g)).toEqual(['ATTACH', 'ATTACH', 'VIEW'])
  expect(await count('transactions')).toBe(9)
})

test('after a snapshot with a deleted file the next one is read whole', async () => {
  await statementsFor(await addTransactions(1), 'transactions')
  const good = await addTransactions(2)
  const gone = { name: 'seg-99-99-0.duckdb', tables: ['transactions'] as const }
  await database.refresh({ version: good.version, files: [...good.files, gone] })
  const shown = database.show(new Set(['transactions']), 'sub_a')
  await expect(shown).rejects.toThrow(StaleSnapshot)
  await statementsFor({ ...good, version: good.version + 1 }, 'transactions')
  expect(await count('transactions')).toBe(6)
})
