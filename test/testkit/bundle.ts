// A registry in a fresh folder with gate, quota and the bundle's endpoints over it, in process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { initialOf } from '../../src/base/fields.ts'
import { encodedText } from '../../src/base/jsonrpc/build.ts'
import { Methods, type MethodTable } from '../../src/base/jsonrpc/serve.ts'
import type { Running } from '../../src/base/running.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { Directory } from '../../src/customers/auth/directory.ts'
import { Gate } from '../../src/customers/auth/gate.ts'
import { declareQuotaMeters } from '../../src/customers/quota/meters.ts'
import { Quota } from '../../src/customers/quota/quota.ts'
import {
  builtInPlans,
  type PlanValues,
  standardPlan,
} from '../../src/customers/subscriptions/plans.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import {
  type AddRequest,
  type Issued,
  strictRules,
} from '../../src/customers/subscriptions/subscription.ts'
import { indexerSection } from '../../src/indexer/config.ts'
import { declareIndexerMeters } from '../../src/indexer/meters.ts'
import { type IndexerDeps, startIndexer } from '../../src/products/indexer/server.ts'
import { rpcSection } from '../../src/products/rpc/config.ts'
import type { Caller } from '../../src/products/rpc/handle.ts'
import { declareRpcMeters } from '../../src/products/rpc/meters.ts'
import { type RpcDeps, startRpc } from '../../src/products/rpc/server.ts'
import { websocketSection } from '../../src/products/websocket/config.ts'
import type { Session } from '../../src/products/websocket/handle.ts'
import { declareWebsocketMeters } from '../../src/products/websocket/meters.ts'
import { startWebsocket, type WebsocketDeps } from '../../src/products/websocket/server.ts'
import { localQueries } from './local-queries.ts'
import { idleChain } from './pubsub-chain.ts'
import type { ReadEngine } from './send-results.ts'

export const nodeVersion = { 'solana-core': '3.1.0', 'feature-set': 1, sluice: '0.1.0' }

/** What a node answers in tests that are not about its chain. */
const nodeMethods = {
  getVersion: () => encodedText(JSON.stringify(nodeVersion)),
  getHealth: () => encodedText('"ok"'),
}

/** For plans that must stay spent, however slow the machine is. */
export const noRefill: Clock = { ...systemClock, monotonicMs: () => 0 }

export class Bundle {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-bundle-'))
  readonly meters = new Meters()
  readonly store: Store
  readonly directory: Directory
  readonly gate: Gate
  readonly quota: Quota
  readonly #endpoints: Running[] = []
  readonly #shared
  #made = 0

  /** `plans` are changes to the standard plan, under names of their own; `clock` is of budgets. */
  constructor(plans: Readonly<Record<string, Partial<PlanValues>>> = {}, clock = systemClock) {
    const all: Record<string, PlanValues> = { ...builtInPlans }
    for (const [name, changes] of Object.entries(plans)) all[name] = { ...standardPlan, ...changes }
    this.store = openStore(join(this.folder, 'registry'), {
      clock: systemClock,
      known: { plans: Object.keys(all), destinationRules: strictRules },
    })
    this.directory = new Directory(this.store, { clock: systemClock, log: silentLog })
    this.directory.start()
    this.gate = new Gate(this.directory, { clock: systemClock })
    this.quota = new Quota({ plans: all, ledger: this.store, clock, log: silentLog })
    this.#shared = {
      gate: this.gate,
      quota: this.quota,
      quotaMeters: declareQuotaMeters(this.meters, this.quota),
      tls: null,
      trustedProxies: [],
      clock: systemClock,
      log: silentLog,
    }
  }

  /** Provisions a subscription; the endpoints know it at once. */
  issue(request: Partial<AddRequest> = {}): Issued {
    const outcome = this.store.add(
      { label: `customer-${++this.#made}`, products: ['bundle'], plan: 'unlimited', ...request },
      { who: 'test' },
    )
    if (!outcome.ok) throw new Error(outcome.refusal.message)
    this.directory.refresh()
    return outcome.value
  }

  async openRpc(
    changes: Partial<RpcDeps> & { section?: object; table?: MethodTable<Caller> } = {},
  ): Promise<Running & { port: number }> {
    const { section, table, ...deps } = changes
    const endpoint = await startRpc(
      { ...initialOf(rpcSection.fields), port: 0, ...section },
      {
        ...this.#shared,
        meters: deps.meters ?? declareRpcMeters(this.meters),
        proxy: new Methods<Caller>(nodeMethods, table ?? {}),
        health: () => 'ok',
        usageOf: async (id) => this.store.usage(id),
        ...deps,
      },
    )
    return this.#opened(endpoint)
  }

  async openWebsocket(
    changes: Partial<WebsocketDeps> & { section?: object; table?: MethodTable<Session> } = {},
  ): Promise<Running & { port: number }> {
    const { section, table, ...deps } = changes
    const chain = idleChain()
    const endpoint = await startWebsocket(
      { ...initialOf(websocketSection.fields), queryToken: false, port: 0, ...section },
      {
        ...this.#shared,
        meters: deps.meters ?? declareWebsocketMeters(this.meters),
        version: nodeVersion,
        methods: table === undefined ? [] : [table],
        chainOf: () => chain,
        ...deps,
      },
    )
    return this.#opened(endpoint)
  }

  /** The indexer over an engine of the test's choice. */
  async openIndexer(
    changes: Partial<IndexerDeps> & { engine?: ReadEngine; section?: object },
  ): Promise<Running & { port: number }> {
    const { section, engine, ...deps } = changes
    const local = engine === undefined ? null : await localQueries(engine)
    const endpoint = await startIndexer(
      { ...initialOf(indexerSection.fields), port: 0, ...section },
      {
        ...this.#shared,
        meters: deps.meters ?? declareIndexerMeters(this.meters),
        usage: () => {},
        freshness: () => ({ slot: null, slotAgeMs: null, block: null, blockAgeMs: null }),
        // Reason for the assertion: a test gives one or the other.
        queries: local?.queries ?? deps.queries!,
        ...deps,
      },
    )
    return this.#opened({
      address: endpoint.address,
      async stop() {
        await endpoint.stop()
        await local?.stop()
      },
    })
  }

  async dispose(): Promise<void> {
    for (const endpoint of this.#endpoints) await endpoint.stop()
    this.directory.stop()
    await this.quota.stop()
    await this.store.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #opened(endpoint: Running): Running & { port: number } {
    this.#endpoints.push(endpoint)
    return { address: endpoint.address, stop: () => endpoint.stop(), port: endpoint.address!.port }
  }
}
