// Constructs the components with state: lock, registry, directory, quota, certificate, event
// log.
import { join, resolve } from 'node:path'
import { Fault, guarded } from '../../base/errors.ts'
import { type Converter, prepareFormat } from '../../base/format-file.ts'
import { faultReport } from '../../base/telemetry/log.ts'
import { CertificatePair } from '../../base/transport/tls.ts'
import { Directory } from '../../customers/auth/directory.ts'
import { declareAuthMeters, Gate } from '../../customers/auth/gate.ts'
import type { Cluster } from '../../customers/cluster/cluster.ts'
import { LeaseKeeper } from '../../customers/cluster/lease-keeper.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import { Shares } from '../../customers/cluster/shares.ts'
import { isPushed } from '../../customers/push/config.ts'
import { Notices, Push, receiverOf, usageQueue } from '../../customers/push/push.ts'
import { declareCustomerMeters, declareQuotaMeters } from '../../customers/quota/meters.ts'
import { Quota } from '../../customers/quota/quota.ts'
import type { AuditHead } from '../../customers/subscriptions/audit.ts'
import { lockData, problemOfRegistry, writeSeenHead } from '../../customers/subscriptions/lock.ts'
import { openStore, type Store } from '../../customers/subscriptions/store.ts'
import { EventLog } from '../../streams/log/log.ts'
import type { SharedEvents } from '../../streams/log/shared-events.ts'
import { knownOf, sharesEvents } from '../config/config.ts'
import type { Context } from './context.ts'
import type { Components } from './lifecycle.ts'

interface RegistryParts {
  readonly registry: Store
  /** Null without a cluster. */
  readonly sharedRegistry: SharedRegistry | null
}

/** What raised the format of the data folder: the index and the files beside the registry. */
const converters: readonly Converter[] = []

/** Converts a folder to the format of this release; throws a `Fault` where a later one wrote it. */
export function prepareDataFormat(folder: string, version: string): Promise<void> {
  return prepareFormat(folder, version, converters)
}

/** Locks the folder and converts it to the format of this release. */
export async function lockFolder({ data, version }: Pick<Context, 'data' | 'version'>) {
  const locked = await lockData(data)
  if (!locked.ok) throw new Fault('data-locked', locked.refusal.message)
  const stop = () => locked.value.release()
  try {
    await prepareDataFormat(data, version)
  } catch (error) {
    await stop()
    throw error
  }
  return { stop }
}

export function openRegistry({ config, data, clock }: Context): Store {
  const { push } = config.usage
  const pushRowsMax = isPushed(push) ? push.rowsMax : 0
  return openStore(join(data, 'registry'), { clock, known: knownOf(config), pushRowsMax })
}

/** Pushes what this gateway counts; what an earlier process left comes first. */
export function startUsagePush({ config, clock, log }: Context, { unpushed }: Store): Push {
  const { push } = config.usage
  const { everyMs } = push
  const queue = { what: 'usage', unpushed: usageQueue(unpushed) }
  const started = new Push({ ...queue, ...receiverOf(push, clock), everyMs, clock, log })
  started.start()
  return started
}

export function startNotices(
  { config, clock, log }: Context,
  { registry, quota: { quota } }: Pick<Components, 'registry' | 'quota'>,
): Notices {
  return new Notices({
    section: config.webhooks,
    table: registry.notices,
    subscriptions: () => registry.list(),
    useOf: (subscription) => {
      const budget = quota.budgetOf(subscription)
      return { ...budget.state().window, limit: budget.plan.creditsPer30Days }
    },
    clock,
    log,
  })
}

/** Follows a registry that is no older than the one used before. */
export function followRegistry(
  { data, clock, log }: Context,
  { registry: store, sharedRegistry }: RegistryParts,
): Directory {
  const problem = problemOfRegistry(data, store)
  if (problem !== null) throw new Fault('registry-rolled-back', problem)
  const report = faultReport(log.area('auth'), 'newest registry version could not be stored')
  const onHead = guarded((head: AuditHead) => writeSeenHead(data, head), report)
  const directory = new Directory(store, { clock, log, onHead })
  directory.start()
  if (sharedRegistry !== null) sharedRegistry.onFollowed = () => directory.refresh()
  return directory
}

export function openGate(
  { clock, meters }: Context,
  { directory, sharedRegistry }: Pick<RegistryParts, 'sharedRegistry'> & { directory: Directory },
): Gate {
  const isExpired = () => sharedRegistry?.isExpired() === true
  const gate = new Gate(directory, { clock, isExpired })
  declareAuthMeters(meters, gate, directory)
  return gate
}

