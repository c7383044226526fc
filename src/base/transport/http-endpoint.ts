// Opens one TCP endpoint: HTTP routes and WebSockets on one port, plain or TLS.
//
//   openHttpEndpoint -> probe port -> generation 1 (app + listener)
//   certificate changed -> generation 2 listens on the same port -> listener 1 closed
//                          -> generation 1 serves its open connections, then its app is closed
//   stop -> listeners closed -> in-flight answered (5 s) -> sockets 1001 -> apps closed
//
// The native server cannot swap a certificate, hence the generations.
import type { Clock } from '../clock.ts'
import { Fault, messageOf } from '../errors.ts'
import type { EndpointAddress, Running } from '../running.ts'
import type { Log } from '../telemetry/log.ts'
import { Addresses } from './address.ts'
import { type AboutCall, type CallTap, tapRoutes } from './call-tap.ts'
import { Connections, countConnections } from './connections.ts'
import { descriptorReserve } from './descriptors.ts'
import { Http, type HttpOptions } from './http.ts'
import { type ListenAddress, probePort, resolvePort } from './listen-address.ts'
import type { CertificatePair } from './tls.ts'
import { type App, type Listener, listen, uws } from './uws.ts'
import { type SocketRoute, Sockets } from './websocket.ts'

/** What every endpoint gets from the service. */
export interface EndpointDeps {
  readonly tls: CertificatePair | null
  readonly trustedProxies: readonly string[]
  /** Connections that one address may have open; 0 or absent is no limit. An endpoint that allows
   *  more WebSockets allows as many connections. */
  readonly connectionsPerAddressMax?: number | undefined
  /** Whether other gateways may listen on the same port. */
  readonly sharePorts?: boolean
  /** Gets every call while it is on. */
  readonly calls?: CallTap | undefined
  readonly clock: Clock
  readonly log: Log
}

export interface HttpEndpointOptions<C> extends Omit<EndpointDeps, 'sharePorts'> {
  readonly product: string
  readonly listen: ListenAddress
  readonly http: HttpOptions<C>
  readonly aboutCall?: AboutCall<C>
  // Reason for `any`: each route has a state type of its own, known to its product alone.
  // biome-ignore lint/suspicious/noExplicitAny: see the line above.
  readonly sockets?: readonly SocketRoute<C, any>[]
}

export interface HttpEndpoint<C> extends Running {
  readonly address: EndpointAddress
  readonly http: Http<C>
  readonly sockets: Sockets<C>
}

interface Generation {
  readonly app: App
  listener: Listener | null
}

const DRAIN_MS_MAX = 5_000
const DRAIN_POLL_MS = 10
const FREE_PORT_TRIES = 5
// The native server closes idle keep-alive connections of an old generation well before this.
const RETIRE_POLL_MS = 15_000

export async function openHttpEndpoint<C>(
  options: HttpEndpointOptions<C>,
): Promise<HttpEndpoint<C>> {
  const parts = {
    addresses: new Addresses(options.trustedProxies),
    clock: options.clock,
    log: options.log,
  }
  const connections = new Connections({
    ...parts,
    perAddressMax: connectionsPerAddressMax(options),
    count: () => countConnections(endpoint.address.port),
  })
  const http = new Http({ ...options.http, routes: routesOf(options) }, parts)
  const sockets = new Sockets(options.sockets ?? [], {
    ...parts,
    wants: new Set([...(options.http.wants ?? []), 'sec-websocket-protocol']),
    limit: (request) => options.http.limit?.(request) ?? null,
    admit: (request) => options.http.admit(request),
    error: (status, message, request) => http.errorReply(status, message, request),
    closed: () => connections.closed(),
  })
  const endpoint = new OpenHttpEndpoint(options, { http, sockets, connections })
  try {
    await endpoint.open()
    return endpoint
  } catch (error) {
    await endpoint.stop()
    throw error
  }
}

class OpenHttpEndpoint<C> implements HttpEndpoint<C> {
  readonly http: Http<C>
  readonly sockets: Sockets<C>
  readonly #options: HttpEndpointOptions<C>
  readonly #connections: Connections
  readonly #generations = new Set<Generation>()
  readonly #retiring = new Set<NodeJS.Timeout>()
  #port = 0
  #release: (() => void) | null = null
  #stopped: Promise<void> | null = null

  constructor(
    options: HttpEndpointOptions<C>,
    made: { http: Http<C>; sockets: Sockets<C>; connections: Connections },
  ) {
    this.#options = options
    this.http = made.http
    this.sockets = made.sockets
    this.#connections = made.connections
  }

