// What every sink of the index promises, as a suite that runs on any of them: keys, marks, column
// types to their ends, cuts, and what an acknowledged write is worth when the process is killed.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { SupervisedChild } from '../../src/base/threads/supervisor.ts'
import type { Cell, Delivery, Marks, RowBatch, RowSink } from '../../src/indexer/engine.ts'
import { type ColumnType, type TableName, tableNames, tables } from '../../src/indexer/tables.ts'
import type { SinkConfig, Taken } from '../../src/indexer/writer.ts'
import { until } from './until.ts'

export interface SinkStage {
  /** A new, empty place for rows. */
  place(): Promise<SinkConfig>
  open(place: SinkConfig): Promise<RowSink>
  /**
   * Every row of a table, read as a customer's query would. Integers and times (in their own unit)
   * are numbers, bigints or digits; floats are numbers. Called while no sink is open.
   */
  read(place: SinkConfig, table: TableName): Promise<readonly (readonly unknown[])[]>
  /** Removes what `place` made. */
  dispose(place: SinkConfig): Promise<void>
  /** False where the writer process cannot reach the place. */
  readonly hasProcess: boolean
}

export function describeRowSink(name: string, stage: SinkStage): void {
  describe(`${name} as a sink of rows`, () => {
    let place: SinkConfig
    let sink: RowSink | null = null
    const reopen = async (): Promise<RowSink> => {
      await sink?.stop()
      sink = await stage.open(place)
      return sink
    }
    const read = async (table: TableName) => {
      await sink?.stop()
      sink = null
      return sorted(await stage.read(place, table))
    }

    beforeEach(async () => {
      place = await stage.place()
      await reopen()
    })
    afterEach(async () => {
      await sink?.stop()
      sink = null
      await stage.dispose(place)
    })

    test('has no marks before the first write, and those of the last one after', async () => {
      expect(await sink!.marks()).toEqual({})
      await sink!.write([tpsRows(1, 3)], { events: 3 })
      await sink!.write([blockRows(7, 9)], { slots: 9 })
      expect(await sink!.marks()).toEqual({ events: 3, slots: 9 })
      await reopen()
      expect(await sink!.marks()).toEqual({ events: 3, slots: 9 })
      await sink!.write([tpsRows(4, 4)], { events: Number.MAX_SAFE_INTEGER })
      expect(await sink!.marks()).toEqual({ events: Number.MAX_SAFE_INTEGER, slots: 9 })
    })

    test('keeps every column type to its ends, in every table', async () => {
      const batches = tableNames.map(extremes)
      await sink!.write(batches, {})
      for (const batch of batches)
        expect(await read(batch.table), batch.table).toEqual(sorted(rowsIn(batch)))
    })

    test('takes rows that are there already without a change', async () => {
      const batches = tableNames.map(extremes)
      await sink!.write(batches, {})
      await sink!.write(batches, {})
      await reopen()
      await sink!.write(batches, {})
      for (const batch of batches)
        expect(await read(batch.table), batch.table).toHaveLength(batch.count)
    })

    test('takes what is new out of rows of which some are there', async () => {
      await sink!.write([tpsRows(1, 3_000)], {})
      await sink!.write([tpsRows(2_500, 5_500)], {})
      await sink!.write([tpsRows(1, 10)], {})
      expect(await read('tps')).toEqual(sorted(rowsIn(tpsRows(1, 5_500))))
    })

    test('takes rows that come late, below those that are there', async () => {
      await sink!.write([tpsRows(100, 110)], {})
      await sink!.write([tpsRows(1, 5)], {})
      expect(await read('tps')).toHaveLength(16)
    })

    test('keeps both outcomes of a tip, each once', async () => {
      const tips = (outcomes: readonly string[]): RowBatch => ({
        table: 'tips',
        count: outcomes.length,
        columns: [[1_000], ['s'], ['p'], ['a'], [5], [], [''], [0]].map((cells, at) =>
          outcomes.map((outcome) => (at === 5 ? outcome : cells[0]!)),
        ),
      })
      await sink!.write([tips(['expired'])], {})
      await sink!.write([tips(['landed', 'expired'])], {})
      await reopen()
      await sink!.write([tips(['landed'])], {})
      expect(await read('tips')).toEqual(sorted(rowsIn(tips(['expired', 'landed']))))
    })

    test('deletes the slots of a chain that restarted, and nothing else', async () => {
      await sink!.write([blockRows(5, 20), tpsRows(5, 20)], { slots: 20, events: 20 })
      await reopen()
      await sink!.write([blockRows(21, 22)], { slots: 22 })
      const hashes = await sink!.blockhashes(19, 23)
      expect([...hashes].sort()).toEqual([19, 20, 21, 22].map((slot) => [slot, `hash${slot}`]))
      expect(await sink!.blockhashes(23, 99)).toEqual(new Map())
      await sink!.cut(8, 21)
      expect(await sink!.marks()).toEqual({ slots: 7, events: 20 })
      expect([...(await sink!.blockhashes(7, 8))]).toEqual([[7, 'hash7']])
      const anew = blockRows(8, 9, 'anew')
      await sink!.write([anew], { slots: 22 })
      await reopen()
      expect(await sink!.marks()).toEqual({ slots: 22, events: 20 })
      const expected = [...rowsIn(blockRows(5, 7)), ...rowsIn(anew), ...rowsIn(blockRows(22, 22))]
      expect(await read('blocks')).toEqual(sorted(expected))
      expect(await read('tps')).toHaveLength(16)
    })

    test('returns no hash for a block that lacks transactions', async () => {
      const write = (slots: readonly number[], blocks: readonly RowBatch[] = []) => {
        const key = slots.map((slot, at) => [slot, slots.indexOf(slot) === at ? 0 : 1])
        const rows = key.map((one) => [...one, 's', 'p', 1, '', 5_000, 1, 0, 1_700_000_000])
        const columns = rows[0]!.map((_, at) => rows.map((row) => row[at]!))
        return sink!.write([{ table: 'transactions', count: rows.length, columns }, ...blocks], {})
      }
      const hashes = async () => Object.fromEntries(await sink!.blockhashes(4, 9))
      await write([4, 5, 5], [blockRows(5, 7, 'hash', 2)])
      expect(await hashes()).toEqual({ 5: 'hash5', 6: '', 7: '' })
      await reopen()
      await write([6, 7, 7, 8, 8])
      expect(await hashes()).toEqual({ 5: 'hash5', 6: '', 7: 'hash7' })
      await write([6, 6])
      expect(await hashes()).toEqual({ 5: 'hash5', 6: 'hash6', 7: 'hash7' })
    })

    test.runIf(stage.hasProcess)('keeps what it acknowledged when it is killed', async () => {
      await sink?.stop()
      sink = null
      await stage.dispose(place)
      // A place that this process has never opened.
      place = await stage.place()
      const acked = await writeAndKill(place, 4)
      expect(acked).toBeGreaterThan(0)
      await reopen()
      const marks = await sink!.marks()
      expect(marks.events).toBeGreaterThanOrEqual(acked)
      const rows = await read('tps')
      // Written once each, without a hole, at least as far as was acknowledged.
      expect(rows).toEqual(sorted(rowsIn(tpsRows(1, rows.length))))
      expect(rows.length).toBeGreaterThanOrEqual(acked)
    })
  })
}

