// Policy of each method: may it be retried, shared or cached, is it expensive.
import { Commitment, commitmentNamed } from '../../base/commitment.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import type { Meters, PairTally } from '../../base/telemetry/meters.ts'

/**
 * - `read`: may fail over to another node, be shared with identical ones, be hedged.
 * - `send`: changes something; sent exactly once to a node.
 */
type MethodKind = 'read' | 'send'

/**
 * Which answers of a method can never change.
 * - `always`: every one.
 * - `finalized`: those requested at finalized, which is the default of nodes.
 * - `rooted`: those about a slot that is finalized already.
 */
type Lasting = 'always' | 'finalized' | 'rooted' | 'never'

export interface MethodPolicy {
  readonly kind: MethodKind
  /** A scan: it gets more time, and its latency does not show how fast the node is. */
  readonly isHeavy: boolean
  readonly lasting: Lasting
  /** Its answer contains the node's slot: a node that reached what the customer saw is picked. */
  readonly tellsSlot: boolean
  /** For meters: which part of the chain it reads. */
  readonly reads: MethodClass
}

const methodClasses = ['slots', 'accounts', 'history', 'other'] as const
type MethodClass = (typeof methodClasses)[number]

/** Options of a call that the pick of a node depends on. */
export interface ReadOptions {
  readonly commitment: Commitment
  readonly minContextSlot: number | undefined
}

const plain: MethodPolicy = {
  kind: 'read',
  isHeavy: false,
  lasting: 'never',
  tellsSlot: false,
  reads: 'other',
}
const heavy: MethodPolicy = { ...plain, isHeavy: true }
const send: MethodPolicy = { ...plain, kind: 'send' }
const accounts: MethodPolicy = { ...plain, tellsSlot: true, reads: 'accounts' }
const slots: MethodPolicy = { ...plain, tellsSlot: true, reads: 'slots' }

const policies: ReadonlyMap<string, MethodPolicy> = new Map<string, MethodPolicy>([
  ['sendTransaction', send],
  ['requestAirdrop', send],
  ['getSlot', slots],
  ['getBlockHeight', slots],
  ['getEpochInfo', slots],
  ['getLatestBlockhash', slots],
  ['isBlockhashValid', slots],
  ['getBalance', accounts],
  ['getAccountInfo', accounts],
  ['getMultipleAccounts', accounts],
  ['getTokenAccountBalance', accounts],
  ['getVersion', { ...plain, reads: 'slots' }],
  ['getGenesisHash', { ...plain, lasting: 'always' }],
  ['getBlockTime', { ...plain, lasting: 'rooted' }],
  ['getSignatureStatuses', { ...plain, tellsSlot: true, reads: 'history' }],
  ['getTransaction', { ...plain, lasting: 'finalized', reads: 'history' }],
  ['getBlock', { ...heavy, lasting: 'finalized', reads: 'history' }],
  ['getBlocks', heavy],
  ['getBlocksWithLimit', heavy],
  ['getBlockProduction', heavy],
  ['getClusterNodes', heavy],
  ['getInflationReward', heavy],
  ['getLargestAccounts', heavy],
  ['getLeaderSchedule', heavy],
  ['getProgramAccounts', heavy],
  ['getSignaturesForAddress', heavy],
  ['getSupply', heavy],
  ['getTokenAccountsByDelegate', heavy],
  ['getTokenAccountsByOwner', heavy],
  ['getTokenLargestAccounts', heavy],
  ['getVoteAccounts', heavy],
])

/** For meters: methods that have a policy of their own. */
const knownMethods: readonly string[] = [...policies.keys()]

export function policyOf(method: string): MethodPolicy {
  return policies.get(method) ?? plain
}

const defaults: ReadOptions = { commitment: Commitment.finalized, minContextSlot: undefined }
/** Statuses are those of the newest state. */
const atProcessed: ReadOptions = { ...defaults, commitment: Commitment.processed }

/** The options are the last param, when that is an object; nodes take unknown ones as finalized. */
export function readOptions({ method, params }: Call): ReadOptions {
  if (method === 'getSignatureStatuses') return atProcessed
  if (!Array.isArray(params) || params.length === 0) return defaults
  const last: unknown = params[params.length - 1]
  if (typeof last !== 'object' || last === null) return defaults
  const { commitment, minContextSlot } = last as Record<string, unknown>
  return {
    commitment: commitmentNamed(commitment) ?? Commitment.finalized,
    minContextSlot: typeof minContextSlot === 'number' ? minContextSlot : undefined,
  }
}

/** True when a result of this call can never change. */
export function isLasting(
  policy: MethodPolicy,
  { params }: Call,
  { commitment }: ReadOptions,
  finalizedSlot: number | null,
): boolean {
  switch (policy.lasting) {
    case 'never':
      return false
    case 'always':
      return true
    case 'finalized':
      return commitment === Commitment.finalized
    case 'rooted': {
      const slot: unknown = Array.isArray(params) ? params[0] : undefined
      return typeof slot === 'number' && finalizedSlot !== null && slot <= finalizedSlot
    }
  }
}

// Meters of the proxy. Plain numbers, read at scrape, because the path is hot.

const answerSources = ['stream', 'node'] as const
type AnswerSourceName = (typeof answerSources)[number]

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
