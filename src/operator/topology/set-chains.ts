// The chain of each set of nodes: geyser stream in its worker -> slots -> hub.
// A set's stream carries its whole chain, so it is opened only for sets with readers: the default
// set and those of subscriptions at the start, others with their first caller.
import { join } from 'node:path'
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import type { Fault } from '../../base/errors.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { encodeBase58 } from '../../chain/solana/base58.ts'
import { lowestVersion, oldestShapes, type Shapes, shapesOf } from '../../chain/solana/version.ts'
import { StreamAnswers, type StreamAnswersDeps } from '../../streams/answers/stream-answers.ts'
import { SolanaUpstream } from '../../streams/flows/solana-upstream.ts'
import {
  BlockFiguresTracker,
  gatewayBounds,
  Heads,
  openSolanaHub,
  type SolanaHub,
} from '../../streams/geyser/hub.ts'
import { PublishedSlots } from '../../streams/geyser/position.ts'
import type { HubBounds } from '../../streams/hub/hub.ts'
import { SharedTurns } from '../../streams/hub/replay-turns.ts'
import { MINT_BYTES_READ } from '../../streams/pubsub/account-notifications.ts'
import type { PubsubChain } from '../../streams/pubsub/chain.ts'
import type { StreamLogReading } from '../../streams/segments/meters.ts'
import type { LogBounds } from '../../streams/segments/segment-writer.ts'
import { StreamLog, startWriterThread } from '../../streams/segments/stream-log.ts'
import { answersFromStream, defaultSet } from '../../upstream/config.ts'
import { GeyserFeed } from '../../upstream/geyser/geyser-feed.ts'
import { IngestWorker } from '../../upstream/geyser/ingest.ts'
import type { FeedReading } from '../../upstream/geyser/meters.ts'
import type { UpstreamNode } from '../../upstream/node-pool/upstream-node.ts'
import type { UpstreamSet } from '../../upstream/node-pool/upstream-set.ts'
import type { Upstreams } from '../../upstream/node-pool/upstreams.ts'
import {
  knowsBlockhash,
  readAccount,
  readAccounts,
  readSignatureStatus,
} from '../../upstream/set-reads.ts'
import type { Recorder } from '../record/recorder.ts'

/** How far a stream may lag the best node of its set and still answer calls. */
const behindMsMax = 3_200

/** The chain of a set, computed from its nodes' stream. */
export interface SetChain {
  readonly hub: SolanaHub
  /** Null where it is turned off. */
  readonly streamLog: StreamLog | null
  readonly published: PublishedSlots | null
  readonly heads: Heads
  /** After the confirmed block; null when unknown, as while its stream is closed or stalls. */
  isBlockhashValid(blockhash: Uint8Array): boolean | null
  isUp(): boolean
  watch(listener: () => void): () => void
  solanaVersion(): string
  shapes(): Shapes
  slot(commitment: Commitment): number
  signatureStatus: PubsubChain['signatureStatus']
  readAccounts: PubsubChain['readAccounts']
  /** Null where it is turned off. */
  readonly answers: StreamAnswers | null
}

/** For `sluice status`; no address in it. */
export interface GeyserReport {
  readonly set: string
  readonly isUp: boolean
  /** The node that sends it now; of several, the first. */
  readonly node: string | null
  /** Of the nodes that had a stream, by their names. */
  readonly nodes: Readonly<Record<string, NodeReport>>
  readonly slot: number | null
  /** The measured slot time. */
  readonly slotMs: number
  readonly gapSlots: number
  /** How often the chain began anew. */
  readonly restarts: number
}

export interface NodeReport {
  readonly isOpen: boolean
  /** Its first arrivals among what was published, between 0 and 1; null before the first item. */
  readonly firstShare: number | null
}

export interface SetChainsDeps {
  /** Default: as yellowstone keeps, and a minute of shorter slots. */
  readonly bounds?: HubBounds
  /** Slots that a set replays at the start, where it is not the default. */
  readonly warmSlots?: Readonly<Record<string, number>>
  /** Where and how much is kept beyond memory; null for nothing. */
  readonly streamLog?: { readonly folder: string; readonly bounds: LogBounds } | null
  /** Records what the streams of sets bring. */
  readonly recorder?: Pick<Recorder, 'sink'>
  readonly clock: Clock
  readonly log: Log
  /** The worker of a set's stream died too often to be started again. */
  onDown?(fault: Fault): void
}

export class SetChains {
  readonly #nodes: Upstreams
  readonly #deps: SetChainsDeps
  /** Of the replays of all sets. */
  readonly #turns: SharedTurns
  readonly #chains = new Map<
    string,
    SetChain & {
      ingest: IngestWorker
      feed: GeyserFeed
      sink: SolanaUpstream
      figures: BlockFiguresTracker
    }
  >()

