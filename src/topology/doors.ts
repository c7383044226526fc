// The products, each behind its own door. Thread: main. Called by topology.ts, last.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Commitment } from '../base/commitment.ts'
import type { Components } from '../base/components.ts'
import type { Fault } from '../base/errors.ts'
import type { DoorAddress, Running } from '../base/running.ts'
import { type Config, tpuUpstreamsOf } from '../config/config.ts'
import { identityOf } from '../devnode/genesis.ts'
import { embeddedRpcMethods } from '../devnode/rpc/methods.ts'
import { ShredFeed } from '../devnode/shred-feed.ts'
import { declareGrpcMeters } from '../geyser/meters.ts'
import { startGrpc } from '../products/grpc/server.ts'
import { startMetrics } from '../products/metrics/server.ts'
import { declareRpcMeters } from '../products/rpc/meters.ts'
import { startRpc } from '../products/rpc/server.ts'
import { type Shredstream, startShredstream } from '../products/shredstream/server.ts'
import { declareTpuMeters } from '../products/tpu/meters.ts'
import { type RunningTpu, startTpu } from '../products/tpu/server.ts'
import { declareWebsocketMeters } from '../products/websocket/meters.ts'
import { startWebsocket } from '../products/websocket/server.ts'
import { encodeBase58 } from '../solana/base58.ts'
import { Addresses } from '../transport/address.ts'
import { ChainSender } from '../upstream/chain-sender.ts'
import { transactionSenders } from '../upstream/transaction-senders.ts'
import type { Ground, TopologyDeps } from './ground.ts'
import type { Roads } from './roads.ts'
import type { Served } from './upstream.ts'

/** What a validator of this age calls itself; clients only compare it with what they support. */
const solanaVersion = { 'solana-core': '4.0.0', 'feature-set': 0 }

/** Gives the addresses of those that opened. */
export async function openDoors(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  given: Ground & Roads,
): Promise<Record<string, DoorAddress>> {
  const { meters, events, execution, solana, upstream, geyser, tls } = given
  const { trustedProxies } = config
  const shared = { ...given, trustedProxies, clock: deps.clock, log: deps.log }
  const version = { ...solanaVersion, sluice: deps.version }
  const ownChain = solana && {
    ...solana,
    isUp: () => true,
    watch: () => () => {},
    solanaVersion: () => solanaVersion['solana-core'],
    slot: (commitment: Commitment) => solana.chain.slot(commitment),
    signatureStatus: async (signature: Uint8Array) => solana.chain.signatureStatus(signature),
    readAccounts: async (keys: readonly Uint8Array[]) =>
      keys.map((key) => solana.chain.ledger.account(key, Commitment.processed)),
  }
  const chainOf = (served: Served) => {
    const set = upstream.setOf(served)
    return set === null ? ownChain : geyser.of(set)
  }
  const doors: Record<string, DoorAddress> = {}
  const open = async (name: string, isEnabled: boolean, start: () => Promise<Running>) => {
    if (!isEnabled) return
    const { address } = await parts.add(name, start)
    if (address !== null) doors[name] = address
  }
  await open('rpc', config.rpc.enabled, () =>
    startRpc(config.rpc, {
      ...shared,
      meters: declareRpcMeters(meters),
      facts: { version, slotsBehind: () => solana?.chain.slotsBehind() ?? null },
      methods: solana === null ? [] : [embeddedRpcMethods(solana.chain, version)],
      elsewhere: upstream.proxy,
    }),
  )
  await open('websocket', config.websocket.enabled, () =>
    startWebsocket(config.websocket, {
      ...shared,
      meters: declareWebsocketMeters(meters),
      version,
      methods: [],
      chainOf,
    }),
  )
  await open('grpc', config.grpc.enabled, () =>
    startGrpc(config.grpc, {
      ...shared,
      meters: declareGrpcMeters(meters),
      chainOf,
      mainChain: chainOf({ upstream: null }),
      certificates: tls,
      addresses: new Addresses(trustedProxies),
      version: deps.version,
    }),
  )
  await open('metrics', config.metrics.enabled, () =>
    startMetrics(config.metrics, {
      ...shared,
      events,
      view: execution,
      run: randomBytes(8).toString('hex'),
      version: deps.version,
      restartSource: () => execution.restartSource(),
      exit: deps.exit,
    }),
  )
  return doors
}

/** Sources -> shred worker -> destinations; packets never come to this thread. */
export async function openShreds(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  given: Ground & Roads & { doors: Record<string, DoorAddress> },
): Promise<Shredstream | null> {
  if (!config.shredstream.enabled) return null
  const onDown = (fault: Fault) => {
    deps.log.error('the shred worker is down for good', { reason: fault.message })
    deps.exit(1)
  }
  const { clock, log } = deps
  const { solana } = given
  const embeddedLeader = solana === null ? null : identityOf(solana.seed).publicKey
  const shreds = await parts.add('shredstream', () =>
    startShredstream(config.shredstream, { ...given, embeddedLeader, clock, log, onDown }),
  )
  if (shreds.address !== null) given.doors.shredstream = shreds.address
  if (solana === null || config.shredstream.feed !== 'embedded') return shreds
  const feed = await parts.add('shred feed', () => new ShredFeed({ clock, log, onDown }))
  await feed.sendTo(shreds.ingest, solana.seed)
  solana.tee.add(feed)
  return shreds
}

/** No token here: the tip decides. Into the nodes that are named, or our own chain. */
export async function openTpu(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  given: Ground & Roads & { doors: Record<string, DoorAddress> },
): Promise<RunningTpu | null> {
  const { solana, upstream, geyser, verifier, meters, data, tls } = given
  const { addressBudget, quotaMeters } = given
  const names = tpuUpstreamsOf(config)
  const own = names.length === 0 ? solana : null
  if (!config.tpu.enabled || (names.length === 0 && own === null)) return null
  const { clock } = deps
  const log = deps.log.area('tpu')
  const senders = transactionSenders(names, upstream.nodes, { clock, log })
  await Promise.all(senders.map((sender) => sender.warm()))
  // Where the nodes' own stream shows what landed, nobody has to ask for it.
  const road = names.map((name) => geyser.of(name)).find((found) => found !== null) ?? null
  const tpu = await parts.add('tpu', () =>
    startTpu(config.tpu, {
      senders: own === null ? senders : [new ChainSender(own.chain)],
      hub: own?.hub ?? road?.hub ?? null,
      slot: () =>
        own?.chain.slot(Commitment.processed) ?? road?.heads.at(Commitment.processed)?.slot ?? null,
      isBlockhashValid: (blockhash) =>
        own?.chain.isBlockhashValid(blockhash, Commitment.processed) ??
        road?.heads.isBlockhashValid(encodeBase58(blockhash), 0) ??
        null,
      verifier,
      meters: declareTpuMeters(meters),
      addressBudget,
      addressRefused: quotaMeters.addressRefused.tpu,
      tipAccountsPath: join(data, 'tip-accounts.json'),
      version: { ...solanaVersion, sluice: deps.version },
      tls,
      trustedProxies: config.trustedProxies,
      clock,
      log: deps.log,
    }),
  )
  if (tpu.address !== null) given.doors.tpu = tpu.address
  return tpu
}
