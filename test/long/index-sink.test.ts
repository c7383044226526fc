// The sink of the embedded index: durable, each row once, sealed, merged, dropped, readable.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  type DuckdbSink,
  type DuckdbSinkOptions,
  openDuckdbSink,
  type StoreState,
} from '../../src/indexer/duckdb/sink.ts'
import { requestSnapshot, socketPath } from '../../src/indexer/duckdb/snapshot-socket.ts'
import { readSnapshot } from '../../src/indexer/duckdb/store-files.ts'
import { countRows, readRows } from '../testkit/index-reader.ts'
import { batch, instructionRows, transactionRows, usageRows } from '../testkit/row-samples.ts'
import { hangMs, until } from '../testkit/until.ts'

const forever = { retentionMs: 1e12, retentionBytes: 1e12 }
let folder: string
const open: DuckdbSink[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-sink-'))
})

afterEach(async () => {
  for (const sink of open.splice(0)) await sink.stop()
  await rm(folder, { recursive: true, force: true })
})

async function start(options: Partial<DuckdbSinkOptions> = {}): Promise<DuckdbSink> {
  const sink = await openDuckdbSink(folder, { ...forever, ...options })
  open.push(sink)
  return sink
}

async function stop(sink: DuckdbSink): Promise<void> {
  open.splice(open.indexOf(sink), 1)
  await sink.stop()
}

describe('the sink of the embedded index', () => {
  test('has no marks before the first write and the highest ones after a restart', async () => {
    const first = await start()
    expect(await first.marks()).toEqual({})
    await first.write([transactionRows({ slot: 5, slots: 2, perSlot: 10 })], {
      slots: 6,
      events: 9,
    })
    await first.write([], { events: 12 })
    expect(await first.marks()).toEqual({ slots: 6, events: 12 })
    await stop(first)
    const second = await start()
    expect(await second.marks()).toEqual({ slots: 6, events: 12 })
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 20, distinct: 20 })
  })

  test('never gives the name of a readable file to other rows, also after a restart', async () => {
    const named = async () => (await readSnapshot(folder)).files.map(({ name }) => name)
    const first = await start()
    await first.write([transactionRows({ slot: 5, slots: 2, perSlot: 10 })], {})
    await first.publish()
    await first.write([transactionRows({ slot: 7, slots: 1, perSlot: 10 })], {})
    await stop(first)
    const before = await named()
    expect(before).toHaveLength(2)
    const second = await start()
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 30, distinct: 30 })
    await second.write([transactionRows({ slot: 8, slots: 1, perSlot: 10 })], {})
    await second.publish()
    // A reader has files open by their names: rows that come later are in another file.
    const after = await named()
    expect(after.slice(0, 2)).toEqual(before)
    expect(before).not.toContain(after[2])
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 40, distinct: 40 })
  })

  test('takes every table and every type', async () => {
    const sink = await start()
    await sink.write(
      [
        instructionRows({ slot: 1, slots: 1, perSlot: 3 }),
        usageRows('sub_a', 0, 4),
        batch('block_lifecycle', [[7n, 1n, '0xab', 'Proposed', 'Voted', 1.25, 10n ** 18n]]),
        batch('tips', [[1_700_000_000_123, 's', 'p', 't', 1_000_000, 'landed', '', 5]]),
      ],
      {},
    )
    await sink.publish()
    expect(await countRows(folder, 'instructions')).toEqual({ rows: 3, distinct: 3 })
    expect(await countRows(folder, 'usage', '"at"')).toEqual({ rows: 4, distinct: 4 })
    expect(await countRows(folder, 'block_lifecycle', 'seq')).toEqual({ rows: 1, distinct: 1 })
    expect(await countRows(folder, 'tips', 'signature')).toEqual({ rows: 1, distinct: 1 })
  })

  test('ignores duplicate rows, wherever the first ones are stored', async () => {
    const sink = await start({ hotBytesMax: 200_000 })
    const rows = (slot: number) => transactionRows({ slot, slots: 4, perSlot: 200 })
    for (let slot = 0; slot < 40; slot += 4) await sink.write([rows(slot)], {})
    await sink.publish()
    expect((await readSnapshot(folder)).files.some((file) => file.name.startsWith('seg'))).toBe(
      true,
    )
    // Old, half old and half new, newest again, twice in one write, and out of order.
    await sink.write([rows(0)], {})
    await sink.write([rows(38)], {})
    await sink.write([rows(38), rows(38)], {})
    const last = rows(44)
    const turned = last.columns.map((cells) => [...cells].reverse())
    await sink.write([{ ...last, columns: turned }], {})
    await sink.write([last], {})
    await sink.publish()
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 46 * 200, distinct: 46 * 200 })
  })

  test('keeps the first of two rows with one key', async () => {
    const sink = await start()
    const tps = (value: number) => batch('tps', [[1n, 10n, value, null]])
    await sink.write([tps(1)], {})
    await sink.write([tps(2)], {})
    await sink.publish()
    expect(await countRows(folder, 'tps', 'tps')).toEqual({ rows: 1, distinct: 1 })
  })

  test('shows a whole view at every moment while files are sealed and merged', async () => {
    const sink = await start({ hotBytesMax: 150_000 })
    let written = 0
    let isDone = false
    const views: number[] = []
    const reading = (async () => {
      while (!isDone) {
        const least = written
        const snapshot = await sink.publish()
        const seen = await countRows(folder, 'transactions', 'slot, idx', snapshot)
        expect(seen.distinct).toBe(seen.rows)
        expect(seen.rows).toBeGreaterThanOrEqual(least)
        views.push(seen.rows)
      }
    })()
    for (let slot = 0; slot < 120; slot += 1) {
      await sink.write([transactionRows({ slot, slots: 1, perSlot: 400 })], { slots: slot })
      written += 400
    }
    isDone = true
    await reading
    expect(views).toEqual([...views].sort((a, b) => a - b))
    await until(
      async () =>
        (await readSnapshot(folder)).files.some((file) => /^seg-(\d+)-(?!\1-)/.test(file.name)),
      'files are merged',
    )
    await sink.publish()
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 48_000, distinct: 48_000 })
  })

  test('deletes rows of slots, and takes others instead', async () => {
    const sink = await start({ hotBytesMax: 300_000 })
    for (let slot = 0; slot < 40; slot += 4)
      await sink.write([transactionRows({ slot, slots: 4, perSlot: 200 })], {
        slots: slot + 3,
        events: 7,
      })
    await sink.cut(10, 39)
    expect(await sink.marks()).toEqual({ slots: 9, events: 7 })
    await sink.publish()
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 2000, distinct: 2000 })
    await sink.write([transactionRows({ slot: 10, slots: 1, perSlot: 5 })], { slots: 10 })
    await stop(sink)
    const again = await start()
    expect(await again.marks()).toEqual({ slots: 10, events: 7 })
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 2005, distinct: 2005 })
  })

  test('deletes what it has of a slot beyond its mark when it is opened', async () => {
    const updates = (slot: number, versions: readonly number[]) =>
      batch(
        'account_updates',
        versions.map((version) => [slot, 0, 'key', 'owner', 1n, 0, version, null]),
      )
    const first = await start()
    await first.write([updates(7, [1, 2])], { slots: 7, events: 3 })
    await first.publish()
    // Half of slot 8: its writer dies before the rest and the mark.
    await first.write([updates(8, [3, 4]), batch('tps', [[4n, 10n, 1, null]])], {})
    await stop(first)
    const states: StoreState[] = []
    const second = await start({ onState: (state) => states.push(state) })
    expect(states).toContain('cutting')
    expect(await second.marks()).toEqual({ slots: 7, events: 3 })
    // The slot comes again from another node.
    await second.write([updates(8, [13, 14])], { slots: 8 })
    await stop(second)
    const rows = await readRows(folder, 'account_updates')
    expect(rows.map((row) => Number(row[6])).sort((a, b) => a - b)).toEqual([1, 2, 13, 14])
    expect(await countRows(folder, 'tps', 'seq')).toEqual({ rows: 1, distinct: 1 })
    states.length = 0
    await start({ onState: (state) => states.push(state) })
    expect(states).not.toContain('cutting')
  })

  test('answers readers on its socket with the newest rows', async () => {
    const sink = await start()
    const request = () => requestSnapshot(socketPath(folder), hangMs)
    const before = await request()
    expect(before?.files).toEqual([])
    await sink.write([transactionRows({ slot: 1, slots: 1, perSlot: 5 })], {})
    const after = await request()
    expect((await countRows(folder, 'transactions', 'slot, idx', after!)).rows).toBe(5)
    expect((await request())?.version).toBe(after!.version)
  })

  test('answers no reader when it is not running', async () => {
    expect(await requestSnapshot(socketPath(folder), hangMs)).toBe(null)
  })

  test('drops whole files by age and by bytes', async () => {
    const first = await start({ hotBytesMax: 100_000 })
    for (let slot = 0; slot < 12; slot += 1)
      await first.write([transactionRows({ slot, slots: 1, perSlot: 500 })], { slots: slot })
    await first.publish()
    await stop(first)
    const sealed = (await readdir(folder)).filter((name) => name.startsWith('seg')).sort()
    const old = new Date(Date.now() - 3_600_000)
    await utimes(join(folder, sealed[0]!), old, old)
    const second = await start({ retentionMs: 1_800_000 })
    await second.tidy()
    const byAge = await readSnapshot(folder)
    expect(byAge.files.map((file) => file.name)).not.toContain(sealed[0])
    await stop(second)
    const third = await start({ retentionBytes: 1 })
    await third.tidy()
    const left = await readSnapshot(folder)
    expect(left.files.filter((file) => file.name.startsWith('seg'))).toEqual([])
    expect(await third.marks()).toEqual({ slots: 11 })
  })

  test('refuses a folder that another one has open', async () => {
    await start()
    const child = spawnSink(1e9)
    const code = await new Promise((resolve) => child.once('exit', resolve))
    expect(code).not.toBe(0)
  })
})

