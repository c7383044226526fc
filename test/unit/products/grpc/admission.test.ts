import { describe, expect, it } from 'vitest'
import { Meters } from '../../../../src/base/telemetry/meters.ts'
import type { Gate } from '../../../../src/customers/auth/gate.ts'
import { declareQuotaMeters } from '../../../../src/customers/quota/meters.ts'
import type { Quota } from '../../../../src/customers/quota/quota.ts'
import { AddressBudget } from '../../../../src/customers/quota/rates.ts'
import { type AdmissionDeps, admit, noToken } from '../../../../src/products/grpc/admission.ts'
import { OpenCalls } from '../../../../src/products/grpc/health.ts'
import { declareGrpcMeters } from '../../../../src/streams/geyser/meters.ts'

const limits = { workMsPerSecond: 1, workMsBurst: 2, bytesPerSecond: 1e6, bytesBurst: 1e6 }
const health = '/grpc.health.v1.Health/Check'
const subscribe = '/geyser.Geyser/Subscribe'

/** Admits calls at time 0 where `token` is the only valid one. */
function stage(token: string) {
  const clock = { nowMs: () => 0, monotonicMs: () => 0 }
  const meters = new Meters()
  const budget = { enter: () => true, leave() {}, spend: () => ({ ok: true }) }
  const quota = { flushesFailed: () => 0, budgetOf: () => budget } as unknown as Quota
  const principalOf: Partial<Gate> = {
    admit: (_, { xToken }) => (xToken === token ? ({ subscription: {} } as never) : null),
    isExpired: () => false,
  }
  const deps: AdmissionDeps = {
    gate: principalOf as Gate,
    quota,
    quotaMeters: declareQuotaMeters(meters, quota),
    meters: declareGrpcMeters(meters),
    addressBudget: new AddressBudget(limits, clock),
    healthCalls: new OpenCalls({ callsPerAddressMax: 100, callsMax: 100 }),
  }
  return (path: string, address: string, xToken?: string) =>
    admit({ path, address, xToken, authorization: undefined, isRepeated: false }, deps)
}

describe('a gRPC call with a wrong token', () => {
  it('is charged to the budget of its address, and refused by it', () => {
    const call = stage('right')
    const refusal = { ok: false, status: { details: 'this address has used up its budget' } }
    expect(call(health, '192.0.2.1').ok).toBe(true)
    for (let count = 0; count < 3; count++)
      expect(call(subscribe, '192.0.2.1', 'wrong')).toEqual({ ok: false, status: noToken })
    for (let count = 0; count < 10; count++)
      expect(call(subscribe, '192.0.2.1', 'wrong')).toMatchObject(refusal)
    expect(call(health, '192.0.2.1')).toMatchObject(refusal)
    expect(call(health, '192.0.2.2').ok).toBe(true)
    expect(call(subscribe, '192.0.2.2', 'wrong')).toEqual({ ok: false, status: noToken })
  })

  it('costs nothing to customers who call from the same address', () => {
    const call = stage('right')
    for (let count = 0; count < 10; count++) call(subscribe, '192.0.2.1', 'wrong')
    for (let count = 0; count < 10; count++)
      expect(call(subscribe, '192.0.2.1', 'right').ok).toBe(true)
  })
})
