// A gRPC endpoint in front of others: nodes that are our own endpoints, a set of them, and the stage
// that customers see. Everything is real but the chain, which is the same at each node.
import { systemClock } from '../../src/base/clock.ts'
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { type SetChain, SetChains } from '../../src/operator/topology/set-chains.ts'
import { type NodeSection, type SetSection, singleNodeSet } from '../../src/upstream/config.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { GrpcStage, type StageOptions } from './grpc-stage.ts'
import { until } from './until.ts'

export function nodeSection(grpc: string, xToken: string, weight = 1): NodeSection {
  return { rpc: '', ws: '', grpc, xToken, weight, region: '', allow: [], deny: [] }
}

export function setSection(nodes: readonly NodeSection[], merge = 1): SetSection {
  return { ...singleNodeSet({}), nodes, merge, timeoutMs: 5_000, cacheBytes: 0 }
}

/** What the relay reads, and keeps in memory and on disk. */
interface Kept {
  /** Streams of nodes that it reads at once. */
  readonly merge?: number
  readonly replaySlots?: number
  readonly logFolder?: string
}

export class RelayStage {
  readonly chains: SetChains
  readonly road: SetChain
  readonly #upstreams: Upstreams
  /** What customers see. */
  endpoint!: GrpcStage

  private constructor(nodes: readonly NodeSection[], kept: Kept) {
    const { merge, replaySlots = 150, logFolder } = kept
    const deps = { clock: systemClock, log: silentLog }
    const bounds = { replaySlots, replayBytesMax: 2 ** 28 }
    this.#upstreams = new Upstreams({ default: setSection(nodes, merge) }, deps)
    const logBounds = { keepMs: 3_600_000, bytesMax: 2 ** 30, compress: 'none' } as const
    const streamLog = logFolder === undefined ? null : { folder: logFolder, bounds: logBounds }
    this.chains = new SetChains(this.#upstreams, { ...deps, bounds, streamLog })
    this.road = this.chains.of('default')!
  }

  static async open(
    nodes: readonly NodeSection[],
    options: StageOptions & Kept = {},
  ): Promise<RelayStage> {
    const relay = new RelayStage(nodes, options)
    relay.endpoint = await GrpcStage.open({ ...options, chain: relay.road })
    return relay
  }

  /** One node of the set, a stage of its own. */
  static async before(node: GrpcStage, options: StageOptions & Kept = {}): Promise<RelayStage> {
    const { token } = node.provision({ plan: 'unlimited' })
    const relay = await RelayStage.open([nodeSection(`http://${node.target}`, token)], options)
    await relay.connected()
    // The node took the request in, too.
    await until(async () => (await node.meter('sluice_grpc_groups')) > 0, 'its filters')
    return relay
  }

  get counts() {
    return this.chains.readings()[0]!.counts
  }

  /** Of the nodes of its set. */
  get states() {
    return this.#upstreams.report().map(({ state, reason }) => ({ state, reason }))
  }

  /** The first node of its set is at this slot, whatever its stream sends. */
  reachSlot(slot: number): void {
    this.#upstreams.node('default/1')!.observeSlot(slot, Commitment.processed)
  }

  connected(times = 1): Promise<void> {
    return until(
      () => this.chains.report()[0]!.node !== null && this.counts.connections >= times,
      'a geyser stream',
    )
  }

  /** Until the last of these is known here, too. */
  async caughtUp(updates: readonly SolanaUpdate[]): Promise<void> {
    const last = updates.findLast((update) => update.kind === 'blockMeta')
    if (last === undefined) return
    const isKnown = () => (this.road.heads.at(0)?.slot ?? -1) >= last.slot
    await until(isKnown, `slot ${last.slot}`)
  }

  async close(): Promise<void> {
    await this.endpoint.close()
    await this.chains.stop()
    await this.#upstreams.stop()
  }
}
