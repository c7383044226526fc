// An embedded index of an earlier version, whose tables lack a column: opened, written, merged, and
// given the times that its rows lack.
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { DuckDBInstance } from '@duckdb/node-api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import { tables } from '../../src/indexer/tables.ts'
import { rowsOf } from '../testkit/query-stage.ts'
import { openDuckdb } from '../testkit/read-back.ts'
import { batch } from '../testkit/row-samples.ts'
import { until } from '../testkit/until.ts'

/** Every write is sealed into a file of its own. */
const sealEach = { retentionMs: 1e12, retentionBytes: 1e12, hotBytesMax: 1 }
const neverSeal = { ...sealEach, hotBytesMax: 1e12 }
let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-columns-'))
})
// Query processes remove their own folders as they end.
afterEach(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))

/** A row of `contention`: every number is 1, but for its seq. */
function row(seq: number, block_hash: string) {
  const cells = Object.entries(tables.contention.columns).map(([name, type]) => {
    if (name === 'seq') return seq
    return type === 'String' ? block_hash : 1
  })
  return batch('contention', [cells])
}

const files = async (pattern: RegExp) =>
  (await readdir(folder)).filter((name) => pattern.test(name)).sort()

async function write(options: typeof sealEach, seqs: readonly number[], hash: string) {
  const sink = await openDuckdbSink(folder, options)
  for (const seq of seqs) await sink.write([row(seq, hash)], { events: seq })
  await sink.stop()
}

/** Makes the files what an earlier version wrote. */
async function dropColumn(column: string, ...tables: readonly string[]): Promise<void> {
  for (const name of await files(/^(hot|seg)-.*\.duckdb$/)) {
    const instance = await DuckDBInstance.create(join(folder, name))
    const connection = await instance.connect()
    const found = await connection.runAndReadAll('SELECT table_name FROM duckdb_tables()')
    const present = found.getRows().map(([table]) => String(table))
    for (const table of tables.filter((one) => present.includes(one)))
      await connection.run(`ALTER TABLE ${table} DROP COLUMN "${column}"`)
    connection.closeSync()
    instance.closeSync()
  }
}

test('an index without a column is read, written and merged with an empty one', async () => {
  await write(sealEach, [1, 2, 3, 4, 5], '0xlost')
  await write(neverSeal, [6], '0xlost')
  // The last file becomes the hot one again: version 0.2.0 stopped without sealing it.
  for (const name of await files(/^hot-/)) await rm(join(folder, name))
  await rename(join(folder, 'seg-6-6-0.duckdb'), join(folder, 'hot-6.duckdb'))
  expect((await files(/^seg-/)).length).toBe(5)
  await dropColumn('block_hash', 'contention')
  const sink = await openDuckdbSink(folder, sealEach)
  const engine = await openDuckdb(folder, { log: silentLog })
  const read = () => rowsOf(engine, 'SELECT seq, block_hash FROM contention ORDER BY seq')
  const old = [1, 2, 3, 4, 5, 6].map((seq) => [String(seq), ''])
  try {
    expect(await read()).toEqual(old)
    // Seq 6 is a duplicate of a row in the changed hot file, seq 5 of one in a sealed file.
    for (const seq of [5, 6, 7, 8, 9, 10]) await sink.write([row(seq, '0xab')], { events: seq })
    const all = [...old, ...[7, 8, 9, 10].map((seq) => [String(seq), '0xab'])]
    expect(await read()).toEqual(all)
    await until(async () => {
      await sink.tidy()
      return (await files(/^seg-(\d+)-(?!\1-)/)).length === 1
    }, 'the merge of eight files, old and new')
    expect(await read()).toEqual(all)
  } finally {
    await engine.stop()
    await sink.stop()
  }
})

const second = 1_700_000_000

/** Slots and events with the same numbers: blocks alone, or what happened in them. */
function blocksOf(number: number) {
  const started = BigInt(second + number) * 1_000_000_000n
  return [
    batch('blocks', [[number, number - 1, `h${number}`, number, second + number, 1]]),
    batch('execution_blocks', [[number, `0x${number}`, '', 1, 1, started]]),
  ]
}

function contentOf(number: number) {
  const instruction = [number, 0, 0, -1, 's', 'p', [], '', second + number]
  return [
    batch('instructions', [instruction]),
    batch('tps', [[100 + number, number, 7, BigInt(second + number) * 1_000_000_000n]]),
  ]
}

