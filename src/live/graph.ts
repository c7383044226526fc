// The contract graph, or its matrix: area by contended slots, fill by score, width by shared
// transactions; a hollow contract is not contended itself. Thread: browser.
// The layout starts from the last one and moves at most once a second.
import { ContractWeb, contractsShown, type Link, layOut, type Placed } from './contract-web.ts'
import { byId, Surface, setAttribute, setText, Unmatched } from './dom.ts'
import { percent, shortHex } from './format.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { colours, font } from './theme.ts'

const ticks = 24
const narrowWidth = 480
const matrixLabel = 92
/** Names of the matrix's columns are written at a slant. */
const matrixHead = 64
const slant = -Math.PI / 4
const graphLegend =
  'size: contended storage slots · colour: share of its storage slots that are contended · ' +
  'hollow: not contended itself · line: transactions shared'
const matrixLegend =
  'a row and a column per contract · a stronger colour is more shared transactions, pale is none'

interface Box {
  readonly left: number
  readonly right: number
  readonly top: number
  readonly bottom: number
}

export class Graph {
  readonly everyMs = 1000
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #surface: Surface
  readonly #web = new ContractWeb()
  readonly #button = byId('graph-mode')
  readonly #legend = byId('graph-legend')
  readonly #unmatched = new Unmatched(byId('graph-map'))
  #nodes: Placed[] = []
  #links: Link[] = []
  #newest = 0
  #isMatrix = false
  #hovered: Placed | null = null

  constructor(store: PageStore, selection: Selection, redraw: () => void) {
    this.#store = store
    this.#selection = selection
    const canvas = byId<HTMLCanvasElement>('graph-map')
    canvas.setAttribute('role', 'img')
    this.#surface = new Surface(canvas, redraw)
    this.#button.addEventListener('click', () => this.toggle(redraw))
    canvas.addEventListener('mousemove', ({ offsetX, offsetY }) => {
      const found = this.#isMatrix ? null : this.#nodeAt(offsetX, offsetY)
      if (found === this.#hovered) return
      this.#hovered = found
      this.#paint()
    })
    canvas.addEventListener('click', ({ offsetX, offsetY }) => {
      const { address } = this.#nodeAt(offsetX, offsetY) ?? { address: '' }
      selection.set({ address: selection.address === address ? '' : address })
    })
  }

  toggle(redraw: () => void): void {
    this.#isMatrix = !this.#isMatrix
    setAttribute(this.#button, 'aria-pressed', String(this.#isMatrix))
    redraw()
  }

  table(): { heads: string[]; lines: string[][] } {
    return {
      heads: ['contract', 'contract', 'shared transactions, decayed'],
      lines: this.#links.map(({ source, target, weight }) => [
        source.address,
        target.address,
        weight.toFixed(1),
      ]),
    }
  }

  draw(): void {
    this.#follow()
    this.#layout()
    this.#paint()
  }

