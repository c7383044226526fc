// The embedded index under faults: killed in every state of its store, a full disk, a broken file.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type DuckdbSink, openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import { readSnapshot, snapshotName } from '../../src/indexer/duckdb/store-files.ts'
import { countRows } from '../testkit/index-reader.ts'
import { transactionRows } from '../testkit/row-samples.ts'
import { isSlice } from '../testkit/slice.ts'
import { until } from '../testkit/until.ts'

const forever = { retentionMs: 1e12, retentionBytes: 1e12 }
const perSlot = 200
const child = join(import.meta.dirname, '../testkit/index-sink-child.mjs')
let folder: string
let sink: DuckdbSink | null = null
const children: ChildProcess[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-faults-'))
})
afterEach(async () => {
  for (const one of children.splice(0)) one.kill('SIGKILL')
  await sink?.stop()
  sink = null
  await rm(folder, { recursive: true, force: true })
})

interface Run {
  readonly process: ChildProcess
  readonly ended: Promise<unknown>
  lines(): string[]
}

/** A child that writes until it is killed; `limitKiB` bounds the size of each file it writes. */
function run(options: object, limitKiB = 0): Run {
  const argument = JSON.stringify({ folder, ...options })
  const limit = limitKiB > 0 ? `ulimit -S -f ${limitKiB}; ` : ''
  const process_ = spawn(
    'bash',
    ['-c', `${limit}exec "$0" "$@"`, process.execPath, child, argument],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  children.push(process_)
  let text = ''
  process_.stdout.on('data', (more) => {
    text += more
  })
  const ended = new Promise((resolve) => process_.once('close', resolve))
  return { process: process_, ended, lines: () => text.split('\n').slice(0, -1) }
}

const ackedIn = (lines: readonly string[]) => lines.filter((line) => /^\d+$/.test(line)).map(Number)

async function expectSlots(slots: number): Promise<void> {
  expect(await countRows(folder, 'transactions')).toEqual({
    rows: slots * perSlot,
    distinct: slots * perSlot,
  })
}

describe('a store that is killed', () => {
  /** Small generator of the same numbers in every run. */
  let seed = 20_261_115
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed % below
  }
  const states = ['opening', 'writing', 'rotating', 'sealing', 'listing', 'ready', 'replacing']

  test('in any state has every acknowledged row once, and the rows that it cut are gone', async () => {
    let acked = 0
    let pendingCut: number | null = null
    for (const state of [...states, 'cutting', ...(isSlice ? [] : states)]) {
      const count = state === 'opening' ? 1 : 1 + random(state === 'ready' ? 12 : 3)
      const kill = { state, count }
      const options = { hotBytesMax: 1e9, publishEvery: 2, cutEvery: 7, pendingCut, kill }
      const { ended, lines } = run(options)
      await ended
      const printed = lines()
      const first = printed.find((line) => line.startsWith('from'))
      if (first !== undefined) {
        // What was cut is written again, so it never begins below the last acknowledged slot.
        expect(Number(first.slice(5)), state).toBeGreaterThanOrEqual(acked)
        pendingCut = null
      }
      acked = Math.max(acked, ...ackedIn(printed))
      // A cut that was not finished is repeated, as the chain's feed does.
      if (printed.at(-1)?.startsWith('cut')) pendingCut = Number(printed.at(-1)!.slice(4))
      if (state === 'cutting') expect(pendingCut).not.toBeNull()
    }
    sink = await openDuckdbSink(folder, forever)
    if (pendingCut !== null) await sink.cut(pendingCut, pendingCut)
    const { slots = 0 } = await sink.marks()
    expect(slots).toBeGreaterThanOrEqual(pendingCut === null ? acked : acked - 1)
    expect(slots).toBeGreaterThan(10)
    await expectSlots(slots)
    expect((await readdir(folder)).filter((name) => name.startsWith('hot-'))).toHaveLength(2)
  })
})

describe('a disk that is full', () => {
  test('is a clear error, loses nothing, and is repaired in the same process', async () => {
    const writer = run({ hotBytesMax: 1e9 }, 1_024)
    const failures = () => writer.lines().filter((line) => line.startsWith('failed'))
    await until(() => failures().length > 0, 'a failed write')
    expect(failures()[0]).toMatch(
      /^failed true index (write|publish) failed: .*(too large|write)|^failed true index file hot-\d+\.duckdb cannot be opened/i,
    )
    const acked = Math.max(0, ...ackedIn(writer.lines()))
    execFileSync('prlimit', ['--pid', String(writer.process.pid), '--fsize=unlimited'])
    await until(() => Math.max(0, ...ackedIn(writer.lines())) > acked + 5, 'new writes')
    writer.process.kill('SIGKILL')
    await writer.ended
    sink = await openDuckdbSink(folder, forever)
    const { slots = 0 } = await sink.marks()
    expect(slots).toBeGreaterThan(acked + 5)
    await expectSlots(slots)
  })
})

describe('a hot file that a full disk cut short while it was created', () => {
  test.each([0, 4096, 8192])('at %i bytes has no rows and is replaced', async (bytes) => {
    sink = await openDuckdbSink(folder, forever)
    await sink.write([transactionRows({ slot: 1, slots: 1, perSlot: 10 })], { slots: 1 })
    await sink.stop()
    const newest = (await readdir(folder)).find((name) => /^hot-\d+\.duckdb$/.test(name))!
    const next = Number(/\d+/.exec(newest)) + 1
    const headers = (await readFile(join(folder, newest))).subarray(0, bytes)
    await writeFile(join(folder, `hot-${next}.duckdb`), headers)
    sink = await openDuckdbSink(folder, forever)
    await sink.write([transactionRows({ slot: 2, slots: 1, perSlot: 10 })], { slots: 2 })
    await sink.publish()
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 20, distinct: 20 })
    expect(await sink.marks()).toMatchObject({ slots: 2 })
  })
})

describe('a list of files that a power loss emptied', () => {
  test('is written anew from the names of the files, with a higher version', async () => {
    sink = await openDuckdbSink(folder, forever)
    await sink.write([transactionRows({ slot: 1, slots: 1, perSlot: 10 })], { slots: 1 })
    const before = await sink.publish()
    await sink.stop()
    sink = null
    await truncate(join(folder, snapshotName), 0)
    sink = await openDuckdbSink(folder, forever)
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 10, distinct: 10 })
    const { version, files } = await readSnapshot(folder)
    expect(files).toEqual(before.files)
    expect(version).toBeGreaterThan(before.version)
    expect(await sink.marks()).toEqual({ slots: 1 })
  })
})

describe('a file that is broken', () => {
  test.each([
    ['cut short', (path: string) => truncate(path, 5_000)],
    ['overwritten', (path: string) => writeFile(path, Buffer.alloc(20_000, 7))],
  ])('by being %s is named when the index is opened', async (_, harm) => {
    sink = await openDuckdbSink(folder, forever)
    await sink.write([transactionRows({ slot: 1, slots: 1, perSlot: 10 })], { slots: 1 })
    await sink.stop()
    sink = null
    const path = join(folder, 'seg-1-1-0.duckdb')
    const whole = await readFile(path)
    await harm(path)
    const opened = openDuckdbSink(folder, forever)
    await expect(opened).rejects.toMatchObject({ name: 'Fault', retryable: true })
    await expect(opened).rejects.toThrow('index file seg-1-1-0.duckdb cannot be opened: ')
    // Restored from a backup, it is there again.
    await writeFile(path, whole)
    sink = await openDuckdbSink(folder, forever)
    expect(await countRows(folder, 'transactions')).toEqual({ rows: 10, distinct: 10 })
  })
})
