// Policy of each method: may it be retried, shared or cached, is it expensive.
import { Commitment, commitmentNamed } from '../../base/commitment.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'

/**
 * - `read`: may fail over to another node, be shared with identical ones, be hedged.
 * - `send`: changes something; sent exactly once to a node.
 */
export type MethodKind = 'read' | 'send'

/**
 * Which answers of a method can never change.
 * - `always`: every one.
 * - `finalized`: those requested at finalized, which is the default of nodes.
 * - `rooted`: those about a slot that is finalized already.
 */
export type Lasting = 'always' | 'finalized' | 'rooted' | 'never'

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

export const methodClasses = ['slots', 'accounts', 'history', 'other'] as const
export type MethodClass = (typeof methodClasses)[number]

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
export const knownMethods: readonly string[] = [...policies.keys()]

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
