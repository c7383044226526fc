// The chain world: the script of a seed runs through a gateway's own decisions: the set of nodes,
// the feed with its failover, the slot tracker, the hub, and everything that reads it. What each
// reader has in the end is that of readers of the chain itself.
//
//   nodes ─► feed ─► tracker ─► hub ─► streams, subscriptions, answers, index        equal to
//   chain ────────────────────► hub ─► streams, subscriptions, answers, index
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { keyOf } from '../../src/chain/solana/base58.ts'
import type { BlockUpdate, SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { publishUpdate } from '../../src/streams/geyser/hub.ts'
import type { GeyserTarget } from '../../src/upstream/geyser/geyser-client.ts'
import { GeyserFeed } from '../../src/upstream/geyser/geyser-feed.ts'
import type { UpstreamNode } from '../../src/upstream/node-pool/upstream-node.ts'
import { UpstreamSet } from '../../src/upstream/node-pool/upstream-set.ts'
import { SeededCluster, scriptOf, slotMs, stepMs } from '../testkit/seeded-cluster.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { setSection } from '../testkit/upstream-sections.ts'
import { VoidStage } from '../testkit/void-readers.ts'
import { judge, Readers } from './chain-readers.ts'
import { PastReaders } from './stalled-readers.ts'
import { onVirtualTime, type VirtualTime } from './virtual-time.ts'
import type { Counts, Limits, World } from './world.ts'

/** What the hub of the gateway keeps: fewer slots than a script has, so that readers are lost. */
const replaySlots = 10
/** One in so many steps brings a reader that begins in the past. */
const pastShare = 0.04
const neverSteps = Number.POSITIVE_INFINITY

export const chain: World = {
  name: 'chain',
  what: 'nodes, feed, slot tracker, hub and its readers under cuts, deaths, lags, forks and lies',
  mustMeet: [
    ...['failovers', 'refusals', 'ended', 'resumed'],
    ...['dead', 'fork', 'handover', 'migration'],
  ],
  run: (seed, limits) => onVirtualTime(seed, (time) => runChain(seed, limits, time)),
}

/** A set of nodes and the feed of its streams, as a gateway has them. */
class SeededGateway {
  readonly readers: Readers
  readonly set: UpstreamSet
  readonly feed: GeyserFeed
  readonly past: PastReaders
  /** By slot: the ids of the banks that were confirmed or finalized. */
  readonly winners = new Map<number, Set<number>>()
  readonly #cluster: SeededCluster

  constructor(cluster: SeededCluster) {
    const { clock, nodes, script, random } = cluster
    this.#cluster = cluster
    const addresses = nodes.map((_, index) => `http://127.0.0.1:${index + 1}`)
    const sections = addresses.map((grpc) => ({ grpc }))
    const section = setSection(sections, { merge: script.merge })
    const set = new UpstreamSet('main', section, { clock, log: silentLog, random })
    this.set = set
    for (const node of set.nodes) node.wasProbed = true
    const deps = {
      slotLimit: () => set.slotLimit(),
      disputed: (name: string, slot: number, blockhash: string) =>
        set.observeBlock(nodeOf(set, name)!, slot, blockhash),
    }
    const stage = new VoidStage(deps, replaySlots)
    this.past = new PastReaders(stage, replaySlots)
    this.readers = new Readers(stage, cluster.chain, clock)
    this.#listen(stage)
    this.probe()
    this.feed = new GeyserFeed(set, {
      ingest: {
        connect: async ({ address }: GeyserTarget) =>
          nodes[addresses.indexOf(address)]!.connect(clock),
      },
      sink: stage.sink,
      knowsBlockhash: async (blockhash) =>
        [...cluster.metas.values()].some((meta) => meta.blockhash === blockhash),
      clock,
      log: silentLog,
    })
  }

  /** As a node is probed: what it says of its genesis, its slots and its last confirmed block. */
  probe(): void {
    const { nodes, clock } = this.#cluster
    const { processed, confirmed, finalized } = Commitment
    for (const [index, node] of this.set.nodes.entries()) {
      const { ledger } = nodes[index]!
      if (nodes[index]!.isDown(clock.monotonicMs())) {
        node.probeFailed('unreached', '')
        this.set.compare()
        continue
      }
      node.observeGenesis(ledger.genesisHash)
      const block = ledger.latestBlockhash(confirmed)
      node.probedSlots(ledger.slot(processed), ledger.slot(finalized), null, block.slot)
      this.set.compare()
      this.set.observeBlock(node, block.slot, block.blockhash)
      node.health.probeAnswered({ isBehind: false })
      this.set.compare()
    }
  }

  stop(): void {
    this.feed.stop()
    this.set.stop()
    this.readers.stage.stop()
    this.readers.answers.heads.stop()
  }

  /** The blocks of the stream are compared with those of the nodes, and banks are kept. */
  #listen({ hub, sink }: VoidStage): void {
    const sources = new Map<number, UpstreamNode | null>()
    hub.listen((commitment, update) => {
      if (update.kind === 'slot') this.#reach(update)
      if (update.kind !== 'blockMeta') return
      const { slot, blockhash } = update
      const sender = nodeOf(this.set, sink.sending) ?? this.set.followed
      if (commitment === Commitment.processed) sources.set(slot, sender)
      const node = commitment === Commitment.confirmed ? sources.get(slot) : null
      if (node == null) return
      if (this.set.section.merge > 1) this.set.followed = node
      this.set.observeBlock(node, slot, blockhash)
    })
  }

  #reach(update: Extract<SolanaUpdate, { readonly kind: 'slot' }>): void {
    const { slot, status, bank } = update
    if (bank === undefined || (status !== 1 && status !== 2)) return
    this.winners.set(slot, (this.winners.get(slot) ?? new Set()).add(bank))
  }
}

