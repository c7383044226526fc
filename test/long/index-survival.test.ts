// The way into the index when things go wrong: killed and frozen writers, restarts, a new chain.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { tables } from '../../src/indexer/tables.ts'
import { frameKinds } from '../../src/streams/log/encoded.ts'
import { ChainStage } from '../testkit/chain-stage.ts'
import { FakeExecution } from '../testkit/fake-execution.ts'
import { byNumber, type ReadRow } from '../testkit/index-reader.ts'
import { IngestStage } from '../testkit/ingest-stage.ts'
import { until } from '../testkit/until.ts'

let chain: ChainStage
let stage: IngestStage
let feeds: Feeds

beforeEach(() => {
  // The stream is kept for longer than a process takes to start, on whatever machine.
  chain = new ChainStage({ traffic: 200 }, 10_000)
  stage = new IngestStage()
})
afterEach(async () => {
  feeds?.stop()
  await stage.dispose()
  await chain.dispose()
})

/** Execution frames every few milliseconds beside the chain's slots. */
class Feeds {
  blocks = 0
  readonly #timer: NodeJS.Timeout
  constructor(log: IngestStage['log']) {
    const execution = new FakeExecution(log, { monotonicMs: () => performance.now() })
    this.#timer = setInterval(() => execution.run(++this.blocks), 10)
  }
  stop(): void {
    clearInterval(this.#timer)
  }
}

async function begin(isFresh = false): Promise<void> {
  await chain.start(isFresh)
  await stage.start(chain.hub)
  feeds = new Feeds(stage.log)
}

/** The feeds are stopped, and everything they published is durable. */
async function end(): Promise<void> {
  feeds.stop()
  await chain.stop()
  await stage.settled()
}

const lost = (feed: string) => stage.meter(`sluice_index_lost_total{feed="${feed}"}`)

/** Every slot between the first and the last, whole: as many transactions as its block counts. */
async function expectWholeSlots(): Promise<number[]> {
  const blocks = (await stage.rows('blocks')).sort(byNumber('slot'))
  const slots = blocks.map(({ slot }) => Number(slot))
  expect(slots).toEqual(slots.map((_, index) => slots[0]! + index))
  const transactions = await stage.rows('transactions')
  const counts = new Map<string, number>()
  for (const { slot } of transactions) counts.set(String(slot), (counts.get(String(slot)) ?? 0) + 1)
  for (const { slot, tx_count } of blocks)
    expect(counts.get(String(slot)) ?? 0, `slot ${slot}`).toBe(Number(tx_count))
  expectDistinct('transactions', transactions)
  expectDistinct('blocks', blocks)
  for (const table of ['instructions', 'account_updates', 'token_transfers'] as const)
    expectDistinct(table, await stage.rows(table))
  return slots
}

function expectDistinct(table: keyof typeof tables, rows: readonly ReadRow[]): void {
  const keys = rows.map((row) => tables[table].key.map((column) => row[column]).join('/'))
  expect(new Set(keys).size, table).toBe(keys.length)
}

/** A row for every frame of the log, once. */
async function expectEveryFrame(): Promise<void> {
  const published = (kind: string) =>
    [...stage.log.after(0)].filter((frame) => frame.kind === kind).map(({ seq }) => String(seq))
  for (const [table, kind] of [
    ['tps', 'TPS'],
    ['contention', 'ContentionData'],
    ['block_lifecycle', 'Lifecycle'],
  ] as const) {
    const rows = (await stage.rows(table)).sort(byNumber('seq'))
    expect(
      rows.map(({ seq }) => seq),
      table,
    ).toEqual(published(kind))
  }
}

describe('a writer', () => {
  test('that is killed under load loses nothing and doubles nothing', async () => {
    await begin()
    for (let kill = 0; kill < 4; kill++) {
      const before = stage.ingest.freshness().slot ?? 0
      await until(() => (stage.ingest.freshness().slot ?? 0) > before + 4, 'rows flow')
      await stage.killWriter()
    }
    await end()
    const slots = await expectWholeSlots()
    expect(slots.length).toBeGreaterThan(16)
    await expectEveryFrame()
    expect(await stage.meter('sluice_index_writer_restarts_total')).toBe(4)
    expect(await stage.meter('sluice_index_reread_total')).toBeGreaterThan(0)
    expect([await lost('slots'), await lost('events')]).toEqual([0, 0])
  })

  test('that is frozen does not slow the feeds, and catches up', async () => {
    await begin()
    await until(() => (stage.ingest.freshness().slot ?? 0) > 0, 'rows flow')
    const pid = stage.ingest.pid()
    process.kill(pid, 'SIGSTOP')
    try {
      const before = { slot: chain.chain.ledger.slot(0), blocks: feeds.blocks }
      // Both feeds continue: so many slots and blocks while no row is taken.
      await until(() => chain.chain.ledger.slot(0) >= before.slot + 60, '60 slots')
      expect(feeds.blocks).toBeGreaterThan(before.blocks + 60)
      expect(stage.ingest.lagMs()).toBeGreaterThan(500)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await end()
    expect((await expectWholeSlots()).length).toBeGreaterThan(60)
    await expectEveryFrame()
    expect(await stage.meter('sluice_index_writer_restarts_total')).toBe(0)
  })

  test('that is frozen for too long loses what the log evicts, and it is counted', async () => {
    stage.framesMax = 500
    await begin()
    await until(() => (stage.ingest.freshness().slot ?? 0) > 0, 'rows flow')
    const pid = stage.ingest.pid()
    process.kill(pid, 'SIGSTOP')
    try {
      // More than the log keeps and what is on its way.
      const payload = Buffer.alloc(20_000, 0x20)
      payload.write('400')
      for (let left = 2_000; left > 0; left--) {
        stage.log.append('TPS', payload)
        if (left % 100 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      }
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await end()
    const said = stage.log.appended('TPS')
    const held = (await stage.rows('tps')).length
    expect(held).toBeLessThan(said)
    // All that is missing is counted, and nothing that the log had by then.
    const all = frameKinds.reduce((sum, kind) => sum + stage.log.appended(kind), 0)
    expect(await lost('events')).toBeGreaterThanOrEqual(said - held)
    expect(await lost('events')).toBeLessThanOrEqual(all - stage.framesMax)
    await expectWholeSlots()
  })
})

describe('an index', () => {
  test('continues after its last slot when the server restarts', async () => {
    await begin()
    await until(() => (stage.ingest.freshness().slot ?? 0) > 5, 'rows flow')
    await end()
    await stage.stop()
    const last = stage.ingest.freshness().slot!
    await begin()
    // Known before a row has come.
    await until(() => stage.ingest.freshness().slot !== null, 'the mark')
    expect(stage.ingest.freshness().slot).toBeGreaterThanOrEqual(last)
    await until(() => (stage.ingest.freshness().slot ?? 0) > last + 5, 'rows flow')
    await end()
    // Not one is missing at the seam, and no row is there twice.
    await expectWholeSlots()
    expect(await lost('slots')).toBe(0)
  })

  test('deletes the slots of a chain that was dropped, and nothing else', async () => {
    await begin()
    await until(() => (stage.ingest.freshness().slot ?? 0) > 80, 'rows flow')
    await end()
    const before = new Map((await stage.rows('blocks')).map((row) => [row.slot, row.blockhash]))
    const tpsBefore = (await stage.rows('tps')).length
    await stage.stop()
    await begin(true)
    await until(() => chain.chain.ledger.slot(1) >= 8, 'the new chain')
    await end()
    const slots = await expectWholeSlots()
    const blocks = await stage.rows('blocks')
    // Not one block of the old chain is left, below or above what the new one has.
    for (const { slot, blockhash } of blocks) expect(before.get(slot)).not.toBe(blockhash)
    expect(slots.at(-1)).toBe(stage.ingest.freshness().slot)
    // Rows of the other feed stay, whether or not it has published more since.
    expect((await stage.rows('tps')).length).toBeGreaterThanOrEqual(tpsBefore)
    expect(await lost('slots')).toBe(0)
  })
})
