// A named set of nodes, compared with each other only.
// `pick` load-balances: it samples two nodes by weight and takes the one with less load. The
// weights are the shares while the nodes are alike, and a slow node loses every comparison.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { DEPTH_MAX } from '../../base/jsonrpc/parse.ts'
import { skipSpace, skipValue } from '../../base/jsonrpc/scan.ts'
import { SlotTime } from '../../base/slot-time.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { lowestVersion } from '../../chain/solana/version.ts'
import type { SetSection } from '../config.ts'
import { readText } from '../http-client/http-request.ts'
import { unbelieved } from './node-health.ts'
import { NodeProbe } from './node-probe.ts'
import { UpstreamNode } from './upstream-node.ts'

/** The second sample wins only with clearly less load: noise must not undo the weights. */
const clearlyLess = 0.75
/** Weight of a node without one, among others of its kind. */
const leastWeight = 0.001
/** A node whose slot is the same for so long, and so far below the head, stands still. */
const stillMs = 5_000
const stillSlots = 8

export interface SetDeps {
  readonly clock: Clock
  readonly log: Log
  /** 0 to 1, as Math.random. */
  readonly random?: () => number
}

export interface PickOptions {
  /** Nodes known to be below it are excluded, unless all are: the best of them may answer. */
  readonly minContextSlot?: number
  /** Commitment of that slot; finalized by default, as for nodes. */
  readonly commitment?: Commitment
  /** Nodes that were tried already. */
  readonly exclude?: readonly UpstreamNode[]
  /** Excludes trial calls to half-open nodes: what is sent only once must arrive. */
  readonly isSend?: boolean
}

export class UpstreamSet {
  readonly name: string
  readonly section: SetSection
  readonly nodes: readonly UpstreamNode[]
  readonly probes: readonly NodeProbe[]
  /** By its geyser stream. */
  readonly slotTime = new SlotTime()
  readonly log: Log
  /** The node whose geyser stream is published. */
  followed: UpstreamNode | null = null
  /** The slot that its nodes are compared with; null when none reported one. */
  head: number | null = null
  readonly #random: () => number
  readonly #genesis: SetGenesis<UpstreamNode>
  readonly #head: SetHead
  #blocks = new SetBlocks<UpstreamNode>()
  /** Nodes that were proven wrong: while they are distrusted their blocks do not count. */
  readonly #liars = new WeakSet<UpstreamNode>()

  constructor(name: string, section: SetSection, deps: SetDeps) {
    this.name = name
    this.section = section
    this.log = deps.log
    this.#random = deps.random ?? Math.random
    this.#genesis = new SetGenesis(section.genesis)
    this.#head = new SetHead(deps.clock, section.nodes.length === 1)
    const onChange = (node: UpstreamNode) => this.#changed(node)
    const { clock, log } = deps
    this.nodes = section.nodes.map((node, index, nodes) => {
      const service = node.rpc === '' ? 'grpc' : 'rpc'
      const isAlone = !nodes.some((other) => other !== node && other[service] !== '')
      return new UpstreamNode(name, index + 1, node, { clock, log, onChange, isAlone })
    })
    this.probes = this.nodes.map((node) => new NodeProbe(node, clock, this))
  }

  /** The node for the next call; null when none is good. */
  pick(method: string, options: PickOptions = {}): UpstreamNode | null {
    const { exclude = [], isSend = false } = options
    let tier: Tier = Tier.none
    let found: UpstreamNode[] = []
    for (const node of this.nodes) {
      const its = tierOf(node, isSend)
      if (its > tier || its === Tier.none || !node.has('rpc')) continue
      if (exclude.includes(node) || !node.serves(method)) continue
      if (its < tier) {
        tier = its
        found = []
      }
      found.push(node)
    }
    const { minContextSlot } = options
    if (minContextSlot !== undefined && found.length > 0)
      found = atLeast(found, minContextSlot, options.commitment ?? Commitment.finalized)
    return this.#balance(found)
  }

  /** Every node that is good now, for broadcasts. */
  all(method: string): readonly UpstreamNode[] {
    return this.nodes.filter(
      (node) => node.has('rpc') && node.serves(method) && tierOf(node, true) !== Tier.none,
    )
  }

