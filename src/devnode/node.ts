// The devnode: a Solana node with a chain of its own. Thread: main of its process.
//
//   chain (ledger, VM) ─► sink ─► hub ─► geyser, PubSub
//         ▲                └────► shred feed ─► shreds by UDP
//         └── JSON-RPC: reads, sends, airdrops
//
// It serves a validator's protocols on loopback: to everybody, or to the holder of a secret alone.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, systemClock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import type { Fault } from '../base/errors.ts'
import type { EndpointAddress } from '../base/running.ts'
import type { Log } from '../base/telemetry/log.ts'
import { Meters } from '../base/telemetry/meters.ts'
import { UdpSocket } from '../base/transport/udp.ts'
import { Keypair } from '../chain/solana/keypair.ts'
import { keyOf } from '../chain/solana/keys.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  entryUpdate,
  type Moment,
  slotUpdate,
  transactionUpdate,
} from '../chain/solana/update-build.ts'
import type {
  AccountUpdate,
  EntryUpdate,
  SolanaUpdate,
  TransactionUpdate,
} from '../chain/solana/updates.ts'
import { solanaVersion } from '../chain/solana/version.ts'
import type { GrpcChain } from '../streams/geyser/chain.ts'
import { Heads } from '../streams/geyser/heads.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../streams/geyser/hub.ts'
import type { ChainSection } from './config.ts'
import { keyPairNames } from './genesis.ts'
import type { GenesisInput } from './genesis-input.ts'
import { startGeyserServer } from './geyser-server.ts'
import type { LedgerState } from './ledger/state.ts'
import { startPubsubServer } from './pubsub-server.ts'
import { type DevnodeStats, StatsCounter } from './reports.ts'
import { embeddedRpcMethods } from './rpc/methods.ts'
import type { NodeContact } from './rpc/rpc-node.ts'
import { startRpcServer } from './rpc-server.ts'
import { ShredFeed, type ShredTarget } from './shred-feed.ts'
import { bothSinks, type SolanaSink } from './sink.ts'
import { startEmbeddedChain } from './start.ts'

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

// Writes the files that scripts and tests read in the ledger folder of a test validator: key pairs,
// and a log that says what the node is.

/** Overwrites them: a reset begins with other keys. */
export async function writeLedgerFiles(
  folder: string,
  node: {
    readonly seed: Uint8Array
    readonly ledger: Pick<LedgerState, 'genesisHash' | 'identity'>
    readonly contact: NodeContact
    /** The version of the package. */
    readonly version: string
  },
): Promise<void> {
  const { seed, ledger, contact, version } = node
  const { host, rpc, udp, shredVersion } = contact
  for (const [file, name] of Object.entries(keyPairFiles)) {
    const { secretKey } = Keypair.derive(seed, name)
    await writeFile(join(folder, file), `${JSON.stringify([...secretKey])}\n`, { mode: 0o600 })
  }
  const featureSet = solanaVersion['feature-set'].toString(16)
  const lines = [
    `agave-validator ${solanaVersion['solana-core']} (sluice ${version}; feat:${featureSet})`,
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

// Encodes what the chain does as geyser updates, once, and publishes them to the hub.
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

export function solanaFeed(hub: SolanaHub, clock: Clock): SolanaSink {
  let open = emptyBlock()
  const at = (slot: number): Moment => ({ slot, createdAtMs: clock.nowMs() })
  const publish = (update: SolanaUpdate) => publishUpdate(hub, update)
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