/** Deliveries of ten rows to a writer process that is killed again and again; the last seq acked. */
async function writeAndKill(place: SinkConfig, kills: number): Promise<number> {
  const entry = new URL('./index-writer-child.mjs', import.meta.url)
  const options = { name: 'index writer', entry, backoff: quick }
  const child = await SupervisedChild.start(options, {
    clock: systemClock,
    log: silentLog,
    onDown() {},
  })
  let acked = 0
  try {
    for (let life = 0; life < kills; life++) {
      await until(() => child.isRunning, 'a writer')
      const marks = await child.call<Marks>('open', place)
      expect(marks.events ?? 0).toBeGreaterThanOrEqual(acked)
      let next = (marks.events ?? acked) + 1
      const ackedBefore = acked
      const calls: Promise<unknown>[] = []
      while (acked < ackedBefore + 200 * (life + 1)) {
        const last = next + 9
        const call = child.call<Taken>('take', tpsDelivery(next, last)).then((taken) => {
          if ('isWritten' in taken) acked = Math.max(acked, last)
        })
        calls.push(call)
        next = last + 1
        // Always some are under way when the end comes.
        if (calls.length % 8 === 0) await calls.at(-4)
      }
      const killed = child.pid
      child.kill()
      await Promise.allSettled(calls)
      await until(() => child.pid !== killed, 'the end of the writer')
    }
  } finally {
    await child.stop()
  }
  return acked
}

