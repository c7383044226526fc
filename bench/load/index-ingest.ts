// Rows per second from the hub into the index, durable: slots of 400 transactions, read from the
// gateway's socket by the writer process, made into rows and written. Thread: main of the bench process.
// The plain way is the sink alone, with rows that were made before. The figure per CPU-second
// counts all the time of the writer process, merging included: what one core brings. Freshness is
// the time from a slot's arrival until a query has returned it, at 52,000 rows a second.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/base/clock.ts'
import { ProtoReader } from '../../src/base/protobuf.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import type { RowBatch } from '../../src/indexer/engine.ts'
import { SlotSource } from '../../src/indexer/feed/slot-source.ts'
import { IngestPipeline } from '../../src/indexer/ingest.ts'
import { declareIngestMeters } from '../../src/indexer/meters.ts'
import { addSlotRows, RowBatches } from '../../src/indexer/rows/delivery-rows.ts'
import { openSink } from '../../src/indexer/writer.ts'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { openIndexFeeds } from '../../src/products/indexer/feeds.ts'
import { openSolanaHub, publishUpdate } from '../../src/streams/geyser/hub.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { chainOf } from '../../test/testkit/ingest-stage.ts'
import { ask } from '../../test/testkit/query-stage.ts'
import { openDuckdb } from '../../test/testkit/read-back.ts'
import type { ReadEngine } from '../../test/testkit/send-results.ts'
import { SyntheticSolana } from '../../test/testkit/synthetic-solana.ts'
import {
  type Bench,
  type Contender,
  latencyUsOf,
  type Measurement,
  type RoundContext,
} from '../lib/bench.ts'
import { processorSeconds } from '../lib/processor-time.ts'

/** Of a slot, and slots published and not yet durable: the hub keeps more, so nothing is lost. */
const shapeOf = ({ smoke }: RoundContext) =>
  smoke === true
    ? { transactionsPerSlot: 20, aheadSlots: 4 }
    : { transactionsPerSlot: 400, aheadSlots: 24 }
const firstSlot = 1_000
/** Of the contender for freshness. */
const rowsPerSecond = 52_000

const section = {
  engine: 'duckdb',
  url: '',
  retentionDays: 30,
  retentionBytes: 1e12,
  clickhouse: { insertMs: 2_000, insertRows: 100_000 },
} as const
const noEvents = { wrote() {}, failed() {}, parts() {} }

const alone: Contender = {
  name: 'sink alone, rows made before',
  run: (context) => inFolder((folder) => writeAlone(folder, context)),
}
const endToEnd: Contender = {
  name: 'hub to disk, writer process',
  run: async (context) => (await inFolder((folder) => ingest(folder, context))).perSecond,
}
const perCore: Contender = {
  name: 'the same, per CPU-second of the writer',
  run: async (context) => (await inFolder((folder) => ingest(folder, context))).perCpuSecond,
}
const besideQueries: Contender = {
  name: 'per CPU-second, queries beside it',
  run: async (context) => (await inFolder((folder) => ingest(folder, context, true))).perCpuSecond,
}

const freshness: Contender = {
  name: 'until a query returns it',
  run: (context) => inFolder((folder) => untilReturned(folder, context)),
}