export function startQuota(
  { config, clock, log, meters, customerMeters }: Context,
  {
    registry,
    directory,
    sharedRegistry,
    shares,
  }: RegistryParts & { readonly directory: Directory; readonly shares: Shares | null },
) {
  const shared = sharedRegistry?.openUsage() ?? null
  const makeBucket = shares?.bucketOf.bind(shares)
  const ledger = shared ?? registry
  const quota = new Quota({ plans: config.plans, ledger, clock, log, makeBucket })
  if (shared !== null) shared.onTotals = (totals) => quota.learn(totals)
  quota.start()
  directory.watch((subscription) => quota.refresh(subscription))
  const quotaMeters = declareQuotaMeters(meters, quota)
  declareCustomerMeters(customerMeters, quota, (id) => registry.find(id))
  const stop = async () => {
    await quota.stop()
    await shared?.stop()
  }
  return { quota, quotaMeters, stop }
}

export function watchCertificates({ config, log }: Context): CertificatePair {
  const { cert, key } = config.tls
  const files = { certPath: resolve(cert), keyPath: resolve(key) }
  return new CertificatePair(files, log.area('tls'))
}

export function openEventLog({ config, clock, log }: Context, store: Store): EventLog {
  const report = faultReport(log.area('metrics'), 'event numbers could not be reserved')
  // A full disk costs event numbers later, never the process.
  const reserve = (count: number) => {
    let first: number | null = null
    guarded(() => {
      first = store.reserveSeq('events', count)
    }, report)()
    return first
  }
  return new EventLog({ reserve, clock, isShared: sharesEvents(config) })
}

// What talks to PostgreSQL is imported on demand: a gateway on its own does not load it.

// Reason for the assertions below: these components are enabled together with the cluster.

/** How long a start waits for PostgreSQL before it goes on without. */
const readyMs = 5_000
/** A start waits this long for the shared event log, then serves without it. */
const firstReadMs = 5_000
/** Of one statement of the event log: its lease is over after that. */
const eventsMs = 2_000

export async function openCluster({ config, clock, log }: Context): Promise<Cluster> {
  const { Cluster } = await import('../../customers/cluster/cluster.ts')
  const cluster = new Cluster(config.cluster, { clock, log })
  cluster.announce()
  return cluster
}

/** Each destination of shreds is served by exactly one gateway. */
export function leaseDestinations(
  { clock }: Context,
  { cluster }: { readonly cluster: Cluster | null },
): LeaseKeeper {
  const leases = cluster!.leasesOn(cluster!.leasing)
  return new LeaseKeeper({ leases, clock, kind: 'shred', session: cluster!.session })
}

/** Exchanges once before the first caller is admitted. */
export async function openShares(
  { clock }: Context,
  { cluster }: { readonly cluster: Cluster | null },
): Promise<Shares> {
  const { exchanging, session } = cluster!
  const { PostgresLedger } = await import('../../customers/cluster/postgres/tables.ts')
  const shares = new Shares({ ledger: new PostgresLedger(exchanging, session), clock })
  await exchanging.ready(readyMs)
  await shares.start()
  return shares
}

/** Follows the cluster's registry from before the first caller is admitted. */
export async function joinRegistry(
  { config, clock, log }: Context,
  { cluster, registry }: { readonly cluster: Cluster | null; readonly registry: Store },
): Promise<SharedRegistry> {
  const joined = cluster!
  const { SharedRegistry } = await import('../../customers/cluster/shared-registry.ts')
  const shared = new SharedRegistry({
    cluster: joined,
    store: registry,
    known: knownOf(config),
    clock,
    log,
  })
  await shared.join()
  shared.follower.start()
  joined.publish('registry', () => registry.head().seq)
  joined.publish('state', () => shared.follower.state)
  return shared
}

/** Reads the shared log; the first read is awaited where PostgreSQL answers. */
export async function followEvents(
  { clock, log }: Context,
  { cluster, events }: { readonly cluster: Cluster | null; readonly events: EventLog },
): Promise<SharedEvents> {
  const joined = cluster!
  const { PostgresEventLog } = await import('../../customers/cluster/postgres/tables.ts')
  const { SharedEvents } = await import('../../streams/log/shared-events.ts')
  const own = joined.connect('events', eventsMs)
  const isConnected = await own.ready(firstReadMs)
  const shared = new SharedEvents(events, {
    shared: new PostgresEventLog(own, joined.session),
    leases: joined.leasesOn(own),
    clock,
    log: log.area('cluster'),
  })
  if (isConnected) await shared.ready(firstReadMs)
  return shared
}
