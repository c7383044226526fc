// Serves the operator API over HTTP on its socket and, where configured, on a port.
// Thread: main of its own process, so that no request of an operator delays a customer's.
//
//   <data>/operator-http.sock (0600) ─┐
//   operator.host:port, TLS           ├─► access ─► route ─► body ─► once per key ─► verb
//                                     └─ Host, Origin, credential
//
// Nothing is run before the whole body is here: one that ends early, or never, changes nothing.
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import type { Duplex } from 'node:stream'
import { isLoopback } from '../../base/cidr.ts'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import type { EndpointAddress, Running } from '../../base/running.ts'
import { formatFor } from '../../base/telemetry/exposition.ts'
import { faultReport, type Log, LogThrottle } from '../../base/telemetry/log.ts'
import { openLog } from '../../base/telemetry/open-log.ts'
import { resolvePort } from '../../base/transport/listen-address.ts'
import { mediaTypeOf } from '../../base/transport/request.ts'
import { CertificatePair } from '../../base/transport/tls.ts'
import { askOperator, listenAtPath } from '../../base/transport/unix-socket.ts'
import { openStore } from '../../customers/subscriptions/store.ts'
import { connectCluster, registryPath } from '../commands/registry.ts'
import type { Call } from '../commands/verb.ts'
import { type Config, knownOf } from '../config/config.ts'
import { userName } from '../config/load.ts'
import { Access, type Caller, Repeats, socketCaller } from './access.ts'
import { describeApi } from './openapi.ts'
import {
  type Answer,
  argumentsOf,
  jsonAnswer,
  loadRoutes,
  type Route,
  refusalAnswer,
  refusedAnswer,
  runRoute,
} from './routes.ts'

const bodyBytesMax = 64 * 1024
const connectionsMax = 64
/** Requests that are being answered; others are refused until one has ended. */
const inFlightMax = 16
const headersMsMax = 5_000
const requestMsInitial = 10_000

export interface ApiDeps {
  readonly config: Config
  readonly access: Access
  readonly repeats: Repeats
  readonly certificates: CertificatePair | null
  /** Kept: to connect for each change would be half of what it takes. */
  readonly cluster?: Call['cluster']
  readonly version: string
  readonly log: Log
  /** Longest time from the first byte of a request to the last of its body. */
  readonly requestMsMax?: number
}

export function operatorHttpPath(data: string): string {
  return join(data, 'operator-http.sock')
}

/** Opens the socket of an absolute data folder, and the port where it is enabled. */
export async function startApi(data: string, deps: ApiDeps): Promise<Running> {
  const api = new Api(deps)
  const { operator } = deps.config
  const limits = limitsOf(deps)
  const local = prepared(createServer(limits), (...pair) => api.serve(...pair, null), deps.log)
  await listenAtPath(local, operatorHttpPath(data), 'operator-http-socket')
  const servers = [local]
  let address: EndpointAddress | null = null
  if (operator.enabled) {
    const { cert, key } = deps.certificates ?? {}
    const made =
      cert === undefined
        ? createServer(limits)
        : createTlsServer({ ...limits, handshakeTimeout: headersMsMax, cert, key })
    const server = prepared(
      made,
      (...pair) => api.serve(...pair, pair[0].socket.remoteAddress ?? ''),
      deps.log,
    )
    deps.certificates?.onChange(() => {
      if ('setSecureContext' in server) (server as TlsServer).setSecureContext(deps.certificates!)
    })
    servers.push(server)
    address = await listen(server, operator, deps.certificates !== null).catch(async (error) => {
      await close(servers)
      throw error
    })
  }
  const stop = async () => {
    await close(servers)
    await deps.cluster?.stop()
  }
  return { address, stop }
}

function limitsOf({ requestMsMax = requestMsInitial }: ApiDeps): ServerOptions {
  return {
    maxHeaderSize: 16 * 1024,
    headersTimeout: Math.min(headersMsMax, requestMsMax),
    requestTimeout: requestMsMax,
    keepAliveTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
  }
}

class Api {
  readonly #deps: ApiDeps
  #inFlight = 0
  readonly #throttle = new LogThrottle()

