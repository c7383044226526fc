// A named set of nodes, compared with one another and with nobody else. Thread: main.
// Made by upstreams.ts. `choose` draws two nodes by weight and takes the one with less load: the
// weights give the shares while the nodes are alike, and a slow node loses every comparison.
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import type { Log } from '../telemetry/log.ts'
import type { SetSection } from './config.ts'
import { NodeProbe } from './node-probe.ts'
import { type NodeReport, UpstreamNode } from './upstream-node.ts'

/** The second one drawn wins only with clearly less load: noise must not undo the weights. */
const clearlyLess = 0.75
/** A node with no weight is drawn like this among others of its kind. */
const leastWeight = 0.001

export interface SetDeps {
  readonly clock: Clock
  readonly log: Log
  /** 0 to 1, as Math.random. */
  readonly random?: () => number
}

export interface ChooseOptions {
  /** Nodes known to be below it are left out, unless all are: the best of them may answer. */
  readonly minContextSlot?: number
  /** Whose slot that is; finalized when nothing else is said, as nodes read it. */
  readonly commitment?: Commitment
  /** Nodes that were asked already. */
  readonly not?: readonly UpstreamNode[]
  /** No node on trial: what is sent once must arrive. */
  readonly isOnce?: boolean
}

export class UpstreamSet {
  readonly name: string
  readonly section: SetSection
  readonly nodes: readonly UpstreamNode[]
  readonly probes: readonly NodeProbe[]
  readonly #random: () => number

  constructor(name: string, section: SetSection, deps: SetDeps) {
    this.name = name
    this.section = section
    this.#random = deps.random ?? Math.random
    const onChange = (node: UpstreamNode) => this.#moved(node)
    const { clock, log } = deps
    this.nodes = section.nodes.map(
      (node, index) => new UpstreamNode(name, index + 1, node, { clock, log, onChange }),
    )
    this.probes = this.nodes.map((node) => new NodeProbe(node, clock, () => this.judge()))
  }

  /** The node to ask now; null when none is good. */
  choose(method: string, options: ChooseOptions = {}): UpstreamNode | null {
    const { not = [], isOnce = false } = options
    let tier: Tier = Tier.none
    let found: UpstreamNode[] = []
    for (const node of this.nodes) {
      const its = tierOf(node, isOnce)
      if (its > tier || its === Tier.none || !node.has('rpc')) continue
      if (not.includes(node) || !node.serves(method)) continue
      if (its < tier) {
        tier = its
        found = []
      }
      found.push(node)
    }
    const { minContextSlot } = options
    if (minContextSlot !== undefined && found.length > 0)
      found = atLeast(found, minContextSlot, options.commitment ?? Commitment.finalized)
    return this.#draw(found)
  }

  /** Every node that may be asked now, for what goes to all. */
  all(method: string): readonly UpstreamNode[] {
    return this.nodes.filter(
      (node) => node.has('rpc') && node.serves(method) && tierOf(node, true) !== Tier.none,
    )
  }

  /** True when some node can be asked now. */
  isServing(): boolean {
    return this.nodes.some((node) => node.has('rpc') && tierOf(node, false) !== Tier.none)
  }

  /** True when a node is configured for the method, whether or not it is up. */
  serves(method: string): boolean {
    return this.nodes.some((node) => node.has('rpc') && node.serves(method))
  }

  /** The best slot of nodes that are there; null when none told one. */
  slot(commitment: Commitment = Commitment.processed): number | null {
    const isSure = ({ state }: UpstreamNode) => state === 'up' || state === 'lagging'
    return this.#best(commitment, isSure) ?? this.#best(commitment, ({ state }) => state !== 'down')
  }

  /** Sets every node against the best one, and against the shreds that it has itself. */
  judge(): void {
    const best = this.slot()
    for (const node of this.nodes) {
      const slot = node.slot()
      const ahead = Math.max(best ?? 0, node.shredSlot ?? 0)
      node.judgeLag(slot === null ? null : Math.max(0, ahead - slot), this.section.lagSlots)
    }
  }

  report(): NodeReport[] {
    const counts = this.nodes.map((node) => node.latency.count(node.nowMs()))
    const total = counts.reduce((sum, count) => sum + count, 0)
    return this.nodes.map((node) => node.report(total))
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()))
  }

  #best(commitment: Commitment, counts: (node: UpstreamNode) => boolean): number | null {
    let best: number | null = null
    for (const node of this.nodes) {
      const slot = counts(node) ? node.slot(commitment) : null
      if (slot !== null && (best === null || slot > best)) best = slot
    }
    return best
  }

  /** Two by weight, and the better of them. */
  #draw(found: readonly UpstreamNode[]): UpstreamNode | null {
    if (found.length < 2) return found[0] ?? null
    const first = this.#drawOne(found, null)
    const second = this.#drawOne(found, first)
    return second.load < first.load * clearlyLess ? second : first
  }

  #drawOne(found: readonly UpstreamNode[], not: UpstreamNode | null): UpstreamNode {
    let total = 0
    for (const node of found) if (node !== not) total += weightOf(node)
    let left = this.#random() * total
    let last = found[0] as UpstreamNode
    for (const node of found) {
      if (node === not) continue
      last = node
      left -= weightOf(node)
      if (left < 0) break
    }
    return last
  }

  /** What waits at a node that left is let go, where it can be asked elsewhere or not at all. */
  #moved(node: UpstreamNode): void {
    // When the best one leaves, the next is no longer behind, and takes over at once.
    if (node.state === 'down' || node.state === 'probing') this.judge()
    if (node.state === 'down') node.letGo()
    else if (node.state === 'probing' && this.nodes.some(({ state }) => state === 'up'))
      node.letGo()
  }
}

/** The lower, the better; only nodes of the best tier that is there are drawn from. */
const Tier = { good: 0, spare: 1, limited: 2, doubtful: 3, none: 4 } as const
type Tier = (typeof Tier)[keyof typeof Tier]

function tierOf(node: UpstreamNode, isOnce: boolean): Tier {
  const { state } = node
  if (state === 'up') {
    if (node.isLimited) return Tier.limited
    return node.weight > 0 ? Tier.good : Tier.spare
  }
  if (state !== 'probing') return Tier.none
  // On trial it gets one call at a time beside the good ones, or it would never come back.
  if (node.health.isOnTrial && !isOnce && node.waiting === 0) return Tier.good
  return Tier.doubtful
}

function weightOf(node: UpstreamNode): number {
  return Math.max(node.weight * node.health.ramp(), leastWeight)
}

/** Those that reached the slot, or may have; when none did, those that are furthest. */
function atLeast(nodes: UpstreamNode[], slot: number, commitment: Commitment): UpstreamNode[] {
  const reached = nodes.filter((node) => (node.slot(commitment) ?? slot) >= slot)
  if (reached.length > 0) return reached
  const best = Math.max(...nodes.map((node) => node.slot(commitment) ?? 0))
  return nodes.filter((node) => node.slot(commitment) === best)
}
