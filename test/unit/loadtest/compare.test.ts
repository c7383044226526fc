import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { compareResults, worseThan } from '../../../src/loadtest/compare.ts'
import { plotSvg } from '../../../src/loadtest/plot.ts'
import { reportHtml } from '../../../src/loadtest/report.ts'
import type { Figure, Result } from '../../../src/loadtest/result.ts'
import { prometheusText, readResult, resultOf, resultTable } from '../../../src/loadtest/result.ts'
import { sampleResult } from '../../testkit/bench-result.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-compare-'))
afterAll(() => rmSync(folder, { recursive: true }))

function worse(before: Result, after: Result, share: number): string[] {
  const compared = compareResults(before, after)
  if (!compared.ok) throw new Error(compared.refusal.message)
  return worseThan(compared.value, share).map(({ figure }) => figure)
}

const withFigure = (figure: Partial<Figure>) =>
  sampleResult({
    figures: [{ name: 'p99', of: '', value: 1, unit: 'ms', better: 'lower', ...figure }],
  })

describe('two results', () => {
  test('are worse by what exceeds the limit, in the direction of the figure', () => {
    expect(worse(withFigure({ value: 10 }), withFigure({ value: 10.9 }), 0.1)).toEqual([])
    expect(worse(withFigure({ value: 10 }), withFigure({ value: 11.1 }), 0.1)).toEqual(['p99'])
    expect(worse(withFigure({ value: 10 }), withFigure({ value: 5 }), 0.1)).toEqual([])
    const higher = { better: 'higher' } as const
    const fast = withFigure({ ...higher, value: 100 })
    expect(worse(fast, withFigure({ ...higher, value: 85 }), 0.1)).toEqual(['p99'])
    expect(worse(fast, withFigure({ ...higher, value: 300 }), 0.1)).toEqual([])
  })

  test('are not worse by what their intervals explain', () => {
    const before = withFigure({ value: 10, low: 8, high: 12 })
    expect(worse(before, withFigure({ value: 13, low: 11, high: 15 }), 0.1)).toEqual([])
    expect(worse(before, withFigure({ value: 16, low: 14, high: 18 }), 0.1)).toEqual(['p99'])
  })

  test('are worse when a figure is gone or appears where there was none', () => {
    expect(worse(withFigure({ value: 1 }), withFigure({ value: null }), 0.1)).toEqual(['p99'])
    expect(worse(withFigure({ value: 1 }), sampleResult({ figures: [] }), 0.1)).toEqual(['p99'])
    expect(worse(withFigure({ value: 0 }), withFigure({ value: 0.1 }), 0.1)).toEqual(['p99'])
    expect(worse(withFigure({ value: 0 }), withFigure({ value: 0 }), 0.1)).toEqual([])
  })

  test('are not compared across verbs, and settings that differ are named', () => {
    expect(compareResults(sampleResult({}), sampleResult({ verb: 'race' })).ok).toBe(false)
    const compared = compareResults(sampleResult({}), sampleResult({ settings: { rate: 7 } }))
    expect(compared.ok && compared.value.settings).toContain('rate: 1000 and 7')
  })
})

describe('a result file', () => {
  test('is read as it was written', () => {
    const path = join(folder, 'a.json')
    writeFileSync(path, JSON.stringify(sampleResult({})))
    expect(readResult(path)).toEqual({ ok: true, value: sampleResult({}) })
  })

  test.each([
    ['nothing', /is no result/],
    ['{"format":"sluice-bench","version":9}', /has version 9/],
    ['{"format":"sluice-bench","version":1,"figures":[{"name":1}]}', /is damaged/],
    ['null', /is no result/],
  ])('is refused as %s', (text, message) => {
    const path = join(folder, 'bad.json')
    writeFileSync(path, text)
    const read = readResult(path)
    expect(read.ok ? '' : read.refusal.message).toMatch(message)
  })

  test('is marked unfit by any reason', () => {
    const { format, version, fit, machine, ...input } = sampleResult({})
    expect([format, version, fit, machine.cores > 0]).toEqual(['sluice-bench', 1, true, true])
    expect(resultOf({ ...input, unfit: ['the clock stepped'] }).fit).toBe(false)
  })
})

