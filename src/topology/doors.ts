// The products, each behind its own door. Thread: main. Called by topology.ts, last.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Commitment } from '../base/commitment.ts'
import type { Components } from '../base/components.ts'
import type { Fault } from '../base/errors.ts'
import type { DoorAddress, Running } from '../base/running.ts'
import { type Config, tpuUpstreamsOf } from '../config/config.ts'
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
import { decodeKey, encodeBase58 } from '../solana/base58.ts'
import { Addresses } from '../transport/address.ts'
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
  const { meters, events, execution, upstream, geyser, tls } = given
  const { trustedProxies } = config
  const shared = { ...given, trustedProxies, clock: deps.clock, log: deps.log }
  const version = { ...solanaVersion, sluice: deps.version }
  const chainOf = (served: Served) => geyser.of(upstream.setOf(served))
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
      proxy: upstream.proxy,
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
  const { devnode } = given
  const embeddedLeader = devnode && decodeKey(devnode.addresses.identity)
  const shreds = await parts.add('shredstream', () =>
    startShredstream(config.shredstream, { ...given, embeddedLeader, clock, log, onDown }),
  )
  if (shreds.address !== null) given.doors.shredstream = shreds.address
  if (config.shredstream.feed === 'embedded') await devnode?.sendShreds(shreds.ingest)
  return shreds
}

/** No token here: the tip decides. */
export async function openTpu(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  given: Ground & Roads & { doors: Record<string, DoorAddress> },
): Promise<RunningTpu | null> {
  const { upstream, geyser, verifier, meters, data, tls } = given
  const { addressBudget, quotaMeters } = given
  const names = tpuUpstreamsOf(config)
  if (!config.tpu.enabled) return null
  const { clock } = deps
  const log = deps.log.area('tpu')
  const senders = transactionSenders(names, upstream.nodes, { clock, log })
  await Promise.all(senders.map((sender) => sender.warm()))
  // Where a set's stream shows what landed, no node is asked for it.
  const chain = names.map((name) => geyser.of(name)).find((found) => found !== null) ?? null
  const tpu = await parts.add('tpu', () =>
    startTpu(config.tpu, {
      senders,
      hub: chain?.hub ?? null,
      slot: () => chain?.heads.at(Commitment.processed)?.slot ?? null,
      isBlockhashValid: (blockhash) =>
        chain?.heads.isBlockhashValid(encodeBase58(blockhash), Commitment.processed) ?? null,
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
