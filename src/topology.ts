// The topology: every component of the service with its threads, processes, rings, logs, hubs and
// bounds, what it reads and writes, and how it restarts.
// The rows start as soon as what they read has started and stop from the last row to the first;
// `sluice status`, the drawing in docs/DESIGN.md and a test compare this table with what runs.
import { tapRingBytes } from './base/rings/tap.ts'
import { startProcessMeters } from './base/telemetry/process-meters.ts'
import { pendingMax, VerifyPool, verifyThreadsMax } from './base/threads/verify-pool.ts'
import { registryPollMs } from './customers/auth/directory.ts'
import { queueMax } from './customers/cluster/config.ts'
import { exchangeMs } from './customers/cluster/shares.ts'
import { isPushed } from './customers/push/config.ts'
import { usageFlushMs } from './customers/quota/quota.ts'
import { AddressBudget } from './customers/quota/rates.ts'
import { waitingMax as noticesWaitingMax } from './customers/subscriptions/tables.ts'
import {
  engineBytesMax,
  factsMax,
  feedCallsMax,
  queriesMax,
  queryBytes,
  queryProcesses,
  unackedBytesMax,
} from './indexer/config.ts'
import { isHub, needsDevnode, sharesEvents, writesIndex } from './operator/config/config.ts'
import { Recorder, recorderBytesMax } from './operator/record/recorder.ts'
import { chainsOwned } from './operator/topology/chains-owned.ts'
import { Gateways, OperatorApi } from './operator/topology/gateways.ts'
import { bytes, restarted, row, type Topology, vital } from './operator/topology/lifecycle.ts'
import { devnodeBytes, ofSets, programBytes } from './operator/topology/memory-bounds.ts'
import * as products from './operator/topology/products.ts'
import * as state from './operator/topology/state.ts'
import * as upstream from './operator/topology/upstream.ts'
import { jobsMax } from './streams/analysis/block-jobs.ts'
import { analysisThreadsMax, eventRingBytes } from './streams/flows/execution.ts'
import { resumeBytesMax, resumeFramesMax } from './streams/log/log.ts'
import { blocksKept, keptBytesMax } from './streams/log/shared-events.ts'

const ownFrames = `${blocksKept} blocks, ${bytes(keptBytesMax)}`
const { warm, processesMax } = queryProcesses
const unsent = (bound: string) =>
  ({ kind: 'queue', name: 'what a slow client has not read, each', bound }) as const