  /** True when some node is good now. */
  isServing(): boolean {
    return this.nodes.some((node) => node.has('rpc') && tierOf(node, false) !== Tier.none)
  }

  /** True when a node is configured for the method, whether or not it is up. */
  serves(method: string): boolean {
    return this.nodes.some((node) => node.has('rpc') && node.serves(method))
  }

  /** The best slot of the nodes that are believed, at any commitment where none is given; null when
   *  none reported one. */
  slot(commitment?: Commitment): number | null {
    return (
      this.#best(commitment, isSure) ?? this.#best(commitment, ({ state }) => state === 'probing')
    )
  }

  /** Slots by which its nodes may differ. */
  get lagSlots(): number {
    const { lagSlots, lagMs } = this.section
    return lagSlots > 0 ? lagSlots : this.slotTime.slotsIn(lagMs)
  }

  /** The highest slot that the set can have reached; infinite where nothing is known about it. */
  slotLimit(): number {
    return this.#head.limit() + this.lagSlots
  }

  /** The lowest `apiVersion` of the nodes that are reachable, else of all; '' when unknown. */
  apiVersion(): string {
    const { nodes } = this
    return (
      lowestVersion(nodes.map((node) => (node.isReachable ? node.apiVersion : ''))) ||
      lowestVersion(nodes.map((node) => node.apiVersion))
    )
  }

  /** How often the chain of the set began anew: its nodes have another genesis hash. */
  get restarts(): number {
    return this.#genesis.restarts
  }

  /** Compares chain and slot of every node with the set's, and with the shreds it received. */
  compare(): void {
    const { restarts } = this
    this.#genesis.update(this.nodes)
    if (this.restarts !== restarts) {
      this.#head.reset()
      this.#blocks = new SetBlocks()
      this.log.warn('the chain of the set began anew', { set: this.name })
    }
    for (const node of this.nodes) node.health.setForeign(this.#genesis.isForeign(node))
    this.head = this.#head.of(this.#countedSlots())
    const { head, lagSlots } = this
    for (const node of this.nodes) {
      const slot = node.slot()
      const lag = (head ?? 0) - (slot ?? 0)
      // Its own shreds show that it lags, never that a far slot is right.
      const isAhead = head !== null && lag < -lagSlots
      const worst = isAhead ? lag : Math.max(lag, (node.shredSlot ?? 0) - (slot ?? 0))
      node.setLag(slot === null ? null : worst, lagSlots)
      node.setStill(head === null ? '' : stillReason(node, head))
    }
  }

  /**
   * A node reports this block as confirmed. There is one at a slot: nodes with another one than
   * most have are distrusted. Of two nodes neither is proven wrong, and the one that is followed
   * stays.
   */
  observeBlock(node: UpstreamNode, slot: number, blockhash: string): void {
    if (node.state === 'foreign' || node.state === 'ahead') return
    const blocks = this.#blocks.add(node, slot, blockhash)
    const kept = blocks === null ? null : this.#keptOf(blocks)
    if (blocks === null || kept === null) return
    const names = [...kept.voters].map(({ name }) => name).join(', ')
    const why = `at slot ${slot} it has another block than ${names}`
    for (const [hash, voters] of blocks)
      for (const voter of hash === kept.hash ? [] : voters) {
        voter.distrust('block', kept.isProven ? why : `${why}; neither is proven wrong`)
        if (kept.isProven) this.#liars.add(voter)
        else this.#liars.delete(voter)
      }
  }

  /** Whether another node can take the calls of this one. */
  hasOther(node: UpstreamNode): boolean {
    return this.nodes.some(
      (other) => other !== node && other.has('rpc') && tierOf(other, false) !== Tier.none,
    )
  }

  stop(): void {
    for (const node of this.nodes) node.stop()
  }

  /** The block that is believed, of several; null while another node has to decide. */
  #keptOf(blocks: ReadonlyMap<string, ReadonlySet<UpstreamNode>>) {
    const counts = (node: UpstreamNode) => node.state !== 'distrusted' || !this.#liars.has(node)
    const counted = [...blocks].map(([hash, voters]) => {
      const count = [...voters].filter(counts).length
      return { hash, voters, count, isProven: true }
    })
    const [first, second] = counted.sort((a, b) => b.count - a.count)
    const isMost = first!.count > second!.count
    if (isMost && (first!.count > 1 || second!.count === 0)) return first!
    const deciding = this.nodes.filter((node) => node.reportsBlocks && counts(node))
    if (deciding.filter(({ isReachable }) => isReachable).length > 2) return null
    const { followed } = this
    const known = counted.find(({ voters }) => followed !== null && voters.has(followed)) ?? first!
    return { ...known, isProven: false }
  }

