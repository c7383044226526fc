// An embedded index of an earlier version, whose tables lack a column: opened, written, merged.
import { mkdtemp, readdir, rename, rm } from 'node:fs/promises'
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
async function dropColumn(): Promise<void> {
  for (const name of await files(/^(hot|seg)-.*\.duckdb$/)) {
    const instance = await DuckDBInstance.create(join(folder, name))
    const connection = await instance.connect()
    await connection.run('ALTER TABLE contention DROP COLUMN block_hash')
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
  await dropColumn()
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
