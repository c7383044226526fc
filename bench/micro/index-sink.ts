// Rows per second into the embedded index's sink: transactions in writes of 2,000, each durable
// before the next. Thread: main of the bench process.
// The plain way is DuckDB's own appender on the same rows, committed as often: without keys, marks,
// sealing and merging. The last way has a reader that asks for the newest rows four times a second;
// its latency is that from the request until all rows that were durable then are readable. Version
// 0.2.0, which copied the newest rows, had 87,000 rows/s there (0.76 of the appender) and a p50 of
// 265 to 324 ms on a busy machine of two cores.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { appendRows } from '../../src/indexer/duckdb/chunks.ts'
import { createTableSql } from '../../src/indexer/duckdb/columns.ts'
import { openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import { requestSnapshot, socketPath } from '../../src/indexer/duckdb/snapshot-socket.ts'
import type { RowBatch } from '../../src/indexer/engine.ts'
import { countRows } from '../../test/testkit/index-reader.ts'
import { transactionRows } from '../../test/testkit/row-samples.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { LatencyHistogram } from '../lib/histogram.ts'

const rowsPerWrite = 2000
const askEveryMs = 250
const forever = { retentionMs: 1e15, retentionBytes: 1e15 }
/** Made once; each write moves its slot on. */
const sample = transactionRows({ slot: 0, slots: 1, perSlot: rowsPerWrite })

const appender: Contender = {
  name: "DuckDB's appender",
  run: ({ seconds }) => inFolder((folder) => appendOnly(folder, seconds)),
}
const sink: Contender = {
  name: 'the sink',
  run: ({ seconds }) => inFolder((folder) => writeSink(folder, seconds, false)),
}
const asked: Contender = {
  name: 'the sink, readers asking',
  run: ({ seconds }) => inFolder((folder) => writeSink(folder, seconds, true)),
}

export const bench: Bench = {
  name: 'index-sink',
  question: 'How many rows per second does the sink take on one core, beside DuckDB itself?',
  cores: 1,
  baseline: appender,
  candidates: [sink, asked],
  goals: [
    { contender: asked.name, figure: 'opsPerSecond', atLeast: 50_000 },
    { contender: asked.name, figure: 'p50', atMost: 250_000 },
  ],
  verify: ({ evidence }) =>
    evidence?.rows === evidence?.written
      ? undefined
      : `${String(evidence?.rows)} rows are there, ${String(evidence?.written)} were written`,
}

async function inFolder(work: (folder: string) => Promise<Measurement>): Promise<Measurement> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-sink-'))
  try {
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function slotRows(slot: number): RowBatch {
  const column = Array<bigint>(rowsPerWrite).fill(BigInt(slot))
  return { ...sample, columns: [column, ...sample.columns.slice(1)] }
}

async function appendOnly(folder: string, seconds: number): Promise<Measurement> {
  const instance = await DuckDBInstance.create(join(folder, 'plain.duckdb'), { threads: '1' })
  const connection = await instance.connect()
  await connection.run(createTableSql('plain.main', 'transactions'))
  let written = 0
  const beganMs = performance.now()
  for (let slot = 1; performance.now() - beganMs < seconds * 1000; slot += 1) {
    await connection.run('BEGIN')
    const rows = await connection.createAppender('transactions')
    appendRows(rows, slotRows(slot), { first: 0, end: rowsPerWrite })
    rows.closeSync()
    await connection.run('COMMIT')
    written += rowsPerWrite
  }
  const tookMs = performance.now() - beganMs
  const found = await connection.runAndReadAll('SELECT count(*) FROM transactions')
  const rows = Number(found.getRows()[0]![0])
  instance.closeSync()
  return { opsPerSecond: (written / tookMs) * 1000, evidence: { rows, written } }
}

async function writeSink(folder: string, seconds: number, isAsked: boolean): Promise<Measurement> {
  const opened = await openDuckdbSink(folder, forever)
  let isDone = false
  const readable = new LatencyHistogram()
  const asking = (async () => {
    while (isAsked && !isDone) {
      const askedMs = performance.now()
      await requestSnapshot(socketPath(folder), 10_000)
      readable.recordNs((performance.now() - askedMs) * 1e6)
      await new Promise((resolve) => setTimeout(resolve, askEveryMs))
    }
  })()
  let written = 0
  const beganMs = performance.now()
  for (let slot = 1; performance.now() - beganMs < seconds * 1000; slot += 1) {
    await opened.write([slotRows(slot)], { slots: slot })
    written += rowsPerWrite
  }
  const tookMs = performance.now() - beganMs
  isDone = true
  await asking
  await opened.publish()
  const { rows } = await countRows(folder, 'transactions')
  await opened.stop()
  return {
    opsPerSecond: (written / tookMs) * 1000,
    ...(isAsked && { latencyUs: readable.summary() }),
    evidence: { rows, written },
  }
}
