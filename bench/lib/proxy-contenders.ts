// The ways from a client to a node that the proxy benches compare: none between, nginx with kept
// connections, node:http with undici, and our endpoint. Thread: main of the bench; each server
// and the client are processes of their own.

import { nginxMissing, startNginx } from '../../test/testkit/nginx.ts'
import { startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement, RoundContext } from './bench.ts'
import { httpLoad, jsonPost, perCpuSecond, verifyLoad } from './http-load.ts'
import { processorSeconds } from './processor-time.ts'
import { Shared } from './shared.ts'

export const ours = 'rpc endpoint: token, budget, parsing, routing'
export const node = 'node:http + undici: token, budget'
export const nginx = 'nginx proxy_pass, kept connections'
export const direct = 'direct, no proxy'

/** How a round is counted: by the clock, or by the processor time that the proxy used. */
export type CountedBy = 'clock' | 'cpu'

export interface Asking {
  readonly method: 'getBalance' | 'getAccountInfo'
  readonly connections: number
  readonly by?: CountedBy
}

interface Way {
  readonly port: number
  readonly token: string
  cpuSeconds(): number | Promise<number>
  stop(): Promise<void>
}

const servers = new URL('../load/clients/proxy-servers.js', import.meta.url)
const WARM_UP_SECONDS = 0.7

/** One node for all ways of a bench. */
const upstream = new Shared(async () => {
  const child = startProcess(servers)
  return { child, port: await child.call<number>('upstream'), stop: () => child.stop() }
})

/** Ours beside a plain proxy doing the same, nginx, and no proxy at all. */
export function proxyBench(name: string, question: string, asking: Asking): Bench {
  const isLong = asking.method === 'getAccountInfo'
  return {
    name,
    question,
    cores: 3,
    baseline: contender(node, asking),
    candidates: [ours, nginx, direct].map((each) => contender(each, asking)),
    goals: [
      { contender: ours, to: node, figure: 'opsPerSecond', atLeast: 3 },
      // A long answer is mostly bytes, which cost both the same.
      { contender: ours, to: nginx, figure: 'opsPerSecond', atLeast: isLong ? 0.8 : 0.5 },
    ],
    // The plain proxy and no proxy are the same code at another size.
    ...((isLong || asking.by === 'cpu') && { smoke: [ours, nginx] }),
    verify: verifyLoad,
  }
}

export function contender(name: string, asking: Asking): Contender {
  let way: Way | null = null
  return {
    name,
    missing: async ({ target }) => {
      if (target !== undefined) return 'both ends of the proxy are needed'
      return name === nginx ? nginxMissing() : undefined
    },
    async prepare(context) {
      way = await open(name, context)
      if (context.smoke !== true) await load(way, asking, WARM_UP_SECONDS)
    },
    async run({ seconds }) {
      const drive = () => load(way!, asking, seconds)
      return asking.by === 'cpu' ? perCpuSecond(way!.cpuSeconds, drive) : drive()
    },
    async close() {
      await way?.stop()
      way = null
      await upstream.stop()
    },
  }
}

/** What a way adds to the time of one call after another, against the direct way. */
export function addedContender(name: string, asking: Omit<Asking, 'connections'>): Contender {
  const alone = { ...asking, connections: 1 }
  const through = contender(name, alone)
  const past = contender(direct, alone)
  return {
    ...through,
    async prepare(context) {
      await through.prepare!(context)
      await past.prepare!(context)
    },
    async run({ seconds }) {
      const before = await past.run({ seconds: seconds / 3 })
      const measured = await through.run({ seconds: seconds / 3 })
      const after = await past.run({ seconds: seconds / 3 })
      return { ...measured, latencyUs: subtract(measured, before, after) }
    },
    async close() {
      await through.close!()
      await past.close!()
    },
  }
}

function subtract(measured: Measurement, ...without: Measurement[]) {
  const of = (part: 'p50' | 'p99' | 'p999') =>
    measured.latencyUs![part] -
    without.reduce((sum, one) => sum + one.latencyUs![part], 0) / without.length
  return { p50: of('p50'), p99: of('p99'), p999: of('p999') }
}

function load({ port, token }: Way, { method, connections }: Asking, seconds: number) {
  const params = '["9xQeWvG816bUx9EPjHmaT23yvVM2ZWb########",{"commitment":"confirmed"}]'
  const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`
  const request = jsonPost(token, body)
  const expected = '"slot":348211067}'
  return httpLoad({ host: '127.0.0.1', port, seconds, connections, request, expected })
}

async function open(name: string, context: RoundContext): Promise<Way> {
  const node = await upstream.get(context)
  if (name === nginx) {
    const server = await openNginx(node.port)
    return { ...server, token: '', cpuSeconds: () => processorSeconds(server.pid) }
  }
  const child = name === direct ? node.child : startProcess(servers)
  const cpuSeconds = () => child.call<number>('cpuSeconds')
  if (name === direct) return { port: node.port, token: '', cpuSeconds, stop: async () => {} }
  const kind = name === ours ? 'ours' : 'node'
  const started = await child.call<{ port: number; token: string }>(kind, node.port)
  return { ...started, cpuSeconds, stop: () => child.stop() }
}

function openNginx(port: number) {
  return startNginx(
    `upstream node { server 127.0.0.1:${port}; keepalive 256; }`,
    `proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection "";
     proxy_buffers 8 32k; proxy_buffer_size 32k; proxy_busy_buffers_size 64k;`,
  )
}