export const bench: Bench = {
  name: 'index-ingest',
  question: 'How many rows per second are taken into the index, durably?',
  cores: 2,
  baseline: alone,
  candidates: [endToEnd, perCore, besideQueries, freshness],
  goals: [
    { contender: besideQueries.name, figure: 'opsPerSecond', atLeast: 50_000 },
    { contender: freshness.name, figure: 'opsPerSecond', atLeast: 50_000 },
    { contender: freshness.name, figure: 'p50', atMost: 250_000 },
  ],
  smoke: [besideQueries.name, freshness.name],
  verify({ evidence }) {
    if (evidence?.queries === 0) return 'no query was answered beside it'
    if (evidence?.rows !== evidence?.expected)
      return `${String(evidence?.rows)} rows are there, not ${String(evidence?.expected)}`
    return evidence?.lost === 0 ? undefined : `${String(evidence?.lost)} slots were lost`
  },
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-index-'))
  try {
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** One slot of updates, made once and published under other numbers. */
function template(context: RoundContext): SolanaUpdate[] {
  const { transactionsPerSlot } = shapeOf(context)
  const options = { transactionsPerSlot, accounts: 20_000, owners: 50, finalizedAfter: 1_000 }
  const solana = new SyntheticSolana({ ...options, firstSlot })
  const first = solana.next()
  // The second slot brings the word that the first is confirmed.
  const confirmed = solana.next().find((one) => one.kind === 'slot' && one.slot === firstSlot)
  return [...first.filter(({ kind }) => kind !== 'block'), confirmed!]
}

/** The update under another number, which has two bytes in the bytes that streams carry. */
function under(update: SolanaUpdate, slot: number): SolanaUpdate {
  if (!('body' in update)) return { ...update, slot }
  const body = Buffer.from(update.body)
  const field = update.kind === 'account' || update.kind === 'transaction' ? 2 : 1
  const reader = new ProtoReader(body)
  while (reader.next()) {
    if (reader.field !== field) continue
    body[reader.start] = (slot & 0x7f) | 0x80
    body[reader.start + 1] = slot >> 7
    break
  }
  return { ...update, slot, body }
}

/** The rows of the template's slot, by table. */
function templateRows(updates: readonly SolanaUpdate[]): RowBatch[] {
  const source = new SlotSource(undefined, { lost() {}, clock: systemClock })
  for (const update of updates) source.take(update)
  const rows = new RowBatches()
  for (let parcel = source.next(); parcel !== null; parcel = source.next())
    if (parcel.feed === 'slots') addSlotRows(parcel.content, rows)
  return rows.take()
}

async function writeAlone(folder: string, context: RoundContext): Promise<Measurement> {
  const batches = templateRows(template(context))
  const rowsPerSlot = batches.reduce((sum, { count }) => sum + count, 0)
  const sink = await openSink({ ...section, folder, holder: 'bench' }, noEvents)
  // As many slots in one write as the writer process gathers under load.
  const slotsPerWrite = Math.max(1, Math.round(20_000 / rowsPerSlot))
  const start = performance.now()
  let slot = firstSlot
  while (performance.now() - start < context.seconds * 1000) {
    const write: RowBatch[] = []
    for (let left = slotsPerWrite; left > 0; left--, slot++)
      for (const { table, count, columns } of batches)
        write.push({ table, count, columns: [Array(count).fill(slot), ...columns.slice(1)] })
    await sink.write(write, { slots: slot - 1 })
  }
  const opsPerSecond = ((slot - firstSlot) * rowsPerSlot) / ((performance.now() - start) / 1000)
  await sink.stop()
  return { opsPerSecond, evidence: { rows: 0, expected: 0, lost: 0 } }
}

async function openIngest(folder: string, context: RoundContext) {
  const updates = template(context)
  const rowsPerSlot = templateRows(updates).reduce((sum, { count }) => sum + count, 0)
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 256 * 1024 * 1024 })
  const meters = new Meters()
  const shared = { clock: systemClock, log: silentLog }
  const events = new EventLog({ reserve: () => 0, clock: systemClock })
  const feeds = await openIndexFeeds(join(folder, 'feeds.sock'), {
    events,
    version: '0',
    ...shared,
  })
  feeds.serve(chainOf(hub))
  const writing = await IngestPipeline.start(section, {
    ...{ feeds, folder, holder: 'bench', meters: declareIngestMeters(meters) },
    ...shared,
  })
  const running = {
    freshness: () => writing.freshness(),
    pid: () => writing.pid(),
    async stop() {
      await writing.stop()
      await feeds.stop()
    },
  }
  return { updates, rowsPerSlot, hub, meters, running }
}

async function ingest(folder: string, context: RoundContext, hasQueries = false) {
  const { aheadSlots } = shapeOf(context)
  const { updates, rowsPerSlot, hub, meters, running } = await openIngest(folder, context)
  let slot = firstSlot
  const durable = () => (running.freshness().slot ?? firstSlot - 1) + 1 - firstSlot
  const publish = async () => {
    for (const update of updates) publishUpdate(hub, under(update, slot))
    slot++
    while (slot - firstSlot - durable() >= aheadSlots) await sleep(1)
  }
  // Warm: the process runs, the code is compiled, the files are there.
  while (durable() < aheadSlots) await publish()
  const asking = hasQueries ? await Asking.start(folder) : null
  const before = { slots: durable(), cpu: processorSeconds(running.pid()), ms: performance.now() }
  while (performance.now() - before.ms < context.seconds * 1000) await publish()
  const slots = durable() - before.slots
  const secs = (performance.now() - before.ms) / 1000
  const cpu = processorSeconds(running.pid()) - before.cpu
  const queries = await asking?.stop()
  while (slot - firstSlot > durable()) await sleep(5)
  await running.stop()
  const { rows, lost } = await counted(meters)
  const evidence = { rows, expected: (slot - firstSlot) * rowsPerSlot, lost, queries }
  const measured = (time: number): Measurement => ({
    opsPerSecond: (slots * rowsPerSlot) / time,
    evidence,
  })
  return { perSecond: measured(secs), perCpuSecond: measured(cpu) }
}

