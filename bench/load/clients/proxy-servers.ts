// The servers of the proxy benches, one per process: a node that answers constants, our endpoint in
// front of it, and node:http with undici doing the same. Thread: a process of its own.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import { systemClock as clock } from '../../../src/base/clock.ts'
import { silentLog as log } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { listen, uws } from '../../../src/base/transport/uws.ts'
import { singleNodeSet } from '../../../src/upstream/config.ts'
import { Upstreams } from '../../../src/upstream/node-pool/upstreams.ts'
import { declareProxyMeters } from '../../../src/upstream/proxy/method-policy.ts'
import { RpcProxy } from '../../../src/upstream/proxy/rpc-proxy.ts'
import { freePort } from '../../../test/testkit/free-port.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'
import { host, parts, type Started, startEndpoint } from './rpc-parts.ts'

const slot = '{"context":{"apiVersion":"4.0.0","slot":348211067}'
/** Up to the id, which is the caller's. */
const balance = `{"jsonrpc":"2.0","result":${slot},"value":1999995000},"id":`
const data = Buffer.alloc(75_000, 'sluice').toString('base64')
const account = `{"jsonrpc":"2.0","result":${slot},"value":{"lamports":1,"data":["${data}","base64"],"owner":"11111111111111111111111111111111","executable":false,"rentEpoch":18446744073709551615,"space":75000}},"id":`

serveBench({
  upstream: startUpstream,
  ours: startOurs,
  node: startNode,
  cpuSeconds: usedSeconds,
})

/** A node that costs as little as one can: it reads the body and answers a constant. */
async function startUpstream(): Promise<number> {
  const port = await freePort()
  const app = uws().App()
  app.post('/', (response) => {
    response.onAborted(() => {})
    let isLong = false
    let isBatch = false
    let id = '1'
    response.onData((chunk, isLast) => {
      const text = Buffer.from(chunk).toString('latin1')
      isLong ||= text.includes('getAccountInfo')
      isBatch ||= text.startsWith('[')
      id = /"id":(\d+)/.exec(text)?.[1] ?? id
      if (!isLast) return
      response.writeHeader('content-type', 'application/json; charset=utf-8')
      response.end(isBatch ? probes(text) : `${isLong ? account : balance}${id}}\n`)
    })
  })
  await listen(app, { host, port, exclusive: true })
  return port
}

/** Its slots go on: a node that stands still is taken out of the rotation. */
function probes(text: string): string {
  const asked = JSON.parse(text) as { id: number; method: string }[]
  const slot = 1000 + Math.floor(clock.monotonicMs() / 400)
  return JSON.stringify(
    asked.map(({ id, method }) => ({ id, result: method === 'getHealth' ? 'ok' : slot })),
  )
}

async function startOurs(port: number): Promise<Started> {
  const rpc = `http://${host}:${port}`
  const upstreams = new Upstreams({ default: singleNodeSet({ rpc }) }, { clock, log })
  await upstreams.start()
  const tally = declareProxyMeters(new Meters())
  return startEndpoint(new RpcProxy({ upstreams, tally, version: '0', clock }))
}

/** The same token check and budget; bodies go through as they are. */
function startNode(port: number): Promise<Started> {
  const { token, gate, quota } = parts()
  const pool = new Pool(`http://${host}:${port}`, { connections: 256, pipelining: 1 })
  const headers = { 'content-type': 'application/json' }
  const server = createServer((request, response) => {
    const credentials = { xToken: String(request.headers['x-token'] ?? '') }
    const principal = gate.admit('rpc', credentials, request.socket.remoteAddress ?? '')
    if (principal === null) return void response.writeHead(401).end()
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', async () => {
      const body = Buffer.concat(chunks)
      const { method } = JSON.parse(body.toString()) as { method: string }
      const verdict = quota.budgetOf(principal.subscription).spend(method)
      const answer = await pool.request({ method: 'POST', path: '/', headers, body })
      response.writeHead(answer.statusCode, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': String(answer.headers['content-length']),
        ratelimit: `"credits";r=${verdict.remaining};t=${verdict.resetSecs}`,
        'ratelimit-policy': `"credits";q=${verdict.limit};w=${verdict.windowSecs}`,
      })
      answer.body.pipe(response)
    })
  })
  return new Promise((resolve) => {
    server.listen(0, host, () => resolve({ port: (server.address() as AddressInfo).port, token }))
  })
}
