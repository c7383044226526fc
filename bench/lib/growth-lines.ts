// The lines of a growth bench: what an operation costs at each size, and where it costs more than
// at the size before. Thread: main of the bench process.
import type { Plot } from '../../src/loadtest/plot.ts'
import type { BenchResult } from './bench.ts'

export interface LinePoint {
  readonly size: number
  /** Microseconds of processor time for each operation. */
  readonly costUs: number
  readonly p99Us: number | null
  readonly bytes: number | null
}

export interface Line {
  readonly name: string
  /** By size, smallest first. */
  readonly points: readonly LinePoint[]
}

/** A step that costs this much more for ten times the size is a bend upward. */
const bendRatio = 1.5

/** No line for a bench whose contenders are no points. */
export function linesOf({ rows }: Pick<BenchResult, 'rows'>): Line[] {
  const lines = new Map<string, LinePoint[]>()
  for (const { point, opsPerSecond, latencyUs, bytesPerOp } of rows) {
    if (point === undefined) continue
    const points = lines.get(point.line) ?? []
    lines.set(point.line, points)
    const costUs = 1e6 / opsPerSecond
    const [p99Us, bytes] = [latencyUs?.p99 ?? null, bytesPerOp ?? null]
    points.push({ size: point.size, costUs, p99Us, bytes })
  }
  return [...lines].map(([name, points]) => ({
    name,
    points: points.sort((a, b) => a.size - b.size),
  }))
}

/** How many times the cost of an operation multiplies when the size grows tenfold. */
export function tenfoldRatio(from: LinePoint, to: LinePoint): number {
  return (to.costUs / from.costUs) ** (1 / Math.log10(to.size / from.size))
}

/** The ratio per tenfold growth of the straight line through all points of a log-log plot. */
export function slopeOf({ points }: Line): number {
  const xs = points.map(({ size }) => Math.log10(size))
  const ys = points.map(({ costUs }) => Math.log10(costUs))
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [x, y] = [mean(xs), mean(ys)]
  const along = xs.reduce((sum, one) => sum + (one - x) ** 2, 0)
  const across = xs.reduce((sum, one, index) => sum + (one - x) * (ys[index]! - y), 0)
  return along === 0 ? 1 : 10 ** (across / along)
}

/** A table with a row for each point, and one for the slope of each line. */
export function growthCells(lines: readonly Line[]): string[][] {
  const head = ['', 'size', 'CPU us/op', 'p99 us', 'per tenfold', 'bytes/entry']
  const rows = lines.flatMap((line) => [
    ...line.points.map((point, index) => [
      line.name,
      count(point.size),
      point.costUs.toPrecision(3),
      point.p99Us?.toPrecision(3) ?? '-',
      index === 0 ? '-' : `x ${tenfoldRatio(line.points[index - 1]!, point).toFixed(2)}`,
      point.bytes === null ? '-' : count(Math.round(point.bytes)),
    ]),
    [`${line.name}: slope`, '', '', '', `x ${slopeOf(line).toFixed(2)}`, ''],
  ])
  return [head, ...rows]
}

/** Names every step at which a line bends upward. */
export function bendNotes(lines: readonly Line[]): string[] {
  return lines.flatMap(({ name, points }) =>
    points.slice(1).flatMap((point, index) => {
      const ratio = tenfoldRatio(points[index]!, point)
      if (ratio < bendRatio) return []
      const steps = `from ${count(points[index]!.size)} to ${count(point.size)}`
      return `${name} bends upward ${steps}: x ${ratio.toFixed(1)} for ten times the size`
    }),
  )
}

/** Solid: processor time of an operation. Dashed: the 99th percentile of its time. */
export function growthPlot({ question, axis = '', rows }: Omit<BenchResult, 'goals'>): Plot {
  return {
    title: question,
    x: { kind: 'log', title: axis },
    y: {
      kind: 'log',
      title: 'us of CPU time per operation; dashed: p99; x: for ten times the size',
    },
    lines: linesOf({ rows }).map((line) => ({
      name: `${line.name}: x ${slopeOf(line).toFixed(2)}`,
      points: line.points.map(({ size, costUs }) => [size, costUs] as const),
      dashed: line.points.map(({ size, p99Us }) => [size, p99Us ?? Number.NaN] as const),
    })),
  }
}

function count(value: number): string {
  return value.toLocaleString('en')
}
