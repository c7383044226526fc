// Contended storage slots by block: 16 slots, 60 blocks, colour by transactions. Thread: browser.
// A slot keeps its row while it stays among the most contended, so that the eye can follow it.
import { byId, Surface, Unmatched } from './dom.ts'
import { count, shortHex, shortSlot } from './format.ts'
import { hatch } from './hatch.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { colours, font, heatSteps } from './theme.ts'

const rows = 16
const blocks = 60
const labelWidth = 148

interface Slot {
  readonly address: string
  readonly slot: string
  total: number
  /** Transactions by block, counted from the oldest that is shown. */
  readonly counts: Float64Array
}

export class Heat {
  readonly everyMs = 1000
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #surface: Surface
  readonly #unmatched = new Unmatched(byId('heat-map'))
  #shown: (Slot | null)[] = new Array(rows).fill(null)

  constructor(store: PageStore, selection: Selection, resized: () => void) {
    this.#store = store
    this.#selection = selection
    const canvas = byId<HTMLCanvasElement>('heat-map')
    this.#surface = new Surface(canvas, resized)
    canvas.setAttribute('role', 'img')
    canvas.addEventListener('click', (event) => {
      const slot = this.#shown[Math.floor(event.offsetY / this.#rowHeight)]
      if (slot) selection.set({ address: selection.address === slot.address ? '' : slot.address })
    })
  }

  get #rowHeight(): number {
    return (this.#surface.height - 22) / rows
  }

  /** For readers without sight, and for copying. */
  table(): { heads: string[]; lines: string[][] } {
    return {
      heads: ['contract', 'storage slot', `transactions in ${blocks} blocks`],
      lines: this.#shown
        .filter((slot) => slot !== null)
        .map(({ address, slot, total }) => [address, slot, count(total)]),
    }
  }

  draw(): void {
    const { history } = this.#store
    const { from, to } = history.window(blocks, this.#selection.pausedAt ?? history.newest)
    const newest = to > from ? history.value('number', to - 1) : 0
    this.#arrange(this.#collect(from, to, newest))
    const context = this.#surface.begin()
    context.font = font()
    context.textBaseline = 'middle'
    const { width, height } = this.#surface
    const step = (width - labelWidth) / blocks
    const rowHeight = this.#rowHeight
    this.#shown.forEach((slot, row) => {
      if (slot === null) return
      const y = row * rowHeight
      context.globalAlpha = this.#selection.matches(slot.address) ? 1 : 0.25
      context.fillStyle = colours().soft
      const label = `${shortHex(slot.address)} ${shortSlot(slot.slot)}`
      context.fillText(label, 0, y + rowHeight / 2, labelWidth - 8)
      slot.counts.forEach((value, block) => {
        if (value === 0) return
        context.fillStyle = heatColour(value)
        context.fillRect(labelWidth + block * step, y + 1, Math.max(1, step - 1), rowHeight - 2)
      })
    })
    context.globalAlpha = 1
    const shown = this.#shown.filter((slot) => slot !== null)
    const isMatched = shown.some(({ address }) => this.#selection.matches(address))
    this.#unmatched.show(this.#selection, isMatched || shown.length === 0)
    this.#hatchMissing(context, { from, to, newest, step, height: rowHeight * rows })
    this.#legend(context, height - 9)
    const [top] = shown
    const label =
      top === undefined
        ? 'no contended storage slots'
        : `most contended: ${top.address} ${top.slot}`
    this.#surface.canvas.setAttribute('aria-label', label)
  }

  #collect(from: number, to: number, newest: number): Map<string, Slot> {
    const { history } = this.#store
    const found = new Map<string, Slot>()
    for (let row = from; row < to; row++) {
      const block = history.value('number', row) - newest + blocks - 1
      for (const one of this.#store.detailOf(history.hash(row))?.top_contended_slots ?? []) {
        const key = one.address + one.slot
        const slot = found.get(key) ?? {
          address: one.address,
          slot: one.slot,
          total: 0,
          counts: new Float64Array(blocks),
        }
        slot.total += one.txn_count
        slot.counts[block] = one.txn_count
        found.set(key, slot)
      }
    }
    return found
  }

  #arrange(found: Map<string, Slot>): void {
    const best = [...found.values()].sort((a, b) => b.total - a.total).slice(0, rows)
    const kept = this.#shown.map((old) => {
      const same = best.find((one) => one.address === old?.address && one.slot === old.slot)
      return same ?? null
    })
    const others = best.filter((one) => !kept.includes(one))
    this.#shown = kept.map((slot) => slot ?? others.shift() ?? null)
  }

  #hatchMissing(
    context: CanvasRenderingContext2D,
    view: { from: number; to: number; newest: number; step: number; height: number },
  ): void {
    const { history } = this.#store
    for (let row = view.from + 1; row < view.to; row++) {
      const [before, number] = [history.value('number', row - 1), history.value('number', row)]
      if (number - before <= 1) continue
      const x = labelWidth + (before + 1 - view.newest + blocks - 1) * view.step
      const width = (number - before - 1) * view.step
      hatch(context, { x, y: 0, width, height: view.height }, colours().soft)
    }
  }

  #legend(context: CanvasRenderingContext2D, y: number): void {
    let x = labelWidth
    context.fillStyle = colours().soft
    context.fillText('transactions:', 0, y)
    heatSteps.forEach((_, step) => {
      const least = 2 ** (step + 1)
      context.fillStyle = heatColour(least)
      context.fillRect(x, y - 5, 12, 10)
      context.fillStyle = colours().soft
      const text = step === heatSteps.length - 1 ? `${least}+` : String(least)
      context.fillText(text, x + 16, y)
      x += 26 + text.length * 7
    })
  }
}

/** By powers of two. On light paper the steps run the other way: more is always stronger. */
function heatColour(txns: number): string {
  const step = Math.min(heatSteps.length - 1, Math.max(0, Math.floor(Math.log2(txns)) - 1))
  const isDark = document.documentElement.dataset.theme === 'dark'
  return heatSteps[isDark ? step : heatSteps.length - 1 - step]!
}
