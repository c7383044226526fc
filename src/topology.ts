// THE MAP: every thread, ring, store and door of the service, in start order. Thread: main.
// It only connects. Stopping walks it backwards; what fails to start takes the rest down again.
//
//   registry ─► directory ─► gate ─┐
//      │                           ├─► rpc 8899, websocket 8900, grpc 10010
//      ├─► quota ──────────────────┘          ▲
//      │   chain (child process) ─► ledger ─► hub;  verify pool
//      │   nodes elsewhere ─► proxy, geyser streams ─► hubs
//      └─► seq blocks ─► event log ◄─ analysis pool ◄─ event ring ◄─ source thread
//                            ├─► metrics 8443
//                            └─► writer process ─► rows ◄─ query processes ◄─ indexer 8123
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Components } from './base/components.ts'
import type { DoorAddress } from './base/running.ts'
import { type Config, sourcesOf } from './config/config.ts'
import type { Store } from './subscriptions/store.ts'
import type { Meters } from './telemetry/meters.ts'
import { openDoors, openShreds, openTpu } from './topology/doors.ts'
import { geyserStatus } from './topology/geyser.ts'
import { startGround, type TopologyDeps } from './topology/ground.ts'
import { FeedPlace, openIndexer } from './topology/indexer.ts'
import { chainStatus, startRoads } from './topology/roads.ts'
import { type OperatorQuestion, startOperatorSocket } from './transport/operator-socket.ts'

export interface Service {
  readonly doors: Readonly<Record<string, DoorAddress>>
  /** Where each product's data comes from, by its key. */
  readonly sources: ReadonlyMap<string, string>
  readonly store: Store
  readonly meters: Meters
  /** Brings a change of the registry into force now instead of at the next poll. */
  refresh(): void
  /** Takes over what may change while it runs: the tip accounts. */
  reconfigure(config: Config): void
  /** Writes <data>/doors.json: everything is open, and whoever waits for it may call. */
  announce(): Promise<unknown>
  stop(): Promise<void>
}

export async function startTopology(config: Config, deps: TopologyDeps): Promise<Service> {
  const { clock, log } = deps
  const parts = new Components((name) => log.warn('a part did not stop in time', { part: name }))
  const ground = await startGround(config, deps, parts)
  const feedPlace = await parts.add('index feed', () => new FeedPlace())
  const roads = await startRoads(config, deps, parts, ground)
  const doors = await openDoors(config, deps, parts, { ...ground, ...roads })
  const shreds = await openShreds(config, deps, parts, { ...ground, ...roads, doors })
  const tpu = await openTpu(config, deps, parts, { ...ground, ...roads, doors })
  await openIndexer(config, deps, parts, { ...ground, ...roads, doors, tpu, feedPlace })
  const { store, directory, gate, meters, data } = ground
  const sources = sourcesOf(config)
  const startedMs = clock.monotonicMs()
  const status = () => ({
    version: deps.version,
    pid: process.pid,
    uptimeSecs: Math.floor((clock.monotonicMs() - startedMs) / 1000),
    doors,
    sources: Object.fromEntries(sources),
    chain: chainStatus(roads.devnode),
    upstreams: roads.upstream.report(),
    ...geyserStatus(roads.geyser),
    registry: { version: directory.version(), isRolledBack: directory.isRolledBack() },
    held: gate.leaseCount(),
  })
  const asked = {
    status,
    shreds: () => shreds?.report() ?? null,
    tips: ({ params }: OperatorQuestion) => tpu?.report(Number(params.count ?? 20)) ?? null,
    'tip-accounts': () => ({ tipAccounts: tpu?.tipAccounts() ?? [] }),
  }
  await parts.add('operator', () => startOperatorSocket(data, asked, log))
  return {
    doors,
    sources,
    store,
    meters,
    refresh: () => directory.refresh(),
    reconfigure: (changed) => tpu?.changeTipAccounts(changed.tpu.tipAccounts),
    announce: () => parts.add('doors.json', () => doorsFile(join(data, 'doors.json'), doors)),
    stop: () => parts.stop(),
  }
}

/** Tells scripts and tests where the doors are; gone when the server is. */
function doorsFile(path: string, doors: Readonly<Record<string, DoorAddress>>) {
  const fresh = `${path}.${process.pid}`
  writeFileSync(fresh, `${JSON.stringify(doors)}\n`)
  renameSync(fresh, path)
  return { stop: () => rmSync(path, { force: true }) }
}
