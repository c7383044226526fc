// The devnode: a Solana node with a chain of its own. Thread: main of its process.
//
//   chain (ledger, VM) ─► sink ─► hub ─► geyser, PubSub
//         ▲                └────► shred feed ─► shreds by UDP
//         └── JSON-RPC: reads, sends, airdrops
//
// It serves a validator's protocols on loopback: to everybody, or to the holder of a secret alone.
// As a cluster it serves them for several nodes, each with its own view of the chain.
import { hash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import type { Fault } from '../base/errors.ts'
import type { EndpointAddress } from '../base/running.ts'
import type { Log } from '../base/telemetry/log.ts'
import { Meters } from '../base/telemetry/meters.ts'
import { UdpSocket } from '../base/transport/udp.ts'
import { keyOf } from '../chain/solana/base58.ts'
import { Keypair } from '../chain/solana/keypair.ts'
import type { Moment } from '../chain/solana/received-batch.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  entryUpdate,
  slotUpdate,
  transactionUpdate,
} from '../chain/solana/received-batch.ts'
import type {
  AccountUpdate,
  EntryUpdate,
  SolanaUpdate,
  TransactionUpdate,
} from '../chain/solana/updates.ts'
import { type Shapes, shapesByVersion } from '../chain/solana/version.ts'
import type { GrpcChain } from '../streams/geyser/fan-out.ts'
import { Heads, openSolanaHub, publishUpdate } from '../streams/geyser/hub.ts'
import type { CheatCodes, LocalChain } from './chain.ts'
import { ChainCluster } from './cluster/cluster.ts'
import type { ClusterOptions } from './cluster/plan.ts'
import type { ChainSection } from './config.ts'
import { keyPairNames } from './genesis.ts'
import type { GenesisInput } from './genesis-input.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import { type DevnodeStats, StatsCounter } from './reports.ts'
import { embeddedRpcMethods } from './rpc/methods.ts'
import type { NodeContact, NodeSwitch, RpcCluster } from './rpc/rpc-node.ts'
import { startGeyserServer, startPubsubServer, startRpcServer } from './rpc-server.ts'
import { ShredFeed, type ShredTarget } from './shred-feed.ts'
import { bothSinks, type SolanaSink } from './sink.ts'
import { type EmbeddedDeps, startEmbeddedChain } from './start.ts'

export interface DevnodeCluster extends Omit<ClusterOptions, 'nodes'> {
  /** Of the second node and those after it. */
  readonly peers: readonly NodePorts[]
  /** Whether the keys of a new chain come from the script's seed. */
  readonly isSeeded: boolean
}

export interface DevnodeOptions extends NodePorts {
  /** Folder of the chain's state. */
  readonly ledger: string
  /** Folder for the key pairs and the log of a test validator; null writes none. */
  readonly files: string | null
  /** Drops that state first. */
  readonly isReset: boolean
  /** What a new chain begins with besides its own accounts; an existing one ignores it. */
  readonly genesis: GenesisInput | null
  /** Slot to continue at, or the URL of the node whose slot it is. */
  readonly warpSlot: number | string | null
  readonly host: string
  /** The nodes that share the chain, and what happens to them; absent for one plain node. */
  readonly cluster?: DevnodeCluster | null
  /**
   * What a caller must send as x-token; such a node has no cheat codes and no CORS. Null serves
   * everybody.
   */
  readonly secret: string | null
  readonly chain: Omit<ChainSection, 'source'>
  /** Where shreds go; null sends none. */
  readonly shreds: ShredTarget | null
  /** The version of the package. */
  readonly version: string
}

export interface DevnodeAddresses extends NodeAddresses {
  /** The other nodes of the cluster. */
  readonly peers: readonly NodeAddresses[]
  readonly faucet: string
  readonly pid: number
}

interface NodeDeps {
  readonly log: Log
  /** Called before the start returns, then once a second. */
  report(stats: DevnodeStats): void
  onDown(fault: Fault): void
}

export interface RunningDevnode {
  readonly addresses: DevnodeAddresses
  sendShreds(target: ShredTarget): Promise<void>
  stop(): Promise<void>
}

const reportMs = 1_000

