// The components of the service by name, with the type of each.
// A component that the configuration disables is null.
import type { Running } from '../../base/running.ts'
import type { VerifyPool } from '../../base/threads/verify-pool.ts'
import type { CertificatePair } from '../../base/transport/tls.ts'
import type { Directory } from '../../customers/auth/directory.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { Cluster } from '../../customers/cluster/cluster.ts'
import type { LeaseKeeper } from '../../customers/cluster/lease-keeper.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import type { Shares } from '../../customers/cluster/shares.ts'
import type { Notices } from '../../customers/push/notices.ts'
import type { Push } from '../../customers/push/push.ts'
import type { AddressBudget } from '../../customers/quota/address-budget.ts'
import type { QuotaMeters } from '../../customers/quota/meters.ts'
import type { Quota } from '../../customers/quota/quota.ts'
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
import type { Recorder } from '../record/recorder.ts'
import type { Gateways } from './gateways.ts'
import type { OperatorApi } from './operator-api.ts'
import type { SetChains } from './set-chains.ts'

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
