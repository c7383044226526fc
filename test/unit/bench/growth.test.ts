// Growth benches: points of a line, the slope of a line, what is named a bend, the plot.
import { describe, expect, it } from 'vitest'
import type { Row } from '../../../bench/lib/bench.ts'
import {
  bendNotes,
  growthCells,
  growthPlot,
  linesOf,
  slopeOf,
} from '../../../bench/lib/growth-lines.ts'
import { plotSvg } from '../../../src/loadtest/plot.ts'

function rowsOf(line: string, costsUs: Readonly<Record<number, number>>): Row[] {
  return Object.entries(costsUs).map(([size, us]) => ({
    name: `${line}, ${size}`,
    point: { line, size: Number(size) },
    opsPerSecond: 1e6 / us,
    spread: 0,
    ratio: 1,
    latencyUs: { p50: us, p99: 3 * us, p999: 9 * us },
  }))
}

const rows = [
  ...rowsOf('flat', { 10: 2, 100: 2, 1000: 2 }),
  ...rowsOf('a < b', { 1000: 100, 10: 1, 100: 1.1 }),
]

describe('the lines of a growth bench', () => {
  it('have a slope per tenfold growth, and bends where a step costs more', () => {
    const lines = linesOf({ rows })
    expect(lines.map(({ name }) => name)).toEqual(['flat', 'a < b'])
    expect(lines[1]!.points.map(({ size }) => size)).toEqual([10, 100, 1000])
    expect(slopeOf(lines[0]!)).toBeCloseTo(1)
    expect(slopeOf(lines[1]!)).toBeCloseTo(10)
    const note = 'a < b bends upward from 100 to 1,000: x 90.9 for ten times the size'
    expect(bendNotes(lines)).toEqual([note])
    expect(growthCells(lines).at(-1)).toContain('x 10.00')
  })

  it('take steps of other than ten times as what ten times would cost', () => {
    const [line] = linesOf({ rows: rowsOf('steps', { 1: 1, 4: 4, 16: 16 }) })
    expect(growthCells([line!]).map((row) => row[4])).toEqual([
      'per tenfold',
      '-',
      'x 10.00',
      'x 10.00',
      'x 10.00',
    ])
  })

  it('are drawn between powers of ten, with their names as text', () => {
    const about = { name: 'sample', question: 'What grows?', axis: 'entries', notes: [] }
    const svg = plotSvg(growthPlot({ ...about, rows }))
    expect(svg).toMatch(/^<svg .*<\/svg>\n$/s)
    for (const label of ['>What grows?<', '>entries<', '>1000<', '>100<', '>a &lt; b: x 10.00<'])
      expect(svg).toContain(label)
    const [dashed, solid] = [...svg.matchAll(/<path d="M([^"]*)" fill="none" ([^>]*)/g)]
    expect(dashed![2]).toContain('dasharray')
    expect(solid![2]).not.toContain('dasharray')
    const flat = solid![1]!.split('L').map((point) => point.split(' '))
    expect(flat.map(([x]) => x)).toEqual(['84.0', '392.0', '700.0'])
    expect(new Set(flat.map(([, y]) => y)).size).toBe(1)
    // The slower figure is above.
    expect(Number(dashed![1]!.split(/[ L]/)[1])).toBeLessThan(Number(flat[0]![1]))
    expect(svg).not.toMatch(/NaN|Infinity|undefined/)
  })
})