export async function startDevnode(
  options: DevnodeOptions,
  { log, report, onDown }: NodeDeps,
): Promise<RunningDevnode> {
  const clock = systemClock
  const { version } = options
  const shapes = shapesByVersion[options.chain.agave]
  const counter = new StatsCounter()
  const feed = new ShredFeed({ clock, log, onDown })
  const publisher = publisherOf(options, { clock, feed })
  const stops: (() => unknown)[] = [() => publisher.stop(), () => feed.stop()]
  const stop = async () => {
    for (const end of stops.splice(0).reverse()) await end()
  }
  try {
    const { chain, cheats, seed, ...running } = await startEmbeddedChain(options.chain, {
      path: options.ledger,
      isFresh: options.isReset,
      release: version,
      genesis: options.genesis,
      warpSlot: options.warpSlot,
      sink: bothSinks(solanaFeed(publisher.publish, clock), feed),
      ...publisher.script,
      counters: counter,
      clock,
      log,
    })
    stops.push(() => running.stop())
    const { ledger } = chain
    const { leaders } = publisher
    const nodes = new NodeSet({ options, chain, cheats, leaders, shapes, clock, log })
    stops.push(() => nodes.stop())
    const addresses = await nodes.start(publisher.nodes(ledger), feed)
    const sendStats = () => report(statsOf(ledger, counter))
    sendStats()
    const timer = setInterval(sendStats, reportMs)
    stops.push(() => clearInterval(timer))
    const [first, ...peers] = addresses
    const sendShreds = (target: ShredTarget) => feed.sendTo(target, seed)
    if (options.shreds !== null) await sendShreds(options.shreds)
    if (options.files !== null) {
      const contact = nodes.contact()
      await writeLedgerFiles(options.files, { seed, ledger, shapes, contact, version })
    }
    // Last: on a slow machine much traffic leaves no time to open the endpoints.
    running.startTraffic()
    return {
      addresses: { ...first!, peers, faucet: ledger.faucet, pid: process.pid },
      sendShreds,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** From the chain's updates to the nodes that serve them. */
interface Publisher {
  readonly script: Pick<EmbeddedDeps, 'begin' | 'seed'>
  readonly leaders: Omit<RpcCluster, 'nodes'>
  publish(update: SolanaUpdate): void
  nodes(ledger: LedgerState): readonly NodeSource[]
  stop(): void
}

function publisherOf(
  { cluster: given, chain }: DevnodeOptions,
  { clock, feed }: { readonly clock: Clock; readonly feed: ShredFeed },
): Publisher {
  if (given === undefined || given === null) {
    const hub = openSolanaHub()
    const heads = new Heads(hub)
    return {
      script: {},
      leaders: { leaderOf: () => 0, isMigrated: () => false, genesisBlock: () => null },
      publish: (update) => publishUpdate(hub, update),
      nodes: (ledger) => [{ hub, heads, ledger }],
      stop: () => heads.stop(),
    }
  }
  let cluster: ChainCluster | null = null
  const { seed: number, isSeeded, peers } = given
  const seed = isSeeded ? hash('sha256', `sluice devnode ${number}`, 'buffer') : null
  const begin = (keys: Uint8Array) => {
    const nodes = peers.length + 1
    cluster = new ChainCluster({ ...given, nodes }, { seed: keys, slotMs: chain.slotMs, clock })
    feed.script = cluster
    return cluster
  }
  return {
    script: { seed, begin },
    leaders: {
      leaderOf: (slot) => cluster!.plan.leaderOf(slot),
      isMigrated: (slot) => cluster!.plan.isMigrated(slot),
      genesisBlock: (slot) => cluster!.genesisBlock(slot),
    },
    publish: (update) => cluster!.take(update),
    nodes: (ledger) => {
      const { nodes } = cluster!
      const views = cluster!.start(ledger)
      return nodes.map(({ view: { hub, heads } }, node) => ({ hub, heads, ledger: views[node]! }))
    },
    stop: () => cluster?.stop(),
  }
}

function statsOf(ledger: LedgerState, counter: StatsCounter): DevnodeStats {
  const slots = {
    processed: ledger.slot(Commitment.processed),
    confirmed: ledger.slot(Commitment.confirmed),
    finalized: ledger.slot(Commitment.finalized),
  }
  const { accountCount: accounts, blockBytes: historyBytes } = ledger
  return { slots, accounts, historyBytes, ...counter.take() }
}

// Writes the files that scripts and tests read in the ledger folder of a test validator: key pairs,
// and a log that says what the node is.

/** Overwrites them: a reset begins with other keys. */
async function writeLedgerFiles(
  folder: string,
  node: {
    readonly seed: Uint8Array
    readonly ledger: Pick<LedgerState, 'genesisHash' | 'identity'>
    readonly shapes: Shapes
    readonly contact: NodeContact
    /** The version of the package. */
    readonly version: string
  },
): Promise<void> {
  const { seed, ledger, shapes, contact, version } = node
  const { host, rpc, udp, shredVersion } = contact
  for (const [file, name] of Object.entries(keyPairFiles)) {
    const { secretKey } = Keypair.derive(seed, name)
    await writeFile(join(folder, file), `${JSON.stringify([...secretKey])}\n`, { mode: 0o600 })
  }
  const { 'solana-core': core, 'feature-set': featureSet } = shapes.release
  const lines = [
    `agave-validator ${core} (sluice ${version}; feat:${featureSet.toString(16)})`,
    `identity pubkey: ${ledger.identity}`,
    `genesis hash: ${ledger.genesisHash}`,
    `shred_version: ${shredVersion}`,
    `local gossip address: ${host}:${udp}`,
    `rpc bound to ${host}:${rpc}`,
  ]
  await writeFile(join(folder, 'validator.log'), `${lines.join('\n')}\n`)
}

const keyPairFiles = {
  'faucet-keypair.json': keyPairNames.faucet,
  'validator-keypair.json': keyPairNames.identity,
  'vote-account-keypair.json': keyPairNames.vote,
  'stake-account-keypair.json': keyPairNames.stake,
} as const

// Encodes what the chain does as geyser updates, once, and publishes them.
//
//   transaction, written accounts -> account updates, transaction update -> hub
//   end of the slot               -> block of updates published before, block meta -> hub

/** Updates of the open slot. */
interface OpenBlock {
  readonly transactions: TransactionUpdate[]
  /** The last write of each account: a block shows no other. */
  readonly accounts: Map<string, AccountUpdate>
  readonly entries: EntryUpdate[]
}

export function solanaFeed(publish: (update: SolanaUpdate) => void, clock: Clock): SolanaSink {
  let open = emptyBlock()
  const at = (slot: number): Moment => ({ slot, createdAtMs: clock.nowMs() })
  const write = (update: AccountUpdate) => {
    open.accounts.set(keyOf(update.pubkey), update)
    publish(update)
  }
  return {
    status({ slot, parent, status }) {
      publish(slotUpdate(at(slot), { parent, status }))
    },
    account(slot, content) {
      write(accountUpdate(at(slot), content))
    },
    transaction(slot, content, written) {
      const moment = at(slot)
      for (const account of written) write(accountUpdate(moment, account))
      const update = transactionUpdate(moment, content)
      open.transactions.push(update)
      publish(update)
    },
    entry(slot, content) {
      const update = entryUpdate(at(slot), content)
      open.entries.push(update)
      publish(update)
    },
    block(slot, content) {
      const moment = at(slot)
      const meta = blockMetaUpdate(moment, content)
      const { transactions, entries } = open
      const accounts = [...open.accounts.values()]
      open = emptyBlock()
      publish({ kind: 'block', ...moment, meta, transactions, accounts, entries })
      publish(meta)
    },
  }
}

function emptyBlock(): OpenBlock {
  return { transactions: [], accounts: new Map(), entries: [] }
}

// The endpoints of each node that serves the chain: JSON-RPC, PubSub, geyser.
// A node can be stopped and started by itself; the others do not notice.

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
interface NodeSource extends Pick<GrpcChain, 'hub' | 'heads'> {
  readonly ledger: Ledger
}

interface NodeSetOptions extends NodePorts {
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

class NodeSet implements NodeSwitch {
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
          host: options.host.includes(':') ? `[${options.host}]` : options.host,
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

// The UDP port that getClusterNodes names for gossip, TPU, TVU and repair. Thread: main of the
// devnode. Nothing is served there: a QUIC client is refused at once (no version fits), so that
// it sends over JSON-RPC instead of waiting for a timeout; all other datagrams are dropped.

async function openUdpPort(host: string) {
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
