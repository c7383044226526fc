// The rpc endpoint in front of one node (argv[2] is its address) in a process of its own, as the
// compiled code does it. Sends `{ port, token }` when it is open.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock as clock } from '../../dist/src/base/clock.js'
import { silentLog as log } from '../../dist/src/base/telemetry/log.js'
import { Meters } from '../../dist/src/base/telemetry/meters.js'
import { Directory } from '../../dist/src/customers/auth/directory.js'
import { Gate } from '../../dist/src/customers/auth/gate.js'
import { declareQuotaMeters } from '../../dist/src/customers/quota/meters.js'
import { Quota } from '../../dist/src/customers/quota/quota.js'
import { unlimitedPlan } from '../../dist/src/customers/subscriptions/plans.js'
import { openStore } from '../../dist/src/customers/subscriptions/store.js'
import { strictRules } from '../../dist/src/customers/subscriptions/subscription.js'
import { declareRpcMeters } from '../../dist/src/products/rpc/meters.js'
import { startRpc } from '../../dist/src/products/rpc/server.js'
import { singleNodeSet } from '../../dist/src/upstream/config.js'
import { Upstreams } from '../../dist/src/upstream/node-pool/upstreams.js'
import { declareProxyMeters } from '../../dist/src/upstream/proxy/method-policy.js'
import { RpcProxy } from '../../dist/src/upstream/proxy/rpc-proxy.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-proxy-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
process.once('disconnect', () => process.exit(0))

const plans = { unlimited: unlimitedPlan }
const known = { plans: ['unlimited'], destinationRules: strictRules }
const store = openStore(folder, { clock, known })
const request = { label: 'one', products: ['bundle'], plan: 'unlimited' }
const added = store.add(request, { who: 'test' })
if ('refusal' in added) throw new Error(added.refusal.message)
const { token } = added.value
const meters = new Meters()
const quota = new Quota({ plans, ledger: store, clock, log })
const patience = { hedge: false, timeoutMs: 120_000 }
const set = { ...singleNodeSet({ rpc: process.argv[2] }), ...patience, cacheBytes: 1e6 }
const upstreams = new Upstreams({ default: set }, { clock, log })
await upstreams.start()
const tally = declareProxyMeters(meters)
const proxy = new RpcProxy({ upstreams, tally, version: '0', clock })
const endpoint = await startRpc(
  { enabled: true, host: '127.0.0.1', port: 0, inFlightPerAddress: 1000 },
  {
    gate: new Gate(new Directory(store, { clock, log }), { clock }),
    quota,
    quotaMeters: declareQuotaMeters(meters, quota),
    meters: declareRpcMeters(meters),
    proxy,
    health: () => proxy.health(),
    usageOf: async () => null,
    tls: null,
    trustedProxies: [],
    clock,
    log,
  },
)
process.send({ port: endpoint.address.port, token })