  /** Slots of the nodes that are reachable for sure; of doubtful ones where there is no other. */
  #countedSlots(): number[] {
    const slotsOf = (counts: (node: UpstreamNode) => boolean) =>
      this.nodes.filter(counts).flatMap((node) => node.slot() ?? [])
    const sure = slotsOf((node) => isSure(node) || node.state === 'ahead')
    return sure.length > 0 ? sure : slotsOf(({ state }) => state === 'probing')
  }

  #best(
    commitment: Commitment | undefined,
    counts: (node: UpstreamNode) => boolean,
  ): number | null {
    let best: number | null = null
    for (const node of this.nodes) {
      const slot = counts(node) ? node.slot(commitment) : null
      if (slot !== null && (best === null || slot > best)) best = slot
    }
    return best
  }

  /** Samples two by weight and returns the better one. */
  #balance(found: readonly UpstreamNode[]): UpstreamNode | null {
    if (found.length < 2) return found[0] ?? null
    const first = this.#sample(found, null)
    const second = this.#sample(found, first)
    return second.load < first.load * clearlyLess ? second : first
  }

  #sample(found: readonly UpstreamNode[], exclude: UpstreamNode | null): UpstreamNode {
    let total = 0
    for (const node of found) if (node !== exclude) total += weightOf(node)
    let left = this.#random() * total
    let last = found[0] as UpstreamNode
    for (const node of found) {
      if (node === exclude) continue
      last = node
      left -= weightOf(node)
      if (left < 0) break
    }
    return last
  }

  /** Calls that wait at a node that left fail over, where another node can take them. */
  #changed(node: UpstreamNode): void {
    // When the best node leaves, the next one no longer lags, and takes over at once.
    if (node.state === 'down' || node.state === 'probing') this.compare()
    const isDoubtful = node.state === 'probing'
    // Calls in flight at a drained node end there.
    const isOut = node.state === 'down' || unbelieved.has(node.state)
    if (isDoubtful ? this.nodes.some(({ state }) => state === 'up') : isOut)
      if (this.hasOther(node)) node.abandonCalls()
  }
}

function isSure({ state }: UpstreamNode): boolean {
  return state === 'up' || state === 'lagging'
}

/** Why a node is not near the head, whatever lag is known; '' when it may be. */
function stillReason(node: UpstreamNode, head: number): string {
  if (!node.wasProbed || !node.has('rpc') || !node.serves('getSlot')) return ''
  if (node.slot() === null) return 'it reports no slot'
  const { slot, sinceMs } = node.probed
  const isStill = head - slot > stillSlots && node.nowMs() - sinceMs > stillMs
  return isStill ? 'its slot stands still while that of its set advances' : ''
}

/** Failover order: only nodes of the best tier that has any are picked from. */
const Tier = { first: 0, spare: 1, rateLimited: 2, doubtful: 3, none: 4 } as const
type Tier = (typeof Tier)[keyof typeof Tier]

function tierOf(node: UpstreamNode, isSend: boolean): Tier {
  const { state } = node
  if (state === 'up') {
    if (node.isRateLimited) return Tier.rateLimited
    return node.weight > 0 ? Tier.first : Tier.spare
  }
  // After a change of the consensus no node may know its health: with slots that move, better than
  // none.
  const { moves, sinceMs } = node.probed
  if (state === 'lagging' && node.health.isHealthUnknown)
    return moves > 1 && node.nowMs() - sinceMs < stillMs ? Tier.doubtful : Tier.none
  if (state !== 'probing') return Tier.none
  // Half-open it gets one trial call at a time beside nodes that are up, or it would never return.
  if (node.health.isHalfOpen && !isSend && node.waiting === 0) return Tier.first
  return Tier.doubtful
}