  /** Takes the blocks since the last drawing into the web. */
  #follow(): void {
    const { history } = this.#store
    const end = this.#selection.pausedAt ?? history.newest
    if (end < this.#newest - 1000) this.#newest = 0
    const { from, to } = history.window(Math.min(300, end - this.#newest), end)
    for (let row = from; row < to; row++) {
      const data = this.#store.detailOf(history.hash(row))
      if (data !== null) this.#web.add(data)
    }
    if (to > 0) this.#newest = history.value('number', to - 1)
  }

  #layout(): void {
    const { contracts, edges } = this.#web.strongest()
    const before = new Map(this.#nodes.map((node) => [node.address, node]))
    const { width, height } = this.#surface
    this.#nodes = contracts.map((one, at) => {
      const start = {
        x: width / 2 + 40 * Math.cos(at * 2.4),
        y: height / 2 + 40 * Math.sin(at * 2.4),
        vx: 0,
        vy: 0,
      }
      return Object.assign(before.get(one.address) ?? start, one)
    })
    const byAddress = new Map(this.#nodes.map((node) => [node.address, node]))
    this.#links = edges.map(({ a, b, weight }) => ({
      source: byAddress.get(a)!,
      target: byAddress.get(b)!,
      weight,
    }))
    const isFirst = before.size === 0
    layOut(this.#nodes, this.#links, { width, height, ticks: isFirst ? ticks * 5 : ticks })
    for (const node of this.#nodes) {
      node.x = Math.min(width - 44, Math.max(44, node.x))
      const radius = this.#radius(node)
      node.y = Math.min(height - radius - 16, Math.max(radius + 2, node.y))
    }
  }

  #paint(): void {
    const context = this.#surface.begin()
    context.font = font()
    const isNarrow = this.#surface.width < narrowWidth
    const isMatrix = this.#isMatrix && !isNarrow
    if (isMatrix) this.#paintMatrix(context)
    else this.#paintGraph(context)
    setText(this.#legend, isMatrix ? matrixLegend : graphLegend)
    const isMatched = this.#nodes.some(({ address }) => this.#selection.matches(address))
    this.#unmatched.show(this.#selection, isMatched || this.#nodes.length === 0)
    const [top] = this.#links
    const label =
      top === undefined
        ? 'no contracts share transactions'
        : `strongest: ${top.source.address} with ${top.target.address}`
    setAttribute(this.#surface.canvas, 'aria-label', label)
  }

  #paintGraph(context: CanvasRenderingContext2D): void {
    const { line, soft, ink, card, excellent } = colours()
    const most = Math.max(1, ...this.#links.map(({ weight }) => weight))
    for (const { source, target, weight } of this.#links) {
      const isNear = source === this.#hovered || target === this.#hovered
      context.strokeStyle = isNear ? ink : soft
      context.globalAlpha = isNear ? 0.9 : 0.45
      context.lineWidth = 0.5 + (weight / most) * 5
      context.beginPath()
      context.moveTo(source.x, source.y)
      context.lineTo(target.x, target.y)
      context.stroke()
    }
    for (const node of this.#nodes) {
      context.globalAlpha = this.#selection.matches(node.address) ? 1 : 0.25
      context.beginPath()
      context.arc(node.x, node.y, this.#radius(node), 0, 7)
      context.fillStyle = card
      context.fill()
      if (node.weight > 0) {
        context.save()
        context.globalAlpha *= 0.25 + 0.75 * Math.min(1, node.score)
        context.fillStyle = excellent
        context.fill()
        context.restore()
      }
      context.strokeStyle = node.weight > 0 ? excellent : soft
      context.lineWidth = node === this.#hovered ? 2.5 : 1.25
      context.stroke()
    }
    context.textAlign = 'center'
    const taken: Box[] = []
    const named = this.#nodes.filter(({ weight }, at) => weight > 0 && at < 6)
    for (const node of named) this.#name(context, node, shortHex(node.address), taken)
    const hovered = this.#hovered
    if (hovered !== null) {
      const score = hovered.weight > 0 ? `, ${percent(hovered.score * 100)} % contended` : ''
      this.#name(context, hovered, shortHex(hovered.address, 8, 6) + score, [])
    }
    context.textAlign = 'left'
    context.globalAlpha = 1
    context.strokeStyle = line
  }

  /** Below its contract, or above where another name or contract is below. */
  #name(context: CanvasRenderingContext2D, node: Placed, text: string, taken: Box[]): void {
    const half = context.measureText(text).width / 2
    const x = Math.min(this.#surface.width - half - 2, Math.max(half + 2, node.x))
    const radius = this.#radius(node)
    const boxAt = (y: number): Box => ({
      left: x - half,
      right: x + half,
      top: y - 10,
      bottom: y + 2,
    })
    const isFree = (y: number) => {
      const box = boxAt(y)
      const hides = (other: Placed) =>
        other !== node && touches(box, circleBox(other, this.#radius(other)))
      return !taken.some((other) => touches(box, other)) && !this.#nodes.some(hides)
    }
    const below = node.y + radius + 11
    const above = node.y - radius - 4
    const y = !isFree(below) && above > 10 && isFree(above) ? above : below
    taken.push(boxAt(y))
    context.globalAlpha = this.#selection.matches(node.address) ? 1 : 0.25
    context.lineWidth = 3
    context.strokeStyle = colours().card
    context.strokeText(text, x, y)
    context.fillStyle = colours().ink
    context.fillText(text, x, y)
  }

  #paintMatrix(context: CanvasRenderingContext2D): void {
    const nodes = this.#nodes.slice(0, contractsShown)
    const { width, height } = this.#surface
    const across = (width - matrixLabel - matrixHead) / nodes.length
    const step = Math.min((height - matrixHead) / nodes.length, across)
    const most = Math.max(1, ...this.#links.map(({ weight }) => weight))
    const { line, excellent, soft } = colours()
    context.textBaseline = 'middle'
    nodes.forEach((node, row) => {
      context.fillStyle = soft
      const y = matrixHead + row * step
      context.fillText(shortHex(node.address), 0, y + step / 2)
      context.save()
      context.translate(matrixLabel + row * step + step / 2, matrixHead - 6)
      context.rotate(slant)
      context.fillText(shortHex(node.address), 0, 0)
      context.restore()
      nodes.forEach((other, column) => {
        const link = this.#links.find(
          ({ source, target }) =>
            (source === node && target === other) || (source === other && target === node),
        )
        context.fillStyle = link === undefined ? line : excellent
        context.globalAlpha = link === undefined ? 0.6 : 0.2 + (0.8 * link.weight) / most
        context.fillRect(matrixLabel + column * step, y, step - 2, step - 2)
        context.globalAlpha = 1
      })
    })
    context.textBaseline = 'alphabetic'
  }

  #radius({ weight }: Placed): number {
    const most = Math.max(1, ...this.#nodes.map((node) => node.weight))
    return weight === 0 ? 4 : 5 + 13 * Math.sqrt(weight / most)
  }

  #nodeAt(x: number, y: number): Placed | null {
    const reaches = (node: Placed) => Math.hypot(node.x - x, node.y - y) < this.#radius(node) + 4
    return this.#nodes.find(reaches) ?? null
  }
}

function circleBox({ x, y }: Placed, radius: number): Box {
  return { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }
}

function touches(one: Box, other: Box): boolean {
  return (
    one.left < other.right &&
    other.left < one.right &&
    one.top < other.bottom &&
    other.top < one.bottom
  )
}
