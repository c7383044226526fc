// The websocket door in front of upstream nodes, in process: sets, relay, and customers.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { systemClock } from '../../src/base/clock.ts'
import type { WebsocketDeps } from '../../src/products/websocket/server.ts'
import { type Log, silentLog } from '../../src/telemetry/log.ts'
import { type NodeSection, upstreamsSection } from '../../src/upstream/config.ts'
import { declarePubsubRelayMeters } from '../../src/upstream/pubsub/meters.ts'
import { UpstreamPubsub } from '../../src/upstream/pubsub/relay.ts'
import { Upstreams } from '../../src/upstream/upstreams.ts'
import { Bundle } from './bundle.ts'
import type { SolanaNode } from './solana-node.ts'
import { Client } from './subscription-stage.ts'

export interface RelayStageOptions {
  readonly solana?: WebsocketDeps['solana']
  readonly log?: Log
  readonly plans?: ConstructorParameters<typeof Bundle>[0]
  /** What serves a subscription that is bound to no set. */
  readonly initialSet?: string | null
}

export class RelayStage {
  readonly bundle: Bundle
  readonly upstreams: Upstreams
  readonly pubsub: UpstreamPubsub
  readonly #clients: Client[] = []
  port = 0

  private constructor(
    sets: Readonly<Record<string, readonly Partial<NodeSection>[]>>,
    { log = silentLog, plans = {} }: RelayStageOptions,
  ) {
    this.bundle = new Bundle(plans)
    this.upstreams = new Upstreams(sectionOf(sets), { clock: systemClock, log })
    this.pubsub = new UpstreamPubsub(this.upstreams, { clock: systemClock, log })
    declarePubsubRelayMeters(this.bundle.meters, this.pubsub)
  }

  static async start(
    sets: Readonly<Record<string, readonly Partial<NodeSection>[]>>,
    options: RelayStageOptions = {},
  ): Promise<RelayStage> {
    const stage = new RelayStage(sets, options)
    const { initialSet = 'default', solana = null } = options
    await stage.upstreams.start()
    const door = await stage.bundle.openWebsocket({
      section: { connectionsPerAddress: 0 },
      solana,
      relayed: { relay: stage.pubsub, setOf: ({ upstream }) => upstream ?? initialSet },
    })
    stage.port = door.port
    return stage
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`
  }

  async connect(token = this.bundle.issue().token): Promise<Client> {
    const socket = new WebSocket(this.url, { headers: { 'x-token': token } })
    socket.on('error', () => {})
    await once(socket, 'open')
    const client = new Client(socket)
    this.#clients.push(client)
    return client
  }

  /** The relay's own counts of a set. */
  count(set = 'default'): number {
    return this.pubsub.relays.get(set)!.count
  }

  tally(set = 'default') {
    return this.pubsub.relays.get(set)!.tally
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.socket.terminate()
    await this.bundle.dispose()
    this.pubsub.stop()
    await this.upstreams.stop()
  }
}

/** A running server as a node of a set. */
export function nodeOf(node: SolanaNode): Partial<NodeSection> {
  return { rpc: node.url, ws: node.server.url('websocket'), xToken: node.token }
}

function sectionOf(sets: Readonly<Record<string, readonly Partial<NodeSection>[]>>) {
  const { fields } = upstreamsSection.of
  const nodeFields = fields.nodes.of.fields
  const initial = (of: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      Object.entries(of).map(([key, field]) => [key, (field as { initial?: unknown }).initial]),
    )
  return Object.fromEntries(
    Object.entries(sets).map(([name, nodes]) => [
      name,
      { ...initial(fields), nodes: nodes.map((node) => ({ ...initial(nodeFields), ...node })) },
    ]),
    // Reason for the cast: the fields carry their own initial values, which TypeScript has lost.
  ) as never
}
