// Tables from whole runs: low, median and high, what is refused, what is marked, and that nothing
// else of the page changes.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { GoalResult, StoredResult } from '../../../bench/lib/bench.ts'
import { parseOptions } from '../../../bench/lib/options.ts'
import { runFolder, writeSummary } from '../../../bench/lib/runs.ts'
import {
  emptySummary,
  regionOfNode,
  rewriteTables,
  type Summary,
  summarise,
} from '../../../bench/lib/summary.ts'
import { root } from '../../testkit/tree.ts'

const goal = (value: number): GoalResult => ({
  contender: 'ours',
  to: 'C',
  figure: 'opsPerSecond',
  atLeast: 0.75,
  value,
  isMet: value >= 0.75,
})

const result = (value: number, more: Partial<StoredResult> = {}): StoredResult => ({
  name: 'ring',
  question: 'How fast?',
  rows: [],
  goals: [goal(value)],
  notes: [],
  commit: 'abcdef0',
  node: 'v20.20.2',
  cores: 2,
  processor: 'x64',
  config: {},
  ...more,
})

const summaryOf = (...results: StoredResult[]): Summary => {
  const summary = summarise(results)
  if (typeof summary === 'string') throw new Error(summary)
  return summary
}

const typed = '| ring, one by one / by 32 | 0.77 / 0.26 of C | 0.5 / 0.6 | `ring` | |'
const page = (...rows: string[]) =>
  [
    '# Page',
    '| a | b | c | `ring` | e |',
    '<!-- bench: all -->',
    '| path | figure | goal | run | measured |',
    '|---|---|---|---|---|',
    ...rows,
    '<!-- /bench -->',
    'Prose.',
  ].join('\n')

describe('summary of whole runs', () => {
  it('has low, median and high beside the goal, and says what is missed', () => {
    const [row] = summaryOf(result(0.71), result(0.6912), result(0.74)).rows.get('ring')!
    expect(row).toBe(
      '| ours to C, ops/s | low 0.691, median 0.71, high 0.74 | at least 0.75: missed | `ring` | ' +
        '3 runs of `abcdef0`, Node 20.20.2, 2 cores |',
    )
    const verdictOf = (...values: number[]) =>
      summaryOf(...values.map((value) => result(value)))
        .rows.get('ring')![0]!
        .split(' | ')[2]
    expect(verdictOf(0.75, 0.8, 0.9)).toBe('at least 0.75: met')
    expect(verdictOf(0.74, 0.8, 0.9, 1)).toBe('at least 0.75: missed in 1 of 4 runs')
  })

  it('shows times with their unit and the ratios of a bench without goals', () => {
    const time: GoalResult = {
      contender: 'ours',
      figure: 'p99',
      atMost: 2500,
      value: 1234.5,
      isMet: true,
    }
    const timed = result(1, { goals: [time] })
    expect(summaryOf(timed, timed, timed).rows.get('ring')![0]).toContain(
      '| low 1,230, median 1,230, high 1,230 us | at most 2,500 us: met |',
    )
    const row = (name: string, ratio: number) => ({ name, opsPerSecond: 1, spread: 0, ratio })
    const plain = result(1, { goals: [], rows: [row('plain', 1), row('a | b', 2)] })
    expect(summaryOf(plain, plain, plain).rows.get('ring')![0]).toMatch(
      /^\| a \\\| b to plain, ops\/s \| low 2, median 2, high 2 \| {2}\| `ring` \| 3 runs of/,
    )
  })

  it('names what has fewer than three runs', () => {
    const { rows, missing } = summaryOf(result(1), result(1))
    expect(rows.size).toBe(0)
    expect(missing).toEqual(['ring: 2 of 3 runs'])
    // A contender that was left out of one run, as nginx is where it is not installed.
    const without = result(1, { goals: [] })
    const partly = summaryOf(result(1), result(1), without)
    expect(partly.missing).toEqual(['ring, ours to C, ops/s: 2 of 3 runs'])
    expect(partly.rows.get('ring')).toEqual([
      '| ours to C, ops/s | - | at least 0.75 | `ring` | not measured in three runs |',
    ])
  })

  it('refuses several commits, a changed tree, and several machines', () => {
    const all = (more: Partial<StoredResult>) => summarise([result(1), result(1), result(1, more)])
    expect(all({ commit: '1234567' })).toBe('results of several commits: abcdef0, 1234567')
    expect(all({ commit: 'abcdef0-dirty' })).toMatch(/^results of several commits/)
    expect(all({ node: 'v22.0.0' })).toMatch(/^results of several Node versions/)
    expect(all({ cores: 8 })).toMatch(/^results of several machines: 2 x x64, 8 x x64/)
    for (const commit of ['abcdef0-dirty', 'unknown'])
      expect(summarise([result(1, { commit })])).toBe(
        `results of ${commit} belong to no commit: commit, then measure`,
      )
    expect(summarise([])).toBe('there are no results of whole runs')
  })
})

