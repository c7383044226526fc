// The gRPC product for a bench: registry, token, budget, endpoint. Thread: main of its process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../src/base/clock.ts'
import { silentLog as log } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { grpcEncodings } from '../../../src/base/transport/grpc-encoding.ts'
import { Directory } from '../../../src/customers/auth/directory.ts'
import { Gate } from '../../../src/customers/auth/gate.ts'
import { declareQuotaMeters } from '../../../src/customers/quota/meters.ts'
import { Quota } from '../../../src/customers/quota/quota.ts'
import { AddressBudget } from '../../../src/customers/quota/rates.ts'
import { unlimitedPlan } from '../../../src/customers/subscriptions/plans.ts'
import { openStore } from '../../../src/customers/subscriptions/store.ts'
import { startGrpc } from '../../../src/products/grpc/server.ts'
import type { GrpcChain } from '../../../src/streams/geyser/fan-out.ts'
import { declareGrpcMeters, type GrpcMeters } from '../../../src/streams/geyser/meters.ts'

const clock = systemClock

export interface BenchEndpoint {
  readonly port: number
  readonly token: string
  readonly meters: GrpcMeters
  /** Streams open now. */
  streams(): number
}

export async function openGrpcEndpoint(chain: GrpcChain): Promise<BenchEndpoint> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const store = openStore(folder, { clock })
  const request = { label: 'bench', products: ['bundle'], plan: 'unlimited' }
  const issued = store.add(request, { who: 'bench' })
  if (!issued.ok) throw new Error(issued.refusal.message)
  const meters = new Meters()
  const plans = { standard: unlimitedPlan, unlimited: unlimitedPlan }
  const quota = new Quota({ plans, ledger: store, clock, log })
  quota.start()
  const declared = declareGrpcMeters(meters)
  let streams = 0
  const countStreams = (open: number) => {
    streams = open
  }
  const endpoint = await startGrpc(section, {
    gate: new Gate(new Directory(store, { clock, log }), { clock }),
    quota,
    quotaMeters: declareQuotaMeters(meters, quota),
    addressBudget: new AddressBudget(addressLimits, clock),
    meters: { ...declared, streams: { set: countStreams } },
    chainOf: () => chain,
    mainChain: chain,
    certificates: null,
    trustedProxies: [],
    clock,
    log,
    onDown: () => process.exit(1),
    version: '0',
  })
  const { token } = issued.value
  return { port: endpoint.address!.port, token, meters: declared, streams: () => streams }
}

const addressLimits = { workMsPerSecond: 0, workMsBurst: 1, bytesPerSecond: 1, bytesBurst: 1 }

const section = {
  enabled: true,
  host: '127.0.0.1',
  port: 0,
  reflection: false,
  messageBytesMax: 4 * 1024 * 1024,
  backlogBytesMax: 16 * 1024 * 1024,
  pingMs: 600_000,
  keepaliveMs: 600_000,
  keepaliveTimeoutMs: 10_000,
  connectionsPerAddressMax: 100_000,
  connectionIdleMs: 600_000,
  health: { callsPerAddressMax: 100, callsMax: 1_000 },
  compression: grpcEncodings,
  filters: {
    filtersMax: 10,
    accountsMax: 10,
    ownersMax: 10,
    dataSlicesMax: 10,
    cuckooBytesMax: 1024,
    any: true,
    accountReject: [],
    ownerReject: [],
  },
}
