// The geyser streams of a set of nodes, merged and with failover.
// Each stream picks a node that no other one reads, queries its replay range, and reads it until it
// fails, times out or lags; then it reconnects to the next node and resumes at the first slot that
// the sink has incomplete. The sink publishes what arrives first: with several streams, one that
// ends or is silent costs neither a gap nor a wait.
//
//   pick ──► get: first slot, newest slot ──► Subscribe from_slot ──► messages ──► sink
//     ▲                                                                   │
//     └── back-off ◄── ended, silent 3 s, no updates for 10 s, lagging, not believed ◄──┘
//
// Where no node follows what was published, as after a reset of the chain or a node that lied about
// its slots, the stream begins anew: streams of customers end, and nothing known before counts.
import { backoffMs, type Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import type { Outcome } from '../../base/errors.ts'
import type { SlotTime } from '../../base/slot-time.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { batchColumn, batchColumns, type GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import { updateField } from '../../chain/solana/geyser-parts.ts'
import { type NodeState, unbelieved } from '../node-pool/node-health.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import { slotMsMin } from '../node-pool/upstream-set.ts'
import type { GeyserSink } from '../ports.ts'
import {
  blockIn,
  firstAvailableIn,
  type GeyserEnd,
  latestBlockhashRequest,
  pingRequest,
  slotIn,
  solanaVersionIn,
  subscribeRequest,
} from './geyser-client.ts'
import type { GeyserConnection, IngestWorker } from './ingest.ts'
import type { FeedCounts } from './meters.ts'

/** Replayed on the first connection, so that the next finalized slots are complete. */
const defaultWarmSlots = 40
const askTimeoutMs = 3_000
const watchEveryMs = 250
/** Timeout without updates: a hanging proxy, or a halted chain. */
const stalledMs = 10_000
/** The same without another node to fail over to. */
const stalledAloneMs = 30_000
/** How long a node may lag the best node of the set before a failover. */
const laggingMs = 3_000
/** The same of one that lags by less, while another is nearer than `farMs` to the head. */
const behindMs = 1_000
const farMs = 2_000
/** A stream without updates is frozen when the node's own slot is so far above it. */
const frozenSlots = 5
/** How long a set may take to catch up with what was published before the stream begins anew. */
const catchUpMs = 30_000
/** How long readers are kept waiting for a reconnect before the set counts as down. */
const graceMs = 5_000
const unimplemented = 12
/** gRPC codes with which nodes refuse from_slot: not allowed, too old, no replay, too old. */
const replayRefusals: ReadonlySet<number> = new Set([3, 11, unimplemented, 13])
/**
 * A node evicts its oldest slot with every new one, also between its answer and our request: after
 * a refusal the next try starts so much later. After the last one it counts as without replay.
 */
const laterMs = 3_200
const replayTriesMax = 4

interface FeedSet {
  readonly name: string
  readonly nodes: readonly UpstreamNode[]
  readonly section: { readonly merge: number }
  /** Slots by which its nodes may differ. */
  readonly lagSlots: number
  readonly slotTime: SlotTime
  /** The slot that its nodes are compared with; null when none reported one. */
  readonly head: number | null
  /** How often its chain began anew. */
  readonly restarts: number
  /** The node whose stream is published; of several, that of the last confirmed block. */
  followed: UpstreamNode | null
  slot(): number | null
}

interface GeyserFeedDeps {
  /** Slots replayed on the first connection. */
  readonly warmSlots?: number | undefined
  readonly ingest: Pick<IngestWorker, 'connect'>
  /** Resolves when the sink knows where to resume. */
  readonly ready?: Promise<void> | undefined
  readonly sink: GeyserSink
  /** Whether the set's nodes know a finalized block of a stream; null when none can say. */
  knowsBlockhash?(blockhash: string, slot: number): Promise<boolean | null>
  readonly clock: Clock
  readonly log: Log
}

/** What the streams of a feed share. */
interface Shared extends GeyserFeedDeps {
  readonly set: FeedSet
  readonly counts: FeedCounts
  readonly rotation: NodeRotation
  readonly throttle: LogThrottle
  readonly streams: FeedStream[]
  /** The newest published slot, and since when. */
  newest: { readonly slot: number | null; readonly sinceMs: number }
  /** Of the chain that is published. */
  restarts: number
  version: string
  /** Streams of customers end, and begin again with the next connection. */
  setDown(): void
}

export class GeyserFeed {
  readonly counts: FeedCounts = { messages: 0, bytes: 0, connections: 0, failures: 0 }
  readonly #shared: Shared
  readonly #listeners = new Set<() => void>()
  readonly #timer: NodeJS.Timeout
  /** When a stream was last open. */
  #openMs: number
  #isUp = true
  #isStopped = false

  /** Connects at once. */
  constructor(set: FeedSet, deps: GeyserFeedDeps) {
    this.#openMs = deps.clock.monotonicMs()
    this.#shared = {
      ...deps,
      set,
      counts: this.counts,
      rotation: new NodeRotation(set, deps.clock),
      throttle: new LogThrottle(),
      streams: [],
      newest: { slot: null, sinceMs: this.#openMs },
      restarts: set.restarts,
      version: '',
      setDown: () => this.#setUp(false),
    }
    // After socket reads of the same turn: event-loop stalls must not count as upstream silence.
    this.#timer = setInterval(() => setImmediate(() => this.#watch()), watchEveryMs).unref()
    const { streams } = this.#shared
    for (let number = 0; number < set.section.merge; number++)
      streams.push(new FeedStream(number, this.#shared))
    for (const stream of streams) void stream.run()
  }

  /** False when no node of the set has had a stream open for `graceMs`. */
  isUp(): boolean {
    return this.#isUp
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The validator's version; '' before the first connection. */
  solanaVersion(): string {
    return this.#shared.version
  }

  /** Names of the connected nodes; none while reconnecting. */
  get nodes(): string[] {
    return this.#shared.streams.flatMap(({ node }) => (node === null ? [] : [node.name]))
  }

  stop(): void {
    if (this.#isStopped) return
    this.#isStopped = true
    clearInterval(this.#timer)
    for (const stream of this.#shared.streams) stream.stop()
  }

  #watch(): void {
    if (this.#isStopped) return
    const { clock, sink, streams } = this.#shared
    const nowMs = clock.monotonicMs()
    if (streams.some(({ node }) => node !== null)) this.#openMs = nowMs
    this.#setUp(nowMs - this.#openMs < graceMs)
    const newest = sink.newestSlot()
    if (newest !== this.#shared.newest.slot) this.#shared.newest = { slot: newest, sinceMs: nowMs }
    for (const stream of streams) stream.watch(newest, nowMs)
  }

  #setUp(isUp: boolean): void {
    if (isUp === this.#isUp) return
    this.#isUp = isUp
    const { log, set } = this.#shared
    if (isUp) log.info('geyser stream of the set restored', { set: set.name })
    else log.warn('geyser stream of the set is down: no node delivers it', { set: set.name })
    for (const listener of this.#listeners) listener()
  }
}

/** One stream: from one node at a time. */
class FeedStream {
  /** The connected node; null while reconnecting. */
  node: UpstreamNode | null = null
  readonly #number: number
  readonly #shared: Shared
  #client: GeyserConnection | null = null
  /** Ends the current connection. */
  #leave: ((end: GeyserEnd) => void) | null = null
  /** Times when it last sent an update or was asked, did not lag, and was near the head. */
  #updateMs = 0
  #inSyncMs = 0
  #nearMs = 0
  /** The newest slot that this connection has sent. */
  #newest = 0
  #isStopped = false

  constructor(number: number, shared: Shared) {
    this.#number = number
    this.#shared = shared
  }

  stop(): void {
    this.#isStopped = true
    this.#leave?.(stopped)
    this.#client?.close()
  }

  async run(): Promise<void> {
    const { rotation, sink, ready } = this.#shared
    await ready
    while (!this.#isStopped) {
      const node = rotation.pick()
      if (node === null) {
        await new Promise((resolve) => setTimeout(resolve, rotation.nextMs()).unref())
        continue
      }
      const end = await this.#follow(node)
      this.#client?.close()
      this.#client = null
      this.node = null
      if (this.#isStopped) return
      sink.closed(this.#number)
      rotation.failed(node)
      this.#report(node, end)
    }
  }

  /** Resolves when the connection ends, for any reason. */
  async #follow(node: UpstreamNode): Promise<GeyserEnd> {
    const { ingest, sink, set, warmSlots = defaultWarmSlots } = this.#shared
    const { grpc: address, xToken } = node.addresses
    if (!URL.canParse(address)) return noAddress
    const client = await ingest.connect({ address, xToken })
    if (client === null) return noWorker
    this.#client = client
    if (this.#isStopped) return stopped
    const [isForeign, replay, slot, version] = await Promise.all([
      this.#isForeign(client),
      ...['SubscribeReplayInfo', 'GetSlot', 'GetVersion'].map((method) =>
        client.call(method, nothing, askTimeoutMs),
      ),
    ])
    const end = endIn(slot!)
    if (end !== null) return end
    if (isForeign) return this.#faulty(node, foreign)
    if (version!.ok) this.#shared.version = solanaVersionIn(version!.value)
    const newest = slot!.ok ? slotIn(slot!.value) : null
    if (this.#isAbandoned(node, newest)) this.#beginAnew()
    // Before a wait for another stream, which may be long.
    const behind = (sink.newestSlot() ?? 0) - (newest ?? Number.POSITIVE_INFINITY)
    if (behind > set.lagSlots) return left(`${behind} slots behind`)
    const first = firstIn(replay!)
    if (newest !== null) await this.#othersReplayed(node, first, newest)
    if (this.#isStopped) return stopped
    const resumeSlot = sink.resumeFrom()
    // A slot of an earlier run that the chain has not reached: it began anew meanwhile.
    const isNew = sink.newestSlot() === null
    const isAhead = isNew && resumeSlot !== null && resumeSlot > (newest ?? resumeSlot)
    const wanted = isAhead ? null : resumeSlot
    // A node without a block is inside of its first slot.
    const start = wanted ?? (newest === null ? first : Math.max(0, newest - warmSlots))
    if (start === null || this.#shared.rotation.of(node).hasNoReplay)
      return (await this.#read(client, node, null)).end
    return this.#replay(client, node, { start, isResumed: wanted !== null, first })
  }

  /**
   * A node that cannot replay what is incomplete begins once another stream has replayed up to it:
   * slots that it finalizes before would leave out those in between.
   */
  async #othersReplayed(node: UpstreamNode, first: number | null, newest: number): Promise<void> {
    const { sink, set, rotation, streams, clock } = this.#shared
    const others = streams.filter((other) => other !== this)
    const nodes = set.nodes.filter((other) => other !== node && other.has('grpc'))
    const untilMs = clock.monotonicMs() + askTimeoutMs
    while (others.length > 0 && !this.#isStopped) {
      const resumeSlot = sink.resumeFrom()
      const isAble = !rotation.of(node).hasNoReplay && (first ?? 0) <= (resumeSlot ?? 0)
      const open = others.filter((other) => other.node !== null)
      const isLate = clock.monotonicMs() >= untilMs
      const isOver =
        open.length === 0
          ? isLate || nodes.every((other) => rotation.of(other).hasNoReplay)
          : open.every((other) => other.#newest + set.lagSlots >= newest)
      if (resumeSlot === null || isAble || isOver) return
      await new Promise((resolve) => setTimeout(resolve, watchEveryMs).unref())
    }
  }

  /** Whether its finalized block is unknown to the set: geyser has no call for the genesis hash. */
  async #isForeign(client: GeyserConnection): Promise<boolean> {
    const { knowsBlockhash } = this.#shared
    if (knowsBlockhash === undefined) return false
    const answer = await client.call('GetLatestBlockhash', latestBlockhashRequest, askTimeoutMs)
    if (!answer.ok) return false
    const { slot, blockhash } = blockIn(answer.value)
    return (await knowsBlockhash(blockhash, slot)) === false
  }

  /** The stream of a node is wrong, whatever its JSON-RPC is. */
  #faulty(node: UpstreamNode, end: GeyserEnd): GeyserEnd {
    node.streamFault = end.details
    node.wrongs.stream++
    return end
  }

  /** Reads from a slot on, or from the first one that the node can replay. */
  async #replay(
    client: GeyserConnection,
    node: UpstreamNode,
    want: { readonly start: number; readonly isResumed: boolean; readonly first: number | null },
  ): Promise<GeyserEnd> {
    const { rotation, set } = this.#shared
    const { start, isResumed } = want
    let { first } = want
    for (let tries = 1; ; tries++) {
      const isTooOld = first !== null && start < first
      if (isTooOld && isResumed && rotation.others(node).length > 0) return cannotReplay
      const from = isTooOld ? first! + (tries - 1) * set.slotTime.slotsIn(laterMs) : start
      const { end, isReplayRefused } = await this.#read(client, node, from)
      if (!isReplayRefused || this.#isStopped) return end
      if (end.code === unimplemented || tries === replayTriesMax) {
        rotation.of(node).hasNoReplay = true
        return end
      }
      first = firstIn(await client.call('SubscribeReplayInfo', nothing, askTimeoutMs))
    }
  }

  /** Whether no node of the set is on the chain that was published, or soon will be. */
  #isAbandoned(node: UpstreamNode, newest: number | null): boolean {
    const { sink, set, rotation, clock, streams, restarts } = this.#shared
    const published = sink.newestSlot()
    if (published === null) return false
    if (set.restarts !== restarts) return true
    if (streams.some((other) => other !== this && other.node !== null)) return false
    const unknown = rotation.others(node).length > 0 ? published : 0
    const behind = published - Math.max(newest ?? published, set.slot() ?? unknown)
    if (behind <= set.lagSlots) return false
    const waitedMs = clock.monotonicMs() - this.#shared.newest.sinceMs
    return waitedMs >= catchUpMs || behind > catchUpMs / slotMsMin
  }

  #beginAnew(): void {
    const { set, sink, streams } = this.#shared
    this.#shared.restarts = set.restarts
    for (const other of streams) if (other !== this) other.#leave?.(otherChain)
    sink.beginAnew()
    this.#shared.setDown()
  }

  #read(client: GeyserConnection, node: UpstreamNode, from: number | null): Promise<ReadEnd> {
    const { sink, clock, counts, rotation } = this.#shared
    this.#updateMs = clock.monotonicMs()
    return new Promise((resolve) => {
      let hasStarted = false
      const stream = client.subscribe(subscribeRequest(from), {
        opened: () => this.#opened(node, from),
        batch: (batch) => {
          if (!hasStarted) {
            hasStarted = true
            rotation.started(node)
            sink.opened(from, this.#number, node.name)
          }
          const messages = batch.table.length / batchColumns
          counts.messages += messages
          counts.bytes += batch.messageBytes
          const { pings, newest } = readTable(batch)
          this.#newest = Math.max(this.#newest, newest)
          for (let sent = 0; sent < pings; sent++) stream.send(pong)
          if (messages > pings) this.#updateMs = clock.monotonicMs()
          if (!sink.batch(batch, this.#number)) this.#leave?.(tooFar)
        },
        ended: (end) => {
          const isRefusal = end.kind === 'status' && replayRefusals.has(end.code)
          resolve({ end, isReplayRefused: isRefusal && !hasStarted && from !== null })
        },
      })
      this.#leave = (end) => {
        this.#leave = null
        stream.cancel()
        resolve({ end, isReplayRefused: false })
      }
    })
  }

  #opened(node: UpstreamNode, fromSlot: number | null): void {
    const { log, clock, counts, set } = this.#shared
    this.node = node
    set.followed = node
    this.#updateMs = this.#inSyncMs = this.#nearMs = clock.monotonicMs()
    this.#newest = 0
    counts.connections++
    log.info('geyser stream opened', { node: node.name, fromSlot })
  }

  /** Leaves a node that is silent, lags, or is on another chain. `published` is the newest slot. */
  watch(published: number | null, nowMs: number): void {
    const { set, rotation, streams, restarts, newest: last } = this.#shared
    const { node } = this
    if (node !== null && unbelieved.has(node.state)) this.#leave?.(untrusted)
    const others = rotation.others(node)
    const isOnly =
      others.length === 0 && !streams.some((other) => other !== this && other.node !== null)
    const quietMs = nowMs - this.#updateMs
    // Also when it was never opened, or before anything is published.
    if (quietMs >= (isOnly ? stalledAloneMs : stalledMs)) this.#leave?.(stalled)
    if (node === null || published === null) return
    // Alone it replays what was published: that is no lag.
    const newest = streams.length === 1 ? published : Math.min(this.#newest, published)
    if (newest > 0) node.observeSlot(newest, Commitment.processed)
    const best = set.slot() ?? published
    if (best - newest <= set.lagSlots) this.#inSyncMs = nowMs
    if (rotation.isNear(node)) this.#nearMs = nowMs
    const isStuck = published - best > set.lagSlots && nowMs - last.sinceMs >= laggingMs
    const isFrozen = quietMs >= laggingMs && node.probed.slot - newest >= frozenSlots
    if (set.restarts !== restarts || isStuck) this.#leave?.(otherChain)
    else if (isFrozen && !isOnly) this.#leave?.(this.#faulty(node, frozen))
    else if (node.state === 'drained' && !isOnly) this.#leave?.(drained)
    else if (nowMs - this.#inSyncMs >= laggingMs && others.length > 0) this.#leave?.(lagging)
    else if (nowMs - this.#nearMs >= behindMs && others.some((other) => rotation.isNear(other)))
      this.#leave?.(lagging)
  }

  #report(node: UpstreamNode, { kind, code, details }: GeyserEnd): void {
    const { log, clock, throttle, counts } = this.#shared
    counts.failures++
    if (!throttle.allows(node.name, clock.monotonicMs())) return
    // Without the node's own message: it may contain secrets of the configuration.
    const reason = kind === 'status' ? `status ${code}` : details || kind
    log.warn('geyser stream ended', { node: node.name, reason })
  }
}

interface ReadEnd {
  readonly end: GeyserEnd
  /** The node refused the slot to start from. */
  readonly isReplayRefused: boolean
}

const nothing = new Uint8Array(0)
const left = (details: string): GeyserEnd => ({ kind: 'connection', code: 2, details })
const stopped = left('stopped')
const stalled = left('no updates')
const noWorker = left('no worker')
const noAddress = left('invalid address')
const lagging = left('it lags too far behind the set')
const tooFar = left('its slot is above what the set can have reached')
const otherChain = left('it does not follow what was published')
const untrusted = left('its node is not believed')
const drained = left('its node is drained')
const frozen = left('its geyser stream is silent while its slot advances')
const foreign = left('its geyser stream is on another chain')
const cannotReplay = left('its replay does not reach back far enough')

const pong = pingRequest(1)

function readTable({ table }: GeyserBatch): { pings: number; newest: number } {
  let pings = 0
  let newest = 0
  for (let row = 0; row < table.length; row += batchColumns) {
    if (table[row + batchColumn.field] === updateField.ping) pings++
    newest = Math.max(newest, table[row + batchColumn.slot]!)
  }
  return { pings, newest }
}

/** How the connection ended; null when the node answered, even with an error status. */
function endIn(answer: Outcome<Uint8Array>): GeyserEnd | null {
  if (answer.ok) return null
  // Reason for the cast: the client's refusals carry no other data.
  const end = answer.refusal.data as GeyserEnd
  return end.kind === 'status' ? null : end
}

/** The first slot that a node can replay; null when it does not say. */
function firstIn(answer: Outcome<Uint8Array>): number | null {
  return answer.ok ? firstAvailableIn(answer.value) : null
}

// Picks the node of a set to stream from next; no two streams read one node.
// A node that failed is retried with exponential back-off.

const backoff = { firstMs: 250, lastMs: 2_000 }
/** Longest wait before the states of the nodes are checked again. */
const pollMs = 250

interface Retry {
  atMs: number
  failures: number
  /** It refused from_slot. */
  hasNoReplay: boolean
  /** A stream reads it. */
  isTaken: boolean
}

/**
 * A node whose JSON-RPC is down may still stream; a drained one only where there is no other. One
 * that is not believed never does.
 */
const order: Readonly<Partial<Record<NodeState, number>>> = {
  up: 0,
  probing: 1,
  lagging: 2,
  down: 3,
  drained: 4,
}
/** Added for a node whose stream was bad while its JSON-RPC was fine. */
const faultRank = 40

class NodeRotation {
  readonly #set: FeedSet
  readonly #nodes: readonly UpstreamNode[]
  readonly #clock: Clock
  readonly #retries = new Map<UpstreamNode, Retry>()

  constructor(set: FeedSet, clock: Clock) {
    this.#set = set
    this.#nodes = set.nodes.filter((node) => node.has('grpc'))
    this.#clock = clock
    for (const node of this.#nodes)
      this.#retries.set(node, { atMs: 0, failures: 0, hasNoReplay: false, isTaken: false })
  }

  /** Takes the best node that is not backing off, until it has failed; null when there is none. */
  pick(): UpstreamNode | null {
    const nowMs = this.#clock.monotonicMs()
    const isFirst = !this.#nodes.some((node) => this.of(node).isTaken)
    const ready = this.#nodes.filter(
      (node) =>
        this.#isReady(node, nowMs) &&
        order[node.state] !== undefined &&
        (isFirst || node.state !== 'drained'),
    )
    const rank = (node: UpstreamNode) =>
      order[node.state]! * 4 +
      (this.isNear(node) ? 0 : 2) +
      (node.weight > 0 ? 0 : 1) +
      (node.streamFault === '' ? 0 : faultRank) +
      this.of(node).failures * 0.1
    const best = ready.sort((a, b) => rank(a) - rank(b) || b.weight - a.weight)[0] ?? null
    if (best !== null) this.of(best).isTaken = true
    return best
  }

  /** Milliseconds until a node can be retried. */
  nextMs(): number {
    const nowMs = this.#clock.monotonicMs()
    const free = this.#nodes.filter((node) => !this.of(node).isTaken)
    const waits = free.map((node) => this.of(node).atMs - nowMs)
    return Math.max(1, Math.min(pollMs, ...waits))
  }

  /** Whether a node is at most `farMs` behind the head of the set, or may be. */
  isNear(node: UpstreamNode): boolean {
    const { head, slotTime } = this.#set
    return (head ?? 0) - (node.slot() ?? head ?? 0) <= slotTime.slotsIn(farMs)
  }

  /** Other nodes that are available now. */
  others(node: UpstreamNode | null): UpstreamNode[] {
    const nowMs = this.#clock.monotonicMs()
    const isFit = ({ state, streamFault }: UpstreamNode) => state === 'up' && streamFault === ''
    return this.#nodes.filter((one) => one !== node && isFit(one) && this.#isReady(one, nowMs))
  }

  failed(node: UpstreamNode): void {
    const retry = this.of(node)
    retry.isTaken = false
    retry.failures++
    retry.atMs = this.#clock.monotonicMs() + backoffMs(retry.failures, backoff)
  }

  started(node: UpstreamNode): void {
    Object.assign(this.of(node), { failures: 0, hasNoReplay: false })
    node.streamFault = ''
  }

  #isReady(node: UpstreamNode, nowMs: number): boolean {
    const { isTaken, atMs } = this.of(node)
    return !isTaken && atMs <= nowMs
  }

  of(node: UpstreamNode): Retry {
    // Reason for the assertion: the constructor adds every node with a geyser address.
    return this.#retries.get(node)!
  }
}
