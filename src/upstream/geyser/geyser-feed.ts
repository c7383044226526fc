// One geyser stream out of a set of nodes, kept alive. Thread: main. Started by the topology.
// It picks a node, asks it from where it can begin, follows it until it fails, falls silent or
// behind, and goes to the next with the slot that the sink still needs.
//
//   pick ──► ask: first slot, newest slot ──► Subscribe from_slot ──► messages ──► sink
//     ▲                                                                   │
//     └── rest a little ◄── ended, silent 3 s, no news for long, too far behind
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import type { Outcome } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import type { GeyserSink } from '../ports.ts'
import type { UpstreamNode } from '../upstream-node.ts'
import { GeyserClient, type GeyserEnd } from './geyser-client.ts'
import {
  firstAvailableIn,
  pingRequest,
  slotIn,
  solanaVersionIn,
  subscribeRequest,
} from './geyser-requests.ts'
import { GeyserRests } from './geyser-rests.ts'
import type { FeedCounts } from './meters.ts'

/** Before the first connection: enough slots that the finalized ones to come are whole. */
const warmSlots = 40
const askMsMax = 3_000
const watchEveryMs = 250
/** Connected, and no news: a stream that hangs behind a proxy, or a chain that stands still. */
const stalledMs = 10_000
const stalledAloneMs = 30_000
/** Behind the best node of the set for so long. */
const laggingMs = 3_000
/** Without a stream for so long it is down for its readers; shorter is nobody's business. */
const graceMs = 5_000
const outOfRange = 11
const unimplemented = 12
/** How nodes say that they cannot begin there: too old, no replay, not allowed. */
const noReplay: ReadonlySet<number> = new Set([3, outOfRange, unimplemented, 13])

export interface FeedSet {
  readonly name: string
  readonly nodes: readonly UpstreamNode[]
  readonly section: { readonly lagSlots: number }
  slot(): number | null
}

export interface GeyserFeedDeps {
  readonly sink: GeyserSink
  readonly clock: Clock
  readonly log: Log
}

export class GeyserFeed {
  readonly counts: FeedCounts = { messages: 0, bytes: 0, connections: 0, failures: 0 }
  readonly #set: FeedSet
  readonly #deps: GeyserFeedDeps
  readonly #throttle = new LogThrottle()
  readonly #rests: GeyserRests
  readonly #listeners = new Set<() => void>()
  readonly #timer: NodeJS.Timeout
  #client: GeyserClient | null = null
  #node: UpstreamNode | null = null
  /** Ends the connection at hand. */
  #leave: ((end: GeyserEnd) => void) | null = null
  /** When a stream was open last, when it told something, when it was not behind. */
  #openMs: number
  #newsMs: number
  #aheadMs: number
  #isUp = true
  #isStopped = false
  #version = ''

  /** Connects at once. */
  constructor(set: FeedSet, deps: GeyserFeedDeps) {
    this.#set = set
    this.#deps = deps
    this.#rests = new GeyserRests(set.nodes, deps.clock)
    this.#openMs = deps.clock.monotonicMs()
    this.#newsMs = this.#openMs
    this.#aheadMs = this.#openMs
    // After the sockets of the same turn, so that a stall of our own is nobody's silence.
    this.#timer = setInterval(() => setImmediate(() => this.#watch()), watchEveryMs).unref()
    void this.#run()
  }

  /** False when no node of the set has a stream open, for more than a moment. */
  isUp(): boolean {
    return this.#isUp
  }

