// The endpoints of each node that serves the chain: JSON-RPC, PubSub, geyser. Thread: main of the
// devnode. A node can be stopped and started by itself; the others do not notice.
import type { Clock } from '../base/clock.ts'
import type { EndpointAddress } from '../base/running.ts'
import type { Log } from '../base/telemetry/log.ts'
import { Meters } from '../base/telemetry/meters.ts'
import { UdpSocket } from '../base/transport/udp.ts'
import type { Shapes } from '../chain/solana/version.ts'
import type { GrpcChain } from '../streams/geyser/fan-out.ts'
import type { LocalChain } from './chain.ts'
import type { CheatCodes } from './cheat-codes.ts'
import { startGeyserServer } from './geyser-server.ts'
import type { Ledger } from './ledger/ledger.ts'
import { startPubsubServer } from './pubsub-server.ts'
import { embeddedRpcMethods } from './rpc/methods.ts'
import type { NodeContact, NodeSwitch, RpcCluster } from './rpc/rpc-node.ts'
import { startRpcServer } from './rpc-server.ts'
import type { ShredFeed } from './shred-feed.ts'

/** 0 is any free port. */
export interface NodePorts {
  readonly rpcPort: number
  readonly wsPort: number
  readonly grpcPort: number
}

export interface NodeAddresses {
  readonly rpc: EndpointAddress
  readonly ws: EndpointAddress
  readonly grpc: EndpointAddress
  /** The node's identity, base58. */
  readonly identity: string
}

/** What a node serves. */
export interface NodeSource extends Pick<GrpcChain, 'hub' | 'heads'> {
  readonly ledger: Ledger
}

export interface NodeSetOptions extends NodePorts {
  readonly host: string
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  /** The version of the package. */
  readonly version: string
  /** Absent for one plain node. */
  readonly cluster?: { readonly peers: readonly NodePorts[] } | null
}

interface NodeSetDeps {
  readonly options: NodeSetOptions
  readonly chain: LocalChain
  readonly cheats: CheatCodes
  readonly leaders: Omit<RpcCluster, 'nodes'>
  readonly shapes: Shapes
  readonly clock: Clock
  readonly log: Log
}

interface ServedNode extends NodeSource {
  readonly identity: string
  readonly contact: () => NodeContact
  /** As they are listened on; 0 is any free one. */
  listen: NodePorts
  /** Null while it is stopped. */
  running: { readonly addresses: NodeAddresses; stop(): Promise<void> } | null
}

export class NodeSet implements NodeSwitch {
  readonly #deps: NodeSetDeps
  readonly #nodes: ServedNode[] = []
  readonly #stops: (() => unknown)[] = []

  constructor(deps: NodeSetDeps) {
    this.#deps = deps
  }

  get count(): number {
    return this.#nodes.length
  }