  constructor(deps: ApiDeps) {
    this.#deps = deps
  }

  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    address: string | null,
  ): Promise<void> {
    if (this.#inFlight >= inFlightMax) return send(response, busy)
    this.#inFlight++
    try {
      const caller = this.#deps.access.check({ headers: request.headers, address })
      if ('status' in caller) {
        if (address !== null && this.#throttle.allows('refused', performance.now()))
          this.#deps.log.warn('operator request refused', { address, status: caller.status })
        return send(response, caller)
      }
      if (caller.id !== socketCaller && !(await this.#isRegistryCurrent()))
        return send(response, notCurrent)
      const answer = await this.#answer(request, caller)
      // Without an answer its client is gone.
      if (answer !== null) send(response, answer)
    } catch (error) {
      this.#deps.log.error('operator request failed', { error: messageOf(error) })
      send(response, failed)
    } finally {
      this.#inFlight--
    }
  }

  /** Whether a credential that is valid by the registry here may be trusted, as the server says. */
  async #isRegistryCurrent(): Promise<boolean> {
    const answer = await askOperator(this.#deps.config.data, 'registry')
    // Reason for the cast: the server is of the same build.
    return answer.ok && (answer.value as { isCurrent: boolean }).isCurrent
  }

  async #answer(request: IncomingMessage, caller: Caller): Promise<Answer | null> {
    const { url: target = '/' } = request
    if (!URL.canParse(target, 'http://localhost')) return unknownPath
    const url = new URL(target, 'http://localhost')
    const [, , first] = url.pathname.split('/')
    const routes = await loadRoutes(first)
    const { method = '' } = request
    const fixed = { '/metrics': () => this.#metrics(request), '/openapi.json': () => describe() }
    const describe = () => jsonAnswer(200, describeApi([...routes.values()], this.#deps.version))
    const isFixed = Object.hasOwn(fixed, url.pathname)
    const route = routes.get(url.pathname)
    if (!isFixed && route === undefined) return unknownPath
    const allowed = route?.method ?? 'GET'
    if (method !== allowed) return wrongMethod(allowed)
    // Reason for the cast: it is one of the names above.
    if (route === undefined) return fixed[url.pathname as keyof typeof fixed]()
    const body = allowed === 'GET' ? '' : await readBody(request)
    if (typeof body !== 'string') return body
    const input = allowed === 'GET' ? accept(queryOf(url, route)) : inputOf(request, body)
    if (!input.ok) return refusalAnswer(input.refusal)
    const args = argumentsOf(route, input.value)
    if (!args.ok) return refusalAnswer(args.refusal)
    const { config, access, cluster } = this.#deps
    // Credentials of indexers are issued and changed by the command alone.
    const names = route.inputs.flatMap((one, at) => (one.key === 'subscription' ? [at] : []))
    if (names.some((at) => access.isEnrolled(args.value.positionals[at] ?? ''))) return notACustomer
    const run = () => runRoute(route, args.value, { config, who: caller.who, cluster })
    const key = request.headers['idempotency-key']
    if (allowed === 'GET' || key === undefined) return run()
    const keyed = { caller: caller.id, key: String(key), request: `${route.path} ${body}` }
    return this.#deps.repeats.once(keyed, run)
  }

  /** Figures per customer, which the server has. */
  async #metrics(request: IncomingMessage): Promise<Answer> {
    const format = formatFor(String(request.headers.accept ?? ''))
    const answer = await askOperator(this.#deps.config.data, 'customers', { format })
    if (!answer.ok) return refusedAnswer(['unavailable', 'no-answer', answer.message])
    // Reason for the cast: the server is of the same build.
    const { contentType, body } = answer.value as { contentType: string; body: string }
    return { status: 200, headers: { 'content-type': contentType }, body }
  }
}

/** The whole body; an answer where it is too long; null where its client is gone. */
function readBody(request: IncomingMessage): Promise<string | Answer | null> {
  return new Promise((done) => {
    if (Number(request.headers['content-length'] ?? 0) > bodyBytesMax) return done(tooLong)
    const chunks: Buffer[] = []
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= bodyBytesMax) chunks.push(chunk)
      else done(tooLong)
    })
    request.on('end', () => done(Buffer.concat(chunks).toString()))
    request.on('error', () => done(null))
    request.on('close', () => done(null))
  })
}

type Given = Readonly<Record<string, unknown>>

function inputOf(request: IncomingMessage, body: string): Outcome<Given> {
  if (body === '') return accept({})
  if (mediaTypeOf(request.headers['content-type'] ?? '') !== 'application/json')
    return refuse('invalid', 'not-json', 'send content-type: application/json')
  try {
    const value: unknown = JSON.parse(body)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return accept(value as Given)
  } catch {
    // Answered below.
  }
  return refuse('invalid', 'bad-body', 'the body must be a JSON object')
}

/** A parameter that may be given more than once is a list. */
function queryOf({ searchParams }: URL, { inputs }: Route): Given {
  const names = [...new Set(searchParams.keys())]
  const pairs = names.map((name) => {
    const values = searchParams.getAll(name)
    const isList = inputs.some(({ key, spec }) => key === name && spec.many === true)
    return [name, values.length === 1 && !isList ? values[0] : values] as const
  })
  return Object.fromEntries(pairs)
}

/** What is left of the body is read and dropped, until the request has had its time. */
function send(response: ServerResponse, answer: Answer): void {
  if (response.headersSent || response.destroyed) return
  response.writeHead(answer.status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-length': Buffer.byteLength(answer.body),
    ...answer.headers,
  })
  response.end(answer.body)
}

function prepared(
  server: Server,
  serve: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  log: Log,
): Server {
  server.maxConnections = connectionsMax
  const open = new Set<Duplex>()
  sockets.set(server, open)
  server.on('connection', (socket: Duplex) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  const last = new WeakMap<Duplex, IncomingMessage>()
  server.on('request', (request, response) => {
    last.set(request.socket, request)
    void serve(request, response)
  })
  // Half a request, or none that is HTTP: the answer says which, the connection ends.
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, socket) => {
    const isHttp = code.startsWith('HPE_') || code.startsWith('ERR_HTTP_')
    // After a whole request it would be taken for the answer to that one.
    const isAfter = last.get(socket)?.complete === true
    if (!isHttp || !socket.writable || isAfter) return socket.destroy()
    const { status, body } = brokenRequest(code)
    const head = `HTTP/1.1 ${status} \r\ncontent-type: application/json\r\nconnection: close`
    socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  })
  server.on('error', faultReport(log, 'an operator connection could not be accepted'))
  return server
}

