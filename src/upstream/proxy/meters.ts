// Meters of the proxy. Plain numbers, read at scrape, because the path is hot.
import type { Meters, PairTally } from '../../base/telemetry/meters.ts'
import { knownMethods, type MethodClass, methodClasses } from './method-policy.ts'

export const answerSources = ['stream', 'node'] as const
export type AnswerSourceName = (typeof answerSources)[number]

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

type Counter = keyof typeof counters

const comparisons = ['equal', 'different', 'skipped'] as const

export type ProxyTally = Record<Counter, number> & {
  /** Calls by what they read and who answered: the stream of the set, or a node. */
  readonly answers: PairTally<MethodClass, AnswerSourceName>
  /** Sampled reads that a further node answered, too. */
  readonly compared: Record<(typeof comparisons)[number], number>
  /** Those that differ, by method. */
  readonly differences: Map<string, number>
  /** Bytes in the caches now. */
  cacheBytes: () => number
}

export function declareProxyMeters(meters: Meters): ProxyTally {
  // Reason for the casts: the entries of an object lose the type of its keys.
  const keys = Object.keys(counters) as Counter[]
  const zeros = Object.fromEntries(keys.map((key) => [key, 0])) as Record<Counter, number>
  const answers = meters.pairs(
    'sluice_upstream_answers_total',
    'Calls by what they read and who answered: the stream of the set, or a node or its cache',
    ['reads', methodClasses],
    ['source', answerSources],
  )
  const compared = { equal: 0, different: 0, skipped: 0 }
  const differences = new Map([...knownMethods, 'other'].map((method) => [method, 0]))
  const tally: ProxyTally = { ...zeros, answers, compared, differences, cacheBytes: () => 0 }
  meters.counterRead(
    'sluice_upstream_compared_total',
    'Sampled reads that a further node answered, too, by whether the results are equal',
    { outcome: comparisons },
    () => comparisons.map((outcome) => [{ outcome }, compared[outcome]] as const),
  )
  meters.counterRead(
    'sluice_upstream_differences_total',
    'Sampled reads whose results differ between two nodes',
    { method: [] as string[] },
    function* () {
      for (const [method, count] of differences) yield [{ method }, count]
    },
  )
  for (const key of keys) {
    const [name, help] = counters[key]
    meters.totalRead(`sluice_upstream_${name}_total`, help, () => tally[key])
  }
  meters.gaugeRead('sluice_upstream_cache_bytes', 'Bytes in the caches of answers', () =>
    tally.cacheBytes(),
  )
  return tally
}