describe('a sink that is killed', () => {
  test('has lost nothing that it acknowledged and has no row twice', async () => {
    let acknowledged = 0
    // Small files, so that kills also meet it in the middle of sealing and merging.
    for (let round = 0; round < 6; round += 1) {
      const child = spawnSink(60_000)
      let lines = ''
      child.stdout!.on('data', (text) => {
        lines += text
      })
      const goal = 6 + round * 5
      await until(() => lines.split('\n').length > goal, 'it has written')
      child.kill('SIGKILL')
      await new Promise((resolve) => child.once('close', resolve))
      const acked = lines.split('\n').slice(0, -1)
      expect(Number(acked[0]!.slice('from '.length))).toBeGreaterThanOrEqual(acknowledged + 1)
      acknowledged = Math.max(acknowledged, ...acked.slice(1).map(Number))
    }
    const sink = await start()
    const { slots } = (await sink.marks()) as { slots: number }
    expect(slots).toBeGreaterThanOrEqual(acknowledged)
    await sink.publish()
    expect(await countRows(folder, 'transactions')).toEqual({
      rows: slots * 200,
      distinct: slots * 200,
    })
  })
})

function spawnSink(hotBytesMax: number): ChildProcess {
  const script = join(import.meta.dirname, '../testkit/index-sink-child.mjs')
  return spawn(process.execPath, [script, JSON.stringify({ folder, hotBytesMax })], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}
