// The pinned or newest block: wall time against summed transaction time, the critical path as a
// lane, and the lists of its frame. Thread: browser.
import { type ContentionData, efficiencyBand } from '../client/frames.ts'
import { byId, FixedTable, make, Surface, setText } from './dom.ts'
import { clockTime, count, millis, percent, shortHex, shortSlot } from './format.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { colours, font, shapes } from './theme.ts'

const rowsMax = 5
/** More cells than this are too thin to be seen: the lane becomes a bar. */
const cellsMax = 160

export class BlockView {
  readonly everyMs = 200
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #number = byId('block-number')
  readonly #facts = make('p', 'notes')
  readonly #surface: Surface
  readonly #slots = new FixedTable(['contract', 'storage slot', 'txns'], rowsMax)
  readonly #contracts = new FixedTable(['contract', 'contended slots', 'score'], rowsMax)

  constructor(store: PageStore, selection: Selection, resized: () => void) {
    this.#store = store
    this.#selection = selection
    const canvas = make('canvas')
    canvas.setAttribute('role', 'img')
    byId('block-body').append(this.#facts, canvas, this.#slots.element, this.#contracts.element)
    this.#surface = new Surface(canvas, resized)
  }

  /** The row that is shown; -1 without blocks. */
  get row(): number {
    const { history } = this.#store
    const { pinned, pausedAt } = this.#selection
    return history.nearest(pinned ?? pausedAt ?? history.newest)
  }

  get frame(): ContentionData | null {
    return this.#store.detailOf(this.#store.history.hash(this.row))
  }

  /** Pins the block that is `by` rows away. */
  move(by: number): void {
    const { history } = this.#store
    const row = Math.min(history.length - 1, Math.max(0, this.row + by))
    if (row >= 0) this.#selection.set({ pinned: history.value('number', row) })
  }

  draw(): void {
    const { history } = this.#store
    const { row, frame } = this
    if (row === -1) return
    const number = history.value('number', row)
    const efficiency = history.value('efficiency', row)
    const band = efficiencyBand(efficiency)
    setText(this.#number, count(number))
    const parts = [
      frame === null ? '' : clockTime(frame.at_ms),
      shortHex(history.hash(row)),
      Number.isNaN(efficiency) ? 'empty block' : `${percent(efficiency)} % ${shapes[band]} ${band}`,
      frame === null ? 'its frame is no longer kept here' : '',
    ]
    setText(this.#facts, parts.filter((text) => text !== '').join(' · '))
    this.#lane(row, frame)
    const isShown = ({ address }: { address: string }) => this.#selection.matches(address)
    this.#slots.fill(
      (frame?.top_contended_slots ?? [])
        .filter(isShown)
        .map((one) => [shortHex(one.address), shortSlot(one.slot), count(one.txn_count)]),
    )
    this.#contracts.fill(
      (frame?.top_contended_contracts ?? [])
        .filter(isShown)
        .map((one) => [
          shortHex(one.address),
          `${one.contended_slots} of ${one.total_slots}`,
          `${percent(one.contention_score * 100)} %`,
        ]),
    )
  }

  #lane(row: number, frame: ContentionData | null): void {
    const { history } = this.#store
    const { width } = this.#surface
    const context = this.#surface.begin()
    const { ink, line, rejected, excellent } = colours()
    const wallMs = history.value('wallMs', row)
    const summedMs = (frame?.total_tx_time_ns ?? Number.NaN) / 1e6
    const [critical, txns] = [history.value('critical', row), history.value('txns', row)]
    const title = (text: string, y: number) => {
      context.fillStyle = ink
      context.fillText(text, 0, y)
    }
    context.font = font()
    const times = `${millis(wallMs)} ms wall for ${millis(summedMs)} ms of transactions`
    const path = `${count(critical)} of ${count(txns)} transactions wait for each other`
    title(times, 12)
    context.fillStyle = line
    context.fillRect(0, 18, width, 10)
    context.fillStyle = excellent
    context.fillRect(0, 18, Math.max(1, (width * wallMs) / (summedMs || wallMs || 1)), 10)
    title(path, 48)
    const cells = Math.min(txns, cellsMax)
    const filled = txns === 0 ? 0 : Math.ceil((critical / txns) * cells)
    const step = width / Math.max(1, cells)
    for (let cell = 0; cell < cells; cell++) {
      context.fillStyle = cell < filled ? rejected : line
      context.fillRect(cell * step, 54, Math.max(0.5, step - 1), 14)
    }
    this.#surface.canvas.setAttribute('aria-label', `${times}; ${path}`)
  }
}
