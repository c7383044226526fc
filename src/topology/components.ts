// The components of the service by name, with the type of each.
// A component that the configuration disables is null.
import type { Directory } from '../auth/directory.ts'
import type { Gate } from '../auth/gate.ts'
import type { Running } from '../base/running.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { LeaseKeeper } from '../cluster/lease-keeper.ts'
import type { SharedEvents } from '../cluster/shared-events.ts'
import type { SharedRegistry } from '../cluster/shared-registry.ts'
import type { Shares } from '../cluster/shares.ts'
import type { DevnodeProcess } from '../devnode/process.ts'
import type { ExecutionPipeline } from '../flows/execution.ts'
import type { startEngine } from '../products/indexer/engines.ts'
import type { RunningIngest } from '../products/indexer/ingest.ts'
import type { Shredstream } from '../products/shredstream/server.ts'
import type { RunningTpu } from '../products/tpu/server.ts'
import type { AddressBudget } from '../quota/address-budget.ts'
import type { QuotaMeters } from '../quota/meters.ts'
import type { Quota } from '../quota/quota.ts'
import type { EventLog } from '../stream/log.ts'
import type { Store } from '../subscriptions/store.ts'
import type { VerifyPool } from '../threads/verify-pool.ts'
import type { CertificatePair } from '../transport/tls.ts'
import type { Upstreams } from '../upstream/node-pool/upstreams.ts'
import type { RpcProxy } from '../upstream/proxy/rpc-proxy.ts'
import type { Gateways } from './gateways.ts'
import type { SetChains } from './set-chains.ts'

export interface Components {
  lock: { stop(): void | Promise<void> }
  cluster: Cluster | null
  registry: Store
  sharedRegistry: SharedRegistry | null
  shares: Shares | null
  destinationLeases: LeaseKeeper | null
  indexLease: LeaseKeeper | null
  directory: Directory
  gate: Gate
  quota: { readonly quota: Quota; readonly quotaMeters: QuotaMeters; stop(): Promise<void> }
  addressBudget: AddressBudget
  certificates: CertificatePair | null
  processMeters: { stop(): void }
  ingest: RunningIngest | null
  events: EventLog
  sharedEvents: SharedEvents | null
  execution: ExecutionPipeline | null
  devnode: DevnodeProcess | null
  upstreams: Upstreams
  proxy: RpcProxy
  chains: SetChains
  verifyPool: VerifyPool
  queryEngine: Awaited<ReturnType<typeof startEngine>> | null
  rpc: Running | null
  websocket: Running | null
  grpc: Running | null
  metrics: Running | null
  shredstream: Shredstream | null
  tpu: RunningTpu | null
  indexer: Running | null
  gateways: Gateways | null
}