async function untilReturned(folder: string, context: RoundContext): Promise<Measurement> {
  const { aheadSlots } = shapeOf(context)
  const { updates, rowsPerSlot, hub, meters, running } = await openIngest(folder, context)
  const publishedMs: number[] = []
  const publish = () => {
    const slot = firstSlot + publishedMs.length
    publishedMs.push(performance.now())
    for (const update of updates) publishUpdate(hub, under(update, slot))
  }
  const durable = () => (running.freshness().slot ?? firstSlot - 1) + 1 - firstSlot
  publish()
  while (durable() < 1) await sleep(5)
  const engine = await openDuckdb(folder, { log: silentLog })
  const histogram = new Latencies()
  const beganMs = performance.now()
  const isOver = () => performance.now() - beganMs >= context.seconds * 1000
  const publishing = (async () => {
    for (; !isOver(); await sleep(5)) {
      const due = ((performance.now() - beganMs) / 1000) * (rowsPerSecond / rowsPerSlot)
      while (publishedMs.length < due && publishedMs.length - durable() < aheadSlots) publish()
    }
  })()
  let [returned, queries] = [1, 0]
  for (; !isOver(); queries++) {
    const newest = Number(/\d+/.exec(await answer(engine, newestSlot))?.[0] ?? 0)
    for (; firstSlot + returned <= newest; returned++)
      histogram.record(performance.now() - publishedMs[returned]!)
  }
  const opsPerSecond = (histogram.count * rowsPerSlot * 1000) / (performance.now() - beganMs)
  await publishing
  await engine.stop()
  while (durable() < publishedMs.length) await sleep(5)
  await running.stop()
  const { rows, lost } = await counted(meters)
  const evidence = { rows, expected: publishedMs.length * rowsPerSlot, lost, queries }
  return { opsPerSecond, latencyUs: latencyUsOf(histogram), evidence }
}

/** Asks one question after another, as two analysts would; each sees the newest rows. */
class Asking {
  readonly #engine: ReadEngine
  readonly #asked: Promise<unknown>
  #answers = 0
  #isStopped = false

  private constructor(engine: ReadEngine) {
    this.#engine = engine
    this.#asked = Promise.all(questions.map((text) => this.#ask(text)))
  }

  static async start(folder: string): Promise<Asking> {
    return new Asking(await openDuckdb(folder, { log: silentLog }))
  }

  /** How many were answered. */
  async stop(): Promise<number> {
    this.#isStopped = true
    await this.#asked
    await this.#engine.stop()
    return this.#answers
  }

  async #ask(text: string): Promise<void> {
    while (!this.#isStopped) {
      await answer(this.#engine, text)
      this.#answers += 1
    }
  }
}

/** The whole text of the result. */
async function answer(engine: ReadEngine, sql: string): Promise<string> {
  const { text, error } = await ask(engine, sql)
  if (error !== null) throw new Error(error.message)
  return text
}

const newestSlot = 'SELECT max(slot) AS newest FROM transactions'
const questions = [
  'SELECT fee_payer, count(*) AS n FROM transactions GROUP BY fee_payer ORDER BY n DESC LIMIT 10',
  'SELECT program, count(*) AS n FROM instructions GROUP BY program ORDER BY n DESC LIMIT 10',
]

async function counted(meters: Meters): Promise<{ rows: number; lost: number }> {
  const { body } = await meters.render('text')
  const sum = (name: string) =>
    body
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`))
      .reduce((total, line) => total + Number(line.split(' ').at(-1)), 0)
  return { rows: sum('sluice_index_rows_total'), lost: sum('sluice_index_lost_total') }
}