function weightOf(node: UpstreamNode): number {
  return Math.max(node.weight * node.health.slowStart(), leastWeight)
}

/** Nodes that reached the slot, or may have; when none did, those with the highest slot. */
function atLeast(nodes: UpstreamNode[], slot: number, commitment: Commitment): UpstreamNode[] {
  const reached = nodes.filter((node) => (node.slot(commitment) ?? slot) >= slot)
  if (reached.length > 0) return reached
  const best = Math.max(...nodes.map((node) => node.slot(commitment) ?? 0))
  return nodes.filter((node) => node.slot(commitment) === best)
}

// The head of a set of nodes: the slot that its nodes are compared with.
// One node's word is not enough: with three or more it is the second-highest slot, so that one node
// alone can neither raise nor lower it. With fewer it is the highest one that the time since the
// last head can explain; two nodes that jump together corroborate each other. A set of one node
// has only that node's word.

/** The shortest slot time that is believed: half of the shortest that a devnode can be given. */
export const slotMsMin = 10
/** From so many nodes on, the second-highest slot is the head. */
const corroboratingMin = 3

export class SetHead {
  readonly #clock: Clock
  readonly #isSingle: boolean
  /** The highest head so far, and since when. */
  #highest: { readonly slot: number; readonly atMs: number } | null = null

  /** `isSingle`: the set has one node only. */
  constructor(clock: Clock, isSingle: boolean) {
    this.#clock = clock
    this.#isSingle = isSingle
  }

