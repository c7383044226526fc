// What the servers of the rpc benches are made of: a registry with one customer, our endpoint, and
// node:http with the same token check, budget and handler. Thread: a process of its own.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../src/base/clock.ts'
import { encodedText } from '../../../src/base/jsonrpc/build.ts'
import { Methods, type MethodTable } from '../../../src/base/jsonrpc/serve.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { jsonHead } from '../../../src/base/transport/reply.ts'
import { Directory } from '../../../src/customers/auth/directory.ts'
import { Gate } from '../../../src/customers/auth/gate.ts'
import { declareQuotaMeters } from '../../../src/customers/quota/meters.ts'
import { Quota } from '../../../src/customers/quota/quota.ts'
import { standardPlan } from '../../../src/customers/subscriptions/plans.ts'
import { openStore } from '../../../src/customers/subscriptions/store.ts'
import { type Caller, type HandleDeps, RpcHandler } from '../../../src/products/rpc/handle.ts'
import { declareRpcMeters } from '../../../src/products/rpc/meters.ts'
import { startRpc } from '../../../src/products/rpc/server.ts'

export interface Started {
  readonly port: number
  readonly token: string
}

export const host = '127.0.0.1'
const log = silentLog
const clock = systemClock

/** A registry with one customer, whose plan has every limit but never reaches one. */
export function parts() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const store = openStore(folder, { clock })
  const issued = store.add({ label: 'bench', products: ['bundle'] }, { who: 'bench' })
  if (!issued.ok) throw new Error(issued.refusal.message)
  const meters = new Meters()
  const wide = {
    creditsPerSecond: 1e9,
    burst: 1e9,
    creditsPer30Days: Number.MAX_SAFE_INTEGER,
    methodCallsPerSecond: { sendTransaction: 1e9 },
  }
  const plans = { standard: { ...standardPlan, ...wide } }
  const quota = new Quota({ plans, ledger: store, clock, log })
  quota.start()
  return {
    token: issued.value.token,
    gate: new Gate(new Directory(store, { clock, log }), { clock }),
    quota,
    quotaMeters: declareQuotaMeters(meters, quota),
    meters: declareRpcMeters(meters),
  }
}

const healthy = encodedText('"ok"')
/** The method that the benches call, and those of a chain. */
export const answering = (...chain: readonly MethodTable<Caller>[]) =>
  new Methods<Caller>({ getHealth: () => healthy }, ...chain)

/** Our endpoint in front of this. */
export async function startEndpoint(proxy: HandleDeps['proxy']): Promise<Started> {
  const { token, ...deps } = parts()
  const endpoint = await startRpc(
    { enabled: true, host, port: 0, inFlightPerAddress: 1000 },
    {
      ...{ ...deps, proxy, tls: null, trustedProxies: [], clock, log },
      health: () => 'ok',
      usageOf: async () => null,
    },
  )
  return { port: endpoint.address!.port, token }
}

/** The same token check, budget and handler on node:http. */
export function startNodeHttp(proxy: HandleDeps['proxy']): Promise<Started> {
  const { token, gate, quota, ...deps } = parts()
  const handler = new RpcHandler({ ...deps, proxy, clock, log })
  const server = createServer((request, response) => {
    const credentials = { xToken: String(request.headers['x-token'] ?? '') }
    const principal = gate.admit('rpc', credentials, request.socket.remoteAddress ?? '')
    if (principal === null) return void response.writeHead(401).end()
    const { subscription } = principal
    const head = jsonHead
    const caller: Caller = { subscription, budget: quota.budgetOf(subscription), head }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', async () => {
      const reply = await handler.handle(Buffer.concat(chunks), caller)
      const text = String(reply.body)
      response.writeHead(reply.status, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(text),
        'access-control-allow-origin': '*',
        ratelimit: '"credits";r=1;t=1',
        'ratelimit-policy': '"credits";q=1;w=1',
      })
      response.end(text)
    })
  })
  return new Promise((resolve) => {
    server.listen(0, host, () => resolve({ port: (server.address() as AddressInfo).port, token }))
  })
}
