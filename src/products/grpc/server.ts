// The gRPC door of the bundle: geyser.Geyser and grpc.health.v1 on port 10010. Thread: main.
//
//   call -> transport/grpc -> admission: token, budget -> handle (unary) -> answer
//                                                      -> subscriber (stream) <- requests
//   caller's chain -> stream/hub -> fan-out: match, frame once -> subscriber: queue -> http2
import type { Gate } from '../../auth/gate.ts'
import type { Clock } from '../../base/clock.ts'
import type { Running } from '../../base/running.ts'
import { chainDown, FanOuts, type GrpcChain, noChain } from '../../geyser/chain.ts'
import { type Codec, loadCodec } from '../../geyser/codec.ts'
import type { FilterLimits } from '../../geyser/filter-compile.ts'
import type { GrpcMeters } from '../../geyser/meters.ts'
import { Subscriber } from '../../geyser/subscriber.ts'
import { unaryMethods } from '../../geyser/unary.ts'
import type { AddressBudget } from '../../quota/address-budget.ts'
import type { QuotaMeters } from '../../quota/meters.ts'
import type { Quota } from '../../quota/quota.ts'
import type { Subscription } from '../../subscriptions/subscription.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Addresses } from '../../transport/address.ts'
import { type GrpcCertificates, type GrpcMethod, openGrpcDoor } from '../../transport/grpc.ts'
import { probeGrpcLibrary } from '../../transport/grpc-probe.ts'
import { type GrpcStatus, grpcCode } from '../../transport/grpc-status.ts'
import type { GrpcStream, StreamEvents } from '../../transport/grpc-stream.ts'
import { admit, type Caller, charge, noToken } from './admission.ts'
import type { GrpcSection } from './config.ts'
import { Health } from './health.ts'
import { OpenCalls } from './open-calls.ts'
import { reflectionMethods } from './reflection.ts'

export interface GrpcDeps {
  readonly gate: Gate
  readonly quota: Quota
  readonly quotaMeters: QuotaMeters
  readonly addressBudget: AddressBudget
  readonly meters: GrpcMeters
  /** The chain that a subscription reads; null when there is none, which answers UNAVAILABLE. */
  chainOf(subscription: Subscription): GrpcChain | null
  /** The chain of everybody without one of his own; its state is what the health service tells. */
  readonly mainChain: GrpcChain | null
  readonly certificates: GrpcCertificates | null
  readonly addresses: Pick<Addresses, 'clientOfText' | 'isProxy'>
  readonly clock: Clock
  readonly log: Log
  /** The version of the package. */
  readonly version: string
}

export async function startGrpc(section: GrpcSection, deps: GrpcDeps): Promise<Running> {
  await probeGrpcLibrary(deps.log)
  const codec = loadCodec()
  const { mainChain } = deps
  const health = new Health(codec, () => mainChain?.isUp() ?? false)
  const unwatchHealth = mainChain?.watch(() => health.changed()) ?? (() => {})
  const streams = new Map<Subscriber, GrpcChain>()
  const fanOuts = new FanOuts(deps.meters, (chain) => {
    if (chain.isUp()) return
    for (const [subscriber, own] of streams)
      if (own === chain) subscriber.end('unavailable', chainDown)
  })
  deps.meters.backlog.bytes = () => {
    let bytes = 0
    for (const subscriber of streams.keys()) bytes += subscriber.backlogBytes
    return bytes
  }
  const methods: GrpcMethod<Caller | null>[] = [
    ...unary(codec, deps),
    stream('Subscribe', (call, caller) => {
      const chain = deps.chainOf(caller!.principal.subscription)
      if (chain === null) return ended(call, deps, noChain)
      if (!chain.isUp()) return ended(call, deps, chainDown)
      return subscribe(call, caller!, { section, deps, codec, chain, fanOuts, streams })
    }),
    stream('SubscribeDeshred', (call) => ended(call, deps, comingSoon)),
    ...health.methods<Caller | null>(),
    ...(section.reflection
      ? reflectionMethods<Caller | null>(codec, (caller) => charge(caller!, 1, deps))
      : []),
  ]
  const admissionDeps = { ...deps, healthCalls: new OpenCalls(section.health) }
  const door = await openGrpcDoor<Caller | null>({
    ...section,
    certificates: deps.certificates,
    clientAddress: (peer, forwarded) => deps.addresses.clientOfText(peer, forwarded),
    isProxy: (peer) => deps.addresses.isProxy(peer),
    admit: (peer) => admit(peer, admissionDeps),
    methods,
    log: deps.log,
  })
  const pings = setInterval(() => {
    for (const subscriber of streams.keys()) subscriber.ping()
  }, section.pingMs)
  pings.unref()
  return {
    address: door.address,
    async stop() {
      clearInterval(pings)
      unwatchHealth()
      health.stop(shuttingDown)
      for (const subscriber of streams.keys()) subscriber.end('shutdown', shuttingDown)
      fanOuts.stop()
      await door.stop()
    },
  }
}

function unary(codec: Codec, deps: GrpcDeps): GrpcMethod<Caller | null>[] {
  const answers = unaryMethods({ codec, version: deps.version })
  return Object.entries(answers).map(([name, answer]) => ({
    kind: 'unary',
    path: `/geyser.Geyser/${name}`,
    answer(request, caller) {
      const chain = caller === null ? null : deps.chainOf(caller.principal.subscription)
      const answered = answer(request, chain)
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
    chain: GrpcChain
    fanOuts: FanOuts
    streams: Map<Subscriber, GrpcChain>
  },
): StreamEvents {
  const { section, deps, codec, chain, fanOuts, streams } = room
  const { gate, meters, clock } = deps
  const { budget, principal, address } = caller
  const subscriber = new Subscriber(call, {
    hub: chain.hub,
    fanOut: fanOuts.of(chain),
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
  const release = gate.lease(principal, 'grpc', address, () => subscriber.end('token', noToken))
  streams.set(subscriber, chain)
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

const comingSoon: GrpcStatus = { code: grpcCode.unimplemented, details: 'coming soon' }
const shuttingDown: GrpcStatus = { code: grpcCode.unavailable, details: 'the server is stopping' }
