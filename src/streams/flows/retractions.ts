// What was published of a slot and is void is retracted, once and with its reason.
import { retractionUpdate, slotUpdate } from '../../chain/solana/update-build.ts'
import {
  type RetractionReason,
  type SlotStatus,
  type SlotUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../chain/solana/updates.ts'
import { publishUpdate, type SolanaHub } from '../geyser/hub.ts'
import type { TrackedSlot } from './tracked-slot.ts'

export class Retractions {
  /** Time of the newest status or meta. */
  nowMs = 0
  readonly #hub: SolanaHub

  constructor(hub: SolanaHub) {
    this.#hub = hub
  }

  /** Everything published of the slot is void. */
  retract(tracked: TrackedSlot, reason: RetractionReason): void {
    if (!tracked.hasPublished) return
    this.#publish(tracked, reason, () => [])
    tracked.hasPublished = false
  }

  /** The same, but for this content: it is of the bank that the slot has now. */
  retractAllBut(tracked: TrackedSlot, content: readonly SolanaUpdate[]): void {
    const { createdBank } = slotStatus
    const from = { createdAtMs: this.nowMs }
    this.#publish(tracked, tracked.retractedFor ?? 'fork', () => {
      const status = tracked.hasStatus(createdBank) ? [derived(tracked, createdBank, from)] : []
      return [...status, ...content].map((update) => withBank(tracked, update))
    })
    tracked.hasPublished = true
  }

  #publish(
    tracked: TrackedSlot,
    reason: RetractionReason,
    restate: () => readonly SolanaUpdate[],
  ): void {
    const { slot } = tracked
    const { id: bank } = tracked.bank
    tracked.bank.id = tracked.nextBankId++
    const moment = { slot, createdAtMs: this.nowMs }
    publishUpdate(this.#hub, retractionUpdate(moment, { bank, reason, restated: restate() }))
    tracked.retractedFor = reason
    tracked.isSetBack = false
  }
}

/** Why the bank of the slot has lost. */
export function reasonToLose(tracked: TrackedSlot): RetractionReason {
  if (tracked.hasStatus(slotStatus.dead)) return 'dead'
  return tracked.isSetBack ? 'migration' : 'fork'
}

/** Why the next bank follows that of the slot, by all slots that are known. */
export function reasonToReplace(
  tracked: TrackedSlot,
  slots: readonly TrackedSlot[],
): RetractionReason {
  if (tracked.hasStatus(slotStatus.dead)) return 'dead'
  if (tracked.isSetBack) return 'migration'
  // A leader can hand over only what was not complete.
  if (tracked.blockhash === null) return 'handover'
  if (!slots.some((one) => one.parent === tracked.slot && one.blockhash !== null)) return 'fork'
  const confirmed = slots.filter((one) => one.hasStatus(slotStatus.confirmed))
  const newest = Math.max(-1, ...confirmed.map(({ slot }) => slot))
  for (const one of slots) if (one.slot > newest) one.isSetBack = true
  return 'migration'
}

/** A status that no node sent, derived from a descendant's. */
export function derived(
  tracked: TrackedSlot,
  status: SlotStatus,
  from: { readonly createdAtMs: number },
): SlotUpdate {
  const { slot, parent } = tracked
  return slotUpdate({ slot, createdAtMs: from.createdAtMs }, { parent, status })
}

/** With our id of the published bank, where the kind has one. */
export function withBank<U extends SolanaUpdate>(tracked: TrackedSlot, update: U): U {
  const hasId = update.kind === 'slot' || update.kind === 'blockMeta'
  return hasId ? { ...update, bank: tracked.bank.id } : update
}
