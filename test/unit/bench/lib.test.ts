// The bench library: medians and ratios, what fails a bench, options, comparison.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Bench, Contender } from '../../../bench/lib/bench.ts'
import { parseOptions } from '../../../bench/lib/options.ts'
import { formatComparison, formatResult, storeResult } from '../../../bench/lib/report.ts'
import { rounds, runBench } from '../../../bench/lib/rounds.ts'

const order: string[] = []

function scripted(name: string, speeds: readonly number[]): Contender {
  let round = 0
  return {
    name,
    async run() {
      order.push(name)
      const opsPerSecond = speeds[round++]!
      return { opsPerSecond, latencyUs: { p50: 1e6 / opsPerSecond, p99: 2, p999: 3 } }
    },
  }
}

/** Its speed is what its processor time allows. */
function costing(name: string, speeds: readonly number[]): Contender {
  const { run, ...contender } = scripted(name, speeds)
  return {
    ...contender,
    async run(context) {
      const measured = await run(context)
      return { ...measured, cpuUsPerOp: 1e6 / measured.opsPerSecond }
    },
  }
}

const bench = (more: Partial<Bench> = {}): Bench => ({
  name: 'sample',
  question: 'Which is faster?',
  cores: 1,
  baseline: scripted('plain', [100, 200, 100]),
  candidates: [scripted('ours', [300, 400, 500])],
  goals: [{ contender: 'ours', to: 'plain', figure: 'opsPerSecond', atLeast: 2.5 }],
  verify: () => undefined,
  ...more,
})

const options = { seconds: 0.1, progress() {} }

describe('bench', () => {
  it('alternates the contenders and takes ratios within a round', async () => {
    order.length = 0
    const result = await runBench(bench(), options)
    expect(order).toEqual(Array.from({ length: rounds }, () => ['plain', 'ours']).flat())
    const [plain, ours] = result.rows
    expect(plain).toMatchObject({ opsPerSecond: 100, spread: 1, ratio: 1 })
    expect(ours).toMatchObject({ opsPerSecond: 400, ratio: 3, latencyUs: { p50: 2500 } })
    expect(result.goals).toMatchObject([{ value: 3, isMet: true }])
    expect(formatResult(result)).toContain('goal met: ours to plain, ops/s 3.00 (at least 2.5)')
    expect(formatResult(result)).not.toContain('bytes/op')
    const rows = result.rows.map((row) => ({ ...row, bytesPerOp: 312.4 }))
    expect(formatResult({ ...result, rows })).toMatch(/bytes\/op\n .* 312\n/)
  })

  it('takes the cost of another contender off within a round', async () => {
    const goal = { contender: 'ours', minus: 'plain', figure: 'cpuUsPerOp' } as const
    const costs = bench({
      baseline: costing('plain', [100, 50, 100]),
      candidates: [costing('ours', [50, 40, 20])],
      goals: [10_000, 9_999].map((atMost) => ({ ...goal, atMost })),
    })
    const result = await runBench(costs, options)
    expect(result.goals).toMatchObject([
      { value: 10_000, isMet: true },
      { value: 10_000, isMet: false },
    ])
    const text = 'goal met: ours minus plain, cpu/op 1.00e+4 us (at most 10,000 us)'
    expect(formatResult(result)).toContain(text)
  })

  it('fails on a wrong answer and still closes what it opened', async () => {
    let isClosed = false
    const ours: Contender = {
      ...scripted('ours', [1, 1, 1]),
      close: async () => {
        isClosed = true
      },
    }
    const wrong = bench({
      candidates: [ours],
      verify: (_, name) => (name === 'ours' ? 'one record is missing' : undefined),
    })
    await expect(runBench(wrong, options)).rejects.toThrow('sample, ours: one record is missing')
    expect(isClosed).toBe(true)
  })

  it('skips and reports what cannot run here', async () => {
    const native = { ...scripted('C', []), missing: () => 'no compiler' }
    const result = await runBench(bench({ candidates: [native], cores: 10_000 }), options)
    expect(result.rows.map(({ name }) => name)).toEqual(['plain'])
    expect(result.notes.join()).toMatch(/10000 cores.*C left out: no compiler/)
    expect(result.goals).toEqual([])
  })

  it('keeps results and sets two of them side by side', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
    const result = await runBench(bench(), options)
    const [plain, ours] = result.rows
    const faster = { ...ours!, ratio: 4.5, latencyUs: { p50: 1250, p99: 2, p999: 3 } }
    const rows = [plain!, faster, { ...ours!, name: 'C' }]
    const before = storeResult(result, folder, { seconds: 0.1 })
    const after = storeResult({ ...result, rows }, join(folder, 'after'), { seconds: 0.1 })
    const text = formatComparison(before, after)
    expect(text).toMatch(/plain ratio +1 +1 +same/)
    expect(text).toMatch(/ours ratio +3 +4.5 +50.0 % better/)
    expect(text).toMatch(/ours p50 us +2,500 +1,250 +50.0 % better/)
    expect(text).toContain('new: C, ratio 3.00')
    const other = storeResult({ ...result, name: 'other' }, folder, {})
    expect(formatComparison(before, other)).toMatch(/sample cannot be compared with .* other/)
    rmSync(folder, { recursive: true })
  })
})

describe('bench options', () => {
  it('are names, flags and a comparison', () => {
    expect(parseOptions([])).toEqual({ names: [] })
    expect(parseOptions(['ring', 'rpc', '--seconds', '2', '--out=x'])).toEqual({
      names: ['ring', 'rpc'],
      seconds: 2,
      out: 'x',
    })
    expect(parseOptions(['growth', '--full'])).toEqual({ names: ['growth'], full: true })
    expect(parseOptions(['compare', 'a', 'b'])).toEqual({ names: [], compare: ['a', 'b'] })
  })

  it('report what is wrong with them', () => {
    expect(parseOptions(['--speed', '1'])).toMatch(/^Unknown option '--speed'/)
    expect(parseOptions(['--seconds'])).toMatch(/'--seconds <value>' argument missing/)
    expect(parseOptions(['--seconds', 'many'])).toBe('--seconds is 0 to 600')
    expect(parseOptions(['compare', 'a'])).toBe('compare takes two files')
  })
})
