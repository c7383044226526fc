// Decides who may call: token, then budget, before any message is read.
// Calls of the health service, which takes no token, and calls with a wrong token are charged to
// the budget of the client's address.
import { refuse } from '../../base/errors.ts'
import type { Admission, GrpcPeer } from '../../base/transport/grpc.ts'
import type { GrpcStatus } from '../../base/transport/grpc-stream.ts'
import { type Gate, registryExpired } from '../../customers/auth/gate.ts'
import { invalidToken, type Principal, refusedToken } from '../../customers/auth/token.ts'
import type { Budget, Verdict } from '../../customers/quota/budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Quota } from '../../customers/quota/quota.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import { statusOf } from '../../streams/geyser/fan-out.ts'
import { type GrpcMeters, grpcMethods } from '../../streams/geyser/meters.ts'
import type { OpenCalls } from './health.ts'

export interface Caller {
  readonly principal: Principal
  readonly budget: Budget
  readonly address: string
}

export interface AdmissionDeps {
  readonly gate: Gate
  readonly quota: Quota
  readonly quotaMeters: QuotaMeters
  readonly meters: GrpcMeters
  readonly addressBudget: AddressBudget
  readonly healthCalls: OpenCalls
}

/** What a call without a valid token costs its address: opening the call is most of the work. */
const callCost = { workMs: 0.5, bytes: 256 }
const healthPath = '/grpc.health.v1.Health/'
const streamMethods: readonly string[] = ['Subscribe', 'SubscribeDeshred', 'ServerReflectionInfo']

/** The caller of the health service is null: it takes no token. */
export function admit(peer: GrpcPeer, deps: AdmissionDeps): Admission<Caller | null> {
  if (peer.path.startsWith(healthPath)) return admitHealth(peer.address, deps)
  const method = peer.path.slice(peer.path.lastIndexOf('/') + 1)
  const admission = decide(peer, method, deps)
  const known = grpcMethods.find((name) => name === method) ?? 'other'
  deps.meters.requests.count(known, admission.ok ? 'admitted' : 'refused')
  return admission
}

function admitHealth(address: string, deps: AdmissionDeps): Admission<null> {
  const { healthCalls, quotaMeters } = deps
  const overBudget = chargeAddress(address, deps)
  if (overBudget !== null) return { ok: false, status: overBudget }
  if (healthCalls.enter(address))
    return { ok: true, caller: null, leave: () => healthCalls.leave(address) }
  quotaMeters.addressRefused.grpc.inc()
  return { ok: false, status: tooManyHealthCalls }
}

/** Charges a call without a valid token; null when the budget of its address allows it. */
function chargeAddress(address: string, deps: AdmissionDeps): GrpcStatus | null {
  const retryAfterMs = deps.addressBudget.admit(address, callCost)
  if (retryAfterMs === 0) return null
  deps.quotaMeters.addressRefused.grpc.inc()
  const message = 'this address has used up its budget'
  return statusOf(refuse('exhausted', 'address-budget', message, { retryAfterMs }).refusal)
}

/** Charges a request on an open stream; null when the budget allows it. */
export function charge(
  caller: Caller,
  credits: number,
  deps: Pick<AdmissionDeps, 'quotaMeters'>,
): GrpcStatus | null {
  const verdict = caller.budget.spend(Array.from({ length: credits }, () => 'Subscribe'))
  if (verdict.ok) return null
  deps.quotaMeters.refused.grpc.inc()
  return overBudget(verdict)
}

function decide(peer: GrpcPeer, method: string, deps: AdmissionDeps): Admission<Caller> {
  const credentials = {
    repeated: peer.isRepeated,
    ...(peer.xToken === undefined ? {} : { xToken: peer.xToken }),
    ...(peer.authorization === undefined ? {} : { authorization: peer.authorization }),
  }
  const principal = deps.gate.admit('grpc', credentials, peer.address)
  if (principal === null) {
    if (deps.gate.isExpired()) return { ok: false, status: statusOf(registryExpired) }
    const refused = refusals[refusedToken('grpc', credentials)]
    return { ok: false, status: chargeAddress(peer.address, deps) ?? refused }
  }
  const budget = deps.quota.budgetOf(principal.subscription)
  const kind = streamMethods.includes(method) ? 'streams' : 'calls'
  if (!budget.enter(kind)) {
    deps.quotaMeters.refused.grpc.inc()
    return { ok: false, status: tooMany(budget, kind) }
  }
  const verdict = budget.spend(method)
  if (!verdict.ok) {
    budget.leave(kind)
    deps.quotaMeters.refused.grpc.inc()
    return { ok: false, status: overBudget(verdict) }
  }
  const caller = { principal, budget, address: peer.address }
  return { ok: true, caller, leave: () => budget.leave(kind) }
}

/** Errors: PermissionDenied on gRPC. */
export const noToken: GrpcStatus = statusOf(
  refuse('unauthenticated', 'no-token', invalidToken).refusal,
)
const refusals: Readonly<Record<'none' | 'invalid', GrpcStatus>> = {
  none: statusOf(
    refuse('unauthenticated', 'no-token', 'send a token in the metadata x-token or authorization')
      .refusal,
  ),
  invalid: noToken,
}

const tooManyHealthCalls: GrpcStatus = statusOf(
  refuse('exhausted', 'too-many-calls', 'too many health calls are open').refusal,
)

function tooMany(budget: Budget, kind: 'streams' | 'calls'): GrpcStatus {
  const max = kind === 'streams' ? budget.plan.streams : budget.plan.callsInFlight
  const message = `the plan allows ${max} ${kind === 'streams' ? 'streams' : 'calls in flight'}`
  return statusOf(refuse('exhausted', `too-many-${kind}`, message).refusal)
}

function overBudget(verdict: Verdict): GrpcStatus {
  const { reason, retryAfterMs } = verdict
  const extra = retryAfterMs > 0 ? { retryAfterMs } : undefined
  const messages = {
    ok: '',
    rate: 'rate limit exceeded',
    'method-rate': 'rate limit of this method exceeded',
    credits: 'the credits of this 30-day period are spent',
    'too-expensive': 'the call costs more than the plan allows at once',
  }
  return statusOf(refuse('exhausted', `quota-${reason}`, messages[reason], extra).refusal)
}
