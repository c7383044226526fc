// What the charts of the time line draw besides their lines: bands, hatching, marks of single
// blocks. Thread: browser.
import type uPlot from 'uplot'
import type { EfficiencyBand } from '../client/frames.ts'
import { bend, bendHigh, bendLow } from './bend.ts'
import { edgesOf, hatch } from './hatch.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { colours } from './theme.ts'

/** A hole of one block must be seen among 3,000. */
const hatchWidthLeast = 8

/** What the charts draw besides their lines. */
export interface Scene {
  readonly store: PageStore
  readonly selection: Selection
  left: number
  right: number
  from: number
  to: number
}

/** Bands and hatching lie below the lines. */
export function drawBehind(chart: uPlot, scene: Scene, isBent: boolean): void {
  const { store, from, to } = scene
  if (isBent) drawBands(chart)
  for (let row = Math.max(1, from); row < to; row++) {
    const [left, right] = [
      store.history.value('number', row - 1),
      store.history.value('number', row),
    ]
    if (right - left > 1) hatchBlocks(chart, scene, left, right, colours().soft)
  }
  for (const mark of store.marks) {
    const { left, right } = edgesOf(mark, store)
    const colour = mark.kind === 'gap' ? colours().sequential : colours().rejected
    hatchBlocks(chart, scene, left, right, colour)
  }
}

function hatchBlocks(
  chart: uPlot,
  scene: Scene,
  left: number,
  right: number,
  colour: string,
): void {
  if (right < scene.left || left > scene.right) return
  const { ctx: context, bbox } = chart
  const end = bbox.left + bbox.width
  const x0 = Math.max(bbox.left, chart.valToPos(left, 'x', true))
  const x1 = Math.min(end, chart.valToPos(right, 'x', true))
  const width = Math.max(hatchWidthLeast * devicePixelRatio, x1 - x0)
  const area = { x: Math.min(x0, end - width), y: bbox.top, width, height: bbox.height }
  context.clearRect(area.x, area.y, area.width, area.height)
  hatch(context, area, colour, 6 * devicePixelRatio)
}

function drawBands(chart: uPlot): void {
  const { ctx: context, bbox } = chart
  const edges = [bendHigh, bend(90), bend(70), bendLow - 0.08]
  const bands = ['excellent', 'bottlenecks', 'sequential'] as const
  context.save()
  context.globalAlpha = 0.1
  bands.forEach((band, at) => {
    const top = chart.valToPos(edges[at]!, 'y', true)
    const bottom = chart.valToPos(edges[at + 1]!, 'y', true)
    context.fillStyle = colours()[band]
    context.fillRect(bbox.left, top, bbox.width, bottom - top)
  })
  context.restore()
}

/** Marks of single blocks, and the pinned one, lie above the lines. */
export function drawOver(chart: uPlot, scene: Scene, isBent: boolean): void {
  const { ctx: context, bbox } = chart
  context.save()
  if (isBent) drawBlocks(chart, scene)
  const { pinned } = scene.selection
  if (pinned !== null && pinned >= scene.left && pinned <= scene.right) {
    const x = chart.valToPos(pinned, 'x', true)
    context.strokeStyle = colours().ink
    context.lineWidth = devicePixelRatio
    context.beginPath()
    context.moveTo(x, bbox.top)
    context.lineTo(x, bbox.top + bbox.height)
    context.stroke()
  }
  context.restore()
}

/** Blocks below 90 by the shape of their band or, without a verdict, hollow; empty ones hollow at
 *  the bottom; competing proposals as ticks. */
function drawBlocks(chart: uPlot, { store, from, to }: Scene): void {
  const { ctx: context, bbox } = chart
  const { history } = store
  const ratio = devicePixelRatio
  const bottom = bbox.top + bbox.height
  for (let row = from; row < to; row++) {
    const value = history.value('efficiency', row)
    const x = chart.valToPos(history.value('number', row), 'x', true)
    if (history.value('rivals', row) > 0) {
      context.fillStyle = colours().rejected
      context.fillRect(x - ratio, bbox.top, 2 * ratio, 7 * ratio)
    }
    const band = history.verdict(row)
    const y = chart.valToPos(bend(value), 'y', true)
    if (Number.isNaN(value)) hollow(context, x, bottom - 5 * ratio, 2.5 * ratio)
    else if (value >= 90) continue
    else if (band === null) hollow(context, x, y, 2.5 * ratio)
    else bandShape(context, band, x, y)
  }
}

function hollow(context: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
  context.strokeStyle = colours().soft
  context.lineWidth = devicePixelRatio
  context.beginPath()
  context.arc(x, y, radius, 0, 7)
  context.stroke()
}

function bandShape(
  context: CanvasRenderingContext2D,
  band: EfficiencyBand,
  x: number,
  y: number,
): void {
  const size = 3.5 * devicePixelRatio
  context.fillStyle = colours()[band]
  context.beginPath()
  if (band === 'sequential') context.rect(x - size, y - size, size * 2, size * 2)
  else {
    context.moveTo(x, y - size * 1.2)
    context.lineTo(x + size * 1.2, y + size)
    context.lineTo(x - size * 1.2, y + size)
  }
  context.fill()
}