test('rows of an earlier version have no time until they get that of their block, once', async () => {
  let sink = await openDuckdbSink(folder, sealEach)
  const marks = (number: number) => ({ slots: number, events: 100 + number })
  await sink.write([...blocksOf(1), ...contentOf(1)], marks(1))
  // A block is in the file before, in the one after, and of slot 4 nowhere.
  await sink.write([...blocksOf(2)], marks(2))
  await sink.write([...contentOf(2), ...contentOf(3), ...contentOf(4)], marks(4))
  await sink.write(blocksOf(3), marks(4))
  await sink.stop()
  await dropColumn('block_time', 'instructions')
  await dropColumn('at', 'tps')
  const old = join(folder, 'seg-3-3-0.duckdb')
  const copy = await readFile(old)
  const engine = await openDuckdb(folder, { log: silentLog })
  const times = async () => [
    ...(await rowsOf(engine, 'SELECT block_time FROM instructions ORDER BY slot')),
    ...(await rowsOf(engine, 'SELECT toUnixTimestamp(at) FROM tps ORDER BY seq')),
  ]
  const minute = (seconds: number) => `2023-11-14 22:13:${20 + seconds}`
  try {
    expect(await times()).toEqual(Array(8).fill([null]))
    const filled = [
      ...[[minute(1)], [minute(2)], [minute(3)], [null]],
      ...[[second + 1], [second + 2], [second + 3], [null]],
    ]
    sink = await openDuckdbSink(folder, sealEach)
    const isFilled = async () => {
      const found = await times()
      const known = new Set<unknown>(filled.flat())
      expect(found.flat().filter((time) => !known.has(time))).toEqual([])
      return JSON.stringify(found) === JSON.stringify(filled)
    }
    await until(isFilled, 'times of the old rows')
    // Rows of this version come with their time.
    await sink.write([...blocksOf(5), ...contentOf(5)], marks(5))
    const hasNew = async () => (await times()).flat().includes(minute(5))
    await until(hasNew, 'the new row')
    await until(async () => (await files(/^seg-\d+-\d+-1\.duckdb$/)).length === 2, 'two new files')
    await sink.stop()
    // Killed before the file that was replaced was deleted, and while another one was written.
    await writeFile(old, copy)
    await writeFile(join(folder, 'new-seg-1-1-2.duckdb'), copy.subarray(0, 5_000))
    const before = await files(/^seg-.*-1\.duckdb$/)
    sink = await openDuckdbSink(folder, sealEach)
    await sink.tidy()
    expect((await times()).length).toBe(10)
    expect(await files(/^seg-.*-[12]\.duckdb$/)).toEqual(before)
  } finally {
    await engine.stop()
    await sink.stop()
  }
})

test('a cut ends the copy of a file that is getting its times, which has the same name', async () => {
  let sink = await openDuckdbSink(folder, sealEach)
  for (const number of [1, 2, 3])
    await sink.write([...blocksOf(number), ...contentOf(number)], { slots: number })
  await sink.stop()
  await dropColumn('block_time', 'instructions')
  for (let round = 0; round < 3; round++) {
    sink = await openDuckdbSink(folder, sealEach)
    // The newest file is copied with its times from the start on: by the same name.
    await sink.cut(3 - round, 3)
    expect((await sink.marks()).slots).toBe(2 - round)
    expect([...(await sink.blockhashes(1, 3)).keys()]).toHaveLength(2 - round)
    await sink.stop()
  }
})

test('a merge gives rows their times, too', async () => {
  let sink = await openDuckdbSink(folder, sealEach)
  for (const number of [1, 2, 3, 4, 5, 6, 7, 8])
    await sink.write([...blocksOf(number), ...contentOf(number)], { slots: number })
  await sink.stop()
  await dropColumn('block_time', 'instructions')
  sink = await openDuckdbSink(folder, sealEach)
  try {
    await until(async () => (await files(/^seg-1-8-\d\.duckdb$/)).length === 1, 'the merge')
    const engine = await openDuckdb(folder, { log: silentLog })
    const late = 'SELECT count() FROM instructions i JOIN blocks b USING slot'
    expect(await rowsOf(engine, `${late} WHERE i.block_time = b.block_time`)).toEqual([['8']])
    await engine.stop()
  } finally {
    await sink.stop()
  }
})

test('an index that was closed does not delete the log of the next one', async () => {
  setFlagsFromString('--expose-gc')
  // Reason for the cast: the flag above adds it.
  const collect = runInNewContext('gc') as () => void
  await write(neverSeal, [1], '0xab')
  const sink = await openDuckdbSink(folder, neverSeal)
  try {
    await sink.write([row(2, '0xab')], { events: 2 })
    // The first collects what was closed, the next ones run its finalizers.
    for (let turn = 0; turn < 4; turn++) {
      collect()
      await setImmediate()
    }
    expect((await files(/^hot-.*\.wal$/)).length).toBe(1)
  } finally {
    await sink.stop()
  }
})
