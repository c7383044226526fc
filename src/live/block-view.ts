// The pinned or newest block: wall time against summed transaction time, the critical path as a
// lane, and the lists of its frame. Thread: browser.
import type { ContentionData } from '../client/frames.ts'
import { byId, FixedTable, make, Surface, setText, Unmatched } from './dom.ts'
import { clockTime, count, millis, shortHex, shortSlot } from './format.ts'
import { efficiencyText } from './now.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { colours, font } from './theme.ts'

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
  readonly #unmatched: Unmatched
  readonly #slots = new FixedTable(['contract', 'storage slot', 'transactions'], rowsMax)
  readonly #contracts = new FixedTable(['contract', 'contended storage slots', 'share'], rowsMax)

  constructor(store: PageStore, selection: Selection, resized: () => void) {
    this.#store = store
    this.#selection = selection
    const canvas = make('canvas')
    canvas.setAttribute('role', 'img')
    const tables = [this.#slots.element, this.#contracts.element]
    byId('block-body').append(this.#facts, canvas, ...tables)
    this.#unmatched = new Unmatched(this.#contracts.element)
    this.#surface = new Surface(canvas, resized)
  }

  /** The row that is shown; -1 without blocks, and for a pinned one that is not kept. */
  get row(): number {
    const { history } = this.#store
    const { pinned, pausedAt } = this.#selection
    if (pinned !== null) return history.rowOf(pinned)
    return history.nearest(pausedAt ?? history.newest)
  }

  get frame(): ContentionData | null {
    return this.#store.detailOf(this.#store.history.hash(this.row))
  }

  /** Pins the block that is `by` rows away. */
  move(by: number): void {
    const { history } = this.#store
    const from = this.row === -1 ? history.nearest(this.#selection.pinned ?? 0) : this.row
    const row = Math.min(history.length - 1, Math.max(0, from + by))
    if (row >= 0) this.#selection.set({ pinned: history.value('number', row) })
  }

  draw(): void {
    const { history } = this.#store
    const { row, frame } = this
    if (history.length === 0) return
    const isKept = row !== -1
    for (const part of [this.#surface.canvas, this.#slots.element, this.#contracts.element])
      part.hidden = !isKept
    if (!isKept) {
      this.#drawMissing(this.#selection.pinned ?? 0)
      return
    }
    setText(this.#number, count(history.value('number', row)))
    const { value, unit, note } = efficiencyText(history, row)
    const parts = [
      frame === null ? '' : clockTime(frame.at_ms),
      shortHex(history.hash(row)),
      unit === '' ? note : `${value} ${unit} ${note}`,
      frame === null ? 'details are no longer kept' : '',
    ]
    setText(this.#facts, parts.filter((text) => text !== '').join(' · '))
    this.#lane(row, frame)
    const isShown = ({ address }: { address: string }) => this.#selection.matches(address)
    const { top_contended_slots: slots = [], top_contended_contracts: contracts = [] } = frame ?? {}
    const shownSlots = slots.filter(isShown)
    const shownContracts = contracts.filter(isShown)
    this.#slots.fill(
      shownSlots.map((one) => [shortHex(one.address), shortSlot(one.slot), count(one.txn_count)]),
    )
    this.#contracts.fill(
      shownContracts.map((one) => [
        shortHex(one.address),
        `${one.contended_slots} of ${one.total_slots}`,
        `${(one.contention_score * 100).toFixed(1)} %`,
      ]),
    )
    const matches = shownSlots.length + shownContracts.length > 0
    this.#unmatched.show(this.#selection, matches || slots.length === 0)
  }

  /** A link may name a block that is gone, was never seen here, or is still to come. */
  #drawMissing(pinned: number): void {
    const { oldest, newest } = this.#store.history
    setText(this.#number, count(pinned))
    const isAhead = pinned > newest
    const bound = isAhead ? `the newest is ${count(newest)}` : `the oldest here is ${count(oldest)}`
    const what = isAhead ? 'has not arrived' : 'is not kept'
    setText(this.#facts, `block ${count(pinned)} ${what}; ${bound}`)
    this.#unmatched.show(this.#selection, true)
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
    const times =
      frame === null
        ? `${millis(wallMs)} ms in parallel`
        : `${millis(wallMs)} ms in parallel, ${millis(summedMs)} ms one by one`
    const path = `longest chain of dependent transactions: ${count(critical)} of ${count(txns)}`
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
