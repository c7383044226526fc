// Constructs the components with state: lock, registry, directory, quota, certificate, event
// log.
import { join, resolve } from 'node:path'
import { Fault } from '../../base/errors.ts'
import { type Converter, prepareFormat } from '../../base/format-file.ts'
import { guarded } from '../../base/guard.ts'
import { faultReport } from '../../base/telemetry/log.ts'
import { CertificatePair } from '../../base/transport/tls.ts'
import { Directory } from '../../customers/auth/directory.ts'
import { Gate } from '../../customers/auth/gate.ts'
import { declareAuthMeters } from '../../customers/auth/meters.ts'
import type { SharedRegistry } from '../../customers/cluster/shared-registry.ts'
import type { Shares } from '../../customers/cluster/shares.ts'
import { isPushed } from '../../customers/push/config.ts'
import { Notices } from '../../customers/push/notices.ts'
import { Push } from '../../customers/push/push.ts'
import { receiverOf, usageQueue } from '../../customers/push/receivers.ts'
import { declareCustomerMeters, declareQuotaMeters } from '../../customers/quota/meters.ts'
import { Quota } from '../../customers/quota/quota.ts'
import type { AuditHead } from '../../customers/subscriptions/audit.ts'
import { lockData } from '../../customers/subscriptions/lock.ts'
import { problemOfRegistry, writeSeenHead } from '../../customers/subscriptions/seen-head.ts'
import { openStore, type Store } from '../../customers/subscriptions/store.ts'
import { EventLog } from '../../streams/log/log.ts'
import { knownOf } from '../config/known.ts'
import { sharesEvents } from '../config/roles.ts'
import type { Components } from './components.ts'
import type { Context } from './context.ts'

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
  sharedRegistry?.onFollowed(() => directory.refresh())
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
  shared?.onTotals((totals) => quota.learn(totals))
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
