// Starts ShredStream: the worker, its shared memory and the tracking of destinations.
//
//   sources ─UDP─► shred worker ─UDP─► destinations
//                            ▲       │ echo, refused
//              target table  │       ▼
//   registry ─► directory ─► destinations.ts ─► registry (confirm, fail)
//
// No packet ever reaches the main thread.
import { readFileSync } from 'node:fs'
import { parseCidr } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import type { TapMemory } from '../../base/rings/tap.ts'
import type { Running } from '../../base/running.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { DedicatedWorker, type SupervisorDeps } from '../../base/threads/supervisor.ts'
import { decodeBase58, encodeBase58 } from '../../chain/solana/base58.ts'
import { type ShredstreamSection, sourcePortOf } from './config.ts'
import { pollCoreOf } from './core.ts'
import { Destinations, type DestinationsDeps } from './destinations.ts'
import type { WorkerMessage } from './handle.ts'
import { declareShredstreamMeters } from './meters.ts'
import type { ShredRules } from './replay.ts'
import { ioNames, SharedStats, sourcesMax, windowSlots } from './shared-stats.ts'
import type { WorkerSettings } from './shred-components.ts'
import { TargetTable } from './targets.ts'
import { windowBytes } from './window.ts'

export interface ShredstreamDeps
  extends Pick<DestinationsDeps, 'directory' | 'store' | 'clock' | 'log' | 'leases'>,
    Pick<SupervisorDeps, 'onDown'> {
  readonly meters: Meters
  /** Key of the embedded node, which signs its shreds. */
  readonly embeddedLeader: Uint8Array | null
  /** Gets the packets of a recording. */
  readonly tap?: TapMemory
  /** Replaces the worker's entry and adds data to it: tests crash the worker from within. */
  readonly workerEntry?: { readonly entry: URL; readonly data: Readonly<Record<string, unknown>> }
}

export interface Shredstream extends Running {
  /** Where an embedded node sends its shreds. */
  readonly ingest: { readonly host: string; readonly port: number; readonly version: number }
  readonly sourcePort: number
  /** What a replay of its packets needs to decide as the worker does. */
  readonly admits: ShredRules
  /** Live state for `sluice shreds`. */
  report(): Readonly<Record<string, unknown>>
  restarts(): number
}

/** Shred version of the embedded node when none is configured. */
const embeddedVersion = 1
const bitsPerMegabit = 1_000_000

export async function startShredstream(
  section: ShredstreamSection,
  deps: ShredstreamDeps,
): Promise<Shredstream> {
  const log = deps.log.area('shredstream')
  const stats = new SharedStats()
  const table = new TargetTable()
  const ownPorts = () => [stats.sockets.get(0, 'ingestPort'), stats.sockets.get(0, 'outPort')]
  const destinations = new Destinations({ ...deps, log, table, stats, ownPorts })
  const settings = settingsOf(section, deps.embeddedLeader)
  const meters = declareShredstreamMeters(deps.meters, {
    stats,
    sources: settings.sources.length,
    destinations,
    kernelDrops: () => kernelDropsOf(stats.sockets.get(0, 'ingestPort')),
  })
  const worker = await DedicatedWorker.start(
    {
      name: 'shreds',
      entry: deps.workerEntry?.entry ?? 'shreds',
      data: {
        ...deps.workerEntry?.data,
        stats: stats.buffer,
        targets: table.buffer,
        window: new SharedArrayBuffer(windowBytes),
        tap: deps.tap ?? null,
        settings,
      },
      onMessage: (message) => {
        // Reason for the cast: the worker posts nothing else.
        const event = message as WorkerMessage
        if (event.kind === 'warning') log.warn(event.text)
        else destinations.onWorkerEvent(event)
      },
    },
    { ...deps, log, restarts: meters.restarts, up: meters.up },
  )
  const port = stats.sockets.get(0, 'ingestPort')
  const ioOf = () => ioNames[stats.sockets.get(0, 'io')]!
  if (section.io !== 'dgram' && ioOf() === 'dgram')
    log.warn('batched system calls are unavailable: using plain sockets')
  log.info('shred forwarding started', {
    port,
    sourcePort: stats.sockets.get(0, 'outPort'),
    io: ioOf(),
    ...(settings.core !== null && { core: settings.core }),
  })
  destinations.start()
  return {
    address: { host: section.host, port, tls: false },
    sourcePort: stats.sockets.get(0, 'outPort'),
    ingest: { host: section.host, port, version: settings.version },
    admits: {
      version: settings.version,
      leaders: settings.leaders?.map((key) => encodeBase58(key)) ?? null,
      recover: settings.recover,
      sources: settings.sources.length,
    },
    restarts: () => worker.restarts,
    report: () => ({
      ...reportOf(stats, destinations, section, ioOf()),
      core: settings.core,
      isSettled: stats.sockets.get(0, 'tableVersion') === table.version,
    }),
    async stop() {
      destinations.stop()
      await worker.stop()
      await deps.leases?.stop()
    },
  }
}

