// The ground every product stands on: one server per folder, the registry, who may come in, what
// they may spend, the certificate. Thread: main. Called by topology.ts, first.
//
//   lock ─► registry ─► directory ─► gate
//                └────► quota
import { join, resolve } from 'node:path'
import { Directory } from '../auth/directory.ts'
import { Gate } from '../auth/gate.ts'
import { declareAuthMeters } from '../auth/meters.ts'
import type { Clock } from '../base/clock.ts'
import type { Components } from '../base/components.ts'
import { Fault } from '../base/errors.ts'
import { guarded } from '../base/guard.ts'
import type { Config } from '../config/config.ts'
import { knownOf } from '../config/known.ts'
import type { PlayProgress } from '../flows/execution-source.ts'
import { AddressBudget } from '../quota/address-budget.ts'
import { declareQuotaMeters } from '../quota/meters.ts'
import { Quota } from '../quota/quota.ts'
import type { AuditHead } from '../subscriptions/audit.ts'
import { lockData } from '../subscriptions/lock.ts'
import { problemOfRegistry, writeSeenHead } from '../subscriptions/seen-head.ts'
import { openStore, type Store } from '../subscriptions/store.ts'
import { faultReport, type Log } from '../telemetry/log.ts'
import { Meters } from '../telemetry/meters.ts'
import { startProcessMeters } from '../telemetry/process-meters.ts'
import { CertificatePair } from '../transport/tls.ts'

export interface TopologyDeps {
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  /** Drops the state of the embedded chain. */
  readonly isFresh: boolean
  /** Asks the process to end with this code; called when a vital part is gone for good. */
  exit(code: number): void
  /** Told while a recording is played, and at its end. */
  readonly playing?: { onProgress(progress: PlayProgress): void; onEnd?(): void }
}

export async function startGround(config: Config, deps: TopologyDeps, parts: Components) {
  const { clock, log } = deps
  const data = resolve(config.data)
  const meters = new Meters()
  await parts.add('lock', () => lock(data))
  const { store } = await parts.add('registry', () => opened(config, data, clock))
  const directory = await parts.add('directory', () => follow(store, deps, data))
  const gate = new Gate(directory, { clock })
  const quota = await parts.add('quota', () =>
    started(new Quota({ plans: config.plans, ledger: store, clock, log })),
  )
  const addressBudget = new AddressBudget(config.addressBudget, clock)
  directory.watch((subscription) => quota.refresh(subscription))
  declareAuthMeters(meters, gate, directory)
  const quotaMeters = declareQuotaMeters(meters, quota)
  await parts.add('process meters', () => startProcessMeters(meters, deps))
  const { pair } = await parts.add('certificates', () => certificates(config, log))
  return { data, meters, store, directory, gate, quota, quotaMeters, addressBudget, tls: pair }
}
export type Ground = Awaited<ReturnType<typeof startGround>>

async function lock(data: string) {
  const locked = await lockData(data)
  if (!locked.ok) throw new Fault('data-locked', locked.refusal.message)
  return { stop: () => locked.value.release() }
}

/** The directory on a registry that is no older than the one used before. */
function follow(store: Store, { clock, log }: TopologyDeps, data: string): Directory {
  const problem = problemOfRegistry(data, store)
  if (problem !== null) throw new Fault('registry-rolled-back', problem)
  const report = faultReport(log.area('auth'), 'the newest change could not be noted')
  const onHead = guarded((head: AuditHead) => writeSeenHead(data, head), report)
  return started(new Directory(store, { clock, log, onHead }))
}

function opened(config: Config, data: string, clock: Clock): Opened {
  const store = openStore(join(data, 'registry'), { clock, known: knownOf(config) })
  return { store, stop: () => store.close() }
}

interface Opened {
  readonly store: Store
  stop(): Promise<void>
}

/** Starts something with a clock of its own, so that it can be added to `Components`. */
function started<T extends { start(): void }>(part: T): T {
  part.start()
  return part
}

function certificates({ tls }: Config, log: Log) {
  if (tls.cert === '') return { pair: null, stop() {} }
  const files = { certPath: resolve(tls.cert), keyPath: resolve(tls.key) }
  const pair = new CertificatePair(files, log.area('tls'))
  return { pair, stop: () => pair.stop() }
}