describe('a result as text', () => {
  test('is a table, and metrics that Prometheus reads', () => {
    const result = withFigure({ value: 1.5, of: 'a "b"' })
    expect(resultTable(result)).toContain('1.5 ms')
    const text = prometheusText(result)
    expect(text).toContain('sluice_bench_load_p99_seconds{endpoint="a \\"b\\""} 0.0015\n')
    expect(text).toContain('sluice_bench_load_fit 1\n')
    for (const line of text.trim().split('\n'))
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{[^}]*\})? -?[\d.e+-]+)$/)
  })

  test('is one HTML file without a script or a reference to another file', () => {
    const plot = {
      title: 'a < b',
      x: { kind: 'percentile', title: 'x' },
      y: { kind: 'log', title: 'y' },
      lines: [
        {
          name: 'one',
          points: [
            [0, 1],
            [50, 2],
            [99.9, 1_000],
          ] as const,
        },
      ],
    } as const
    const partial = sampleResult({ partial: 'stopped by SIGINT', unfit: ['<busy>'] })
    const html = reportHtml(partial, { title: 'Load & more', plots: [plot] })
    expect(html).toContain('<svg')
    expect(html).toContain('PARTIAL: stopped by SIGINT')
    expect(html).toContain('UNFIT: &lt;busy>')
    expect(html).not.toMatch(/<script|<link|<img|src=|NaN|Infinity/)
    expect(html.replaceAll('http://www.w3.org/2000/svg', '')).not.toContain('http')
  })

  test('begins with the result, explains its figures and leaves out what is not set', () => {
    const result = sampleResult({ settings: { rate: 50, seed: null, accounts: '' } })
    const table = { title: 'Errors by code', head: ['code', 'calls'], rows: [['HTTP 429', '7']] }
    const findings = ['All went well.', 'Second.']
    const html = reportHtml(result, { title: 'Load', findings, plots: [], tables: [table] })
    const text = html.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
    expect(text).toMatch(/Load All went well\. Second\. Started/)
    expect(html).toContain('<strong>All went well.</strong>')
    expect(text).toMatch(/Errors by code code calls HTTP 429 7 Words .* Settings .* rate 50 /)
    expect(text).toMatch(/ p… latency from the intended start /)
    expect(text).not.toMatch(/null|seed|accounts|knee/)
  })
})

describe('a plot', () => {
  const whole = { kind: 'integer', title: 'slots' } as const
  const share = { kind: 'linear', title: '%' } as const
  const points = [
    [0, 0],
    [0, 50],
    [1, 100],
  ] as const

  test('of whole numbers has steps, and no ticks between them', () => {
    const line = { name: 'one', points, isStep: true }
    const svg = plotSvg({ title: 't', x: whole, y: share, lines: [line] })
    const ticks = [...svg.matchAll(/text-anchor="middle">([^<]+)</g)].map(([, text]) => text)
    expect(ticks).toEqual(['0', '1', 'slots'])
    expect(svg).toMatch(/ d="M84\.0 320\.0H84\.0V184\.0H700\.0V48\.0"/)
  })

  test('wraps long names of its lines instead of cutting them', () => {
    const name = 'a geyser 127.0.0.1:11010 behind-a-proxy-of-a-very-long-name'
    const svg = plotSvg({ title: 't', x: whole, y: share, lines: [{ name, points }] })
    const parts = [...svg.matchAll(/x="736\.0" y="([\d.]+)" font-size="12">([^<]+)</g)]
    expect(
      parts
        .map(([, , text]) => text)
        .join('')
        .replaceAll(' ', ''),
    ).toBe(name.replaceAll(' ', ''))
    expect(parts.every(([, , text]) => text!.length <= 19)).toBe(true)
    expect(new Set(parts.map(([, y]) => y)).size).toBe(parts.length)
  })
})
