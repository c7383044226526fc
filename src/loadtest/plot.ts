// Draws lines over linear, logarithmic or percentile axes as an SVG.

/** `integer` is linear with ticks at whole numbers only. */
export type AxisKind = 'linear' | 'integer' | 'log' | 'percentile'

export interface Axis {
  readonly kind: AxisKind
  readonly title: string
}

export interface PlotLine {
  readonly name: string
  readonly points: readonly PlotPoint[]
  /** A second figure of the same line, drawn dashed. */
  readonly dashed?: readonly PlotPoint[]
  /** Level until the next point: a share that only rises where something was counted. */
  readonly isStep?: boolean
}

type PlotPoint = readonly [x: number, y: number]

export interface Plot {
  readonly title: string
  readonly x: Axis
  readonly y: Axis
  readonly lines: readonly PlotLine[]
}

const width = 860
const height = 380
const frame = { left: 84, right: 700, top: 48, bottom: 320 }
const colors = ['#1f5fa8', '#c2410c', '#15803d', '#7e22ce', '#a16207', '#be123c']
const legendStep = 22
/** Characters in a line of the legend, and the height of a further one. */
const legendChars = 19
const legendLine = 14
const linearTicks = 5
/** Percentiles with a line of their own; the axis ends at the last. */
const percentiles = [0, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999]

interface Scale {
  readonly ticks: readonly number[]
  at(value: number): number
}

export function plotSvg(plot: Plot): string {
  const points = plot.lines.flatMap(({ points, dashed = [] }) => [...points, ...dashed])
  const x = scaleOf(
    plot.x.kind,
    points.map(([value]) => value),
    frame.left,
    frame.right,
  )
  const y = scaleOf(
    plot.y.kind,
    points.map(([, value]) => value),
    frame.bottom,
    frame.top,
  )
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" role="img" font-family="Helvetica, Arial, sans-serif">`,
    `<title>${escaped(plot.title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    label(frame.left, 26, plot.title, 'font-size="16" font-weight="bold"'),
    ...gridOf(x, y),
    label((frame.left + frame.right) / 2, height - 14, plot.x.title, centered),
    label(frame.left, 42, plot.y.title, muted),
    ...plot.lines.map((line, index) => drawn(line, { x, y, index })),
    ...legendOf(plot.lines),
    '</svg>',
    '',
  ].join('\n')
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}

const muted = 'font-size="12" fill="#555555"'
const centered = 'font-size="13" text-anchor="middle"'

function scaleOf(kind: AxisKind, values: readonly number[], from: number, to: number): Scale {
  const finite = values.filter((value) => Number.isFinite(value) && (kind !== 'log' || value > 0))
  const largest = finite.reduce((a, b) => Math.max(a, b), kind === 'log' ? 0 : 1e-9) || 1
  const smallest = finite.reduce((a, b) => Math.min(a, b), largest)
  if (kind === 'percentile') return percentileScale(largest, from, to)
  const map = (part: number) => from + Math.min(1, Math.max(0, part)) * (to - from)
  if (kind === 'linear' || kind === 'integer') {
    const least = kind === 'integer' ? 1 : 0
    const step = Math.max(least, niceStep(largest / linearTicks))
    const end = Math.max(least, Math.ceil(largest / step - 1e-9) * step)
    const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, index) => index * step)
    return { ticks, at: (value) => map(value / end) }
  }
  const low = Math.floor(Math.log10(smallest))
  const high = Math.max(low + 1, Math.ceil(Math.log10(largest)))
  const ticks = Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index))
  return { ticks, at: (value) => map((Math.log10(Math.max(value, 1e-12)) - low) / (high - low)) }
}

/** Each further nine takes the same width, as in plots of HdrHistogram. */
function percentileScale(largest: number, from: number, to: number): Scale {
  const last = percentiles.find((one) => one >= largest) ?? percentiles.at(-1)!
  const ticks = percentiles.filter((one) => one <= last)
  const nines = (value: number) => -Math.log10(Math.max(1e-5, 1 - Math.min(value, last) / 100))
  const end = Math.max(nines(last), 0.3)
  return { ticks, at: (value) => from + (nines(value) / end) * (to - from) }
}

/** 1, 2 or 5 times a power of ten, at least `step`. */
function niceStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step))
  return power * ([1, 2, 5].find((times) => times * power >= step * (1 - 1e-9)) ?? 10)
}

function gridOf(x: Scale, y: Scale): string[] {
  return [
    ...x.ticks.map((value) => {
      const at = x.at(value).toFixed(1)
      const line = `<path d="M${at} ${frame.top}V${frame.bottom}" stroke="#e5e5e5"/>`
      return (
        line +
        label(Number(at), frame.bottom + 18, tickText(value), `${muted} text-anchor="middle"`)
      )
    }),
    ...y.ticks.map((value) => {
      const at = y.at(value).toFixed(1)
      const line = `<path d="M${frame.left} ${at}H${frame.right}" stroke="#e5e5e5"/>`
      return (
        line + label(frame.left - 8, Number(at) + 4, tickText(value), `${muted} text-anchor="end"`)
      )
    }),
  ]
}

function tickText(value: number): string {
  return value >= 1e6 ? value.toExponential(0) : String(Number(value.toPrecision(6)))
}

function drawn(
  { points, dashed = [], isStep }: PlotLine,
  { x, y, index }: { x: Scale; y: Scale; index: number },
): string {
  const path = (some: readonly PlotPoint[], style: string) => {
    const text = some
      .filter((point) => point.every(Number.isFinite))
      .map(([a, b]) => [x.at(a).toFixed(1), y.at(b).toFixed(1)])
      .map(([a, b], at) =>
        at === 0 ? `M${a} ${b}` : isStep === true ? `H${a}V${b}` : `L${a} ${b}`,
      )
    return `<path d="${text.join('')}" fill="none" stroke="${colorOf(index)}" ${style}/>`
  }
  const solid = path(points, 'stroke-width="2"')
  return dashed.length === 0 ? solid : `${path(dashed, 'stroke-dasharray="5 4"')}${solid}`
}

function colorOf(index: number): string {
  return colors[index % colors.length]!
}

/** Names of the lines at the right, each in as many lines as it needs. */
function legendOf(lines: readonly PlotLine[]): string[] {
  let top = frame.top + 8
  return lines.flatMap(({ name }, index) => {
    const parts =
      name.match(new RegExp(`.{1,${legendChars}}(?:\\s+|$)|.{${legendChars}}`, 'g')) ?? []
    const at = top
    top += legendStep + Math.max(0, parts.length - 1) * legendLine
    return [
      `<path d="M${frame.right + 12} ${at}h18" stroke="${colorOf(index)}" stroke-width="3"/>`,
      ...parts.map((part, line) =>
        label(frame.right + 36, at + 4 + line * legendLine, part.trim(), 'font-size="12"'),
      ),
    ]
  })
}

function label(x: number, y: number, text: string, style: string): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${style}>${escaped(text)}</text>`
}
