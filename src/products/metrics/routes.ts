// The HTTP side of the door: which path says what, and who may ask. Thread: main.
// Called by server.ts, which opens the door with it. Answers themselves are made in rest.ts and
// rpc.ts; here they get their status, headers and compression.
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Gate } from '../../auth/gate.ts'
import type { Principal } from '../../auth/token.ts'
import { formatFor } from '../../telemetry/exposition.ts'
import type { Meters } from '../../telemetry/meters.ts'
import type { HttpOptions, HttpRoute } from '../../transport/http.ts'
import { errorReply, Head, Reply } from '../../transport/reply.ts'
import type { Request } from '../../transport/request.ts'
import type { MetricsMeters, RouteName } from './meters.ts'
import * as rest from './rest.ts'
import { answerBody, type RpcParts } from './rpc.ts'

/** Longest body of POST /. */
const rpcBodyBytesMax = 51_200
/** Compressing less than this costs more than it saves. */
const gzipBytesMin = 1024

/** Who is calling; null when the door is open to everybody or the path is. */
export type Caller = Principal | null

export interface RouteParts extends rest.RestParts, RpcParts {
  /** Null: `metrics.auth` is `open`. */
  readonly gate: Pick<Gate, 'admit'> | null
  readonly instruments: Meters
  readonly meters: MetricsMeters
}

const jsonHead = Head.of({
  'content-type': 'application/json',
  'access-control-allow-origin': '*',
  'cache-control': 'no-store',
})

const preflight = Head.of({
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, HEAD, POST, OPTIONS',
  'access-control-allow-headers': 'content-type, x-token, authorization',
  'access-control-max-age': '86400',
})

const compress = promisify(gzip)
const openPaths: ReadonlySet<string> = new Set(['/health', '/metrics'])

export function httpOptions(parts: RouteParts): HttpOptions<Caller> {
  return {
    wants: ['accept', 'accept-encoding'],
    preflight,
    admit: (request) => admit(request, parts),
    error: (status, message) => {
      if (status === 429) parts.meters.refused['address-limit'].inc()
      return errorReply(status, message, jsonHead)
    },
    routes: routes(parts),
  }
}

function admit(request: Request, { gate, meters }: RouteParts): Caller | Reply {
  if (gate === null || openPaths.has(request.path)) return null
  const principal = gate.admit('metrics', request.credentials, request.address)
  if (principal !== null) return principal
  meters.refused.unauthorized.inc()
  return errorReply(401, 'unauthorized', jsonHead.and('www-authenticate', 'Bearer'))
}

function routes(parts: RouteParts): HttpRoute<Caller>[] {
  const get = (path: string, name: RouteName, answer: (request: Request) => rest.Answer) => ({
    verb: 'GET' as const,
    path,
    handle: (request: Request) => {
      parts.meters.requests[name].inc()
      return reply(answer(request))
    },
  })
  return [
    get('/v1/tps', 'tps', () => rest.tps(parts)),
    get('/v1/contention', 'contention', () => rest.contention(parts)),
    get('/v1/status', 'status', () => rest.status(parts)),
    get('/v1/blocks/lifecycle', 'lifecycles', () => rest.lifecycles(parts)),
    get('/v1/blocks/:number/lifecycle', 'lifecycle', ({ params }) =>
      rest.lifecycle(parts, params[0] ?? ''),
    ),
    get('/health', 'health', () => rest.health(parts)),
    {
      verb: 'GET',
      path: '/metrics',
      handle: (request) => {
        parts.meters.requests.metrics.inc()
        return exposition(request, parts.instruments)
      },
    },
    {
      verb: 'POST',
      path: '/',
      bodyBytesMax: rpcBodyBytesMax,
      handle: (_, body) => {
        parts.meters.requests.rpc.inc()
        return new Reply(200, jsonHead, answerBody(body, parts))
      },
    },
    notAnUpgrade('/v1/ws'),
    notAnUpgrade('/'),
  ]
}

async function exposition(request: Request, instruments: Meters): Promise<Reply> {
  const accepts = request.header('accept')
  const zips = /\bgzip\b/i.test(request.header('accept-encoding'))
  const { contentType, body } = await instruments.render(formatFor(accepts))
  const head = Head.of({
    'content-type': contentType,
    'access-control-allow-origin': '*',
    'cache-control': 'no-store',
    vary: 'accept, accept-encoding',
  })
  if (!zips || body.length < gzipBytesMin) return new Reply(200, head, body)
  return new Reply(200, head.and('content-encoding', 'gzip'), await compress(body))
}

/** A plain GET where a WebSocket was meant. */
function notAnUpgrade(path: string): HttpRoute<Caller> {
  const head = jsonHead.and('upgrade', 'websocket')
  const answer = errorReply(426, 'this path wants a WebSocket upgrade', head)
  return { verb: 'GET', path, handle: () => answer }
}

/** For handshakes that are refused before they become sockets. */
export function badRequest(message: string): Reply {
  return errorReply(400, message, jsonHead)
}

function reply({ status, body }: rest.Answer): Reply {
  return new Reply(status, jsonHead, body)
}
