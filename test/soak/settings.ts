// The two servers of a soak: their flags, which lower what a default start would fill in hours, and
// how full each bound is.
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { resumeFramesMax } from '../../src/streams/log/log.ts'

/** A bound that must be reached before memory can be judged. */
export interface Bound {
  readonly name: string
  readonly most: number
  /** Meter (without `sluice_`), or folder below the data folder. */
  readonly reads: { readonly meter: string } | { readonly folder: string }
}

export interface Setting {
  readonly name: string
  /** As in a configuration file. */
  readonly config: Readonly<Record<string, unknown>>
  readonly bounds: readonly Bound[]
}

/** What a bound must have held of what it may, and of that before it counts as full. */
export const fullShare = 0.75
export const plateauShare = 0.95

const megabyte = 1_000_000
/** What a set keeps of answers that cannot change; the embedded chain's is the default. */
const cacheBytes = 64 * megabyte
/** The least that can be configured. */
const indexBytes = 100 * megabyte
/** Frames of a block of the generator. */
const framesPerBlock = 7
/** Slots and blocks of the embedded chain and the generator are this long. */
const slotMs = 400

/** Every bound is full within `fillMs`, as far as configuration can lower it. */
export function settingsOf(fillMs: number): readonly Setting[] {
  return [setting('default', 50, fillMs), setting('1000 per second', 1_000, fillMs)]
}

function setting(name: string, traffic: number, fillMs: number): Setting {
  // A fifth earlier, as no rate is met exactly.
  const inMs = fillMs * 0.8
  const historySlots = Math.max(320, Math.floor(inMs / slotMs))
  const streamBytes = Math.max(16 * megabyte, Math.floor((inMs / 1000) * traffic * 1_200))
  const blockMs = Math.max(60, Math.floor(inMs / (resumeFramesMax / framesPerBlock)))
  return {
    name,
    config: {
      chain: { traffic, historySlots, snapshotSlots: 150 },
      streams: { keep: Math.floor(inMs), bytes: streamBytes },
      metrics: { generator: { blockMs } },
      indexer: { retentionBytes: indexBytes },
      plans: { standard: { creditsPerSecond: 0 } },
      logLevel: 'warn',
    },
    bounds: [
      {
        name: 'resume buffer, frames',
        most: resumeFramesMax,
        reads: meter('resume_buffer_frames'),
      },
      { name: 'cache of answers', most: cacheBytes, reads: meter('upstream_cache_bytes') },
      { name: 'stream log', most: streamBytes, reads: meter('stream_log_bytes') },
      { name: 'index', most: indexBytes, reads: { folder: 'index' } },
      { name: 'slots of history', most: historySlots, reads: meter('chain_slot') },
    ],
  }
}

function meter(name: string) {
  return { meter: name }
}

/** Bytes of the files below a folder. */
export function folderBytes(folder: string): number {
  let sum = 0
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    try {
      const file = statSync(join(folder, name))
      if (file.isFile()) sum += file.size
    } catch {
      // It was dropped in between.
    }
  return sum
}