  constructor(nodes: Upstreams, deps: SetChainsDeps) {
    this.#nodes = nodes
    this.#turns = new SharedTurns(deps.clock)
    this.#deps = { ...deps, log: deps.log.area('upstream') }
  }

  /** The chain of a set, opened by the first call; null when no node of it has geyser. */
  of(name: string): SetChain | null {
    const known = this.#chains.get(name)
    if (known !== undefined) return known
    const set = this.#nodes.set(name)
    if (set === null || !set.nodes.some((node) => node.has('grpc'))) return null
    const { bounds = gatewayBounds, warmSlots, clock, log, onDown = () => {} } = this.#deps
    const hub = openSolanaHub(bounds, set.slotTime, this.#turns)
    const streamLog = this.#openLog(hub, name)
    const published = streamLog && new PublishedSlots(hub)
    const sink = new SolanaUpstream(hub, {
      log,
      earlier: streamLog,
      slotLimit: () => set.slotLimit(),
      // The set decides which of the nodes is wrong: the first to confirm may be.
      disputed: (node, slot, blockhash) => {
        const found = this.#nodes.node(node)
        if (found !== null) set.observeBlock(found, slot, blockhash)
      },
      ...bankSaltOf(set),
    })
    const ingest = new IngestWorker({ clock, log, onDown })
    const versions = () => ({ api: set.apiVersion(), node: nodeVersion() })
    const feed: GeyserFeed = new GeyserFeed(set, {
      ingest,
      sink: this.#deps.recorder?.sink(name, sink, versions) ?? sink,
      warmSlots: warmSlots?.[name],
      knowsBlockhash: (blockhash, slot) => knowsBlockhash(set, blockhash, slot),
      clock,
      log,
      ready: streamLog?.ready,
    })
    const isLive = () => isNearNodes(feed, set, slot(Commitment.processed))
    const nodeVersion = () => lowestVersion([feed.solanaVersion(), set.apiVersion()])
    const slot = (commitment: Commitment) => heads.at(commitment)?.slot ?? 0
    // The first listener: what it answers is never older than what others were sent.
    const answers = answersFromStream(set.section)
      ? openAnswers(hub, set, { isLive, nodeVersion })
      : null
    const heads: Heads = answers?.heads ?? new Heads(hub)
    const chain = {
      hub,
      streamLog,
      published,
      heads,
      figures: new BlockFiguresTracker(hub, clock),
      ingest,
      feed,
      sink,
      isBlockhashValid: (blockhash: Uint8Array) =>
        isLive() ? heads.isBlockhashValid(encodeBase58(blockhash), Commitment.confirmed) : null,
      isUp: () => feed.isUp(),
      watch: (listener: () => void) => feed.watch(listener),
      solanaVersion: () => feed.solanaVersion(),
      // Nodes of a version before the table differ least from the oldest in it.
      shapes: () => shapesOf(nodeVersion()) ?? oldestShapes,
      slot,
      signatureStatus: (signature: Uint8Array, withHistory?: boolean) =>
        readSignatureStatus(set, signature, slot(Commitment.processed), withHistory),
      readAccounts: (keys: readonly Uint8Array[]) => readAccounts(set, keys, MINT_BYTES_READ),
      answers,
    }
    reportBlocks(hub, set, sink)
    this.#chains.set(name, chain)
    return chain
  }

  #openLog(hub: SolanaHub, set: string): StreamLog | null {
    const { streamLog = null, clock, log } = this.#deps
    if (streamLog === null) return null
    const folder = join(streamLog.folder, encodeURIComponent(set))
    const { bounds } = streamLog
    return new StreamLog(hub, {
      ...{ folder, bounds, log },
      startThread: (events) => startWriterThread({ folder, bounds, clock, log }, events),
    })
  }

  /** What the stream of a set answers; null while it is not open. */
  answersOf(name: string): StreamAnswers | null {
    return this.#chains.get(name)?.answers ?? null
  }

