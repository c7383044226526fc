// Three joined charts by block number: TPS; efficiency on its bent axis with the bands; contended
// and written storage slots with the critical path. Thread: browser.
// The x axis is the block number, never the time of arrival. Where blocks are missing, the lines
// are interrupted and the column is hatched.

import type uPlot from 'uplot'
import type { Scene } from './chart-marks.ts'
import { byId, make, setText } from './dom.ts'
import { count, percent } from './format.ts'
import { edgesOf } from './hatch.ts'
import type { Mark, PageStore } from './page-store.ts'
import { chartOf, type Panel, panels } from './panels.ts'
import type { Selection } from './selection.ts'

const blocksLeast = 30
const notesMax = 3
/** Heights of readout and legends, and the least part of a chart's height, in a kiosk. */
const textsHeight = 80
const least = 0.4
const drawnColumns = ['tps', 'efficiency', 'contended', 'written', 'critical'] as const

export class TimeLine {
  readonly everyMs = 200
  readonly #scene: Scene
  readonly #charts: { panel: Panel; chart: uPlot }[] = []
  readonly #notes = byId('line-notes')
  readonly #readout = make('p', 'readout')
  /** Filled anew for each drawing; kept, so that nothing is allocated. */
  readonly #xs: number[] = []
  readonly #values: Record<(typeof drawnColumns)[number], (number | null)[]> = {
    tps: [],
    efficiency: [],
    contended: [],
    written: [],
    critical: [],
  }
  #hovered: number | null = null

  constructor(store: PageStore, selection: Selection, resized: () => void) {
    this.#scene = { store, selection, left: 0, right: 1, from: 0, to: 0 }
    const holder = byId('line-charts')
    holder.append(this.#readout)
    for (const panel of panels) {
      const place = make('div', 'chart')
      const legend = make('p', 'legend')
      for (const { name, sign } of panel.legend) {
        const item = make('span', sign, name)
        legend.append(item)
      }
      holder.append(legend, place)
      const chart = chartOf(panel, this.#scene, place, {
        hover: (number) => this.#hover(number),
        pick: (number) => this.#pick(number),
      })
      this.#charts.push({ panel, chart })
    }
    new ResizeObserver(() => {
      this.#resize(holder)
      resized()
    }).observe(holder)
  }

  draw(): void {
    this.#place()
    this.#collect()
    for (const { panel, chart } of this.#charts) {
      const data = [this.#xs, ...panel.columns.map((name) => this.#values[name])]
      chart.setData(data as uPlot.AlignedData, true)
    }
    this.#writeNotes()
    this.#writeReadout()
  }

  /** Which rows are shown: up to the newest block, or to the one at the pause. */
  #place(): void {
    const scene = this.#scene
    const { history } = scene.store
    const newest = scene.selection.pausedAt ?? history.newest
    const { from, to } = history.window(scene.selection.range, newest)
    scene.from = from
    scene.to = to
    scene.right = to > from ? history.value('number', to - 1) : 1
    const first = to > from ? history.value('number', from) : 0
    scene.left = Math.min(first, scene.right - blocksLeast)
  }

  #collect(): void {
    const { store, from, to } = this.#scene
    const { history, marks } = store
    this.#xs.length = 0
    for (const name of drawnColumns) this.#values[name].length = 0
    let before = Number.NaN
    for (let row = from; row < to; row++) {
      const number = history.value('number', row)
      if (number - before > 1 || marks.some(({ after }) => after === before))
        this.#interrupt(before)
      this.#xs.push(number)
      for (const name of drawnColumns) {
        const value = history.value(name, row)
        this.#values[name].push(Number.isNaN(value) ? null : value)
      }
      before = number
    }
  }

  #interrupt(after: number): void {
    this.#xs.push(after + 0.5)
    for (const name of drawnColumns) this.#values[name].push(null)
  }

  #writeNotes(): void {
    const { store, left, right } = this.#scene
    const shown = store.marks.filter((mark) => mark.after >= left && mark.after <= right)
    setText(
      this.#notes,
      shown
        .slice(-notesMax)
        .map((mark) => noteOf(mark, store))
        .join('\n'),
    )
  }

  #writeReadout(): void {
    const { store, selection, to } = this.#scene
    const { history } = store
    const { pinned } = selection
    const hovered = this.#hovered
    const row =
      hovered !== null ? history.nearest(hovered) : pinned !== null ? history.rowOf(pinned) : to - 1
    if (history.length === 0) return
    if (row < 0) {
      setText(this.#readout, `block ${count(pinned ?? 0)} is not here`)
      return
    }
    const value = (name: (typeof drawnColumns)[number]) => history.value(name, row)
    const efficiency = value('efficiency')
    setText(
      this.#readout,
      `block ${count(history.value('number', row))} · ${count(value('tps'))} TPS · ` +
        `${Number.isNaN(efficiency) ? 'empty block' : `${percent(efficiency)} %`} · ` +
        `${count(value('contended'))} contended · ${count(value('written'))} written · ` +
        `critical path ${count(value('critical'))} of ${count(history.value('txns', row))}`,
    )
  }

  #hover(number: number | null): void {
    this.#hovered = number
    this.#writeReadout()
  }

  #pick(number: number): void {
    const { store, selection } = this.#scene
    const row = store.history.nearest(number)
    if (row !== -1) selection.set({ pinned: store.history.value('number', row) })
  }

  /** In a kiosk the charts share the height that is left for them. */
  #resize({ clientWidth: width, clientHeight }: HTMLElement): void {
    const heights = panels.reduce((sum, { height }) => sum + height, 0)
    const part = this.#scene.selection.isKiosk
      ? Math.max(least, (clientHeight - textsHeight) / heights)
      : 1
    for (const { panel, chart } of this.#charts)
      if (width > 0) chart.setSize({ width, height: Math.floor(panel.height * part) })
  }
}

function noteOf(mark: Mark, store: PageStore): string {
  const { left, right } = edgesOf(mark, store)
  return `▨ ${count(left)} to ${count(right)}: ${mark.text}`
}