  watch(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** What the node calls its validator; '' before the first connection. */
  solanaVersion(): string {
    return this.#version
  }

  /** Whom it follows, by name; null while it is looking. */
  get node(): string | null {
    return this.#node?.name ?? null
  }

  stop(): void {
    if (this.#isStopped) return
    this.#isStopped = true
    clearInterval(this.#timer)
    this.#leave?.(stopped)
    this.#client?.close()
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const node = this.#rests.pick()
      if (node === null) {
        await pause(this.#rests.nextMs())
        continue
      }
      const end = await this.#follow(node)
      this.#client?.close()
      this.#client = null
      this.#node = null
      if (this.#isStopped) return
      this.#rests.failed(node)
      this.#tell(node, end)
    }
  }

  /** To the end of a connection, whatever ends it. */
  async #follow(node: UpstreamNode): Promise<GeyserEnd> {
    const { sink, clock } = this.#deps
    const { grpc: address, xToken } = node.addresses
    if (!URL.canParse(address)) return noAddress
    const client = new GeyserClient({ address, xToken }, clock)
    this.#client = client
    const [replay, slot, version] = await Promise.all(
      ['SubscribeReplayInfo', 'GetSlot', 'GetVersion'].map((method) =>
        client.call(method, nothing, askMsMax),
      ),
    )
    const gone = goneIn(slot!)
    if (gone !== null) return gone
    if (version!.ok) this.#version = solanaVersionIn(version!.value)
    const newest = slot!.ok ? slotIn(slot!.value) : null
    const wanted = sink.resumeFrom()
    const told = sink.newestSlot()
    if (newest !== null && told !== null && told - newest > this.#set.section.lagSlots)
      return { ...behind, details: `${told - newest} slots behind` }
    const first = replay!.ok ? firstAvailableIn(replay!.value) : null
    let from = wanted ?? (newest === null ? null : Math.max(0, newest - warmSlots))
    if (from !== null && first !== null && from < first) {
      if (wanted !== null && this.#rests.hasOther(node)) return cannotReplay
      from = first
    }
    if (this.#rests.isWithoutReplay(node)) from = null
    return this.#listen(client, node, from)
  }

  #listen(client: GeyserClient, node: UpstreamNode, from: number | null): Promise<GeyserEnd> {
    const { sink, clock } = this.#deps
    const { counts } = this
    return new Promise((resolve) => {
      let hasBegun = false
      const stream = client.subscribe(subscribeRequest(from), {
        opened: () => this.#opened(node, from),
        message: (bytes) => {
          if (!hasBegun) {
            hasBegun = true
            this.#rests.began(node)
            sink.opened(from)
          }
          counts.messages++
          counts.bytes += bytes.length
          if (isPing(bytes)) stream.send(pong)
          else {
            sink.message(bytes)
            this.#newsMs = clock.monotonicMs()
          }
        },
        ended: (end) => {
          if (!hasBegun && from !== null && end.kind === 'status' && noReplay.has(end.code))
            this.#rests.hasNoReplay(node)
          resolve(end)
        },
      })
      this.#leave = (end) => {
        this.#leave = null
        stream.cancel()
        resolve(end)
      }
    })
  }

  #opened(node: UpstreamNode, fromSlot: number | null): void {
    const { log, clock } = this.#deps
    this.#node = node
    this.#newsMs = clock.monotonicMs()
    this.#aheadMs = this.#newsMs
    this.counts.connections++
    log.info('geyser stream open', { node: node.name, fromSlot })
  }

  #watch(): void {
    if (this.#isStopped) return
    const { clock, sink } = this.#deps
    const nowMs = clock.monotonicMs()
    const node = this.#node
    if (node !== null) this.#openMs = nowMs
    this.#judge(nowMs - this.#openMs < graceMs)
    const newest = sink.newestSlot()
    if (node === null || newest === null) return
    node.sawSlot(newest, Commitment.processed)
    const best = this.#set.slot() ?? newest
    if (best - newest <= this.#set.section.lagSlots) this.#aheadMs = nowMs
    const isAlone = !this.#rests.hasOther(node)
    const quietMs = nowMs - this.#newsMs
    if (quietMs >= (isAlone ? stalledAloneMs : stalledMs)) this.#leave?.(stalled)
    else if (nowMs - this.#aheadMs >= laggingMs && !isAlone) this.#leave?.(behind)
  }

  #judge(isUp: boolean): void {
    if (isUp === this.#isUp) return
    this.#isUp = isUp
    const fields = { set: this.#set.name }
    if (isUp) this.#deps.log.info('the geyser stream of a set is back', fields)
    else this.#deps.log.warn('no node of a set sends its geyser stream', fields)
    for (const listener of this.#listeners) listener()
  }

  #tell(node: UpstreamNode, { kind, code, details }: GeyserEnd): void {
    const { log, clock } = this.#deps
    this.counts.failures++
    if (!this.#throttle.allows(node.name, clock.monotonicMs())) return
    // The node's own words stay out: they may hold what only the operator's file should.
    const reason = kind === 'status' ? `status ${code}` : details || kind
    log.warn('a geyser stream ended', { node: node.name, reason })
  }
}

const nothing = new Uint8Array(0)
const none = { kind: 'connection', code: 2 } as const
const stopped: GeyserEnd = { ...none, details: 'stopped' }
const stalled: GeyserEnd = { ...none, details: 'it has no news' }
const noAddress: GeyserEnd = { ...none, details: 'its address cannot be read' }
const behind: GeyserEnd = { ...none, details: 'it is too far behind' }
const cannotReplay: GeyserEnd = { ...none, details: 'it cannot replay far enough' }

const pong = pingRequest(1)
const pingTag = 0x32

/** An update that is a ping; those carry no filter's name, so that it stands first. */
function isPing(message: Uint8Array): boolean {
  return message[0] === pingTag
}

/** How the connection ended; null when the node answered, even that it has no such method. */
function goneIn(answer: Outcome<Uint8Array>): GeyserEnd | null {
  if (answer.ok) return null
  // Reason for the cast: the client refuses with nothing else.
  const end = answer.refusal.data as GeyserEnd
  return end.kind === 'status' ? null : end
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
