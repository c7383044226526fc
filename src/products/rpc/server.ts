// Opens the rpc endpoint.
//
//   HTTP -> GET /health, open to anyone
//        -> admit: token (401) -> path 404 -> verb 405 -> media type 415 -> size 413
//        -> RpcHandler: parse -> quota -> proxy -> answer
//
// All errors of the endpoint itself are JSON-RPC errors with id null, since no id was read yet.
import { codesOf, rpcCodeOf } from '../../base/errors.ts'
import { errorMessage } from '../../base/jsonrpc/build.ts'
import type { Running } from '../../base/running.ts'
import type { HttpOptions } from '../../base/transport/http.ts'
import { type EndpointDeps, openHttpEndpoint } from '../../base/transport/http-endpoint.ts'
import { Reply, ResponseHead, withRetryAfter } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import { mediaTypeOf } from '../../base/transport/request.ts'
import { type Gate, registryExpired } from '../../customers/auth/gate.ts'
import { invalidToken, refusedToken } from '../../customers/auth/token.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { Quota } from '../../customers/quota/quota.ts'
import type { RpcSection } from './config.ts'
import {
  answerMe,
  baseHead,
  type Caller,
  type HandleDeps,
  type MeDeps,
  preflightHead,
  RpcHandler,
  rateHead,
  STREAM,
} from './handle.ts'

export interface RpcDeps extends HandleDeps, MeDeps, EndpointDeps {
  readonly gate: Gate
  readonly quota: Quota
  /** A validator's word for the state of the shared nodes: `ok`, `behind` or `unknown`. */
  health(): string
}

/** 50 KiB, as on Solana's own server. */
const BODY_BYTES_MAX = 51_200
const BUSY_RETRY_MS = 1_000

export function startRpc(section: RpcSection, deps: RpcDeps): Promise<Running> {
  const log = deps.log.area('rpc')
  const handler = new RpcHandler({ ...deps, log })
  const http: HttpOptions<Caller> = {
    admit: (request) => admit(request, deps),
    preflight: preflightHead,
    inFlightPerAddressMax: section.inFlightPerAddress,
    error: (status, message, request, caller) =>
      errorReply(status, message, caller?.budget, baseHead(request)),
    routes: [
      {
        verb: 'POST',
        path: '/',
        bodyBytesMax: BODY_BYTES_MAX,
        check: ({ contentType }, { budget, head }) =>
          mediaTypeOf(contentType) === 'application/json'
            ? null
            : errorReply(415, 'the content type must be application/json', budget, head),
        handle: (_, body, caller) => handler.handle(body, caller),
      },
      {
        verb: 'GET',
        path: '/v1/me',
        isUnrecorded: true,
        handle: (_, __, caller) => answerMe(caller, deps),
      },
    ],
  }
  return openHttpEndpoint<Caller>({
    ...deps,
    product: 'rpc',
    listen: { ...section, isShared: deps.sharePorts },
    aboutCall: ({ head }, { subscription }) => ({
      set: subscription.upstream,
      isFromStream: head.value.includes(STREAM),
    }),
    http,
    log,
  })
}

/** Never stored by a cache on the way; CORS as on Solana's own server. */
const healthHead = ResponseHead.of({
  'content-type': 'text/plain',
  'access-control-allow-origin': '*',
  'cache-control': 'no-store',
})

const unauthorizedBody = (message: string) =>
  `${errorMessage('null', { code: codesOf.unauthenticated.jsonrpc, message })}\n`
const expired = `${errorMessage('null', {
  code: codesOf.unavailable.jsonrpc,
  message: registryExpired.message,
})}\n`
const unauthorized = {
  none: unauthorizedBody(
    'Unauthorized: send a token in x-token, Authorization: Bearer, x-api-key or ?api-key=',
  ),
  invalid: unauthorizedBody(`Unauthorized: ${invalidToken}`),
}
/** Clients post: whoever gets this page looks at it in a browser. */
const aboutEndpoint =
  "this is Sluice's JSON-RPC endpoint: POST a JSON-RPC 2.0 request with a token in x-token or " +
  'Authorization: Bearer; docs/api/rpc.md has the methods'
const unauthorizedPage = unauthorizedBody(`Unauthorized: ${aboutEndpoint}`)

/** Authentication 3 and 4: two headers everywhere, a third header and the query on rpc only. */
function admit(request: Request, { gate, quota, health }: RpcDeps): Caller | Reply {
  const { path, method } = request
  // As on a validator 200 in every state, and answered before any token is looked at.
  if (path === '/health' && (method === 'GET' || method === 'HEAD'))
    return new Reply(200, healthHead, health())
  const credentials =
    request.query === ''
      ? request.credentials
      : {
          ...request.credentials,
          queryApiKey: request.parameter('api-key') ?? '',
          queryApi_key: request.parameter('api_key') ?? '',
        }
  const principal = gate.admit('rpc', credentials, request)
  const head = baseHead(request)
  if (principal === null && gate.isExpired())
    return new Reply(codesOf.unavailable.http, head, expired)
  if (principal === null) {
    const refused = refusedToken('rpc', credentials)
    const isPage = refused === 'none' && method === 'GET' && path === '/'
    const body = isPage ? unauthorizedPage : unauthorized[refused]
    return new Reply(401, head.and('www-authenticate', 'Bearer'), body)
  }
  const { subscription } = principal
  return { subscription, budget: quota.budgetOf(subscription), head }
}

function errorReply(
  status: number,
  message: string,
  budget: Budget | undefined,
  base: ResponseHead,
): Reply {
  // Charges nothing: an empty batch only returns what is left.
  const head = budget === undefined ? base : rateHead(base, budget.spend([]))
  const body = `${errorMessage('null', { code: rpcCodeOf(status), message })}\n`
  return new Reply(status, status === 429 ? withRetryAfter(head, BUSY_RETRY_MS) : head, body)
}