function brokenRequest(code: string): Answer {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return refusedAnswer(['invalid', 'too-slow', 'the request did not arrive in time'], 408)
  if (code === 'HPE_HEADER_OVERFLOW')
    return refusedAnswer(['invalid', 'long-headers', 'the headers are too long'], 431)
  return refusedAnswer(['invalid', 'broken-request', 'the request is cut short or is not HTTP'])
}

async function listen(
  server: Server,
  { host, port }: Config['operator'],
  tls: boolean,
): Promise<EndpointAddress> {
  // The configuration was checked; a caller of this function may have another one.
  if (!tls && !isLoopback(host))
    throw new Fault('operator-plaintext', `operator.host ${host} needs tls.cert`)
  const free = await resolvePort({ host, port }, 'operator')
  await new Promise<void>((done, fail) => {
    server.once('error', fail)
    server.listen({ host, port: free }, () => {
      server.off('error', fail)
      done()
    })
  })
  return { host, port: (server.address() as AddressInfo).port, tls }
}

type TlsServer = ReturnType<typeof createTlsServer>

async function close(servers: readonly Server[]): Promise<void> {
  const closed = servers.map((server) => new Promise<void>((done) => server.close(() => done())))
  for (const server of servers) {
    server.closeAllConnections()
    // Those in a TLS handshake are no connections of HTTP yet.
    for (const socket of sockets.get(server) ?? []) socket.destroy()
  }
  await Promise.all(closed)
}

/** The open connections of each server. */
const sockets = new WeakMap<Server, Set<Duplex>>()

const busy = refusedAnswer([
  'unavailable',
  'busy',
  'too many requests are being answered: try again',
])
const notCurrent = refusedAnswer([
  'unavailable',
  'registry-expired',
  'this gateway has no current registry: try another one, or the socket',
])
const failed = refusedAnswer(['unavailable', 'failed', 'the API failed to answer'], 500)
const tooLong = refusedAnswer(
  ['invalid', 'long-body', `a body has at most ${bodyBytesMax} bytes`],
  413,
)
const notACustomer = refusedAnswer([
  'not-found',
  'no-subscription',
  'no subscription has that id or label',
])
const unknownPath = refusedAnswer([
  'unknown-method',
  'unknown-verb',
  'no such path: GET /openapi.json lists all',
])

function wrongMethod(allowed: string): Answer {
  const answer = refusedAnswer(['invalid', 'wrong-method', `this path takes ${allowed}`], 405)
  return { ...answer, headers: { allow: allowed } }
}

export interface ApiRequest {
  readonly config: Config
  readonly version: string
}

let running: Running | null = null

export async function openApi({ config, version }: ApiRequest): Promise<EndpointAddress | null> {
  const log = openLog(config.logLevel).area('operator')
  const { tls, operator } = config
  // Open as long as the process lives: a verb that opens the registry then does not lock it.
  const store = openStore(registryPath(config), { clock: systemClock, known: knownOf(config) })
  const files = { certPath: resolve(tls.cert), keyPath: resolve(tls.key) }
  const hosts = [operator.host, `[${operator.host}]`, ...operator.names]
  running = await startApi(resolve(config.data), {
    config,
    access: new Access(store, {
      clock: systemClock,
      user: userName(),
      hosts: hosts.map((host) => host.toLowerCase()),
    }),
    repeats: new Repeats(store.answers),
    cluster: config.cluster.url === '' ? undefined : await connectCluster(config),
    certificates: tls.cert !== '' && operator.enabled ? new CertificatePair(files, log) : null,
    version,
    log,
  })
  return running.address
}

export async function closeApi(): Promise<void> {
  await running?.stop()
}
