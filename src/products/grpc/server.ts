// Opens the gRPC endpoint of the bundle, geyser.Geyser and grpc.health.v1.
//
//   call -> transport/grpc-thread -> admission: token, budget -> geyser/service of its chain
//                                                      -> health, reflection
import type { Clock } from '../../base/clock.ts'
import type { Fault } from '../../base/errors.ts'
import type { Running } from '../../base/running.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { type CallTap, tapMethods } from '../../base/transport/call-tap.ts'
import type { GrpcMethod } from '../../base/transport/grpc.ts'
import type { GrpcCertificates } from '../../base/transport/grpc-bind.ts'
import { type GrpcStatus, grpcCode } from '../../base/transport/grpc-stream.ts'
import { openGrpcThread } from '../../base/transport/grpc-thread.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Quota } from '../../customers/quota/quota.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import type { Consumers } from '../../customers/subscriptions/consumers.ts'
import type { Subscription } from '../../customers/subscriptions/subscription.ts'
import { loadCodec } from '../../streams/geyser/codec.ts'
import type { GrpcChain } from '../../streams/geyser/fan-out.ts'
import type { FilterLimits } from '../../streams/geyser/filter-compile.ts'
import type { GrpcMeters } from '../../streams/geyser/meters.ts'
import { GeyserService } from '../../streams/geyser/service.ts'
import { streamHeaders } from '../../streams/geyser/subscriber.ts'
import { admit, type Caller, charge, noToken } from './admission.ts'
import type { GrpcSection } from './config.ts'
import { GrpcHealth, OpenCalls } from './health.ts'
import { reflectionMethods } from './reflection.ts'

export interface GrpcDeps {
  readonly gate: Gate
  readonly quota: Quota
  readonly quotaMeters: QuotaMeters
  readonly addressBudget: AddressBudget
  /** Stopped with the endpoint; absent or null: there are none. */
  readonly consumers?: Consumers | null
  readonly meters: GrpcMeters
  /** The chain that a subscription reads; without one its calls are UNAVAILABLE. */
  chainOf(subscription: Subscription): GrpcChain | null
  /** Chain of subscriptions without a set of their own; the health service reports its state. */
  readonly mainChain: GrpcChain | null
  readonly certificates: GrpcCertificates | null
  /** Whether other gateways may listen on the same port. */
  readonly sharePorts?: boolean
  readonly calls?: CallTap
  readonly trustedProxies: readonly string[]
  readonly clock: Clock
  /** The endpoint's thread died too often. */
  onDown(fault: Fault): void
  readonly log: Log
  /** The version of the package. */
  readonly version: string
}

export async function startGrpc(section: GrpcSection, deps: GrpcDeps): Promise<Running> {
  const codec = loadCodec()
  const { mainChain, gate } = deps
  const health = new GrpcHealth(codec, () => mainChain?.isUp() ?? false)
  const unwatchHealth = mainChain?.watch(() => health.changed()) ?? (() => {})
  const geyser = new GeyserService<Caller | null>({
    ...deps,
    codec,
    limits: limitsOf(section),
    keysMax: (caller) => caller!.budget.plan.filterKeys,
    backlogBytesMax: section.backlogBytesMax,
    pingMs: section.pingMs,
    chainOf: (caller) => caller && deps.chainOf(caller.principal.subscription),
    consumersOf: (caller) =>
      (caller && deps.consumers?.of(caller.principal.subscription.id)) ?? null,
    meter(caller, bytes, updates) {
      caller?.budget.meter('bytes', bytes)
      if (updates > 0) caller?.budget.meter('notifications', updates)
    },
    // Reason for `!`: only the health service has callers without a token, and it charges nothing.
    charge: (caller, credits) => charge(caller!, credits, deps),
    lease: (caller, end) =>
      gate.lease(caller!.principal, 'grpc', caller!.address, () => end(noToken)),
  })
  const methods: GrpcMethod<Caller | null>[] = [
    ...(deps.calls === undefined ? geyser.methods : tapMethods(geyser.methods, deps.calls, setOf)),
    ...health.methods<Caller | null>(),
    ...(section.reflection
      ? reflectionMethods<Caller | null>(codec, (caller) => charge(caller!, 1, deps))
      : []),
  ]
  const admissionDeps = { ...deps, healthCalls: new OpenCalls(section.health) }
  const log = deps.log.area('grpc')
  const endpoint = await openGrpcThread<Caller | null>(
    {
      ...section,
      isShared: deps.sharePorts,
      certificates: deps.certificates,
      trustedProxies: deps.trustedProxies,
      headers: streamHeaders,
      admit: (peer) => admit(peer, admissionDeps),
      methods,
      log,
    },
    deps,
  )
  return {
    address: endpoint.address,
    async stop() {
      unwatchHealth()
      health.stop(shuttingDown)
      geyser.stop(shuttingDown)
      await endpoint.stop()
      await deps.consumers?.stop()
    },
  }
}

const setOf = (caller: Caller | null) => caller?.principal.subscription.upstream ?? null

function limitsOf(section: GrpcSection): FilterLimits {
  const { accountReject, ownerReject, ...limits } = section.filters
  return { ...limits, accountReject: new Set(accountReject), ownerReject: new Set(ownerReject) }
}

const shuttingDown: GrpcStatus = { code: grpcCode.unavailable, details: 'the server is stopping' }