function settingsOf(
  section: ShredstreamSection,
  embeddedLeader: Uint8Array | null,
): WorkerSettings {
  if (section.sources.length > sourcesMax)
    throw new Fault('shred-sources', `shredstream.sources: at most ${sourcesMax}`)
  const { host, port, io, idle, segments, recover, bufferBytes } = section
  const leaders = section.leaders.map((key) => {
    const bytes = decodeBase58(key)
    if (bytes?.length !== 32) throw new Fault('shred-leaders', `${key} is not a base58 key`)
    return bytes
  })
  const isEmbedded = section.feed === 'embedded'
  // The embedded node's key is the most likely leader, so it is tried first.
  if (isEmbedded && embeddedLeader !== null) leaders.unshift(embeddedLeader)
  if (section.verify && leaders.length === 0)
    throw new Fault('shred-leaders', 'shredstream.verify needs shredstream.leaders')
  return {
    host,
    port,
    sourceHosts: sourceHostsOf(section),
    sourcePort: sourcePortOf(section),
    sources: section.sources.map((text) => parseCidr(text)!),
    version: section.version === 0 && isEmbedded ? embeddedVersion : section.version,
    io,
    core: io === 'poll' ? pollCoreOf(section.core) : null,
    idle,
    segments,
    leaders: section.verify ? leaders : null,
    recover,
    caps: {
      packetsPerSecond: section.packetsPerSecondMax,
      bytesPerSecond: (section.megabitsPerSecondMax * bitsPerMegabit) / 8,
    },
    bufferBytes,
    // The embedded node sends few shreds: not worth a longer start.
    warmsUp: !isEmbedded,
  }
}

function sourceHostsOf({ host, sourceHost }: ShredstreamSection): string[] {
  const own = sourceHost === '' ? host : sourceHost
  if (own === '0.0.0.0' || own === '::') return ['0.0.0.0', '::']
  if (sourceHost === '' && (own.startsWith('127.') || own === '::1')) return ['127.0.0.1', '::1']
  return [own]
}

function reportOf(
  stats: SharedStats,
  destinations: Destinations,
  section: ShredstreamSection,
  io: string,
): Readonly<Record<string, unknown>> {
  const slots = Array.from({ length: windowSlots }, (_, cell) => stats.slots.row(cell))
    .filter(({ data, code }) => data + code > 0)
    .sort((a, b) => b.slot - a.slot)
    .map(({ isLastKnown, ...slot }) => ({
      ...slot,
      isLastKnown: isLastKnown === 1,
      missing: slot.dataEnd - slot.data,
    }))
  return {
    io,
    feed: section.feed,
    at: performance.timeOrigin + performance.now(),
    totals: stats.totals.row(0),
    kernelDrops: kernelDropsOf(stats.sockets.get(0, 'ingestPort')),
    sources: section.sources.map((source, index) => ({ source, ...stats.sources.row(index) })),
    destinations: [...destinations.report()],
    slots,
  }
}

/** Packets that the kernel dropped at that UDP port because its receive buffer was full. */
function kernelDropsOf(port: number): number {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  let drops = 0
  for (const file of ['/proc/net/udp', '/proc/net/udp6'])
    try {
      for (const line of readFileSync(file, 'utf8').split('\n')) {
        const words = line.trim().split(/\s+/)
        if (words[1]?.endsWith(`:${hex}`)) drops += Number(words.at(-1))
      }
    } catch {
      // Not Linux: there is nothing to report.
    }
  return drops
}
