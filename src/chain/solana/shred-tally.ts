// Counts received and missing shreds per slot.
import {
  flagBits,
  flagsOf,
  flawOf,
  flaws,
  indexOf,
  isCodeVariant,
  offsets,
  slotOf,
  slotShredsMax,
} from './shred.ts'

/** Slots kept at once; a shred of an older one counts as late. */
const slotsMax = 64

export interface SlotTally {
  readonly slot: number
  data: number
  code: number
  duplicates: number
  /** Highest data index plus one: how many there should be, as far as is known. */
  dataEnd: number
  /** The shred that ends the slot has arrived. */
  isLastKnown: boolean
  /** When its first and its newest shred arrived. */
  readonly firstMs: number
  lastMs: number
}

interface OpenSlot extends SlotTally {
  readonly seen: Uint8Array
}

export class ShredTally {
  readonly #slots = new Map<number, OpenSlot>()
  /** Slots that `takeFinished` has returned. */
  readonly #returned = new Set<number>()
  shreds = 0
  bytes = 0
  duplicates = 0
  flawed = 0
  late = 0

  /** Counts a datagram; false when it is not a shred. */
  add(packet: Uint8Array, nowMs: number): boolean {
    if (flawOf(packet, 0, packet.length, 0) !== flaws.none) {
      this.flawed += 1
      return false
    }
    const slot = this.#slotOf(slotOf(packet), nowMs)
    if (slot === null) {
      this.late += 1
      return true
    }
    const isCode = isCodeVariant(packet[offsets.variant]!) === true
    const id = indexOf(packet) + (isCode ? slotShredsMax : 0)
    if ((slot.seen[id >> 3]! & (1 << (id & 7))) !== 0) {
      slot.duplicates += 1
      this.duplicates += 1
      return true
    }
    slot.seen[id >> 3]! |= 1 << (id & 7)
    slot.lastMs = nowMs
    this.shreds += 1
    this.bytes += packet.length
    if (isCode) slot.code += 1
    else {
      slot.data += 1
      slot.dataEnd = Math.max(slot.dataEnd, indexOf(packet) + 1)
      if ((flagsOf(packet) & flagBits.lastInSlot) === flagBits.lastInSlot) slot.isLastKnown = true
    }
    return true
  }

  /** Finished slots, oldest first: all shreds arrived, or newer slots have begun. */
  takeFinished(): SlotTally[] {
    const slots = [...this.#slots.values()].sort((a, b) => a.slot - b.slot)
    const newest = slots.at(-1)?.slot ?? 0
    const isOver = (slot: OpenSlot) =>
      slot.slot < newest - 1 || (slot.isLastKnown && slot.data + slot.code === 2 * slot.dataEnd)
    const finished = slots.filter((slot) => isOver(slot) && !this.#returned.has(slot.slot))
    for (const { slot } of finished) this.#returned.add(slot)
    for (const slot of this.#returned) if (!this.#slots.has(slot)) this.#returned.delete(slot)
    return finished
  }

  #slotOf(slot: number, nowMs: number): OpenSlot | null {
    const known = this.#slots.get(slot)
    if (known !== undefined) return known
    if (this.#slots.size >= slotsMax) {
      const oldest = Math.min(...this.#slots.keys())
      if (slot < oldest) return null
      this.#slots.delete(oldest)
    }
    const opened: OpenSlot = {
      slot,
      data: 0,
      code: 0,
      duplicates: 0,
      dataEnd: 0,
      isLastKnown: false,
      firstMs: nowMs,
      lastMs: nowMs,
      seen: new Uint8Array((2 * slotShredsMax) / 8),
    }
    this.#slots.set(slot, opened)
    return opened
  }
}
