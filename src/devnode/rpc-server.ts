// JSON-RPC over HTTP as a validator serves it: no quota, and no token unless the node has a secret.
// Thread: main of the devnode.
//
//   POST any path  one call or a batch -> the chain's method table
//   GET  /health   ok
//   GET  /v0/total-supply, /v0/circulating-supply   in SOL
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { errorMessage } from '../base/jsonrpc/build.ts'
import type { MethodTable } from '../base/jsonrpc/serve.ts'
import { whenDone } from '../base/steps.ts'
import type { Log } from '../base/telemetry/log.ts'
import type { HttpRoute } from '../base/transport/http.ts'
import { type HttpEndpoint, openHttpEndpoint } from '../base/transport/http-endpoint.ts'
import type { ListenAddress } from '../base/transport/listen-address.ts'
import { mediaTypeOf, Reply, ResponseHead } from '../base/transport/request.ts'
import type { Ledger } from './ledger/ledger.ts'
import { isLocalCaller, secretCheck, UnlimitedMethods } from './pubsub-server.ts'
import { nonCirculating } from './rpc/accounts.ts'

export interface RpcServerDeps {
  readonly methods: MethodTable<null>
  /** For a web page of another host, and for a name that was pointed at this machine. */
  readonly foreignMethods: MethodTable<null>
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
}

/** As a validator's defaults. */
const bodyBytesMax = 51_200
const lamportsPerSol = 1e9
const anyOrigin = { 'access-control-allow-origin': '*' }
const jsonType = { 'content-type': 'application/json; charset=utf-8' }
const textType = { 'content-type': 'text/plain' }
const preflight = ResponseHead.of({
  ...anyOrigin,
  'access-control-allow-methods': 'POST, GET, OPTIONS',
  'access-control-allow-headers': 'content-type, solana-client',
  'access-control-max-age': '86400',
})

export function startRpcServer(
  listen: ListenAddress,
  deps: RpcServerDeps,
): Promise<HttpEndpoint<null>> {
  const { ledger, secret } = deps
  const methods = new UnlimitedMethods<null>(deps, '\n')
  const foreign = new UnlimitedMethods<null>({ ...deps, methods: deps.foreignMethods }, '\n')
  const isAdmitted = secretCheck(secret)
  const origins = secret === null ? anyOrigin : {}
  const jsonHead = ResponseHead.of({ ...jsonType, ...origins })
  const textHead = ResponseHead.of({ ...textType, ...origins })
  const refusal = (status: number, message: string) =>
    new Reply(status, jsonHead, `${errorMessage('null', { code: -32600, message })}\n`)
  const totalSupply = () => ledger.supply(Commitment.finalized)
  /** On every path, as a validator. */
  const post: Omit<HttpRoute<null>, 'path'> = {
    verb: 'POST',
    bodyBytesMax,
    check: ({ contentType }) =>
      mediaTypeOf(contentType) === 'application/json'
        ? null
        : new Reply(415, textHead, wrongMediaType),
    handle: (request, body) => {
      const caller = { host: request.header('host'), origin: request.origin }
      const message = (isLocalCaller(caller) ? methods : foreign).serve(body, null)
      return whenDone(message, (done) => new Reply(200, jsonHead, done))
    },
  }
  return openHttpEndpoint<null>({
    product: 'devnode rpc',
    listen,
    tls: null,
    trustedProxies: [],
    clock: deps.clock,
    log: deps.log,
    http: {
      admit: ({ credentials }) =>
        isAdmitted(credentials.xToken) ? null : refusal(401, 'x-token is missing or wrong'),
      wants: ['host'],
      ...(secret === null ? { preflight } : {}),
      error: (status, message) =>
        status === 405 ? new Reply(405, textHead, wrongVerb) : refusal(status, message),
      routes: [
        { ...post, path: '/' },
        { ...post, path: '/*' },
        {
          verb: 'GET',
          path: '/health',
          handle: () => new Reply(200, textHead, 'ok'),
        },
        supplyRoute('/v0/total-supply', textHead, totalSupply),
        supplyRoute(
          '/v0/circulating-supply',
          textHead,
          () => totalSupply() - nonCirculating(ledger, Commitment.finalized).lamports,
        ),
      ],
    },
  })
}

/** SOL as a validator prints it: nine digits at most, no zeros at the end. */
function supplyRoute(path: string, head: ResponseHead, lamports: () => bigint): HttpRoute<null> {
  const sol = () => (Number(lamports()) / lamportsPerSol).toFixed(9).replace(/\.?0+$/, '')
  return { verb: 'GET', path, handle: () => new Reply(200, head, sol()) }
}

const wrongMediaType =
  'Supplied content type is not allowed. Content-Type: application/json is required\n'
const wrongVerb = 'Used HTTP Method is not allowed. POST or OPTIONS is required\n'
