// The soak in short: the whole service under its load for some seconds, sampled and reported; what
// it says of memory is checked on made-up series. `npm run soak -- --for 90m` is the real one.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { SeededRandom } from '../../src/loadtest/statistics.ts'
import { judge, readSamples, reportOf } from '../soak/report.ts'
import { settingsOf } from '../soak/settings.ts'
import { type Sample, type SoakHead, soak } from '../soak/soak.ts'
import { spanMs } from '../testkit/slice.ts'

const folder = mkdtempSync(join(tmpdir(), 'soak-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('samples every process of a server, and reports what was not reached', async () => {
  const forMs = spanMs(20_000, 20_000)
  const plan = { forMs, fillMs: forMs / 5, everyMs: 1_000, folder }
  const [setting] = settingsOf(plan.fillMs)
  await soak(setting!, plan)
  const [run] = readSamples(folder)
  const verdict = judge(run!)
  const text = reportOf(folder, [run!], [verdict])
  const names = verdict.lines.map(({ name }) => name)
  for (const program of ['server', 'devnode', 'index-writer', 'index-queries', 'operator-api'])
    for (const quantity of ['pss', 'own', 'rss', 'descriptors', 'threads'])
      expect(names).toContain(`${program} ${quantity}`)
  expect(names).toContain('server heap used')
  const { load, figures } = run!.samples.at(-1)!
  for (const endpoint of ['rpc', 'indexer', 'tpu', 'rest', 'websocket', 'grpc', 'metrics'])
    expect(load.got[endpoint], `${endpoint} ${load.lastFailure[endpoint]}`).toBeGreaterThan(0)
  expect(run!.head.memoryMax.all).toBeGreaterThan(figures['all pss']!)
  expect(text).toContain('not full')
  const plots = readdirSync(folder).filter((name) => name.endsWith('.svg'))
  expect(plots.length).toBe(4)
  expect(readFileSync(join(folder, plots[0]!), 'utf8')).toContain('<path')
})

const head: SoakHead = {
  ...{ name: 'made up', config: {}, forMs: 5_400_000, fillMs: 1_200_000, everyMs: 10_000 },
  bounds: [{ name: 'cache', most: 100 }],
  memoryMax: { all: 3e8, server: 3e8 },
}

interface MadeUp {
  readonly perHour?: number
  /** Without a floor: bytes that are there or not, in each sample anew. */
  readonly noise?: number
  readonly answered?: number
}

/** A level with garbage that comes and goes. */
function madeUp(seed: number, { perHour = 0, noise = 0, answered = 1 }: MadeUp = {}): Sample[] {
  const random = new SeededRandom(seed)
  let garbage = 0
  return Array.from({ length: 540 }, (_, at) => {
    const atMs = at * 10_000
    garbage = random.next() < 0.1 ? 0 : garbage + random.next() * 1e6
    const memory = 2e8 + garbage + noise * random.next() + (perHour * atMs) / 3_600_000
    return {
      ...{ atMs, bounds: { cache: Math.min(100, at) } },
      figures: { 'all pss': memory, 'server pss': memory, 'server handles': 40 + (at % 3) },
      load: { got: { rpc: 1 + at * answered }, failed: {}, resumed: {}, lastFailure: {} },
    }
  })
}

test('level series are flat, and rises of 2 % an hour are found', () => {
  const seeds = Array.from({ length: 40 }, (_, seed) => seed + 1)
  const found = (of: MadeUp) =>
    seeds.filter((seed) =>
      judge({ head, samples: madeUp(seed, of) }).problems.includes('server pss rises'),
    ).length
  // All lines of a run together err in one of twenty runs.
  expect(found({})).toBeLessThanOrEqual(3)
  expect(found({ noise: 4e8 })).toBeLessThanOrEqual(3)
  expect(found({ perHour: 4e6 })).toBeGreaterThanOrEqual(37)
  expect(found({ perHour: -4e6 })).toBe(0)
})

test('reports a bound that was not reached, memory above its bounds and a silent endpoint', () => {
  const samples = madeUp(1)
  const more = { ...head, bounds: [{ name: 'cache', most: 1_000 }] }
  expect(judge({ head: more, samples }).problems.join()).toContain('cache: 100 of 1000, not full')
  const less = { ...head, memoryMax: { all: 1e8 } }
  expect(judge({ head: less, samples }).problems.join()).toContain('exceeds its bounds')
  const silent = judge({ head, samples: madeUp(1, { answered: 0 }) })
  expect(silent.problems).toEqual(['rpc was not answered: silence'])
})
