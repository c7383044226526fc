// Renders what a start prints on stdout: the endpoints, their sources, and on the first start the
// credentials with one call per product, ready to copy. Thread: main.
import type { EndpointAddress } from '../base/running.ts'
import type { Service } from '../topology/service.ts'
import type { Demo } from './first-start.ts'

type Endpoints = Readonly<Record<string, EndpointAddress>>

const protocols: Readonly<Record<string, readonly [plain: string, secure: string]>> = {
  rpc: ['http', 'https'],
  websocket: ['ws', 'wss'],
  grpc: ['grpc', 'grpcs'],
  metrics: ['http', 'https'],
  tpu: ['http', 'https'],
  indexer: ['http', 'https'],
  shredstream: ['udp', 'udp'],
}

/** `warnings` are whole sentences. */
export function banner(
  service: Pick<Service, 'endpoints' | 'sources'>,
  demo: Demo | null,
  warnings: readonly string[] = [],
): string {
  const { endpoints, sources } = service
  const lines = demo === null ? [] : [...credentials(demo), '']
  for (const [name, endpoint] of Object.entries(endpoints))
    lines.push(`${name.padEnd(12)}${urlOf(name, endpoint)}`)
  for (const [key, source] of sources) lines.push(`${key.padEnd(18)}${source}`)
  lines.push(...warnings)
  if (demo !== null) lines.push('', ...calls(endpoints))
  return `${lines.join('\n')}\n`
}

export function urlOf(name: string, { host, port, tls }: EndpointAddress): string {
  const [plain, secure] = protocols[name] ?? ['tcp', 'tls']
  return `${tls ? secure : plain}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

function credentials({ token, indexer }: Demo): string[] {
  const lines = [`TOKEN=${token}`]
  if (indexer !== null)
    lines.push(`INDEXER_USER=${indexer.user}`, `INDEXER_PASSWORD=${indexer.password}`)
  return lines
}

/**
 * One call per open product, run from the project's folder. Each uses $TOKEN, so that the token
 * itself is on the screen only once.
 */
function calls(endpoints: Endpoints): string[] {
  const { rpc, websocket, grpc, metrics, shredstream, tpu, indexer } = endpoints
  const names = indexer === undefined ? 'TOKEN' : 'TOKEN, INDEXER_USER and INDEXER_PASSWORD'
  const lines = [`# With ${names} set as above:`]
  if (rpc !== undefined) lines.push(rpcCall(urlOf('rpc', rpc)))
  if (websocket !== undefined) lines.push(websocketCall(urlOf('websocket', websocket)))
  if (grpc !== undefined) lines.push(grpcCall(grpc))
  if (metrics !== undefined) lines.push(metricsCall(urlOf('metrics', metrics)))
  if (tpu !== undefined) lines.push(tpuCall(urlOf('tpu', tpu)))
  if (indexer !== undefined) lines.push(indexerCall(urlOf('indexer', indexer)))
  if (shredstream !== undefined) lines.push(`npx --no sluice shreds listen 20010 --for demo`)
  return lines
}

function rpcCall(url: string): string {
  return (
    `curl -s ${url} -H "x-token: $TOKEN" -H 'content-type: application/json' ` +
    `-d '{"jsonrpc":"2.0","id":1,"method":"getVersion"}'`
  )
}

/** Needs no token: a tip to one of these accounts authorizes a transaction. */
function tpuCall(url: string): string {
  return (
    `curl -s ${url} -H 'content-type: application/json' ` +
    `-d '{"jsonrpc":"2.0","id":1,"method":"getTipAccounts"}'`
  )
}

function indexerCall(url: string): string {
  return (
    `curl -s ${url} -u "$INDEXER_USER:$INDEXER_PASSWORD" -H "x-token: $TOKEN" ` +
    `-d 'SELECT count() AS transactions, max(slot) AS slot FROM transactions FORMAT JSON'`
  )
}

function websocketCall(url: string): string {
  return nodeCall(
    `const s=new (require("ws"))("${url}",{headers:{"x-token":process.argv[1]}});` +
      's.on("open",()=>s.send(JSON.stringify({jsonrpc:"2.0",id:1,method:"getVersion"})));' +
      's.on("message",(m)=>{console.log(String(m));s.close()})',
  )
}

/** The token is checked when `metrics.auth` is `token` and ignored otherwise. */
function metricsCall(url: string): string {
  return `curl -s ${url}/v1/status -H "x-token: $TOKEN"`
}

function grpcCall({ host, port, tls }: EndpointAddress): string {
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
  return nodeCall(
    `const g=require("@grpc/grpc-js");const c=new g.Client("${address}",` +
      `g.credentials.${tls ? 'createSsl' : 'createInsecure'}());const m=new g.Metadata();` +
      'm.set("x-token",process.argv[1]);' +
      'c.makeUnaryRequest("/geyser.Geyser/GetVersion",(x)=>x,' +
      '(b)=>String(b.subarray(b.indexOf(123))),Buffer.alloc(0),m,' +
      '(e,v)=>{console.log(e?e.message:v);c.close()})',
  )
}

function nodeCall(script: string): string {
  return `node -e '${script}' "$TOKEN"`
}
