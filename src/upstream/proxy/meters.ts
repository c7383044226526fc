// The meters of the proxy. Thread: main. Plain numbers, read at scrape: the road is hot.
import type { Meters } from '../../telemetry/meters.ts'

export class ProxyTally {
  /** Reads that were asked of a further node because one failed. */
  failovers = 0
  /** Slow reads that a second node was asked, too. */
  hedges = 0
  /** Reads that shared the answer to one like them. */
  joined = 0
  cacheHits = 0
  cacheMisses = 0
  streams = 0
  streamsBroken = 0
  streamedBytes = 0
  /** Bytes that the caches hold now. */
  cacheBytes: () => number = () => 0
}

export function declareProxyMeters(meters: Meters): ProxyTally {
  const tally = new ProxyTally()
  const count = (name: string, help: string, read: () => number) =>
    meters.counterRead(name, help, {}, () => [[{}, read()]])
  count(
    'sluice_upstream_failovers_total',
    'Reads that were asked of a further node because one failed',
    () => tally.failovers,
  )
  count(
    'sluice_upstream_hedges_total',
    'Slow reads that a second node was asked, too',
    () => tally.hedges,
  )
  count(
    'sluice_upstream_joined_total',
    'Reads that shared the answer to an identical one in flight',
    () => tally.joined,
  )
  count(
    'sluice_upstream_cache_hits_total',
    'Reads of what cannot change, answered from memory',
    () => tally.cacheHits,
  )
  count(
    'sluice_upstream_cache_misses_total',
    'Reads of what cannot change that had to be asked',
    () => tally.cacheMisses,
  )
  count(
    'sluice_upstream_streams_total',
    'Answers that were streamed because they are long',
    () => tally.streams,
  )
  count(
    'sluice_upstream_streams_broken_total',
    'Streamed answers that their node broke off',
    () => tally.streamsBroken,
  )
  count(
    'sluice_upstream_streamed_bytes_total',
    'Bytes of streamed answers',
    () => tally.streamedBytes,
  )
  meters.gaugeRead('sluice_upstream_cache_bytes', 'Bytes that the caches of answers hold', () =>
    tally.cacheBytes(),
  )
  return tally
}
