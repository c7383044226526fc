// Starts ShredStream: the worker, its shared memory, and the keeping of destinations. Thread: main.
//
//   feed or sources ─UDP─► shred worker ─UDP─► destinations
//                            ▲       │ echo, refused
//              target table  │       ▼
//   registry ─► directory ─► destinations.ts ─► registry (confirm, fail)
//
// No packet ever comes to the main thread.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseCidr } from '../../base/cidr.ts'
import { Fault } from '../../base/errors.ts'
import type { Running } from '../../base/running.ts'
import { decodeBase58 } from '../../solana/base58.ts'
import { publicKeyOfSeed } from '../../solana/shred-signature.ts'
import type { Meters } from '../../telemetry/meters.ts'
import { DedicatedWorker } from '../../threads/dedicated.ts'
import type { SupervisorDeps } from '../../threads/supervisor.ts'
import { Board, ioNames, sourcesMax, windowSlots } from './board.ts'
import { type ShredstreamSection, sourcePortOf } from './config.ts'
import { Destinations, type DestinationsDeps } from './destinations.ts'
import { ShredFeed } from './feed.ts'
import type { WorkerMessage, WorkerSettings } from './handle.ts'
import { declareShredstreamMeters } from './meters.ts'
import { TargetTable } from './targets.ts'
import { windowBytes } from './window.ts'

export interface ShredstreamDeps
  extends Pick<DestinationsDeps, 'directory' | 'store' | 'clock' | 'log'>,
    Pick<SupervisorDeps, 'onDown'> {
  readonly meters: Meters
  /** Another entry for the worker and more data for it: tests end it from within. */
  readonly workerEntry?: { readonly entry: URL; readonly data: Readonly<Record<string, unknown>> }
}

export interface Shredstream extends Running {
  /** Takes the embedded chain's blocks; null when shreds come from elsewhere. */
  readonly feed: ShredFeed | null
  readonly sourcePort: number
  /** Live state for `sluice shreds`. */
  report(): Readonly<Record<string, unknown>>
  restarts(): number
}

/** Shred version of the embedded chain where none is configured. */
const embeddedVersion = 1
const bitsPerMegabit = 1_000_000

export async function startShredstream(
  section: ShredstreamSection,
  deps: ShredstreamDeps,
): Promise<Shredstream> {
  const log = deps.log.area('shredstream')
  const board = new Board()
  const table = new TargetTable()
  const ownPorts = () => [board.sockets.get(0, 'ingestPort'), board.sockets.get(0, 'outPort')]
  const destinations = new Destinations({ ...deps, log, table, board, ownPorts })
  const seed = section.feed === 'embedded' ? randomBytes(32) : null
  const settings = settingsOf(section, seed)
  const meters = declareShredstreamMeters(deps.meters, {
    board,
    sources: settings.sources.length,
    destinations,
    kernelDrops: () => kernelDropsOf(board.sockets.get(0, 'ingestPort')),
  })
  const worker = await DedicatedWorker.start(
    {
      name: 'shreds',
      entry: deps.workerEntry?.entry ?? 'shreds',
      data: {
        ...deps.workerEntry?.data,
        board: board.buffer,
        targets: table.buffer,
        window: new SharedArrayBuffer(windowBytes),
        settings,
      },
      onMessage: (message) => {
        // Reason for the cast: the worker posts nothing else.
        const news = message as WorkerMessage
        if (news.kind === 'note') log.warn(news.text)
        else destinations.hear(news)
      },
    },
    { ...deps, log, restarts: meters.restarts, up: meters.up },
  )
  const port = board.sockets.get(0, 'ingestPort')
  const ioOf = () => ioNames[board.sockets.get(0, 'io')]!
  if (section.io === 'batch' && ioOf() === 'dgram')
    log.warn('batched system calls are not to be had here: plain sockets are used')
  log.info('shreds flow', { port, sourcePort: board.sockets.get(0, 'outPort'), io: ioOf() })
  const feed =
    seed === null
      ? null
      : await ShredFeed.start({ host: section.host, port, seed, version: settings.version }, deps)
  destinations.start()
  return {
    address: { host: section.host, port, tls: false },
    sourcePort: board.sockets.get(0, 'outPort'),
    feed,
    restarts: () => worker.restarts,
    report: () => ({
      ...reportOf(board, destinations, section, ioOf()),
      isSettled: board.sockets.get(0, 'tableVersion') === table.version,
    }),
    async stop() {
      destinations.stop()
      await feed?.stop()
      await worker.stop()
    },
  }
}

function settingsOf(section: ShredstreamSection, seed: Uint8Array | null): WorkerSettings {
  if (section.sources.length > sourcesMax)
    throw new Fault('shred-sources', `shredstream.sources: at most ${sourcesMax}`)
  const { host, port, io, idle, segments, recover, bufferBytes } = section
  const leaders = section.leaders.map((key) => {
    const bytes = decodeBase58(key)
    if (bytes?.length !== 32) throw new Fault('shred-leaders', `${key} is no base58 key`)
    return bytes
  })
  // The embedded chain's own key is the likeliest: it is tried first.
  if (seed !== null) leaders.unshift(publicKeyOfSeed(seed))
  if (section.verify && leaders.length === 0)
    throw new Fault('shred-leaders', 'shredstream.verify needs shredstream.leaders')
  return {
    host,
    port,
    sourceHosts: sourceHostsOf(section),
    sourcePort: sourcePortOf(section),
    sources: section.sources.map((text) => parseCidr(text)!),
    version: section.version === 0 && seed !== null ? embeddedVersion : section.version,
    io,
    idle,
    segments,
    leaders: section.verify ? leaders : null,
    recover,
    caps: {
      packetsPerSecond: section.packetsPerSecondMax,
      bytesPerSecond: (section.megabitsPerSecondMax * bitsPerMegabit) / 8,
    },
    bufferBytes,
  }
}

function sourceHostsOf({ host, sourceHost }: ShredstreamSection): string[] {
  const own = sourceHost === '' ? host : sourceHost
  if (own === '0.0.0.0' || own === '::') return ['0.0.0.0', '::']
  if (sourceHost === '' && (own.startsWith('127.') || own === '::1')) return ['127.0.0.1', '::1']
  return [own]
}

function reportOf(
  board: Board,
  destinations: Destinations,
  section: ShredstreamSection,
  io: string,
): Readonly<Record<string, unknown>> {
  const slots = Array.from({ length: windowSlots }, (_, cell) => board.slots.row(cell))
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
    totals: board.totals.row(0),
    kernelDrops: kernelDropsOf(board.sockets.get(0, 'ingestPort')),
    sources: section.sources.map((source, place) => ({ source, ...board.sources.row(place) })),
    destinations: [...destinations.report()],
    slots,
  }
}

/** What the kernel threw away at that UDP port because nobody read it in time. */
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
      // Another system: nothing to tell.
    }
  return drops
}