  /** Opens the endpoints of all nodes. */
  async start(sources: readonly NodeSource[], feed: ShredFeed): Promise<NodeAddresses[]> {
    const { options } = this.#deps
    for (const [index, source] of sources.entries()) {
      // Each has a port of its own, so that every contact is known before the first call.
      const udp = await openUdpPort(options.host)
      this.#stops.push(() => udp.stop())
      const node: ServedNode = {
        ...source,
        identity: source.ledger.identity,
        listen: index === 0 ? options : options.cluster!.peers[index - 1]!,
        running: null,
        contact: () => ({
          host: hostText(options.host),
          rpc: node.running?.addresses.rpc.port ?? 0,
          ws: node.running?.addresses.ws.port ?? 0,
          udp: udp.port,
          shredVersion: feed.version,
        }),
      }
      this.#nodes.push(node)
    }
    for (const index of this.#nodes.keys()) await this.turnOn(index)
    return this.#nodes.map(({ running }) => running!.addresses)
  }

  /** Of the first node. */
  contact(): NodeContact {
    return this.#nodes[0]!.contact()
  }

  async turnOn(index: number): Promise<void> {
    const node = this.#nodes[index]!
    if (node.running !== null) return
    node.running = await this.#open(node, index)
    const { rpc, ws, grpc } = node.running.addresses
    node.listen = { rpcPort: rpc.port, wsPort: ws.port, grpcPort: grpc.port }
  }

  async turnOff(index: number): Promise<void> {
    const { running } = this.#nodes[index]!
    this.#nodes[index]!.running = null
    await running?.stop()
  }

  async stop(): Promise<void> {
    for (const index of this.#nodes.keys()) await this.turnOff(index)
    for (const stop of this.#stops.splice(0)) await stop()
  }

  async #open(node: ServedNode, index: number): Promise<NonNullable<ServedNode['running']>> {
    const { chain, cheats, leaders, shapes, clock, log, options } = this.#deps
    const { host, secret, version } = options
    const { hub, heads, ledger, identity, listen } = node
    const methods = { chain, ledger, shapes, cluster: { ...leaders, nodes: this.#nodes } }
    const solanaVersion = () => shapes.release['solana-core']
    const meters = new Meters()
    const stops: (() => unknown)[] = []
    const stop = async () => {
      for (const end of stops.splice(0).reverse()) await end()
    }
    const switches = options.cluster ? { switches: this, index } : null
    try {
      const rpc = await startRpcServer(
        { host, port: listen.rpcPort, portKey: '--rpc-port' },
        {
          methods: embeddedRpcMethods(methods, secret === null ? { cheats, switches } : null),
          foreignMethods: embeddedRpcMethods(methods),
          secret,
          ledger,
          clock,
          log,
        },
      )
      stops.push(() => rpc.stop())
      const ws = await startPubsubServer(
        { host, port: listen.wsPort, portKey: '--ws-port' },
        { hub, ledger, shapes, secret, meters, clock, log },
      )
      stops.push(() => ws.stop())
      const grpc = await startGeyserServer(
        { host, port: listen.grpcPort, portKey: '--grpc-port' },
        { chain: { ...alwaysUp, solanaVersion, hub, heads }, meters, version, secret, clock, log },
      )
      stops.push(() => grpc.stop())
      const addresses = { rpc: rpc.address, ws: ws.address, grpc: grpc.address!, identity }
      return { addresses, stop }
    } catch (error) {
      await stop()
      throw error
    }
  }
}

const alwaysUp: Pick<GrpcChain, 'isUp' | 'watch'> = {
  isUp: () => true,
  watch: () => () => {},
}

/** As it is written before a port. */
function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

// The UDP port that getClusterNodes names for gossip, TPU, TVU and repair. Thread: main of the
// devnode. Nothing is served there: a QUIC client is refused at once (no version fits), so that
// it sends over JSON-RPC instead of waiting for a timeout; all other datagrams are dropped.

export interface UdpPort {
  readonly port: number
  stop(): void
}

export async function openUdpPort(host: string): Promise<UdpPort> {
  const socket = await UdpSocket.open({ host, port: 0 })
  socket.onError(() => {})
  socket.onMessage((packet, from, port) => {
    const refusal = versionNegotiation(packet)
    if (refusal !== null) socket.sendTo(refusal, from, port)
  })
  return { port: socket.port, stop: () => socket.close() }
}

/** The first packet of a client is padded to this, and our answer is shorter. */
const INITIAL_BYTES_MIN = 1200
const LONG_HEADER = 0x80
/** Reserved for this purpose: no client speaks it. */
const NO_VERSION = Uint8Array.of(0x1a, 0x2a, 0x3a, 0x4a)
const LENGTH_AT = 5

/**
 * The answer to the first packet of a QUIC connection; null for any other datagram.
 *
 *   long header u8 | version u32, 0 in the answer | length u8, destination | length u8, source
 */
export function versionNegotiation(packet: Uint8Array): Buffer | null {
  if (packet.length < INITIAL_BYTES_MIN || (packet[0]! & LONG_HEADER) === 0) return null
  const version = packet.subarray(1, LENGTH_AT)
  if (version.every((byte) => byte === 0)) return null
  const sourceAt = LENGTH_AT + 1 + packet[LENGTH_AT]!
  const end = sourceAt + 1 + packet[sourceAt]!
  return Buffer.concat([
    Uint8Array.of(LONG_HEADER, 0, 0, 0, 0),
    packet.subarray(sourceAt, end),
    packet.subarray(LENGTH_AT, sourceAt),
    NO_VERSION,
  ])
}