const quick = { firstMs: 10, lastMs: 50, deathsMax: 100, healthyMs: 1 }

function tpsDelivery(first: number, last: number): Delivery {
  const parcels = range(first, last).map((seq) => {
    const facts = { blockNumber: seq + 1, atNs: 1n }
    const payload = Buffer.from(String(seq * 2))
    const content = { seq, kind: 'TPS' as const, payload, facts }
    return { feed: 'events' as const, content, bytes: 1, sinceMs: 0, mark: seq }
  })
  return { parcels, marks: { events: last } }
}

function tpsRows(first: number, last: number): RowBatch {
  const seqs = range(first, last)
  const numbers = [seqs, seqs.map((seq) => seq + 1), seqs.map((seq) => seq * 2)]
  const columns = [...numbers, seqs.map(() => 1n)]
  return { table: 'tps', count: seqs.length, columns }
}

function blockRows(first: number, last: number, hash = 'hash', txCount = 0): RowBatch {
  const slots = range(first, last)
  const columns: Cell[][] = [
    slots,
    slots.map((slot) => slot - 1),
    slots.map((slot) => `${hash}${slot}`),
    slots,
    slots.map((slot) => 1_700_000_000 + slot),
    slots.map(() => txCount),
  ]
  return { table: 'blocks', count: slots.length, columns }
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}

const texts = [
  '',
  'a',
  '\'"`\\ {x:Int8} %s $1 -- /* ;',
  'line\nnext\ttab\r',
  '鎖 🔗 \u202eright\u2069 é',
  'x'.repeat(10_000),
]

/** As many values as `texts` has, from one end of the type to the other. */
const ends: Readonly<Record<ColumnType, readonly Cell[]>> = {
  UInt8: [0, 1, 127, 128, 254, 255],
  UInt16: [0, 1, 255, 32_768, 65_534, 65_535],
  UInt32: [0, 1, 65_536, 2 ** 31, 2 ** 32 - 2, 2 ** 32 - 1],
  UInt64: [0, 1n, 2 ** 53 - 1, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n],
  Int8: [-128, -1, 0, 1, 126, 127],
  Int16: [-32_768, -1, 0, 1, 32_766, 32_767],
  Float64: [0, -1.5, 0.1, 1e-300, 1.7976931348623157e308, 100 / 3],
  String: texts,
  'Array(String)': [[], [''], texts, ['a', 'a'], ['[]', "'"], range(1, 64).map(String)],
  DateTime: [0, 1, 1_700_000_000, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1],
  'DateTime64(3)': [0, 1, 999, 1_700_000_000_123, 4_102_444_800_000, 9_999_999_999_999],
  'DateTime64(9)': [
    0n,
    1n,
    999_999_999n,
    1_700_000_000_123_456_789n,
    4_102_444_800_000_000_001n,
    9_000_000_000_123_456_789n,
  ],
  'Nullable(DateTime)': [null, 1, 1_700_000_000, 2 ** 31 - 1, null, 2 ** 32 - 1],
  'Nullable(DateTime64(9))': [null, 1n, null, 1_700_000_000_123_456_789n, 999_999_999n, 1_000n],
}

/** Rows of a table that differ in every column, and so in their keys. */
function extremes(table: TableName): RowBatch {
  const types = Object.values(tables[table].columns)
  return { table, count: texts.length, columns: types.map((type) => ends[type]) }
}

function rowsIn({ count, columns }: RowBatch): Cell[][] {
  return range(0, count - 1).map((at) => columns.map((column) => column[at]!))
}

/** One text per row, so that sinks may give integers as they like and rows in any order. */
function sorted(rows: readonly (readonly unknown[])[]): string[] {
  return rows.map((row) => row.map(textOf).join(' | ')).sort()
}

function textOf(cell: unknown): string {
  if (Array.isArray(cell)) return JSON.stringify(cell)
  return typeof cell === 'string' && !/^-?\d+$/.test(cell) ? JSON.stringify(cell) : String(cell)
}
