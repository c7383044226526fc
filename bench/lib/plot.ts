// Draws the lines of a growth bench as an SVG with logarithmic axes. Thread: any. Pure.
// Solid: processor time for each operation. Dashed: the 99th percentile of its time.
import type { BenchResult } from './bench.ts'
import { count, type Line, linesOf, slopeOf } from './growth-lines.ts'

const width = 860
const height = 480
const frame = { left: 84, right: 596, top: 64, bottom: 416 }
const colors = ['#1f5fa8', '#c2410c', '#15803d', '#7e22ce', '#a16207', '#be123c']
/** The colours repeat after these; a bench has fewer lines. */
const legendStep = 58

interface Scale {
  readonly low: number
  readonly high: number
  at(value: number): number
}

export function plotSvg(result: Pick<BenchResult, 'name' | 'question' | 'axis' | 'rows'>): string {
  const lines = linesOf(result)
  const points = lines.flatMap((line) => line.points)
  const x = scaleOf(
    points.map(({ size }) => size),
    frame.left,
    frame.right,
  )
  const times = points.flatMap(({ costUs, p99Us }) => [costUs, ...(p99Us === null ? [] : [p99Us])])
  const y = scaleOf(times, frame.bottom, frame.top)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="Helvetica, Arial, sans-serif">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    text(frame.left, 28, result.question, 'font-size="16" font-weight="bold"'),
    text(frame.left, 48, 'solid: CPU time per operation, dashed: p99', muted),
    ...gridOf(x, y),
    text((frame.left + frame.right) / 2, height - 20, result.axis ?? '', centered),
    ...lines.flatMap((line, index) => drawLine(line, { index, x, y })),
    '</svg>',
    '',
  ].join('\n')
}

const muted = 'font-size="12" fill="#555555"'
const centered = 'font-size="13" text-anchor="middle"'

/** Whole powers of ten around the values; one value gets a power of its own. */
function scaleOf(values: readonly number[], from: number, to: number): Scale {
  const low = Math.floor(Math.log10(Math.min(...values)))
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))))
  const at = (value: number) => from + ((Math.log10(value) - low) / (high - low)) * (to - from)
  return { low, high, at }
}

function gridOf(x: Scale, y: Scale): string[] {
  const parts: string[] = []
  for (let power = x.low; power <= x.high; power++) {
    const at = x.at(10 ** power)
    parts.push(stroke(at, frame.top, at, frame.bottom))
    parts.push(
      text(at, frame.bottom + 20, count(10 ** power), 'font-size="12" text-anchor="middle"'),
    )
  }
  for (let power = y.low; power <= y.high; power++) {
    const at = y.at(10 ** power)
    parts.push(stroke(frame.left, at, frame.right, at))
    parts.push(text(frame.left - 8, at + 4, timeText(power), 'font-size="12" text-anchor="end"'))
  }
  return parts
}

function drawLine(line: Line, about: { index: number; x: Scale; y: Scale }): string[] {
  const { index, x, y } = about
  const color = colors[index % colors.length]!
  const pointsOf = (figure: (point: Line['points'][number]) => number | null) =>
    line.points.flatMap((point) => {
      const value = figure(point)
      return value === null ? [] : [`${x.at(point.size).toFixed(1)},${y.at(value).toFixed(1)}`]
    })
  const cost = pointsOf(({ costUs }) => costUs)
  const p99 = pointsOf(({ p99Us }) => p99Us)
  const drawn = `fill="none" stroke="${color}" stroke-width`
  const right = frame.right + 24
  const at = frame.top + 12 + index * legendStep
  return [
    `<polyline points="${p99.join(' ')}" ${drawn}="1.2" stroke-dasharray="5 4"/>`,
    `<polyline points="${cost.join(' ')}" ${drawn}="2.2"/>`,
    ...cost.map((point) => {
      const [cx, cy] = point.split(',')
      return `<circle cx="${cx}" cy="${cy}" r="3.2" fill="${color}"/>`
    }),
    `<line x1="${right}" y1="${at}" x2="${right + 22}" y2="${at}" stroke="${color}" stroke-width="3"/>`,
    text(right, at + 19, line.name, 'font-size="13"'),
    text(right, at + 35, `x ${slopeOf(line).toFixed(2)} for ten times the size`, muted),
  ]
}

/** A power of ten of microseconds in the unit that reads best. */
function timeText(power: number): string {
  const units = [
    [6, 's'],
    [3, 'ms'],
    [0, 'us'],
  ] as const
  const [least, unit] = units.find(([least]) => power >= least) ?? [-3, 'ns']
  const value = 10 ** (power - least)
  return `${value < 1 ? value.toPrecision(1) : count(value)} ${unit}`
}

function stroke(x1: number, y1: number, x2: number, y2: number): string {
  const ends = [x1, y1, x2, y2].map((value) => value.toFixed(1))
  return `<line x1="${ends[0]}" y1="${ends[1]}" x2="${ends[2]}" y2="${ends[3]}" stroke="#dddddd"/>`
}

function text(x: number, y: number, content: string, style: string): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${style}>${escaped}</text>`
}
