// Starts the components of the topology, each after those it reads, and stops them in the table's
// order from the last to the first.
// Components that do not depend on each other start at the same time. When one fails to start, the
// others are stopped, so that nothing stays half open.

import type { Running } from '../../base/running.ts'
import type { VerifyPool } from '../../base/threads/verify-pool.ts'
import type { CertificatePair } from '../../base/transport/tls.ts'
import { formatQuantity } from '../../base/units.ts'
import type { Directory } from '../../customers/auth/directory.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { Cluster } from '../../customers/cluster/cluster.ts'
import type { LeaseKeeper } from '../../customers/cluster/lease-keeper.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import type { Shares } from '../../customers/cluster/shares.ts'
import type { Notices, Push } from '../../customers/push/push.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Quota } from '../../customers/quota/quota.ts'
import type { AddressBudget } from '../../customers/quota/rates.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import type { DevnodeProcess } from '../../devnode/process.ts'
import type { IngestPipeline } from '../../indexer/ingest.ts'
import type { QueryService } from '../../indexer/queries/service.ts'
import type { IndexFeeds } from '../../products/indexer/feeds.ts'
import type { Shredstream } from '../../products/shredstream/server.ts'
import type { RunningTpu } from '../../products/tpu/server.ts'
import type { ExecutionPipeline } from '../../streams/flows/execution.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { SharedEvents } from '../../streams/log/shared-events.ts'
import type { Upstreams } from '../../upstream/node-pool/upstreams.ts'
import type { RpcProxy } from '../../upstream/proxy/rpc-proxy.ts'
import type { Config } from '../config/config.ts'
import type { Recorder } from '../record/recorder.ts'
import type { Context } from './context.ts'
import type { Gateways, OperatorApi } from './gateways.ts'
import type { SetChains } from './set-chains.ts'

export type OwnedKind = 'thread' | 'process' | 'ring' | 'log' | 'hub' | 'queue' | 'cache' | 'file'

/** Something that a component creates and nothing else does, with its bound. */
export interface Owned {
  readonly kind: OwnedKind
  readonly name: string
  readonly bound: string
  /** How it comes back after it died; absent for memory. */
  readonly restart?: string
  /** Bytes of memory that it takes at most; absent where no constant bounds them. */
  readonly memory?: (config: Config) => number
}

type Name = keyof Components

/** A row of the table. `R` are the names of what it reads, `V` is its value. */
interface Component<R extends Name, V> {
  readonly kind: 'state' | 'pipeline' | 'endpoint'
  readonly does: string
  readonly reads: readonly R[]
  readonly owns?: readonly Owned[]
  /** Names of components or folders that it writes to. */
  readonly writes?: readonly string[]
  /** Where false, the component is not started and its value is null. */
  isEnabled?(context: Pick<Context, 'config' | 'isOfHub'>): boolean
  /** A property: the parameters of a method are not checked against what the row declares. */
  readonly start: (context: Context, read: Pick<Components, NoInfer<R>>) => V | Promise<V>
  /** Default: the value's own `stop`, where it has one. */
  stop?(value: V): void | Promise<void>
}

/** All rows. The order is that of the stop, from the last row to the first. */
export type Topology = {
  // biome-ignore lint/suspicious/noExplicitAny: each row reads components of its own.
  readonly [K in Name]: Component<any, Components[K]>
}

/** Checks that a row reads only what it declares. */
export const row = <R extends Name, V>(component: Component<R, V>) => component

export const restarted = 'restarted with exponential back-off'
export const vital = `${restarted}; after too many deaths in a row the server exits`
export const bytes = (count: number) => formatQuantity(count, 'bytes')

/** Stop timeout of one component; after it the next one is stopped. */
const stopMsMax = 8_000

export class ComponentLifecycle {
  readonly #table: Topology
  readonly #context: Context
  readonly #onSlow: (name: string) => void
  readonly #starting = new Map<Name, Promise<unknown>>()
  readonly #started = new Map<Name, unknown>()
  #hasFailed = false
  #stopping: Promise<void> | null = null

  constructor(table: Topology, context: Context, onSlow: (name: string) => void) {
    this.#table = table
    this.#context = context
    this.#onSlow = onSlow
  }

