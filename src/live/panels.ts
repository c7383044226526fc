// The three charts of the time line: their scales, axes, lines and what is drawn over them.
// Thread: browser.
import uPlot from 'uplot'
import { bend, bendHigh, bendLow, bendTicks } from './bend.ts'
import { drawBehind, drawOver, type Scene } from './chart-marks.ts'
import { count, short } from './format.ts'
import { type Colours, colours, font } from './theme.ts'

type LineColumn = 'tps' | 'efficiency' | 'contended' | 'written' | 'critical'

export interface Panel {
  readonly height: number
  readonly columns: readonly LineColumn[]
  readonly legend: readonly { readonly name: string; readonly sign: string }[]
  readonly isBent?: boolean
  readonly hasBlocks?: boolean
}

interface Line {
  readonly colour: keyof Colours
  readonly width: number
  readonly dash?: number[]
}

const lines: Readonly<Record<LineColumn, Line>> = {
  tps: { colour: 'ink', width: 1.25 },
  efficiency: { colour: 'soft', width: 1 },
  contended: { colour: 'ink', width: 1.25 },
  written: { colour: 'bottlenecks', width: 1.25 },
  critical: { colour: 'rejected', width: 1.25, dash: [4, 3] },
}

export const panels: readonly Panel[] = [
  { height: 100, columns: ['tps'], legend: [{ name: 'TPS', sign: 'sign-ink' }] },
  {
    height: 150,
    columns: ['efficiency'],
    isBent: true,
    legend: [
      { name: 'parallel efficiency, %', sign: 'sign-soft' },
      { name: '● 90 or more: excellent', sign: 'tone-excellent' },
      { name: '▲ 70 to 90: bottlenecks', sign: 'tone-bottlenecks' },
      { name: '■ below 70: sequential', sign: 'tone-sequential' },
      { name: '○ empty, small or uncontended: no verdict', sign: '' },
    ],
  },
  {
    height: 126,
    columns: ['contended', 'written', 'critical'],
    hasBlocks: true,
    legend: [
      { name: 'contended slots', sign: 'sign-ink' },
      { name: 'written', sign: 'sign-written' },
      { name: 'critical path, transactions', sign: 'sign-critical' },
    ],
  },
]

interface Pointer {
  hover(number: number | null): void
  pick(number: number): void
}

export function chartOf(panel: Panel, scene: Scene, place: HTMLElement, pointer: Pointer): uPlot {
  const chart = new uPlot(
    optionsOf(panel, scene, pointer),
    [[], ...panel.columns.map(() => [])],
    place,
  )
  chart.over.addEventListener('click', () => {
    const { left } = chart.cursor
    if (left !== undefined && left >= 0) pointer.pick(Math.round(chart.posToVal(left, 'x')))
  })
  return chart
}

function optionsOf(panel: Panel, scene: Scene, pointer: Pointer): uPlot.Options {
  return {
    width: 600,
    height: panel.height,
    padding: [6, 12, panel.hasBlocks === true ? 0 : 4, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: false, y: false, setScale: false },
      sync: { key: 'time-line', setSeries: false },
    },
    scales: {
      x: { time: false, range: () => [scene.left, scene.right] },
      y: { range: (_, low, high) => yRange(panel, low, high) },
    },
    axes: [xAxis(panel, scene), yAxis(panel)],
    series: [{}, ...panel.columns.map((name) => series(name))],
    hooks: {
      drawClear: [(chart) => drawBehind(chart, scene, panel.isBent === true)],
      draw: [(chart) => drawOver(chart, scene, panel.isBent === true)],
      setCursor: [
        (chart) => {
          const { left } = chart.cursor
          const isInside = left !== undefined && left >= 0
          pointer.hover(isInside ? Math.round(chart.posToVal(left, 'x')) : null)
        },
      ],
    },
  }
}

function series(name: LineColumn): uPlot.Series {
  const { colour, width, dash } = lines[name]
  return {
    stroke: () => colours()[colour],
    width,
    points: { show: false },
    ...(dash === undefined ? {} : { dash }),
    ...(name === 'efficiency' ? { paths: bentPaths } : {}),
  }
}

/** The line of efficiency on its bent scale; values stay percentages in the data. */
const bentPaths: uPlot.Series.PathBuilder = (chart, index) => {
  const stroke = new Path2D()
  const [xs, ys] = [chart.data[0], chart.data[index]]
  let isOpen = false
  for (let at = 0; at < xs.length; at++) {
    const value = ys?.[at]
    if (value === null || value === undefined) {
      isOpen = false
      continue
    }
    const x = chart.valToPos(xs[at]!, 'x', true)
    const y = chart.valToPos(bend(value), 'y', true)
    if (isOpen) stroke.lineTo(x, y)
    else stroke.moveTo(x, y)
    isOpen = true
  }
  return { stroke, fill: null, clip: null, band: null, flags: 0 }
}

function yRange(panel: Panel, low: number | null, high: number | null): uPlot.Range.MinMax {
  if (panel.isBent === true) return [bendLow - 0.08, bendHigh]
  return [0, Math.max(high ?? 0, low ?? 0, 4) * 1.12]
}

function axisBase(): uPlot.Axis {
  return {
    font: font(),
    stroke: () => colours().soft,
    grid: { stroke: () => colours().line, width: 1 },
    ticks: { show: false },
  }
}

function xAxis(panel: Panel, scene: Scene): uPlot.Axis {
  if (panel.hasBlocks !== true) return { ...axisBase(), size: 0, values: () => [] }
  return {
    ...axisBase(),
    size: 24,
    gap: 4,
    space: 110,
    incrs: [1, 5, 10, 20, 50, 100, 200, 500, 1000],
    // A label at the right edge would be cut; without blocks there is nothing to label.
    values: (_, splits) => {
      const last = scene.right - (scene.right - scene.left) * 0.06
      return splits.map((value) => (value > last || scene.to === scene.from ? '' : count(value)))
    },
  }
}

function yAxis(panel: Panel): uPlot.Axis {
  const base = { ...axisBase(), size: 48, gap: 6 }
  if (panel.isBent !== true)
    return { ...base, space: 32, values: (_, splits) => splits.map((value) => short(value)) }
  return {
    ...base,
    splits: (chart) => ticksOf(chart).map(bend),
    filter: (_, splits) => splits,
    values: (chart) => ticksOf(chart).map(String),
  }
}

/** In a low chart some would lie on each other. */
function ticksOf({ height }: uPlot): readonly number[] {
  return height < 110 ? bendTicks.filter((tick) => tick !== 97 && tick !== 70) : bendTicks
}
