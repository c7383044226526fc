// The contract graph, or its matrix: area by contended slots, fill by score, width by shared
// transactions; a hollow contract is not contended itself. Thread: browser.
// The layout starts from the last one and moves at most once a second.
import { forceLink, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force'
import { type Contract, ContractWeb, contractsShown, type Edge } from './contract-web.ts'
import { byId, Surface, setAttribute } from './dom.ts'
import { percent, shortHex } from './format.ts'
import type { PageStore } from './page-store.ts'
import type { Selection } from './selection.ts'
import { colours, font } from './theme.ts'

const ticks = 24
const narrowWidth = 480
const matrixLabel = 92
const repulsion = 260

interface Node extends Contract, SimulationNodeDatum {}
interface Link {
  source: Node
  target: Node
  weight: number
}

/** Every pair pushes apart: for a few dozen contracts a quadtree would only be more code. */
const repel = Object.assign(
  (alpha: number) => {
    for (const node of repelled)
      for (const other of repelled) {
        const [dx, dy] = [node.x! - other.x!, node.y! - other.y!]
        const push = (repulsion * alpha) / Math.max(repulsion / 8, dx * dx + dy * dy)
        node.vx! += dx * push
        node.vy! += dy * push
      }
  },
  {
    initialize: (nodes: readonly Node[]) => {
      repelled = nodes
    },
  },
)
let repelled: readonly Node[] = []

export class Graph {
  readonly everyMs = 1000
  readonly #store: PageStore
  readonly #selection: Selection
  readonly #surface: Surface
  readonly #web = new ContractWeb()
  readonly #button = byId('graph-mode')
  readonly #simulation = forceSimulation<Node>([]).stop()
  #nodes: Node[] = []
  #links: Link[] = []
  #newest = 0
  #isMatrix = false
  #hovered: Node | null = null

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
      }
      return Object.assign(before.get(one.address) ?? start, one)
    })
    const byAddress = new Map(this.#nodes.map((node) => [node.address, node]))
    this.#links = edges.map(({ a, b, weight }: Edge) => ({
      source: byAddress.get(a)!,
      target: byAddress.get(b)!,
      weight,
    }))
    this.#simulation
      .nodes(this.#nodes)
      .force('charge', repel)
      .force('link', forceLink(this.#links).distance(64).strength(0.25))
      .force('x', forceX(width / 2).strength(0.05))
      .force('y', forceY(height / 2).strength(0.14))
      .alpha(0.5)
      .tick(before.size === 0 ? ticks * 5 : ticks)
    for (const node of this.#nodes) {
      node.x = Math.min(width - 44, Math.max(44, node.x ?? 0))
      node.y = Math.min(height - 22, Math.max(16, node.y ?? 0))
    }
  }

  #paint(): void {
    const context = this.#surface.begin()
    context.font = font()
    const isNarrow = this.#surface.width < narrowWidth
    if (this.#isMatrix && !isNarrow) this.#paintMatrix(context)
    else this.#paintGraph(context)
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
      context.moveTo(source.x!, source.y!)
      context.lineTo(target.x!, target.y!)
      context.stroke()
    }
    for (const node of this.#nodes) {
      context.globalAlpha = this.#selection.matches(node.address) ? 1 : 0.25
      context.beginPath()
      context.arc(node.x!, node.y!, this.#radius(node), 0, 7)
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
    const named = this.#nodes.filter(({ weight }, at) => weight > 0 && at < 6)
    for (const node of named) this.#name(context, node, shortHex(node.address))
    const hovered = this.#hovered
    if (hovered !== null) {
      const score = hovered.weight > 0 ? `, ${percent(hovered.score * 100)} % contended` : ''
      this.#name(context, hovered, shortHex(hovered.address, 8, 6) + score)
    }
    context.textAlign = 'left'
    context.globalAlpha = 1
    context.strokeStyle = line
  }

  #name(context: CanvasRenderingContext2D, node: Node, text: string): void {
    const half = context.measureText(text).width / 2
    const x = Math.min(this.#surface.width - half - 2, Math.max(half + 2, node.x!))
    const y = node.y! + this.#radius(node) + 11
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
    const step = Math.min((height - 6) / nodes.length, (width - matrixLabel) / nodes.length)
    const most = Math.max(1, ...this.#links.map(({ weight }) => weight))
    const { line, excellent, soft } = colours()
    context.textBaseline = 'middle'
    nodes.forEach((node, row) => {
      context.fillStyle = soft
      context.fillText(shortHex(node.address), 0, row * step + step / 2)
      nodes.forEach((other, column) => {
        const link = this.#links.find(
          ({ source, target }) =>
            (source === node && target === other) || (source === other && target === node),
        )
        context.fillStyle = link === undefined ? line : excellent
        context.globalAlpha = link === undefined ? 0.6 : 0.2 + (0.8 * link.weight) / most
        context.fillRect(matrixLabel + column * step, row * step, step - 2, step - 2)
        context.globalAlpha = 1
      })
    })
    context.textBaseline = 'alphabetic'
  }

  #radius({ weight }: Node): number {
    const most = Math.max(1, ...this.#nodes.map((node) => node.weight))
    return weight === 0 ? 4 : 5 + 13 * Math.sqrt(weight / most)
  }

  #nodeAt(x: number, y: number): Node | null {
    const reaches = (node: Node) => Math.hypot(node.x! - x, node.y! - y) < this.#radius(node) + 4
    return this.#nodes.find(reaches) ?? null
  }
}