  /** Resolves when every component runs; rejects with the first error, after all have stopped. */
  async start(): Promise<Components> {
    const names = Object.keys(this.#table) as Name[]
    const starts = names.map((name) => this.#start(name))
    try {
      await Promise.all(starts)
    } catch (error) {
      this.#hasFailed = true
      await Promise.allSettled(starts)
      // The error of the start is reported, not those of the stops.
      await this.stop().catch(() => {})
      throw error
    }
    // Reason for the cast: an entry per row, each of the row's type.
    return Object.fromEntries(this.#started) as unknown as Components
  }

  /** Stops every component. Calls after the first share its outcome. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll()
    return this.#stopping
  }

  #start(name: Name): Promise<unknown> {
    let starting = this.#starting.get(name)
    if (starting === undefined) {
      starting = this.#startAfterReads(name)
      this.#starting.set(name, starting)
    }
    return starting
  }

  async #startAfterReads(name: Name): Promise<unknown> {
    const row = this.#table[name]
    const reads = row.reads as readonly Name[]
    const values = await Promise.all(reads.map((read) => this.#start(read)))
    // Only what the row declares is passed, so that the table cannot be wrong about it.
    const read = Object.fromEntries(reads.map((read, index) => [read, values[index]]))
    if (this.#hasFailed) return null
    const isEnabled = row.isEnabled?.(this.#context) ?? true
    const value = isEnabled ? await row.start(this.#context, read as never) : null
    this.#started.set(name, value)
    return value
  }

  /** A component that fails to stop (a full disk) does not keep the others from stopping. */
  async #stopAll(): Promise<void> {
    const faults: unknown[] = []
    for (const name of (Object.keys(this.#table) as Name[]).reverse()) {
      const stop = this.#stopOf(name)
      if (stop === null) continue
      let timer: NodeJS.Timeout | undefined
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          this.#onSlow(name)
          resolve()
        }, stopMsMax)
      })
      try {
        await Promise.race([stop(), timeout])
      } catch (error) {
        faults.push(error)
      } finally {
        clearTimeout(timer)
      }
    }
    if (faults.length > 0) throw faults[0]
  }

  #stopOf(name: Name): (() => void | Promise<void>) | null {
    const value = this.#started.get(name)
    const { stop } = this.#table[name]
    if (stop !== undefined && value != null) return () => stop(value as never)
    return isStoppable(value) ? () => value.stop() : null
  }
}

function isStoppable(value: unknown): value is { stop(): void | Promise<void> } {
  return typeof value === 'object' && value !== null && 'stop' in value
}

/** The components by name; one that the configuration disables is null. */
export interface Components {
  lock: { stop(): void | Promise<void> }
  cluster: Cluster | null
  recorder: Recorder
  registry: Store
  usagePush: Push | null
  sharedRegistry: SharedRegistry | null
  shares: Shares | null
  destinationLeases: LeaseKeeper | null
  directory: Directory
  gate: Gate
  notices: Notices | null
  quota: { readonly quota: Quota; readonly quotaMeters: QuotaMeters; stop(): Promise<void> }
  addressBudget: AddressBudget
  certificates: CertificatePair | null
  processMeters: { stop(): void }
  ingest: IngestPipeline | null
  indexFeeds: IndexFeeds | null
  events: EventLog
  sharedEvents: SharedEvents | null
  execution: ExecutionPipeline | null
  devnode: DevnodeProcess | null
  upstreams: Upstreams
  proxy: RpcProxy
  chains: SetChains
  verifyPool: VerifyPool
  queries: QueryService | null
  rpc: Running | null
  websocket: Running | null
  grpc: Running | null
  metrics: Running | null
  shredstream: Shredstream | null
  tpu: RunningTpu | null
  indexer: Running | null
  gateways: Gateways | null
  operator: OperatorApi | null
}

/** For docs/DESIGN.md: a line per component with what it owns, and a table of what restarts how. */
export function drawTopology(topology: Topology): string {
  const rows = Object.entries(topology)
  const width = Math.max(...rows.map(([name]) => name.length)) + 1
  const indent = ' '.repeat(width)
  const lines = rows.flatMap(([name, { kind, does, reads, writes = [], owns = [] }]) => [
    `${name.padEnd(width)}${kind.padEnd(10)}${does}`,
    ...(reads.length === 0 ? [] : [`${indent}◄─ ${reads.join(', ')}`]),
    ...(writes.length === 0 ? [] : [`${indent}─► ${writes.join(', ')}`]),
    ...owns.map((owned) => `${indent}${owned.kind} ${owned.name}: ${owned.bound}`),
  ])
  const restarts = rows.flatMap(([, { owns = [] }]) =>
    owns.flatMap(({ kind, name, restart }) =>
      restart === undefined ? [] : [`| ${kind} \`${name}\` | ${restart} |`],
    ),
  )
  return ['```', ...lines, '```', '', '| dies | what happens |', '|---|---|', ...restarts, ''].join(
    '\n',
  )
}
