// The product's own figures as meters, from frames whose values are known.
import { beforeEach, expect, test } from 'vitest'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import {
  ActiveBlocks,
  BlockRows,
  declareChainMeters,
} from '../../../../src/products/metrics/block-rows.ts'
import { EventLog } from '../../../../src/streams/log/log.ts'
import { contentionOf, HandClock, handOutSeqs } from '../../../testkit/fake-execution.ts'

let meters: Meters
let append: (kind: Parameters<EventLog['append']>[0], payload: unknown) => void

beforeEach(() => {
  meters = new Meters()
  const declared = declareChainMeters(meters)
  const [active, history] = [new ActiveBlocks(declared), new BlockRows(declared)]
  const log = new EventLog({ reserve: handOutSeqs(), clock: new HandClock() })
  log.listen((frame) => {
    active.update(frame)
    history.update(frame)
  })
  append = (kind, payload) => log.append(kind, Buffer.from(JSON.stringify(payload)))
})

/** The samples of a meter, without its name: `{le="0.7"} 1`. */
async function samples(name: string): Promise<string[]> {
  const { body } = await meters.render('text')
  const lines = body.split('\n').filter((line) => line.startsWith(name))
  return lines.map((line) => line.slice(name.length).trim())
}

const move = (to_stage: string, block_age_ms: number) => ({
  block_hash: '0xa',
  block_number: 7,
  to_stage,
  block_age_ms,
})

test('TPS is that of the newest frame', async () => {
  expect(await samples('sluice_tps')).toEqual(['0'])
  append('TPS', 455)
  append('TPS', 318)
  expect(await samples('sluice_tps')).toEqual(['318'])
})

test('contention and critical path are those of the newest block', async () => {
  append('ContentionData', { ...contentionOf(7), contention_ratio: 0.5 })
  append('ContentionData', {
    ...contentionOf(8),
    contention_ratio: 0.125,
    critical_path_txn_count: 9,
    total_txn_count: 36,
  })
  expect(await samples('sluice_contention_ratio')).toEqual(['0.125'])
  expect(await samples('sluice_critical_path_ratio')).toEqual(['0.25'])
})

test('efficiency is a histogram with the bands as buckets; empty blocks do not count', async () => {
  const blocks = [
    { parallel_efficiency_pct: 98.5, total_txn_count: 10 },
    { parallel_efficiency_pct: 75, total_txn_count: 10 },
    { parallel_efficiency_pct: 25, total_txn_count: 10 },
    { parallel_efficiency_pct: 0, total_txn_count: 0, critical_path_txn_count: 0 },
  ]
  for (const block of blocks) append('ContentionData', { ...contentionOf(7), ...block })
  const found = await samples('sluice_parallel_efficiency_ratio')
  expect(found).toContain('_bucket{le="0.7"} 1')
  expect(found).toContain('_bucket{le="0.9"} 2')
  expect(found).toContain('_bucket{le="0.99"} 3')
  expect(found).toContain('_count 3')
  expect(found).toContain(`_sum ${0.985 + 0.75 + 0.25}`)
  expect(await samples('sluice_critical_path_ratio')).toEqual(['0'])
})

test('finalization counts the age of blocks that become Finalized, and no other move', async () => {
  append('Lifecycle', move('Proposed', 0))
  append('Lifecycle', move('Voted', 400))
  append('Lifecycle', move('Finalized', 801))
  append('Lifecycle', move('Verified', 1202))
  append('Lifecycle', move('Rejected', 300))
  const found = await samples('sluice_finalize_seconds')
  expect(found).toContain('_bucket{le="0.8"} 0')
  expect(found).toContain('_bucket{le="1"} 1')
  expect(found).toContain('_count 1')
  expect(found).toContain('_sum 0.801')
})