  get address(): EndpointAddress {
    return {
      host: this.#options.listen.host,
      port: this.#port,
      tls: this.#options.tls !== null,
    }
  }

  async open(): Promise<void> {
    const { listen: address, product, tls } = this.#options
    // Another process may take a free port between the probe and the listen: then retry.
    const tries = address.port === 0 ? FREE_PORT_TRIES : 1
    for (let left = tries; left > 0; left--) {
      this.#port = await resolvePort(address, product)
      if (await this.#openGeneration()) break
      if (left > 1) continue
      // Where other gateways may share the port it was not probed: the probe explains the failure.
      if (address.isShared === true) await probePort({ ...address, port: this.#port }, product)
      throw new Fault('port-taken', `${product}: cannot listen on ${address.host}:${this.#port}`)
    }
    this.#release = tls?.onChange(() => void this.#reload()) ?? null
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #openGeneration(): Promise<Generation | null> {
    const { tls, listen: at } = this.#options
    const app =
      tls === null
        ? uws().App()
        : uws().SSLApp({ cert_file_name: tls.files.certPath, key_file_name: tls.files.keyPath })
    const descriptors = descriptorReserve(this.#options.log)
    const onConnection: Parameters<App['filter']>[0] = (response, change) => {
      if (Number(change) < 0) return this.#connections.closed()
      if (!this.#connections.opened(response) || !descriptors.admits()) response.close()
    }
    app.filter(onConnection)
    this.sockets.bind(app)
    this.http.bind(app)
    // A TLS endpoint shares its port with its own next generation.
    const listener = await listen(app, {
      host: at.host,
      port: this.#port,
      exclusive: tls === null && at.isShared !== true,
    })
    if (listener === null) {
      app.close()
      this.sockets.forget(app)
      return null
    }
    const generation = { app, listener }
    this.#generations.add(generation)
    return generation
  }

  async #reload(): Promise<void> {
    if (this.#stopped !== null) return
    const before = [...this.#generations]
    try {
      if ((await this.#openGeneration()) === null) throw new Fault('port-taken', 'no listener')
    } catch (error) {
      // The pair was valid when it was checked; if it is not now, the next change retries.
      return this.#options.log.warn('certificate reload failed, old certificate kept', {
        product: this.#options.product,
        reason: messageOf(error),
      })
    }
    // Connections in the old listener's accept queue are reset when it closes; right after the
    // event loop has accepted, that queue is as short as it can be.
    await new Promise((resolve) => setImmediate(resolve))
    for (const generation of before) this.#retire(generation)
  }

  #retire(generation: Generation): void {
    closeListener(generation)
    if (this.#stopped !== null) return
    const timer = setInterval(() => {
      if (this.sockets.openOn(generation.app) > 0 || this.http.inFlight > 0) return
      clearInterval(timer)
      this.#retiring.delete(timer)
      this.#close(generation)
    }, RETIRE_POLL_MS).unref()
    this.#retiring.add(timer)
  }

  async #stop(): Promise<void> {
    this.#release?.()
    for (const timer of this.#retiring) clearInterval(timer)
    for (const generation of this.#generations) closeListener(generation)
    this.http.beginStop()
    const deadlineMs = this.#options.clock.monotonicMs() + DRAIN_MS_MAX
    while (this.http.inFlight > 0 && this.#options.clock.monotonicMs() < deadlineMs)
      await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS))
    this.sockets.stop()
    // One turn of the event loop, so that close frames are sent before their sockets are closed.
    await new Promise((resolve) => setImmediate(resolve))
    for (const generation of this.#generations) this.#close(generation)
    this.http.endStop()
  }

  #close(generation: Generation): void {
    closeListener(generation)
    generation.app.close()
    this.sockets.forget(generation.app)
    this.#generations.delete(generation)
  }
}

function routesOf<C>(options: HttpEndpointOptions<C>): HttpOptions<C>['routes'] {
  const { product, http, calls, aboutCall: about } = options
  if (calls === undefined) return http.routes
  return tapRoutes(http.routes, { product, calls, ...(about !== undefined && { about }) })
}

function connectionsPerAddressMax<C>(options: HttpEndpointOptions<C>): number {
  const { connectionsPerAddressMax: max = 0, sockets = [] } = options
  const limits = [max, ...sockets.map(({ perAddressMax }) => perAddressMax)]
  return limits.includes(0) ? 0 : Math.max(...limits)
}

function closeListener(generation: Generation): void {
  if (generation.listener !== null) uws().us_listen_socket_close(generation.listener)
  generation.listener = null
}
