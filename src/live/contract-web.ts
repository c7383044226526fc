// Contracts and the transactions they share, with memory: each block fades what came before; and
// their layout as a graph.
// Thread: browser; no DOM. A graph of one block alone would flicker: most of its contracts are new.
import type { ContentionData } from '../client/frames.ts'

const decay = 0.96
const forgotten = 0.05
export const contractsShown = 12
const edgesShown = 40

export interface Contract {
  readonly address: string
  /** Decayed contended slots; 0 for one that is only at the end of an edge. */
  weight: number
  score: number
}

export interface Edge {
  readonly a: string
  readonly b: string
  weight: number
}

export class ContractWeb {
  readonly #contracts = new Map<string, Contract>()
  readonly #edges = new Map<string, Edge>()

  add(data: ContentionData): void {
    for (const map of [this.#contracts, this.#edges])
      for (const [key, one] of map) {
        one.weight *= decay
        if (one.weight < forgotten) map.delete(key)
      }
    for (const one of data.top_contended_contracts) {
      const known = this.#contracts.get(one.address) ?? {
        address: one.address,
        weight: 0,
        score: 0,
      }
      known.weight += one.contended_slots
      known.score = one.contention_score
      this.#contracts.set(one.address, known)
    }
    for (const { contract_a: a, contract_b: b, shared_txn_count: txns } of data.contract_edges) {
      const known = this.#edges.get(a + b) ?? { a, b, weight: 0 }
      known.weight += txns
      this.#edges.set(a + b, known)
    }
  }

  /** The strongest contracts and edges. An edge's end that is not contended is shown too. */
  strongest(): { contracts: Contract[]; edges: Edge[] } {
    const contracts = sorted(this.#contracts.values()).slice(0, contractsShown)
    const names = new Set(contracts.map(({ address }) => address))
    const edges = sorted(this.#edges.values())
      .filter(({ a, b }) => names.has(a) || names.has(b))
      .slice(0, edgesShown)
    for (const address of edges.flatMap(({ a, b }) => [a, b])) {
      if (names.has(address)) continue
      names.add(address)
      contracts.push({ address, weight: 0, score: 0 })
    }
    return { contracts, edges }
  }
}

function sorted<T extends { weight: number }>(values: Iterable<T>): T[] {
  return [...values].sort((one, other) => other.weight - one.weight)
}

/** A contract with its place and its speed. */
export interface Placed extends Contract {
  x: number
  y: number
  vx: number
  vy: number
}

export interface Link {
  readonly source: Placed
  readonly target: Placed
  readonly weight: number
}

const repulsion = 260
const linkLength = 64
const linkStrength = 0.25
/** What is left of a speed after a tick. */
const friction = 0.6
const cooling = 0.977

/** Moves the contracts by forces: every pair pushes apart, links are springs, the middle attracts.
 *  For a few dozen contracts all pairs are cheaper than a quadtree. */
export function layOut(
  nodes: readonly Placed[],
  links: readonly Link[],
  { width, height, ticks }: { width: number; height: number; ticks: number },
): void {
  const degrees = new Map<Placed, number>()
  for (const end of links.flatMap(({ source, target }) => [source, target]))
    degrees.set(end, (degrees.get(end) ?? 0) + 1)
  let heat = 0.5
  for (let tick = 0; tick < ticks; tick++) {
    heat *= cooling
    for (const node of nodes) {
      node.vx += (width / 2 - node.x) * 0.05 * heat
      node.vy += (height / 2 - node.y) * 0.14 * heat
      for (const other of nodes) {
        const [dx, dy] = [node.x - other.x, node.y - other.y]
        const push = (repulsion * heat) / Math.max(repulsion / 8, dx * dx + dy * dy)
        node.vx += dx * push
        node.vy += dy * push
      }
    }
    for (const { source, target } of links) {
      const [dx, dy] = [target.x - source.x, target.y - source.y]
      const length = Math.hypot(dx, dy) || 1
      const pull = ((length - linkLength) / length) * linkStrength * heat
      // Of two contracts the one with fewer links moves more.
      const [own, other] = [degrees.get(source)!, degrees.get(target)!]
      const [toTarget, toSource] = [(pull * other) / (own + other), (pull * own) / (own + other)]
      source.vx += dx * toTarget
      source.vy += dy * toTarget
      target.vx -= dx * toSource
      target.vy -= dy * toSource
    }
    for (const node of nodes) {
      node.vx *= friction
      node.vy *= friction
      node.x += node.vx
      node.y += node.vy
    }
  }
}
