// Starts the gateways of a hub as child processes on shared ports, restarts a dead one and stops
// them.
//
//   hub ─ start(config) ─► gateway 1 … N     config over the pipe: no secret on a command line
//       ◄─ meters, status ─                  the hub's /metrics has theirs with a label
//   ports are bound here, without listening: they stay ours while a gateway is dead
import { closeSync, readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { Fault, messageOf } from '../../base/errors.ts'
import type { EndpointAddress, Running } from '../../base/running.ts'
import type { Family } from '../../base/telemetry/exposition.ts'
import type { RestartPolicy } from '../../base/threads/supervisor.ts'
import { restartForever, SupervisedChild } from '../../base/threads/supervisor.ts'
import { openSharedSocket } from '../../base/transport/listen-address.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { DevnodeProcess } from '../../devnode/process.ts'
import {
  type GatewayPlace,
  type GatewayProduct,
  gatewayConfig,
  gatewayName,
  gatewayProducts,
  streamLabel,
} from '../config/config.ts'
import type { Context } from './context.ts'
import { downOf } from './upstream.ts'

/** Back within two seconds, also after several deaths in a row. */
const backoff: RestartPolicy = { firstMs: 50, lastMs: 800, deathsMax: 40, healthyMs: 5_000 }
const startMsMax = 30_000
const readMsMax = 2_000
/** Below the stop timeout of a component. */
const stopMsMax = 7_000

interface Gateway {
  readonly name: string
  readonly place: GatewayPlace
  child: SupervisedChild | null
  /** Whether the current process has opened its endpoints. */
  isUp: boolean
}

interface Read {
  readonly registry: Store
  /** Null without a cluster. */
  readonly sharedRegistry: SharedRegistry | null
  readonly devnode: DevnodeProcess | null
  readonly grpc: Running | null
}

export class Gateways {
  readonly endpoints: Readonly<Record<string, EndpointAddress>>
  readonly #context: Context
  readonly #sockets: readonly number[]
  readonly #gateways: readonly Gateway[]

  private constructor(
    context: Context,
    bound: Awaited<ReturnType<typeof bindPorts>>,
    places: readonly GatewayPlace[],
  ) {
    this.#context = context
    this.#sockets = bound.sockets
    this.endpoints = bound.endpoints
    this.#gateways = places.map((place) => ({
      name: gatewayName(place),
      place,
      child: null,
      isUp: false,
    }))
  }

  static async start(context: Context, read: Read): Promise<Gateways> {
    const { given } = context
    const hub = given.cluster.gateway || hostname()
    const token = await streamToken(context, read, hub)
    const bound = await bindPorts(context)
    const { host, port } = read.grpc!.address!
    const places = Array.from({ length: given.cluster.gateways }, (_, index) => ({
      number: index + 1,
      hub,
      ports: bound.ports,
      stream: { grpc: `http://${host}:${port}`, xToken: token },
      devnode: devnodeOf(read),
    }))
    const gateways = new Gateways(context, bound, places)
    // Where one fails the others are stopped, also those that are still starting.
    const starts = await Promise.allSettled(gateways.#gateways.map((one) => gateways.#start(one)))
    const failed = starts.find((start) => start.status === 'rejected')
    if (failed !== undefined) {
      await gateways.stop()
      throw failed.reason
    }
    context.meters.join(() => gateways.#families('meters'))
    context.customerMeters.join(() => gateways.#families('customers'))
    return gateways
  }

  report() {
    return this.#gateways.map(({ name, child, isUp }) => ({
      name,
      pid: child?.pid ?? 0,
      isUp: isUp && child?.isRunning === true,
      restarts: child?.restarts ?? 0,
    }))
  }

  isServing(): boolean {
    return this.#gateways.some(({ isUp, child }) => isUp && child?.isRunning === true)
  }

  /** The hub's file of drained nodes changed; one that starts reads it then. */
  async refreshDrained(): Promise<void> {
    const calls = this.#gateways.map(({ child }) => child?.call('drained', null, readMsMax))
    await Promise.allSettled(calls)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#gateways.map(({ child }) => child?.stop()))
    for (const fd of this.#sockets) closeSync(fd)
  }

  async #start(gateway: Gateway): Promise<void> {
    const { clock, log } = this.#context
    const { name } = gateway
    gateway.child = await SupervisedChild.start(
      {
        name: `gateway ${name}`,
        entry: 'gateway',
        backoff,
        stopMsMax,
        onStart: () => void this.#restart(gateway),
      },
      { clock, log: log.area('cluster'), onDown: downOf(this.#context, `gateway ${name}`) },
    )
    await this.#open(gateway)
  }

  async #open(gateway: Gateway): Promise<void> {
    const { given, version } = this.#context
    gateway.isUp = false
    const config = gatewayConfig(given, gateway.place)
    await gateway.child!.call('start', { config, version }, startMsMax).catch((error: unknown) => {
      throw new Fault('gateway-start', `gateway ${gateway.name}: ${messageOf(error)}`)
    })
    gateway.isUp = true
  }

  /** A new process in the place of a dead one; the first start is awaited by its caller. */
  async #restart(gateway: Gateway): Promise<void> {
    if (gateway.child === null) return
    const { log } = this.#context
    try {
      await this.#open(gateway)
    } catch (error) {
      log.warn('gateway did not start', { gateway: gateway.name, reason: messageOf(error) })
      gateway.child.kill()
    }
  }

  /** The meters of the running gateways, each sample with its gateway. */
  async #families(which: 'meters' | 'customers'): Promise<readonly Family[]> {
    const read = this.#gateways.map(async ({ name, child, isUp }) => {
      if (!isUp || child === null) return []
      const families = await child.call<Family[]>(which, null, readMsMax).catch(() => [])
      return families.map((family) => ({
        ...family,
        samples: family.samples.map((one) => ({
          ...one,
          labels: { ...one.labels, gateway: name },
        })),
      }))
    })
    return (await Promise.all(read)).flat()
  }
}

