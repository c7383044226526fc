// The figures of the newest block, each with a sparkline of the last 60. Thread: browser.
import { verdictTxnsLeast } from '../client/frames.ts'
import { bend } from './bend.ts'
import type { Column, FigureHistory } from './figure-history.ts'
import { count, millis, percent, quantile } from './format.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { shapes } from './theme.ts'
import { plain, sparkPoints, type TileText, TileView } from './tile.ts'

interface Tile {
  readonly label: string
  readonly column: Column | null
  text(store: PageStore, row: number): TileText
  /** Maps a figure to its height in the sparkline. */
  readonly scale?: (value: number) => number
}

const tiles: Readonly<Record<string, Tile>> = {
  tps: {
    label: 'Throughput',
    column: 'tps',
    text: ({ tps, history }, row) => {
      const value = row === history.length - 1 ? tps : history.value('tps', row)
      return plain(count(value), 'TPS', 'over the last 2.5 blocks')
    },
  },
  efficiency: {
    label: 'Parallel efficiency',
    column: 'efficiency',
    scale: bend,
    text: ({ history }, row) => efficiencyText(history, row),
  },
  contended: {
    label: 'Contention',
    column: 'contended',
    text: ({ history }, row) =>
      plain(
        count(history.value('contended', row)),
        'storage slots',
        `${count(history.value('written', row))} of them written`,
      ),
  },
  critical: {
    label: 'Critical path',
    column: 'critical',
    text: ({ history }, row) =>
      plain(
        count(history.value('critical', row)),
        `of ${count(history.value('txns', row))}`,
        'dependent transactions',
      ),
  },
  wall: {
    label: 'Block execution',
    column: 'wallMs',
    text: ({ history }, row) => plain(millis(history.value('wallMs', row)), 'ms', 'wall time'),
  },
  finalize: {
    label: 'Finalization',
    column: null,
    text: ({ finalized }) => {
      const sorted = [...finalized].sort((a, b) => a - b)
      const p99 = millis(quantile(sorted, 0.99))
      return plain(millis(quantile(sorted, 0.5)), 'ms, median', `99 % below ${p99} ms`)
    },
  },
}

export class Now {
  readonly everyMs = 200
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #tiles: { draw(row: number): void }[] = []

  constructor(store: PageStore, selection: Selection, resized: () => void) {
    this.#store = store
    this.#selection = selection
    for (const element of document.querySelectorAll<HTMLElement>('.tile')) {
      const tile = tiles[element.dataset.tile ?? '']
      if (tile !== undefined) this.#tiles.push(this.#build(element, tile, resized))
    }
  }

  draw(): void {
    const { history } = this.#store
    const row = history.window(1, this.#selection.pausedAt ?? history.newest).to - 1
    for (const tile of this.#tiles) tile.draw(row)
  }

  #build(element: HTMLElement, tile: Tile, resized: () => void) {
    const view = new TileView(element, tile.label, resized)
    const draw = (row: number) => {
      const points =
        tile.column === null
          ? this.#store.finalized
          : lastOf(this.#store.history, tile.column, row + 1, tile.scale)
      view.draw(tile.text(this.#store, row), points)
    }
    return { draw }
  }
}

/** The efficiency of a block, with its band as a word and a shape where it has one. */
export function efficiencyText(history: FigureHistory, row: number): TileText {
  const value = history.value('efficiency', row)
  if (Number.isNaN(value)) return plain('–', '', row === -1 ? '' : 'empty block')
  const band = history.verdict(row)
  if (band !== null)
    return { value: percent(value), unit: '%', note: `${shapes[band]} ${band}`, tone: band }
  const txns = history.value('txns', row)
  const why = txns < verdictTxnsLeast ? `${count(txns)} transactions` : 'nothing contended'
  return plain(percent(value), '%', `no verdict: ${why}`)
}

function lastOf(
  history: FigureHistory,
  column: Column,
  to: number,
  scale: (value: number) => number = (value) => value,
): number[] {
  const points: number[] = []
  for (let row = Math.max(0, to - sparkPoints); row < to; row++)
    points.push(scale(history.value(column, row)))
  return points
}
