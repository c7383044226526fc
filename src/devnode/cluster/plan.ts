// The script of a cluster's faults: what happens to each slot at each node, from a seed alone.
// Pure: every answer is a function of the seed, the slot and the node, so that a restart continues
// the same script, and a test reads it without a chain.

/** What may go wrong; each can be switched on by itself. */
export const faultNames = [
  'handover',
  'dead',
  'equivocation',
  'fork',
  'skip',
  'lag',
  'migration',
  'lie-slot',
  'lie-genesis',
  'lie-blockhash',
] as const

export type FaultName = (typeof faultNames)[number]

/** Of a cluster of several nodes: what a healthy network shows every day. */
export const usualFaults: readonly FaultName[] = faultNames.slice(0, 6)

export interface ClusterOptions {
  readonly seed: number
  /** How many nodes share the chain. */
  readonly nodes: number
  readonly faults: readonly FaultName[]
  /** The chain starts migrated to Alpenglow. */
  readonly isAlpenglow: boolean
}

/** How a node comes to replace its first bank of a slot. */
export type VoidBank = 'handover' | 'dead' | 'equivocation'

/** A leader has so many slots in a row. */
export const windowSlots = 4
/** The first slot of the vote-only phase, and how many slots it lasts until they are reused. */
const migrationSlot = 96
const migrationSlots = 8
/** Slots that a node which lags for a while is behind. */
const lagSlotsMax = 8
const lagPeriodSlots = 32

/** Each question has a number of its own, so that answers do not depend on one another. */
const ask = {
  leader: 1,
  handover: 2,
  dead: 3,
  equivocation: 4,
  skip: 5,
  fork: 6,
  seen: 7,
  items: 8,
  lag: 9,
  spell: 10,
  order: 11,
} as const

export class ClusterPlan {
  readonly nodes: number
  readonly #options: ClusterOptions
  readonly #has: ReadonlySet<FaultName>

  constructor(options: ClusterOptions) {
    this.#options = options
    this.nodes = options.nodes
    this.#has = new Set(options.faults)
  }

  /** The node that leads a slot. */
  leaderOf(slot: number): number {
    const window = Math.floor(slot / windowSlots)
    return Math.floor(this.#chance(ask.leader, window) * this.nodes)
  }

  /** No block of this slot is ever confirmed. */
  isSkipped(slot: number): boolean {
    if (!this.#has.has('skip') && !this.#has.has('fork')) return false
    const isMigrating = Math.abs(slot - migrationSlot) <= migrationSlots
    if (isMigrating && this.#has.has('migration')) return false
    return slot > 1 && this.#chance(ask.skip, slot) < 1 / 12
  }

  /** Whether a node has a block of a skipped slot, which the others never see. */
  isForked(slot: number, node: number): boolean {
    if (!this.#has.has('fork') || !this.isSkipped(slot)) return false
    const isAbsent = this.#has.has('skip') && this.#chance(ask.fork, slot) < 1 / 2
    return !isAbsent && this.#sees(slot, node)
  }

  /** The bank that a node makes of a slot before the one that wins; null: it makes one only. */
  voidBank(slot: number, node: number): VoidBank | null {
    if (slot < 2 || !this.#sees(slot, node)) return null
    if (this.isHandover(slot)) return 'handover'
    if (this.#has.has('equivocation') && this.#chance(ask.equivocation, slot) < 1 / 12)
      return 'equivocation'
    return this.#has.has('dead') && this.#chance(ask.dead, slot) < 1 / 12 ? 'dead' : null
  }

  /** The first block of a third of the leader windows has an UpdateParent marker. */
  isHandover(slot: number): boolean {
    if (!this.#has.has('handover') || slot % windowSlots !== 0 || slot < windowSlots) return false
    return this.#chance(ask.handover, slot) < 1 / 3
  }

  /** Updates of a slot that a node sends before it replaces the bank. */
  itemsBefore(slot: number, node: number): number {
    return Math.floor(this.#chance(ask.items, slot, node) * 12)
  }

  /** How many slots a node is behind. The first one never is. */
  lagSlots(slot: number, node: number): number {
    if (!this.#has.has('lag') || node === 0) return 0
    const usual = this.#chance(ask.lag, node) * 1.5
    const period = Math.floor(slot / lagPeriodSlots)
    const isSpell =
      slot % lagPeriodSlots < lagSlotsMax && this.#chance(ask.spell, period, node) < 0.2
    return isSpell ? lagSlotsMax : usual
  }

  /** Whether a node sends ROOTED before CONFIRMED: their threads have no order. */
  isRootedFirst(slot: number, node: number): boolean {
    return this.isMigrated(slot) && this.#chance(ask.order, slot, node) < 1 / 2
  }

  isMigrated(slot: number): boolean {
    return this.#options.isAlpenglow || (this.#has.has('migration') && slot >= migrationSlot)
  }

  /** The slots of the vote-only phase that begins with this one; they are used again after it. */
  stallSlots(slot: number): number {
    return this.#has.has('migration') && slot === migrationSlot ? migrationSlots : 0
  }

  /** The block that Alpenglow begins after, seen from a slot; null before it. */
  genesisSlot(slot: number): number | null {
    if (this.#options.isAlpenglow) return 0
    return this.isMigrated(slot) ? migrationSlot - 1 : null
  }

  /** The last node lies, if any does. */
  lies(fault: Extract<FaultName, `lie-${string}`>, node: number): boolean {
    return this.#has.has(fault) && node === this.nodes - 1
  }

  /** A node that knows the marker or the right version before it begins makes one bank only. */
  #sees(slot: number, node: number): boolean {
    return this.#chance(ask.seen, slot, node) < 2 / 3
  }

  /** From 0 to 1, evenly. */
  #chance(...words: readonly number[]): number {
    let state = Math.imul(this.#options.seed + 1, 0x9e3779b1)
    for (const word of words) {
      state = Math.imul(state ^ word, 0x85ebca6b)
      state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35)
      state ^= state >>> 16
    }
    return (state >>> 0) / 2 ** 32
  }
}
