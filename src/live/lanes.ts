// The newest proposals as bars of their stages over two seconds. Thread: browser.
// A rejected one ends in a cross; competing proposals of one height stand under each other.
import type { Stage } from '../client/frames.ts'
import { byId, Surface, setText } from './dom.ts'
import { count, millis, quantile } from './format.ts'
import type { PageStore, Proposal } from './page-store.ts'
import type { Selection } from './selection.ts'
import { type Colours, colours, font } from './theme.ts'

const rowsMost = 14
const rowsNarrow = 8
const narrowWidth = 480
const spanMs = 2000
const labelWidth = 104
const headHeight = 18
const axisHeight = 20
const order = ['Proposed', 'Voted', 'Finalized', 'Verified'] as const
/** Each stage by its colour and its thickness. */
const looks: Readonly<Record<(typeof order)[number], [keyof Colours, number]>> = {
  Proposed: ['soft', 0.16],
  Voted: ['bottlenecks', 0.28],
  Finalized: ['excellent', 0.42],
  Verified: ['verified', 0.7],
}

export class Lanes {
  readonly everyMs = 200
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #surface: Surface
  readonly #notes = byId('lanes-notes')
  #shown: readonly Proposal[] = []

  constructor(store: PageStore, selection: Selection, resized: () => void) {
    this.#store = store
    this.#selection = selection
    const canvas = byId<HTMLCanvasElement>('lanes-map')
    canvas.setAttribute('role', 'img')
    this.#surface = new Surface(canvas, resized)
    canvas.addEventListener('click', (event) => {
      const proposal = this.#shown[Math.floor((event.offsetY - headHeight) / this.#rowHeight)]
      if (proposal !== undefined) selection.set({ pinned: proposal.number })
    })
  }

  get #rowHeight(): number {
    const rows = this.#surface.width < narrowWidth ? rowsNarrow : rowsMost
    return (this.#surface.height - axisHeight - headHeight) / rows
  }

  table(): { heads: string[]; lines: string[][] } {
    return {
      heads: ['block', 'stage', ...order.slice(1).map((stage) => `${stage}, ms`), 'proposal'],
      lines: this.#shown.map(({ number, stage, times, hash }) => [
        count(number),
        stage,
        ...order.slice(1).map((name) => millis(times[name] ?? Number.NaN)),
        hash,
      ]),
    }
  }

  draw(nowMs: number): void {
    const rows = this.#surface.width < narrowWidth ? rowsNarrow : rowsMost
    // While paused the picture is drawn from the proposals of that moment.
    if (this.#selection.pausedAt === null)
      this.#shown = [...this.#store.proposals].sort((a, b) => b.number - a.number).slice(0, rows)
    const context = this.#surface.begin()
    context.font = font()
    context.textBaseline = 'middle'
    this.#legend(context)
    this.#grid(context)
    this.#shown.forEach((proposal, row) => {
      this.#bar(context, proposal, row, nowMs)
    })
    this.#writeNotes()
  }

  #x(ms: number): number {
    const width = this.#surface.width - labelWidth - 8
    return labelWidth + (Math.min(ms, spanMs) / spanMs) * width
  }

  #legend(context: CanvasRenderingContext2D): void {
    let x = 0
    for (const name of order) {
      const [colour, part] = looks[name]
      context.fillStyle = colours()[colour]
      context.fillRect(x, 7 - part * 8, 12, part * 16)
      context.fillStyle = colours().soft
      context.fillText(name, x + 16, 7)
      x += context.measureText(name).width + 32
    }
  }

  #grid(context: CanvasRenderingContext2D): void {
    const { height } = this.#surface
    context.strokeStyle = colours().line
    context.fillStyle = colours().soft
    context.lineWidth = 1
    for (let ms = 0; ms <= spanMs; ms += 500) {
      const x = Math.round(this.#x(ms)) + 0.5
      context.beginPath()
      context.moveTo(x, headHeight)
      context.lineTo(x, height - axisHeight)
      context.stroke()
      context.textAlign = ms === spanMs ? 'right' : ms === 0 ? 'left' : 'center'
      context.fillText(ms === 0 ? '0 ms' : count(ms), ms === spanMs ? x + 6 : x, height - 7)
    }
    context.textAlign = 'left'
  }

  #bar(context: CanvasRenderingContext2D, proposal: Proposal, row: number, nowMs: number): void {
    const height = this.#rowHeight
    const middle = headHeight + row * height + height / 2
    const { times, stage, number, sinceMs } = proposal
    const isOver = stage === 'Verified' || stage === 'Rejected'
    const known = Math.max(0, ...Object.values(times))
    const isPaused = this.#selection.pausedAt !== null
    const end = isOver || isPaused ? known : Math.max(known, nowMs - sinceMs)
    context.fillStyle = colours().soft
    context.fillText(count(number), 0, middle, labelWidth - 8)
    const reached = order.filter((name) => name === 'Proposed' || times[name] !== undefined)
    reached.forEach((name, at) => {
      const next = reached[at + 1]
      const [colour, part] = looks[name]
      const from = this.#x(times[name] ?? 0)
      const to = next === undefined ? this.#x(end) : this.#x(times[next] ?? 0)
      const thickness = height * part
      context.fillStyle = colours()[colour]
      const width = name === 'Verified' ? 4 : Math.max(1, to - from)
      context.fillRect(from, middle - thickness / 2, width, thickness)
    })
    if (stage === 'Rejected') cross(context, this.#x(times.Rejected ?? end), middle, height * 0.3)
  }

  #writeNotes(): void {
    const stages: Stage[] = ['Voted', 'Finalized', 'Verified']
    const texts = stages.map((stage) => {
      const known = this.#store.proposals
        .map(({ times }) => times[stage])
        .filter((ms) => ms !== undefined)
        .sort((a, b) => a - b)
      return `${stage} p50 ${millis(quantile(known, 0.5))}, p99 ${millis(quantile(known, 0.99))} ms`
    })
    setText(this.#notes, texts.join(' · '))
    this.#surface.canvas.setAttribute('aria-label', texts.join('; '))
  }
}

function cross(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.strokeStyle = colours().rejected
  context.lineWidth = 2
  context.beginPath()
  context.moveTo(x - size, y - size)
  context.lineTo(x + size, y + size)
  context.moveTo(x - size, y + size)
  context.lineTo(x + size, y - size)
  context.stroke()
}
