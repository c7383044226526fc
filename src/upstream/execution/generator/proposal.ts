// Derives a generated block's size, hashes, competing proposals and outcome before it executes.
// Everything is a function of the seed and the block's number, so that parent
// links are valid from block to block and across restarts.
import { mix, Random, writeDigest } from './random.ts'
import type { TrafficPlan } from './traffic-plan.ts'

export interface Proposal {
  readonly number: number
  /** 0 for the first proposal at this number, 1 for the second. */
  readonly variant: number
  /** Seed of the block's contents. */
  readonly word: number
  readonly id: Uint8Array
  readonly ethHash: Uint8Array
  readonly parentHash: Uint8Array
  readonly beneficiary: number
  readonly txnCount: number
  /** Transactions whose results are recorded; fewer than `txnCount` when the block is rejected. */
  readonly recordedTxns: number
  readonly isRejected: boolean
  /** From BlockStart to BlockEnd. */
  readonly wallNs: number
  /** Wall time of BlockStart in ms. */
  readonly startMs: number
}

export interface Shape {
  readonly seed: number
  readonly blockMs: number
  /** Transactions per block on average. */
  readonly txnsPerBlock: number
  /** Share of blocks with two valid proposals, of which one loses. */
  readonly forkRate: number
  /** Share of blocks whose first proposal is rejected. */
  readonly rejectRate: number
}

/** Outcome of the proposals at a number. */
export interface Fate {
  /** Proposals that are executed: 1 or 2. */
  readonly proposals: number
  readonly isFirstRejected: boolean
  /** The variant that is voted, finalized and verified. */
  readonly winner: number
}

const ordinary: Fate = { proposals: 1, isFirstRejected: false, winner: 0 }
/** Recording results costs about a quarter of a millisecond per transaction in the recording. */
const txnNs = 250_000
const overheadNs = 1_300_000
/** A block executes within this share of its block time, so that the next one never waits. */
const slotShare = 0.7
const emptyChance = 1 / 30
const txnsSpreadMax = 2.5

export function fateOf(shape: Shape, number: number): Fate {
  const random = randomOf(shape, number, 0xfa7e)
  const draw = random.fraction()
  if (draw < shape.rejectRate) return { proposals: 2, isFirstRejected: true, winner: 1 }
  if (draw < shape.rejectRate + shape.forkRate)
    return { proposals: 2, isFirstRejected: false, winner: random.below(2) }
  return ordinary
}

export function proposalOf(
  shape: Shape,
  traffic: TrafficPlan,
  at: { readonly number: number; readonly variant: number; readonly startMs: number },
): Proposal {
  const { number, variant, startMs } = at
  const fate = fateOf(shape, number)
  const random = randomOf(shape, number, variant + 1)
  const isRejected = fate.isFirstRejected && variant === 0
  const txnCount = drawTxnCount(shape, random)
  const slotNs = (shape.blockMs * slotShare * 1e6) / fate.proposals
  const wishedNs = overheadNs + txnCount * txnNs * (0.7 + random.fraction() * 0.6)
  return {
    number,
    variant,
    startMs,
    isRejected,
    txnCount,
    recordedTxns: isRejected ? Math.floor(txnCount / 2) : txnCount,
    word: mix(wordOf(shape, number) ^ (variant + 1)),
    id: digestOf(shape, number, variant, 0x1d),
    ethHash: ethHashOf(shape, number, variant),
    parentHash: ethHashOf(shape, number - 1, fateOf(shape, number - 1).winner),
    beneficiary: traffic.drawBeneficiary(random),
    wallNs: Math.floor(Math.min(wishedNs, slotNs)),
  }
}

function ethHashOf(shape: Shape, number: number, variant: number): Uint8Array {
  return digestOf(shape, number, variant, 0xe7)
}

/** As in the recording: half of the blocks within 0.5 and 1.3 of the mean, some empty. */
function drawTxnCount(shape: Shape, random: Random): number {
  if (random.chance(emptyChance)) return 0
  const mean = shape.txnsPerBlock / (1 - emptyChance)
  const drawn = (random.exponential(mean) + random.exponential(mean)) / 2
  return Math.round(Math.min(drawn, mean * txnsSpreadMax))
}

function digestOf(shape: Shape, number: number, variant: number, what: number): Uint8Array {
  const bytes = new Uint8Array(32)
  const high = Math.floor(number / 0x1_0000_0000)
  const span = { at: 0, length: 32 }
  writeDigest(bytes, span, mix(shape.seed ^ what), number % 0x1_0000_0000, high, variant)
  return bytes
}

function randomOf(shape: Shape, number: number, what: number): Random {
  const random = new Random()
  random.seed(shape.seed, wordOf(shape, number), what)
  return random
}

function wordOf(shape: Shape, number: number): number {
  const high = Math.floor(number / 0x1_0000_0000)
  return mix(mix(shape.seed ^ high) ^ (number % 0x1_0000_0000))
}
