// The gRPC door of the bundle: geyser.Geyser and grpc.health.v1 on port 10010. Thread: main.
//
//   call -> transport/grpc -> admission: token, budget -> handle (unary) -> answer
//                                                      -> subscriber (stream) <- requests
//   chain -> stream/hub -> fan-out: match, frame once -> subscriber: queue -> http2
import type { Gate } from '../../auth/gate.ts'
import type { Clock } from '../../base/clock.ts'
import type { Running } from '../../base/running.ts'
import type { SolanaUpdate } from '../../chain/ports.ts'
import type { QuotaMeters } from '../../quota/meters.ts'
import type { Quota } from '../../quota/quota.ts'
import type { Hub } from '../../stream/hub.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Addresses } from '../../transport/address.ts'
import { type GrpcCertificates, type GrpcMethod, openGrpcDoor } from '../../transport/grpc.ts'
import { canSendDirectly } from '../../transport/grpc-probe.ts'
import { type GrpcStatus, grpcCode } from '../../transport/grpc-status.ts'
import type { GrpcStream, StreamEvents } from '../../transport/grpc-stream.ts'
import { admit, type Caller, charge, noToken } from './admission.ts'
import { type Codec, loadCodec } from './codec.ts'
import type { GrpcSection } from './config.ts'
import { FanOut } from './fan-out.ts'
import type { FilterLimits } from './filter-compile.ts'
import { type ChainState, unaryMethods } from './handle.ts'
import { Heads } from './heads.ts'
import { Health } from './health.ts'
import type { GrpcMeters } from './meters.ts'
import { reflectionMethods } from './reflection.ts'
import { Subscriber } from './subscriber.ts'

export interface GrpcDeps {
  readonly gate: Gate
  readonly quota: Quota
  readonly quotaMeters: QuotaMeters
  readonly meters: GrpcMeters
  /** Null while no Solana chain is attached: its methods then answer UNAVAILABLE. */
  readonly hub: Hub<SolanaUpdate> | null
  readonly certificates: GrpcCertificates | null
  readonly addresses: Pick<Addresses, 'clientOfText'>
  readonly clock: Clock
  readonly log: Log
  /** The version of the package. */
  readonly version: string
}

export async function startGrpc(section: GrpcSection, deps: GrpcDeps): Promise<Running> {
  const codec = loadCodec()
  const health = new Health(codec)
  const chain = deps.hub === null ? null : attach(deps.hub, deps.meters)
  const streams = new Set<Subscriber>()
  deps.meters.backlog.bytes = () => {
    let bytes = 0
    for (const subscriber of streams) bytes += subscriber.backlogBytes
    return bytes
  }
  const methods: GrpcMethod<Caller | null>[] = [
    ...unary(codec, deps, chain),
    stream('Subscribe', (call, caller) =>
      chain === null
        ? ended(call, deps, noChain)
        : subscribe(call, caller!, { section, deps, codec, chain, streams }),
    ),
    stream('SubscribeDeshred', (call) => ended(call, deps, comingSoon)),
    ...health.methods<Caller | null>(),
    ...(section.reflection ? reflectionMethods<Caller | null>(codec) : []),
  ]
  const sendsDirectly = section.sendsDirectly && (await canSendDirectly(deps.log))
  const door = await openGrpcDoor<Caller | null>({
    ...section,
    sendsDirectly,
    certificates: deps.certificates,
    clientAddress: (peer, forwarded) => deps.addresses.clientOfText(peer, forwarded),
    admit: (peer) => admit(peer, deps),
    methods,
    log: deps.log,
  })
  const pings = setInterval(() => {
    for (const subscriber of streams) subscriber.ping()
  }, section.pingMs)
  pings.unref()
  return {
    address: door.address,
    async stop() {
      clearInterval(pings)
      health.stop(shuttingDown)
      for (const subscriber of streams) subscriber.end('shutdown', shuttingDown)
      chain?.fanOut.stop()
      chain?.heads.stop()
      await door.stop()
    },
  }
}

interface Attached extends ChainState {
  readonly hub: Hub<SolanaUpdate>
  readonly fanOut: FanOut
}

function attach(hub: Hub<SolanaUpdate>, meters: GrpcMeters): Attached {
  const heads = new Heads(hub)
  return { hub, heads, fanOut: new FanOut(hub, meters), oldestSlot: () => hub.oldestSlot }
}

function unary(
  codec: Codec,
  deps: GrpcDeps,
  chain: ChainState | null,
): GrpcMethod<Caller | null>[] {
  const answers = unaryMethods({ codec, version: deps.version, chain })
  return Object.entries(answers).map(([name, answer]) => ({
    kind: 'unary',
    path: `/geyser.Geyser/${name}`,
    answer(request, caller) {
      const answered = answer(request)
      if (answered.ok) caller?.budget.meter('bytes', answered.bytes.length)
      return answered
    },
  }))
}

function stream(
  name: string,
  open: (stream: GrpcStream, caller: Caller | null) => StreamEvents,
): GrpcMethod<Caller | null> {
  return { kind: 'stream', path: `/geyser.Geyser/${name}`, open }
}

function subscribe(
  call: GrpcStream,
  caller: Caller,
  room: {
    section: GrpcSection
    deps: GrpcDeps
    codec: Codec
    chain: Attached
    streams: Set<Subscriber>
  },
): StreamEvents {
  const { section, deps, codec, chain, streams } = room
  const { gate, meters, clock } = deps
  const { budget, principal, address } = caller
  const subscriber = new Subscriber(call, {
    hub: chain.hub,
    fanOut: chain.fanOut,
    codec,
    limits: limitsOf(section),
    backlogBytesMax: section.backlogBytesMax,
    clock,
    meters,
    meter(bytes, updates) {
      budget.meter('bytes', bytes)
      budget.meter('notifications', updates)
    },
    charge: (credits) => charge(caller, credits, deps),
    ended() {
      release()
      streams.delete(subscriber)
      meters.streams.set(streams.size)
    },
  })
  const release = gate.hold(principal, 'grpc', address, () => subscriber.end('token', noToken))
  streams.add(subscriber)
  meters.streams.set(streams.size)
  return subscriber
}

function limitsOf(section: GrpcSection): FilterLimits {
  const { accountReject, ownerReject, ...limits } = section.filters
  return { ...limits, accountReject: new Set(accountReject), ownerReject: new Set(ownerReject) }
}

/** A stream that is answered with a status and nothing else. */
function ended(call: GrpcStream, deps: GrpcDeps, status: GrpcStatus): StreamEvents {
  deps.meters.ended.unavailable.inc()
  call.end(status)
  return { message() {}, halfClosed() {}, drained() {}, closed() {} }
}

const noChain: GrpcStatus = { code: grpcCode.unavailable, details: 'no chain is attached' }
const comingSoon: GrpcStatus = { code: grpcCode.unimplemented, details: 'coming soon' }
const shuttingDown: GrpcStatus = { code: grpcCode.unavailable, details: 'the server is stopping' }