/** Binds the ports of the gateways; one that another program has is reported once, here. */
async function bindPorts({ given }: Context) {
  const sockets: number[] = []
  const ports: Partial<Record<GatewayProduct, number>> = {}
  const endpoints: Record<string, EndpointAddress> = {}
  const tls = given.tls.cert !== ''
  for (const product of gatewayProducts) {
    const { enabled, host, port } = given[product]
    if (!enabled) continue
    const bound = await openSharedSocket({ host, port }).catch((error: unknown) => {
      for (const fd of sockets) closeSync(fd)
      throw new Fault('port-taken', `${product}: ${messageOf(error)}; set ${product}.port`)
    })
    sockets.push(bound.fd)
    ports[product] = bound.port
    endpoints[product] = { host, port: bound.port, tls }
  }
  return { sockets, ports, endpoints }
}

function devnodeOf({ devnode }: Read): GatewayPlace['devnode'] {
  if (devnode === null) return null
  const { host, port } = devnode.addresses.rpc
  return { rpc: `http://${host}:${port}`, xToken: devnode.xToken }
}

/**
 * The token with which the gateways read the hub's stream: that of a subscription of the hub, valid
 * on loopback only. It is kept in a file, so that a start changes nothing in the registry.
 */
async function streamToken(
  { data }: Context,
  { registry, sharedRegistry }: Read,
  hub: string,
): Promise<string> {
  const changes = sharedRegistry?.verbs ?? registry
  const path = join(data, 'gateways.token')
  const label = streamLabel(hub)
  const by = { who: 'hub', reason: 'the stream of its gateways' }
  const kept = readIfAny(path)
  const known = registry.find(label)
  if (known?.state === 'active' && kept !== null && kept.endsWith(known.tokenLast4)) return kept
  const request = { label, products: ['bundle'], plan: 'unlimited', cidrs: ['127.0.0.0/8'] }
  const issued =
    known === null
      ? await changes.add(request, by)
      : await changes.rotate(label, { graceMs: 0 }, by)
  if (!issued.ok) throw new Fault('gateway-token', `${label}: ${issued.refusal.message}`)
  writeFileSync(path, issued.value.token, { mode: 0o600 })
  return issued.value.token
}

function readIfAny(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}

// Runs the operator API as a child process: what an operator asks for, however long it takes, then
// delays no customer. Restarted for as long as the server runs; the server works without it.

const openMsMax = 30_000

export class OperatorApi implements Running {
  readonly #context: Context
  #child: SupervisedChild | null = null
  /** Null without a port. */
  address: EndpointAddress | null = null

  private constructor(context: Context) {
    this.#context = context
  }

  /** Rejects with a `Fault` where its socket or its port cannot be opened. */
  static async start(context: Context): Promise<OperatorApi> {
    const { clock, log } = context
    const api = new OperatorApi(context)
    const options = { backoff: restartForever, onStart: () => void api.#reopen() }
    const child = await SupervisedChild.start(
      { name: 'operator api', entry: 'operator-api', ...options },
      { clock, log: log.area('operator'), onDown: () => {} },
    )
    api.#child = child
    try {
      await api.#open(child)
    } catch (error) {
      await child.stop()
      throw error
    }
    return api
  }

  async stop(): Promise<void> {
    await this.#child?.stop()
  }

  async #open(child: SupervisedChild): Promise<void> {
    const { given, version } = this.#context
    // A new process has the port of the one before.
    const port = this.address?.port ?? given.operator.port
    const config = { ...given, operator: { ...given.operator, port } }
    this.address = await child.call('open', { config, version }, openMsMax)
  }

  /** After a death; the first start is awaited by its caller. */
  async #reopen(): Promise<void> {
    if (this.#child === null) return
    try {
      await this.#open(this.#child)
    } catch (error) {
      this.#context.log.warn('operator api did not start', { reason: messageOf(error) })
      this.#child.kill()
    }
  }
}
