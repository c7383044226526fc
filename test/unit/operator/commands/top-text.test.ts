import { expect, test } from 'vitest'
import { ExpositionText } from '../../../../src/client/exposition-text.ts'
import { productFigures, quantileMs, rateOf } from '../../../../src/client/product-figures.ts'
import { type TopFigures, topText } from '../../../../src/operator/commands/top.ts'

const address = `0x${'ab'.repeat(20)}`
const storageSlot = `0x${'00'.repeat(31)}07`
const product = {
  name: 'rpc',
  state: 'open',
  rate: 12.34,
  unit: 'calls/s',
  p50Ms: 0.4123,
  p99Ms: 2100,
  errors: 3,
  refused: 2,
  open: 7,
}
const figures: TopFigures = {
  url: 'http://127.0.0.1:8443',
  status: {
    status: 'healthy',
    block_number: 7,
    connected_clients: 1,
    uptime_secs: 65,
    last_event_age_secs: 0,
    ring_seqno: 1,
    oldest_seqno: 1,
    newest_seqno: 2,
    chain_id: 20143,
    source: 'generated',
  },
  block: {
    block_number: 4_486_937_744,
    block_hash: `0x${'cd'.repeat(32)}`,
    at_ms: 1_756_499_174_000,
    tps: 455,
    parallel_efficiency_pct: 98.56,
    contended_slot_count: 30,
    written_contended_slot_count: 11,
    critical_path_txn_count: 9,
    total_txn_count: 138,
    block_wall_time_ns: 69_089_655,
  },
  tps: [0, 100, 455],
  finalizeP50Ms: 801,
  gaps: 0,
  products: [product, { ...product, name: 'shredstream', p50Ms: null, p99Ms: null, open: null }],
  indexLagSecs: 0.25,
  loopLagP99Ms: 1.5,
  memoryBytes: 200 * 1024 * 1024,
  top: {
    account: [{ key: address, count: 12, error: 0 }],
    storage: [{ key: [address, storageSlot], count: 5, error: 1 }],
  },
}

test('a wide screen shows the chain, every product with its latency, and the hottest keys', () => {
  const text = topText(figures, 140)
  for (const fact of [
    ...['healthy', 'block 4486937744', 'TPS 455', 'efficiency 98.6 % (excellent)'],
    ...[
      'contended storage slots 30',
      'of them written 11',
      'critical path 9 of 138',
      'wall 69 ms',
      'finalize p50 801 ms',
      'gaps 0',
    ],
    ...['index lag 0.3 s', 'loop lag p99 1.50 ms', 'memory 200 MiB', 'TPS ▁▃█'],
  ])
    expect(text).toContain(fact)
  expect(text).toMatch(/^rpc +open +12 calls\/s +0\.41 ms +2\.10 s +3 +2 +7$/m)
  expect(text).toMatch(/^shredstream +open +12 calls\/s +- +- +3 +2 +-$/m)
  expect(text).toContain(`  account      12  ${address}\n`)
  expect(text).toContain('most accessed since the last 5-minute mark; (-n): n or fewer too many')
  expect(text).toContain(`  storage  5 (-1)  ${address} ${storageSlot}`)
})

test.each([20, 40, 60, 80, 100])('no line is wider than a terminal of %d columns', (width) => {
  const text = topText(figures, width)
  for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(width)
  // The name and the rate of a product stay longest.
  if (width >= 40) expect(text).toMatch(/^rpc +12 calls\/s|^rpc +open +12 calls\/s/m)
  if (width >= 60) expect(text).toContain('0xababab…ababab 0x000000…000007')
})

test('an empty block has no efficiency, and a chain without a block says so', () => {
  const empty = { ...figures.block!, total_txn_count: 0, parallel_efficiency_pct: 0 }
  expect(topText({ ...figures, block: empty }, 100)).toContain('no transactions')
  expect(topText({ ...figures, block: empty }, 100)).not.toContain('sequential')
  const none = topText({ ...figures, block: null, tps: [], top: null }, 100)
  expect(none).toContain('waiting for the first block')
  expect(none).not.toContain('most accessed')
})

const histogram = (counts: readonly number[]) =>
  new ExpositionText(
    ['0.001', '0.01', '0.1', '+Inf']
      .map((le, index) => `sluice_rpc_seconds_bucket{le="${le}"} ${counts[index]}`)
      .join('\n'),
  )

test('latencies are those of the calls between two samples', () => {
  const before = histogram([1000, 1000, 1000, 1000])
  // Between them: 10 calls of 1 to 10 ms.
  const now = histogram([1000, 1010, 1010, 1010])
  expect(quantileMs({ before, now }, 'rpc_seconds', 0.5)).toBeCloseTo(5.5)
  expect(quantileMs({ before, now }, 'rpc_seconds', 1)).toBeCloseTo(10)
  expect(quantileMs({ before, now: before }, 'rpc_seconds', 0.5)).toBeNull()
  expect(quantileMs({ before, now }, undefined, 0.5)).toBeNull()
  // Beyond the last bound there is no more than that bound to say.
  const slow = histogram([1000, 1000, 1000, 1010])
  expect(quantileMs({ before, now: slow }, 'rpc_seconds', 0.99)).toBe(100)
})

test('a product is listed while its meters exist', () => {
  const now = new ExpositionText(
    'sluice_grpc_streams 3\nsluice_grpc_updates_total{kind="slot"} 40\n',
  )
  const before = new ExpositionText('sluice_grpc_streams 3\n')
  expect(productFigures({ before, now, seconds: 2 })).toMatchObject([
    { name: 'grpc', rate: 20, open: 3, p50Ms: null },
  ])
})

test('a histogram is summed over its labels, and a sum takes or leaves out a label', () => {
  const now = new ExpositionText(`# HELP x y
sluice_a_total{door="rpc",method="x"} 3
sluice_a_total{door="rpc",method="y"} 4
sluice_a_total{door="grpc"} 5
sluice_b_seconds_bucket{way="x",le="0.001"} 9
sluice_b_seconds_bucket{way="x",le="+Inf"} 10
sluice_b_seconds_bucket{way="y",le="0.001"} 0
sluice_b_seconds_bucket{way="y",le="+Inf"} 10
`)
  expect(now.sum('a_total')).toBe(12)
  expect(now.sum('a_total', { door: 'rpc' })).toBe(7)
  expect(now.sum('a_total', { door: '!rpc' })).toBe(5)
  expect(now.sum('none')).toBe(0)
  const before = new ExpositionText('')
  expect(quantileMs({ before, now }, 'b_seconds', 0.45)).toBe(1)
})

test('a counter that fell belongs to a server that was restarted', () => {
  const sample = (count: number) => new ExpositionText(`sluice_a_total ${count}\n`)
  const samples = { before: sample(9), now: sample(3), seconds: 1 }
  expect(rateOf((text) => text.sum('a_total'), samples)).toBe(0)
})