describe('tables of PERFORMANCE.md', () => {
  it('mark what was typed and keep its text', () => {
    const marked = rewriteTables(page(typed), emptySummary)
    expect(marked).toBe(page(typed.replace('| |', '| not measured in three runs |')))
    const claimed = typed.replace('| |', '| measured, really |')
    expect(rewriteTables(page(claimed), emptySummary)).toBe(marked)
  })

  it('get the rows of a measured bench once, and nothing else changes', () => {
    const summary = summaryOf(result(0.7), result(0.8), result(0.9))
    const [row] = summary.rows.get('ring')!
    const other = '| other | 1 | | `ring-latency` | not measured in three runs |'
    const written = rewriteTables(page(typed, other, typed), summary)
    expect(written).toBe(page(row!, other))
    expect(rewriteTables(written, summary)).toBe(written)
    expect(rewriteTables(written, emptySummary)).toBe(written)
    const again = summaryOf(...[1, 1, 1].map((value) => result(value, { commit: '1234567' })))
    expect(rewriteTables(written, again)).toBe(page(again.rows.get('ring')![0]!, other))
  })

  it('get a bench that they did not name at their end, once', () => {
    const tpu = summaryOf(...[1, 1, 1].map((value) => result(value, { name: 'tpu' })))
    const written = rewriteTables(page(typed), tpu)
    expect(written).toContain(`three runs |\n${tpu.rows.get('tpu')![0]}\n<!-- /bench -->`)
    expect(rewriteTables(written, tpu)).toBe(written)
  })

  it('keep a region of a Node release apart from all others', () => {
    const node24 = (...rows: string[]) => page(...rows).replace('bench: all', 'bench: node-24')
    const both = (rows: string[], own: string[]) => `${page(...rows)}\n${node24(...own)}`
    const marked = typed.replace('| |', '| not measured in three runs |')
    const v24 = [1, 1, 1].map((value) => result(value, { node: 'v24.21.0' }))
    const [row] = summaryOf(...v24).rows.get('ring')!
    const document = both([marked], [])
    expect(regionOfNode(document, 'v24.21.0')).toBe('node-24')
    expect(regionOfNode(document, 'v20.20.2')).toBeNull()
    const written = rewriteTables(document, summaryOf(...v24), 'node-24')
    expect(written).toBe(both([marked], [row!]))
    const v20 = summaryOf(result(0.7), result(0.8), result(0.9))
    const [older] = v20.rows.get('ring')!
    expect(rewriteTables(written, v20)).toBe(both([older!], [row!]))
    expect(rewriteTables(written, emptySummary)).toBe(written)
  })

  it('refuse a region without an end', () => {
    expect(() => rewriteTables('<!-- bench: all -->', emptySummary)).toThrow('all has no end')
  })

  it('are as `summary` writes them: no typed row is without its mark', () => {
    const text = readFileSync(join(root, 'docs', 'PERFORMANCE.md'), 'utf8')
    expect(rewriteTables(text, emptySummary)).toBe(text)
    expect(text.match(/<!-- bench: /g)?.length).toBeGreaterThan(3)
    // Sections with tables outside of the regions say it once for all of them.
    const outside = text.replace(/<!-- bench: [\s\S]*?<!-- \/bench -->/g, '').split(/^## /m)
    const silent = outside.filter(
      (part) => /^\|/m.test(part) && !/not measured in three/i.test(part),
    )
    expect(silent.map((part) => part.split('\n')[0])).toEqual([])
  })
})

describe('runs on disk', () => {
  it('are read from the newest commit, or the one that is asked for', () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-summary-'))
    const document = join(folder, 'page.md')
    writeFileSync(document, page(typed))
    expect(writeSummary(folder, document)).toMatchObject({ isWritten: false })
    const keep = (commit: string, run: string, value: number) => {
      const runs = join(folder, 'runs', commit, run)
      mkdirSync(runs, { recursive: true })
      writeFileSync(join(runs, 'ring.json'), JSON.stringify(result(value, { commit })))
    }
    for (const hour of [1, 2, 3]) keep('abcdef0', `2026-01-01T0${hour}`, hour)
    keep('1234567', '2026-01-02T01', 1)
    expect(writeSummary(folder, document).text).toMatch(
      /^1234567 has no bench with 3 whole runs; nothing written\n {2}missing: ring: 1 of 3 runs$/,
    )
    expect(readFileSync(document, 'utf8')).toBe(page(typed))
    expect(writeSummary(folder, document, 'abcdef0').isWritten).toBe(true)
    expect(readFileSync(document, 'utf8')).toContain('low 1, median 2, high 3')
    expect(writeSummary(folder, document, '7777777').text).toMatch(/^no whole run of 7777777 /)
    rmSync(folder, { recursive: true })
  })

  it('are whole ones only', () => {
    expect(runFolder('x', { names: [], seconds: 0.2 })).toMatchObject({
      reason: expect.stringMatching(/--seconds/),
    })
    expect(runFolder('x', { names: [], target: 'host' })).toMatchObject({
      reason: expect.stringMatching(/target/),
    })
  })

  it('have a word on the command line', () => {
    expect(parseOptions(['summary'])).toEqual({ names: [], summary: {} })
    expect(parseOptions(['summary', 'abc', '--out', 'x'])).toEqual({
      names: [],
      summary: { commit: 'abc' },
      out: 'x',
    })
    expect(parseOptions(['summary', 'a', 'b'])).toBe('summary takes one commit')
  })
})
