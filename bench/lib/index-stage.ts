// A million transactions in both engines of the indexer, for the benches that ask of them: made
// once, shared by the contenders, removed by the last one. Thread: main of the bench process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startClickhouseEngine } from '../../src/products/indexer/clickhouse/query-engine.ts'
import { openClickhouseSink } from '../../src/products/indexer/clickhouse/sink.ts'
import { openDuckdbSink } from '../../src/products/indexer/duckdb/sink.ts'
import { startDuckdbEngine } from '../../src/products/indexer/duckdb/start-engine.ts'
import type { QueryEngine, RowSink } from '../../src/products/indexer/engine.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { hasClickhouseServer, startClickhouseServer } from '../../test/testkit/clickhouse-server.ts'
import { makeRows } from '../../test/testkit/generated-rows.ts'

export const transactions = 1_000_000
export const transactionsPerSlot = 1_000
const plan = {
  seed: 5,
  slots: transactions / transactionsPerSlot,
  transactionsPerSlot,
  blocks: 0,
  tips: 0,
  usage: 0,
  only: ['blocks', 'transactions'] as const,
}

export interface EngineStage {
  readonly engine: QueryEngine
  /** Where it lives: a folder or an address. */
  readonly place: string
  close(): Promise<void>
}

/** Opened by the first that asks, closed by the last that lets go. */
export class Shared {
  readonly #open: () => Promise<EngineStage>
  #stage: Promise<EngineStage> | null = null
  #users = 0

  constructor(open: () => Promise<EngineStage>) {
    this.#open = open
  }

  take(): Promise<EngineStage> {
    this.#users += 1
    this.#stage ??= this.#open()
    return this.#stage
  }

  async release(): Promise<void> {
    this.#users -= 1
    if (this.#users > 0 || this.#stage === null) return
    const stage = await this.#stage
    this.#stage = null
    await stage.close()
  }
}

export const duckdbStage = new Shared(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-index-'))
  const sink = await openDuckdbSink(folder, { retentionMs: 1e12, retentionBytes: 1e12 })
  await fill(sink)
  const engine = await startDuckdbEngine(folder, { log: silentLog })
  return {
    engine,
    place: folder,
    close: async () => {
      await engine.stop()
      await sink.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
})

export const clickhouseStage = new Shared(async () => {
  const server = await startClickhouseServer()
  const sink = await openClickhouseSink(server.url, { retentionDays: 3_650, holder: 'bench' })
  await fill(sink)
  await sink.stop()
  const engine = await startClickhouseEngine(server.url, { log: silentLog })
  return {
    engine,
    place: server.url,
    close: async () => {
      await engine.stop()
      await server.stop()
    },
  }
})

export function missingClickhouse(): string | undefined {
  return hasClickhouseServer() ? undefined : 'no clickhouse-server'
}

async function fill(sink: RowSink): Promise<void> {
  for (const batch of makeRows(plan)) await sink.write([batch], {})
}