  /** The head by the slots of the nodes that count; null when none has reported one. */
  of(reported: readonly number[]): number | null {
    const slots = [...reported].sort((a, b) => b - a)
    if (slots.length === 0) return null
    const head = this.#corroborated(slots)
    if (this.#highest === null || head > this.#highest.slot)
      this.#highest = { slot: head, atMs: this.#clock.monotonicMs() }
    return head
  }

  /** The highest slot that the time since the last head can explain. */
  limit(): number {
    if (this.#highest === null || this.#isSingle) return Number.POSITIVE_INFINITY
    const { slot, atMs } = this.#highest
    return slot + (this.#clock.monotonicMs() - atMs) / slotMsMin
  }

  /** The chain begins anew: its slots say nothing about the earlier ones. */
  reset(): void {
    this.#highest = null
  }

  #corroborated(slots: readonly number[]): number {
    if (slots.length >= corroboratingMin) return slots[1]!
    const limit = this.limit()
    const head = slots.find((slot) => slot <= limit) ?? slots[1]
    // One node of several is reachable, and has jumped: its word is not taken.
    return head ?? this.#highest!.slot
  }
}

// The blocks that the nodes of a set report as confirmed: a chain has one at each slot.

/** Slots that are remembered. */
const blockSlotsMax = 256

export class SetBlocks<N> {
  /** The oldest report first. */
  readonly #slots = new Map<number, Map<string, Set<N>>>()

  /** The nodes of each block at the slot; null while it has one, and where nothing is new. */
  add(node: N, slot: number, blockhash: string): ReadonlyMap<string, ReadonlySet<N>> | null {
    const blocks = this.#slots.get(slot) ?? new Map<string, Set<N>>()
    this.#slots.set(slot, blocks)
    const voters = blocks.get(blockhash) ?? new Set()
    const isKnown = voters.has(node)
    blocks.set(blockhash, voters.add(node))
    const [oldest] = this.#slots.keys()
    if (this.#slots.size > blockSlotsMax) this.#slots.delete(oldest!)
    return isKnown || blocks.size === 1 ? null : blocks
  }
}

// The genesis hash of a set of nodes: which chain it is.
// Configured (`upstreams.<set>.genesis`), or that of most nodes once each was asked, the first
// configured ones where none has a majority. It changes only when all reachable nodes have one
// other hash, and one of them had the old one before: their chain began anew. A node of another
// cluster never was on this chain, and stays out also while it is the only one reachable.

/** What is known of a node. */
interface GenesisReport {
  /** Null when it has not reported one. */
  readonly genesis: string | null
  readonly isReachable: boolean
  /** Its first probe has ended, or it is never probed. */
  readonly wasProbed: boolean
}

export class SetGenesis<N extends GenesisReport> {
  readonly #pinned: string
  readonly #members = new WeakSet<N>()
  #isSettled = false
  /** Null while no node has reported one. */
  hash: string | null
  /** How often the chain of the set began anew. */
  restarts = 0

  /** `pinned` is '' when the nodes decide. */
  constructor(pinned: string) {
    this.#pinned = pinned
    this.hash = pinned === '' ? null : pinned
  }

  isForeign({ genesis }: N): boolean {
    return this.hash !== null && genesis !== null && genesis !== this.hash
  }

  /** The reports of the nodes have changed. */
  update(nodes: readonly N[]): void {
    if (this.#pinned === '') this.#decide(nodes)
    for (const node of nodes)
      if (this.#isSettled && node.genesis !== null && node.genesis === this.hash)
        this.#members.add(node)
  }

  #decide(nodes: readonly N[]): void {
    if (!this.#isSettled) {
      this.hash = mostReported(nodes)
      this.#isSettled = this.hash !== null && nodes.every(({ wasProbed }) => wasProbed)
      return
    }
    const reachable = nodes.filter(({ genesis, isReachable }) => isReachable && genesis !== null)
    const next = reachable[0]?.genesis ?? null
    if (next === null || next === this.hash) return
    if (reachable.some(({ genesis }) => genesis !== next)) return
    if (!reachable.some((node) => this.#members.has(node))) return
    this.hash = next
    this.restarts++
  }
}

/** The first of several that are equally frequent. */
function mostReported(nodes: readonly GenesisReport[]): string | null {
  const counts = new Map<string, number>()
  for (const { genesis } of nodes)
    if (genesis !== null) counts.set(genesis, (counts.get(genesis) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return [...counts].find(([, count]) => count === most)?.[0] ?? null
}

// Calls of the service itself to a node: one JSON-RPC call, its reply parsed.

const timeoutMs = 5_000
/** Nodes that a read is tried at. */
const readNodesMax = 2

export const unreached = refuse('unavailable', 'upstream', 'the upstream cannot be reached')

export interface RpcReply {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message?: unknown; data?: unknown } | null
}

/** Null when no node answered; a read that failed is retried at another node. Never rejects. */
export async function readNodes(
  set: UpstreamSet,
  method: string,
  body: string,
  options: PickOptions = {},
): Promise<RpcReply | null> {
  const exclude: UpstreamNode[] = []
  while (exclude.length < readNodesMax) {
    const node = set.pick(method, { ...options, exclude })
    if (node === null) return null
    const reply = await callNode(node, body)
    if (reply.ok) return reply.value
    exclude.push(node)
  }
  return null
}

/** Sent once. Refused as `unavailable` when there is no reply. Never rejects. */
export async function callNode(
  node: UpstreamNode,
  body: string,
  options: { readonly isSend?: boolean } = {},
): Promise<Outcome<RpcReply>> {
  const response = await node.call(body, { ...options, timeoutMs }).response
  if (!response.ok) return unreached
  const { status } = response
  const text = (await readText(response)) ?? ''
  if (status === 429 || status >= 500)
    return refuse('unavailable', 'upstream', `the upstream answered ${status}`)
  try {
    // Some nodes return errors with another status; a body that is no JSON object is no reply. To
    // compare or format one that nests deeper than any answer would exhaust the stack.
    const isReadable = skipValue(text, skipSpace(text, 0), DEPTH_MAX) > 0
    const reply: unknown = isReadable ? JSON.parse(text) : null
    if (typeof reply === 'object' && reply !== null && isAnswer(node, reply)) return accept(reply)
  } catch {
    // Refused below.
  }
  return refuse('unavailable', 'upstream', 'the answer of the upstream is not that to the call')
}

/** False for a result under another id than ours, which is that of `bodyOf`, and for neither. */
export function isAnswer(node: UpstreamNode, { id, result, error = null }: RpcReply): boolean {
  if (error !== null) return typeof error.code === 'number'
  if (result === undefined || id === 1) return result !== undefined
  node.distrust('id')
  return false
}
