// A million transactions in both engines of the indexer, for the benches that ask of them (in a smoke
// run twenty thousand): made once, shared by the contenders. Thread: main of the bench process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openClickhouseSink } from '../../src/indexer/clickhouse-server/sink.ts'
import { openDuckdbSink } from '../../src/indexer/duckdb/sink.ts'
import type { RowSink } from '../../src/indexer/engine.ts'
import { hasClickhouseServer, startClickhouseServer } from '../../test/testkit/clickhouse-server.ts'
import { makeRows } from '../../test/testkit/generated-rows.ts'
import type { RoundContext } from './bench.ts'
import { Shared } from './shared.ts'

const plan = {
  seed: 5,
  transactionsPerSlot: 1_000,
  blocks: 0,
  tips: 0,
  usage: 0,
  only: ['blocks', 'transactions'] as const,
}

function slotsOf({ smoke }: RoundContext): number {
  return smoke === true ? 20 : 1_000
}

export interface EngineStage {
  /** Where it lives: a folder or an address. */
  readonly place: string
  stop(): Promise<void>
}

export const duckdbStage = new Shared<EngineStage>(async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-index-'))
  const sink = await openDuckdbSink(folder, { retentionMs: 1e12, retentionBytes: 1e12 })
  await fill(sink, slotsOf(context))
  return {
    place: folder,
    stop: async () => {
      await sink.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
})

export const clickhouseStage = new Shared<EngineStage>(async (context) => {
  const server = await startClickhouseServer()
  const sink = await openClickhouseSink(server.url, { retentionDays: 3_650, holder: 'bench' })
  await fill(sink, slotsOf(context))
  await sink.stop()
  return { place: server.url, stop: () => server.stop() }
})

export function missingClickhouse(): string | undefined {
  return hasClickhouseServer() ? undefined : 'no clickhouse-server'
}

async function fill(sink: RowSink, slots: number): Promise<void> {
  for (const batch of makeRows({ ...plan, slots })) await sink.write([batch], {})
}
