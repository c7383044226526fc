// Meters of the proxy. Thread: main. Plain numbers, read at scrape, because the path is hot.
import type { Meters } from '../../telemetry/meters.ts'

const counters = {
  failovers: ['failovers', 'Reads that were sent to a further node because one failed'],
  hedges: ['hedges', 'Slow reads that were sent to a second node, too'],
  joined: ['joined', 'Reads that shared the answer to an identical one in flight'],
  cacheHits: ['cache_hits', 'Reads of what cannot change, answered from memory'],
  cacheMisses: ['cache_misses', 'Reads of what cannot change that were sent to a node'],
  streams: ['streams', 'Answers that were streamed because they are long'],
  streamsBroken: ['streams_broken', 'Streamed answers that their node broke off'],
  streamedBytes: ['streamed_bytes', 'Bytes of streamed answers'],
} as const

export type ProxyTally = Record<keyof typeof counters, number> & {
  /** Bytes that the caches hold now. */
  cacheBytes: () => number
}

export function declareProxyMeters(meters: Meters): ProxyTally {
  const tally = newTally()
  for (const [key, [name, help]] of Object.entries(counters))
    meters.counterRead(`sluice_upstream_${name}_total`, help, {}, () => [
      // Reason for the cast: entries of an object lose the type of its keys.
      [{}, tally[key as keyof typeof counters]],
    ])
  meters.gaugeRead('sluice_upstream_cache_bytes', 'Bytes in the caches of answers', () =>
    tally.cacheBytes(),
  )
  return tally
}

function newTally(): ProxyTally {
  return {
    failovers: 0,
    hedges: 0,
    joined: 0,
    cacheHits: 0,
    cacheMisses: 0,
    streams: 0,
    streamsBroken: 0,
    streamedBytes: 0,
    cacheBytes: () => 0,
  }
}
