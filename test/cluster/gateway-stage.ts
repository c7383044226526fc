// Gateways of a test without endpoints: each has a data folder and a registry that follows one
// database. As many as a test needs in one process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Cluster } from '../../src/customers/cluster/cluster.ts'
import { clusterSection } from '../../src/customers/cluster/config.ts'
import { SharedRegistry } from '../../src/customers/cluster/shared-registry.ts'
import { builtInPlans } from '../../src/customers/subscriptions/plans.ts'
import { openStore, type Store } from '../../src/customers/subscriptions/store.ts'
import { sluice } from '../testkit/server.ts'

export interface Gateway {
  readonly store: Store
  readonly cluster: Cluster
  readonly shared: SharedRegistry
  /** Follows the cluster; rejects when it must not join. */
  start(): Promise<void>
  stop(): Promise<void>
}

export const known = {
  plans: Object.keys(builtInPlans),
  destinationRules: { allowPrivate: true, own: [], interfaces: [] },
}
export const by = { who: 'test' }

const folders: string[] = []

export function openGateway(
  url: string,
  gateway: string,
  { folder = newFolder(), clock = systemClock }: { folder?: string; clock?: Clock } = {},
): Gateway {
  const store = openStore(join(folder, 'registry'), { clock, known })
  const deps = { clock, log: silentLog }
  const section = { ...initialOf(clusterSection.fields), url, gateway }
  const cluster = new Cluster(section, deps)
  const shared = new SharedRegistry({ ...deps, cluster, store, known })
  return {
    store,
    cluster,
    shared,
    async start() {
      await shared.join()
      shared.follower.start()
    },
    async stop() {
      await shared.follower.stop()
      await cluster.stop()
      await store.close()
    },
  }
}

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-gateway-'))
  folders.push(folder)
  return folder
}

export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}

/** Fills the database from an empty registry; `sluice` commands use that cluster from then on. */
export async function seed(url: string): Promise<void> {
  process.env.SLUICE_CLUSTER__URL = url
  const { code, stderr } = await sluice(newFolder(), 'cluster', 'seed')
  if (code !== 0) throw new Error(stderr)
}