export const topology: Topology = {
  lock: row({
    kind: 'state',
    does: 'one server per data folder',
    reads: [],
    owns: [{ kind: 'file', name: '<data>/lock', bound: 'one server' }],
    start: state.lockFolder,
  }),
  cluster: row({
    kind: 'state',
    does: 'connections to the PostgreSQL that several gateways share',
    reads: ['lock'],
    owns: [{ kind: 'queue', name: 'statements, per connection', bound: `${queueMax} statements` }],
    isEnabled: ({ config }) => config.cluster.url !== '',
    start: state.openCluster,
  }),
  // Below what it records: it stops after them.
  recorder: row({
    kind: 'state',
    does: 'records what comes in, on demand, for a replay of an incident',
    reads: ['lock'],
    owns: [
      {
        kind: 'queue',
        name: 'records to be written',
        bound: bytes(recorderBytesMax),
        memory: () => recorderBytesMax,
      },
      {
        kind: 'ring',
        name: 'taps of shreds and events',
        bound: `${bytes(tapRingBytes)} each`,
        memory: () => 2 * tapRingBytes,
      },
      { kind: 'file', name: '<data>/recordings', bound: 'sluice record --bytes, --for' },
    ],
    start: ({ clock, log, version }) => new Recorder({ clock, log: log.area('record'), version }),
  }),
  registry: row({
    kind: 'state',
    does: 'subscriptions, audit, usage, event numbers (LMDB)',
    reads: ['lock'],
    owns: [{ kind: 'file', name: '<data>/registry', bound: 'disk' }],
    start: state.openRegistry,
    stop: (store) => store.close(),
  }),
  // Above the quota: it stops after the last usage was flushed.
  usagePush: row({
    kind: 'state',
    does: 'sends usage records to a billing system, until it has confirmed them',
    reads: ['registry'],
    writes: ['registry'],
    owns: [{ kind: 'queue', name: 'usage not confirmed', bound: 'usage.push.rowsMax rows' }],
    isEnabled: ({ config }) => isPushed(config.usage.push),
    start: (context, { registry }) => state.startUsagePush(context, registry),
  }),
  sharedRegistry: row({
    kind: 'state',
    does: 'keeps the registry equal to the cluster; changes are made there',
    reads: ['cluster', 'registry'],
    writes: ['registry'],
    isEnabled: ({ config }) => config.cluster.url !== '',
    start: state.joinRegistry,
  }),
  directory: row({
    kind: 'state',
    does: `the registry in memory, reloaded within ${registryPollMs} ms of a change`,
    reads: ['registry', 'sharedRegistry'],
    owns: [{ kind: 'cache', name: 'subscriptions', bound: 'those of the registry' }],
    start: state.followRegistry,
  }),
  gate: row({
    kind: 'state',
    does: 'authenticates requests; ends the leases of a dead token within a second',
    reads: ['directory', 'sharedRegistry'],
    start: state.openGate,
  }),
  shares: row({
    kind: 'state',
    does: `shares of budgets, exchanged with the other gateways every ${exchangeMs} ms`,
    reads: ['cluster'],
    isEnabled: ({ config }) => config.cluster.url !== '',
    start: state.openShares,
  }),
  destinationLeases: row({
    kind: 'state',
    does: 'leases of destinations: each is served by one gateway',
    reads: ['cluster'],
    isEnabled: ({ config }) => config.cluster.url !== '' && config.shredstream.enabled,
    start: state.leaseDestinations,
  }),
  quota: row({
    kind: 'state',
    does: `budgets of subscriptions; usage is flushed every ${usageFlushMs} ms`,
    reads: ['registry', 'directory', 'sharedRegistry', 'shares'],
    writes: ['registry'],
    start: state.startQuota,
  }),
  notices: row({
    kind: 'state',
    does: 'notices of quotas and ends to the operator, until the receiver has confirmed them',
    reads: ['registry', 'quota'],
    writes: ['registry'],
    owns: [{ kind: 'queue', name: 'notices not confirmed', bound: `${noticesWaitingMax} rows` }],
    isEnabled: ({ config }) => config.webhooks.url !== '',
    start: state.startNotices,
  }),
  addressBudget: row({
    kind: 'state',
    does: 'budgets of client addresses on open endpoints',
    reads: [],
    start: ({ config, clock }) => new AddressBudget(config.addressBudget, clock),
  }),
  certificates: row({
    kind: 'state',
    does: 'TLS certificate, reloaded when its files change',
    reads: ['lock'],
    isEnabled: ({ config }) => config.tls.cert !== '',
    start: state.watchCertificates,
  }),
  processMeters: row({
    kind: 'state',
    does: 'meters of the process',
    reads: [],
    start: ({ meters, version }) => startProcessMeters(meters, { version }),
  }),
  // Both above the pipelines that feed them: they stop after these have published their last.
  indexFeeds: row({
    kind: 'pipeline',
    does: 'the streams that the index is built from: on a socket in the data folder, and a port',
    // After the first read of the shared log: an indexer may be beyond one that is read in part.
    reads: ['lock', 'gate', 'certificates', 'addressBudget', 'events', 'sharedEvents'],
    owns: [
      { kind: 'file', name: '<data>/index.sock', bound: 'one reader' },
      { kind: 'queue', name: 'calls of an enrolled indexer', bound: `${feedCallsMax} at once` },
      { kind: 'queue', name: 'tips and queries, each', bound: `${factsMax} facts` },
    ],
    isEnabled: ({ config }) => config.indexer.enabled,
    start: products.openFeeds,
  }),
  ingest: row({
    kind: 'pipeline',
    does: 'rows of blocks, transactions, tips and execution events, by a program of its own',
    reads: ['indexFeeds'],
    writes: ['<data>/index, or the ClickHouse server'],
    owns: [
      {
        kind: 'queue',
        name: 'rows that are not durable',
        bound: bytes(unackedBytesMax),
        memory: () => unackedBytesMax,
      },
      {
        kind: 'process',
        name: 'index-writer',
        bound: 'one process',
        restart: restarted,
        memory: () => engineBytesMax + programBytes,
      },
    ],
    isEnabled: ({ config }) => writesIndex(config),
    start: products.runIngest,
  }),
  events: row({
    kind: 'pipeline',
    does: 'numbered event frames, kept for resume',
    reads: ['registry'],
    owns: [
      {
        kind: 'log',
        name: 'event log',
        bound: `${resumeFramesMax} frames, ${bytes(resumeBytesMax)}`,
        memory: () => resumeBytesMax,
      },
    ],
    start: (context, { registry }) => state.openEventLog(context, registry),
  }),
  sharedEvents: row({
    kind: 'pipeline',
    does: 'one numbering of the frames of all gateways: appends with a lease, follows without it',
    reads: ['cluster', 'events'],
    writes: ['events'],
    owns: [
      {
        kind: 'queue',
        name: 'frames of the own source',
        bound: ownFrames,
        memory: () => keptBytesMax,
      },
    ],
    isEnabled: ({ config }) => sharesEvents(config),
    start: state.followEvents,
  }),
  execution: row({
    kind: 'pipeline',
    does: 'contention analysis and top accesses of execution events',
    reads: ['lock', 'recorder', 'events', 'sharedEvents'],
    writes: ['events', 'sharedEvents'],
    owns: [
      { kind: 'thread', name: 'execution source', bound: 'one thread', restart: vital },
      {
        kind: 'ring',
        name: 'event ring',
        bound: bytes(eventRingBytes),
        memory: () => eventRingBytes,
      },
      {
        kind: 'thread',
        name: 'analysis',
        bound: `cores - 1, at most ${analysisThreadsMax} threads; ${jobsMax} blocks queued`,
        restart: 'replaced by the pool; its block is retried',
      },
    ],
    isEnabled: ({ config }) => config.metrics.enabled || config.indexer.enabled,
    start: (context, { recorder, events, sharedEvents }) =>
      upstream.runExecution(context, recorder, sharedEvents ?? events),
  }),
  devnode: row({
    kind: 'pipeline',
    does: 'the embedded chain, a node of its own: the one node of the set default',
    reads: ['lock'],
    writes: ['<data>/chain', 'shredstream'],
    owns: [
      {
        kind: 'process',
        name: 'devnode',
        bound: 'one process',
        restart: vital,
        memory: () => devnodeBytes,
      },
      { kind: 'cache', name: 'accounts of the chain', bound: 'those that transactions create' },
    ],
    isEnabled: ({ config }) => needsDevnode(config),
    start: upstream.runDevnode,
  }),
  upstreams: row({
    kind: 'pipeline',
    does: 'sets of nodes: probes, circuit breakers, connections',
    reads: ['devnode'],
    start: (context, { devnode }) => upstream.startUpstreams(context, devnode),
  }),
  chains: row({
    kind: 'pipeline',
    does: 'the geyser stream of each set, deduplicated across nodes',
    reads: ['recorder', 'registry', 'upstreams'],
    owns: chainsOwned,
    start: upstream.openChains,
  }),
  proxy: row({
    kind: 'pipeline',
    does: 'JSON-RPC calls: from the stream of a set, or its nodes: failover, cache, single flight',
    reads: ['upstreams', 'chains'],
    owns: [
      {
        kind: 'cache',
        name: 'immutable answers',
        bound: 'upstreams.<set>.cacheBytes',
        memory: ofSets('cacheBytes'),
      },
    ],
    start: products.openProxy,
  }),
  verifyPool: row({
    kind: 'pipeline',
    does: 'verifies the signatures of submitted transactions',
    reads: ['lock'],
    owns: [
      {
        kind: 'thread',
        name: 'verify',
        bound: `cores - 1, at most ${verifyThreadsMax} threads; ${pendingMax} transactions queued`,
        restart: 'replaced by the pool',
      },
    ],
    isEnabled: ({ config }) => config.tpu.enabled,
    start: ({ log }) => new VerifyPool({ log: log.area('tpu') }),
  }),
  queries: row({
    kind: 'pipeline',
    does: 'reads SQL and runs it, by a program of its own; results come to a socket of the gateway',
    reads: ['lock'],
    owns: [
      { kind: 'queue', name: 'requests under way', bound: `${queriesMax} requests` },
      { kind: 'file', name: '<data>/results.sock', bound: 'one connection per query process' },
      {
        kind: 'process',
        name: 'index-queries',
        bound: 'one process',
        restart: restarted,
        memory: () => programBytes,
      },
      {
        kind: 'process',
        name: 'index-query',
        bound: `${warm} idle, ${processesMax} processes; none with ClickHouse`,
        restart: 'replaced after each killed query',
        memory: ({ indexer }) => (indexer.engine === 'duckdb' ? queryBytes.most() : 0),
      },
    ],
    isEnabled: ({ config }) => config.indexer.enabled,
    start: products.startQueries,
  }),
  rpc: row({
    kind: 'endpoint',
    does: 'JSON-RPC over HTTP',
    reads: [
      ...(['recorder', 'gate', 'quota', 'certificates', 'proxy'] as const),
      ...(['registry', 'sharedRegistry'] as const),
    ],
    isEnabled: ({ config }) => config.rpc.enabled,
    start: products.openRpc,
  }),
  websocket: row({
    kind: 'endpoint',
    does: 'PubSub over WebSocket, computed from the geyser stream of the set',
    reads: ['recorder', 'gate', 'quota', 'certificates', 'chains'],
    owns: [unsent('websocket.unsentBytes')],
    isEnabled: ({ config }) => config.websocket.enabled,
    start: products.openWebsocket,
  }),
  grpc: row({
    kind: 'endpoint',
    does: 'geyser.Geyser streams',
    reads: [
      ...(['gate', 'quota', 'certificates', 'addressBudget', 'chains'] as const),
      ...(['recorder', 'registry', 'sharedRegistry'] as const),
    ],
    writes: ['registry'],
    owns: [
      { kind: 'thread', name: 'grpc', bound: 'one thread', restart: vital },
      unsent('grpc.backlogBytesMax'),
    ],
    isEnabled: ({ config }) => config.grpc.enabled,
    start: products.openGrpc,
  }),
  metrics: row({
    kind: 'endpoint',
    does: 'event stream, REST, health, Prometheus, JSON-RPC',
    reads: [
      ...(['recorder', 'gate', 'quota', 'certificates', 'addressBudget'] as const),
      ...(['events', 'execution', 'chains'] as const),
    ],
    owns: [unsent(bytes(products.metricsUnsentBytes))],
    isEnabled: ({ config }) => config.metrics.enabled,
    start: products.openMetrics,
  }),
  shredstream: row({
    kind: 'endpoint',
    does: 'raw shreds by UDP to registered destinations',
    reads: [
      ...(['recorder', 'devnode', 'directory', 'registry', 'sharedRegistry'] as const),
      'destinationLeases',
    ],
    owns: [{ kind: 'thread', name: 'shreds', bound: 'one thread', restart: vital }],
    isEnabled: ({ config }) => config.shredstream.enabled,
    start: products.openShredstream,
  }),
  tpu: row({
    kind: 'endpoint',
    does: 'transaction submission, gated by a tip',
    reads: [
      ...(['recorder', 'gate', 'quota', 'certificates', 'upstreams', 'chains'] as const),
      ...(['verifyPool', 'addressBudget'] as const),
    ],
    isEnabled: ({ config }) => config.tpu.enabled,
    start: products.openTpu,
  }),
  indexer: row({
    kind: 'endpoint',
    does: "SQL over ClickHouse's HTTP",
    reads: [
      ...(['recorder', 'gate', 'quota', 'certificates', 'ingest'] as const),
      ...(['indexFeeds', 'queries', 'chains', 'tpu'] as const),
    ],
    writes: ['indexFeeds'],
    isEnabled: ({ config }) => config.indexer.enabled,
    start: products.openIndexer,
  }),
  gateways: row({
    kind: 'pipeline',
    does: 'gateways of this hub: rpc, websocket and grpc, each a process on the same ports',
    reads: ['registry', 'sharedRegistry', 'devnode', 'grpc'],
    owns: [
      { kind: 'process', name: 'gateway', bound: 'cluster.gateways processes', restart: vital },
    ],
    isEnabled: ({ config }) => isHub(config),
    start: (context, read) => Gateways.start(context, read),
  }),
  operator: row({
    kind: 'endpoint',
    does: 'the operator API: the verbs of the command over HTTP, by a program of its own',
    reads: ['registry'],
    writes: ['registry'],
    owns: [
      { kind: 'file', name: '<data>/operator-http.sock', bound: 'operator.enabled adds a port' },
      {
        kind: 'process',
        name: 'operator-api',
        bound: 'one process',
        restart: restarted,
        memory: () => programBytes,
      },
    ],
    isEnabled: ({ isOfHub }) => isOfHub !== true,
    start: OperatorApi.start,
  }),
}