const nodeOf = (set: UpstreamSet, name: string | null) =>
  set.nodes.find((node) => node.name === name) ?? null

/** A block contains each account once, at the position of its first write. */
function asBlocksAre(update: BlockUpdate): BlockUpdate {
  const last = new Map(update.accounts.map((account) => [keyOf(account.pubkey), account]))
  return { ...update, accounts: [...last.values()] }
}

async function runChain(seed: number, limits: Limits, time: VirtualTime): Promise<Counts> {
  const cluster = new SeededCluster(scriptOf(seed), time.clock, limits.steps)
  const gateway = new SeededGateway(cluster)
  const { readers, winners, past } = gateway
  const random = randomOf(seed ^ 0x9a57)
  const reference = new VoidStage()
  const plain = new Readers(reference, cluster.chain, time.clock)
  readers.stage.hub.listen((commitment, { kind, slot }) =>
    limits.trace?.(`${time.ms} ${commitment} ${kind} ${slot}`),
  )
  try {
    for (let steps = 0; !cluster.isDone; steps++) {
      await time.advance(stepMs)
      cluster.step()
      cluster.flush()
      if ((steps * stepMs) % slotMs === 0) gateway.probe()
      if (random() < pastShare)
        past.add(Commitment.confirmed, random() < 0.4 ? neverSteps : Math.floor(random() * 40))
      past.step(time.ms)
    }
    await time.advance(slotMs)
    past.checkMemory()
    for (const update of cluster.chain)
      publishUpdate(reference.hub, update.kind === 'block' ? asBlocksAre(update) : update)
    await time.advance(stepMs)
    const counts = judge({ cluster, readers, plain, winners, past: past.live() })
    const failovers = gateway.feed.counts.connections - 1
    const { refusals } = cluster.window
    return { failovers, refusals, ...past.counts, ...counts }
  } finally {
    gateway.stop()
    reference.stop()
    plain.answers.heads.stop()
    cluster.stop()
  }
}