  readings(): FeedReading[] {
    return [...this.#chains].map(([set, { hub, feed, sink, answers }]) => ({
      set,
      isUp: feed.isUp(),
      slot: sink.newestSlot(),
      slotMs: hub.slotTime.ms,
      accountBytes: answers?.accounts.bytes ?? 0,
      historyBytes: answers?.blocks.bytes ?? 0,
      counts: { ...feed.counts, ...sink.counts(), droppedSlots: hub.droppedSlots },
      nodes: sink.arrivals(),
    }))
  }

  logReadings(): StreamLogReading[] {
    return [...this.#chains].flatMap(([set, { streamLog }]) =>
      streamLog === null ? [] : [{ set, ...streamLog.counts() }],
    )
  }

  report(): GeyserReport[] {
    return [...this.#chains].map(([set, { hub, feed, sink }]) => {
      const { gapSlots, restarts } = sink.counts()
      const slot = sink.newestSlot()
      const { ms: slotMs } = hub.slotTime
      const [node = null] = feed.nodes
      const nodes = nodeReports(feed, sink)
      return { set, isUp: feed.isUp(), node, nodes, slot, slotMs, gapSlots, restarts }
    })
  }

  /** For GET /v1/solana: the sets of nodes, the default one first. */
  solanaSets() {
    const sets = this.#nodes.sets().map(({ name, nodes }) => {
      const chain = this.#chains.get(name)
      const reports = chain && nodeReports(chain.feed, chain.sink)
      const rows = nodes.map((node) => ({
        name: node.name,
        region: node.region,
        state: node.state,
        slot: node.slot(),
        lagSlots: node.lagSlots,
        firstShare: reports?.[node.name]?.firstShare ?? null,
      }))
      return { name, stream: chain === undefined ? null : streamOf(chain), nodes: rows }
    })
    return sets.sort((a, b) => Number(b.name === defaultSet) - Number(a.name === defaultSet))
  }

  async stop(): Promise<void> {
    const chains = [...this.#chains.values()]
    for (const { feed, heads, figures } of chains) {
      feed.stop()
      heads.stop()
      figures.stop()
    }
    await Promise.all(chains.flatMap(({ ingest, streamLog }) => [ingest.stop(), streamLog?.stop()]))
  }
}

function streamOf({
  hub,
  heads,
  figures,
  isUp,
}: SetChain & { readonly figures: BlockFiguresTracker }) {
  const slotAt = (commitment: Commitment) => heads.at(commitment)?.slot ?? null
  return {
    isUp: isUp(),
    slotMs: hub.slotTime.ms,
    ageMs: figures.ageMs(),
    heads: {
      processed: slotAt(Commitment.processed),
      confirmed: slotAt(Commitment.confirmed),
      finalized: slotAt(Commitment.finalized),
    },
    // Read only where they are shown: from then on the transactions of the set are decoded.
    get blocks() {
      return figures.watch()
    },
  }
}

function openAnswers(
  hub: SolanaHub,
  set: UpstreamSet,
  deps: Pick<StreamAnswersDeps, 'isLive' | 'nodeVersion'>,
): StreamAnswers {
  const { streamAnswerBytes: bytesMax, streamHistoryBytes } = set.section
  return new StreamAnswers(hub, {
    ...deps,
    apiVersion: () => set.apiVersion(),
    accounts: { bytesMax, read: (key, minSlot) => readAccount(set, key, minSlot) },
    blocks: { bytesMax: streamHistoryBytes },
  })
}

/** Compares the blocks that the stream publishes as confirmed with those that the nodes report. */
function reportBlocks(hub: SolanaHub, set: UpstreamSet, sink: SolanaUpstream): void {
  /** The node that a block came from, by slot. */
  const sources = new Map<number, UpstreamNode | null>()
  hub.listen(
    (commitment, update) => {
      if (update.kind !== 'blockMeta') return
      const { slot, blockhash } = update
      const sender = set.nodes.find(({ name }) => name === sink.sending) ?? set.followed
      if (commitment === Commitment.processed) sources.set(slot, sender)
      if (commitment !== Commitment.confirmed) return
      const node = sources.get(slot)
      if (node != null) {
        if (set.section.merge > 1) set.followed = node
        set.observeBlock(node, slot, blockhash)
      }
      for (const old of sources.keys()) if (old <= slot) sources.delete(old)
    },
    () => false,
  )
}

/** Whether a stream is open and about as far as the best node of its set. */
function isNearNodes(feed: GeyserFeed, set: UpstreamSet, slot: number): boolean {
  return feed.nodes.length > 0 && (set.slot() ?? 0) - slot <= set.slotTime.slotsIn(behindMsMax)
}

/** The gateways of a hub read its stream with one secret, and name its banks alike. */
export function bankSaltOf({ nodes }: UpstreamSet): { readonly bankSalt?: string } {
  const [node, ...others] = nodes.filter((one) => one.has('grpc'))
  const { grpc = '', xToken = '' } = node?.addresses ?? {}
  const isHub = others.length === 0 && xToken !== '' && grpc.startsWith('http://127.0.0.1:')
  return isHub ? { bankSalt: `${grpc} ${xToken}` } : {}
}

function nodeReports(feed: GeyserFeed, sink: SolanaUpstream): Record<string, NodeReport> {
  const arrivals = [...sink.arrivals()]
  const all = arrivals.reduce((sum, [, { first }]) => sum + first, 0)
  const open = new Set(feed.nodes)
  const rows = arrivals.map(([node, { first }]) => {
    const firstShare = all === 0 ? null : Math.round((first / all) * 1000) / 1000
    return [node, { isOpen: open.has(node), firstShare }] as const
  })
  return Object.fromEntries(rows)
}

/** For `sluice status`: the streams by their sets, where there are some. */
export function geyserStatus(chains: SetChains) {
  const rows = chains.report().map(({ set, ...row }) => [set, row] as const)
  return rows.length === 0 ? {} : { geyser: Object.fromEntries(rows) }
}
