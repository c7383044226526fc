// The devnode: a Solana node with a chain of its own. Thread: main of its process.
//
//   chain (ledger, VM) ─► sink ─► hub ─► geyser, PubSub
//         ▲                └────► shred feed ─► shreds by UDP
//         └── JSON-RPC: reads, sends, airdrops
//
// It serves a validator's protocols on loopback: to everybody, or to the holder of a secret alone.
import { systemClock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import type { Fault } from '../base/errors.ts'
import type { EndpointAddress } from '../base/running.ts'
import type { Log } from '../base/telemetry/log.ts'
import { Meters } from '../base/telemetry/meters.ts'
import { solanaVersion } from '../chain/solana/version.ts'
import type { GrpcChain } from '../streams/geyser/chain.ts'
import { Heads } from '../streams/geyser/heads.ts'
import { openSolanaHub } from '../streams/geyser/hub.ts'
import type { ChainSection } from './config.ts'
import { solanaFeed } from './feed.ts'
import type { GenesisInput } from './genesis-input.ts'
import { startGeyserServer } from './geyser-server.ts'
import type { LedgerState } from './ledger/state.ts'
import { writeLedgerFiles } from './ledger-files.ts'
import { startPubsubServer } from './pubsub-server.ts'
import { type DevnodeStats, StatsCounter } from './reports.ts'
import { embeddedRpcMethods } from './rpc/methods.ts'
import { startRpcServer } from './rpc-server.ts'
import { ShredFeed, type ShredTarget } from './shred-feed.ts'
import { bothSinks } from './sink.ts'
import { startEmbeddedChain } from './start.ts'
import { openUdpPort } from './udp-port.ts'

export interface DevnodeOptions {
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
  /** 0 is any free port. */
  readonly rpcPort: number
  readonly wsPort: number
  readonly grpcPort: number
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

export interface DevnodeAddresses {
  readonly rpc: EndpointAddress
  readonly ws: EndpointAddress
  readonly grpc: EndpointAddress
  /** The node's identity, base58. */
  readonly identity: string
  readonly faucet: string
  readonly pid: number
}

export interface NodeDeps {
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
  const { host, secret, files, version } = options
  const meters = new Meters()
  const counter = new StatsCounter()
  const hub = openSolanaHub()
  const heads = new Heads(hub)
  const feed = new ShredFeed({ clock, log, onDown })
  const stops: (() => unknown)[] = [() => heads.stop(), () => feed.stop()]
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
      sink: bothSinks(solanaFeed(hub, clock), feed),
      counters: counter,
      clock,
      log,
    })
    stops.push(() => running.stop())
    const { ledger } = chain
    const udp = await openUdpPort(host)
    stops.push(() => udp.stop())
    const ports = { rpc: 0, ws: 0, udp: udp.port }
    const contact = () => ({ host: hostText(host), ...ports, shredVersion: feed.version })
    const rpc = await startRpcServer(
      { host, port: options.rpcPort, portKey: '--rpc-port' },
      {
        methods: embeddedRpcMethods(chain, contact, secret === null ? cheats : null),
        foreignMethods: embeddedRpcMethods(chain, contact),
        secret,
        ledger,
        clock,
        log,
      },
    )
    stops.push(() => rpc.stop())
    ports.rpc = rpc.address.port
    const ws = await startPubsubServer(
      { host, port: options.wsPort, portKey: '--ws-port' },
      { hub, ledger, version: solanaVersion, secret, meters, clock, log },
    )
    stops.push(() => ws.stop())
    ports.ws = ws.address.port
    const grpc = await startGeyserServer(
      { host, port: options.grpcPort, portKey: '--grpc-port' },
      {
        chain: { ...alwaysUp, hub, heads },
        meters,
        version,
        secret,
        clock,
        log,
      },
    )
    stops.push(() => grpc.stop())
    const sendStats = () => report(statsOf(ledger, counter))
    sendStats()
    const timer = setInterval(sendStats, reportMs)
    stops.push(() => clearInterval(timer))
    const { identity, faucet } = ledger
    const addresses = {
      rpc: rpc.address,
      ws: ws.address,
      grpc: grpc.address!,
      identity,
      faucet,
      pid: process.pid,
    }
    const sendShreds = (target: ShredTarget) => feed.sendTo(target, seed)
    if (options.shreds !== null) await sendShreds(options.shreds)
    if (files !== null) await writeLedgerFiles(files, { seed, ledger, contact: contact(), version })
    return { addresses, sendShreds, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

const alwaysUp: Omit<GrpcChain, 'hub' | 'heads'> = {
  isUp: () => true,
  watch: () => () => {},
  solanaVersion: () => solanaVersion['solana-core'],
}

/** As it is written before a port. */
function hostText(host: string): string {
  return host.includes(':') ? `[${host}]` : host
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
