// Cursors of notifications: what a subscription has been sent, as a text that every gateway of the
// set reads alike.
//
//   top 312 ─► bits: 312 no, 311 yes, 310 yes, 309 no (a fork that never came), ... 281
//   partial ─► slot 312, bank 1 over 311: transactions up to index 7
//
// Nothing in it is a number of a gateway's own: a transaction is named by its index in the block,
// an account by its key, a bank by its parent and by how many of the slot were replaced before it.
// So it says the same of a log that another gateway wrote, in another order of arrival. Slots that
// may still come below the newest are bits, because at processed forks come in any order; what is
// 32 slots below the newest was sent.
import { crc32 } from 'node:zlib'
import type { Commitment } from '../../base/commitment.ts'

/** Slots below the newest that may still come. */
export const windowSlots = 32
const version = 1
const form = /^c(\d{1,4})_([0-9a-f]{4})([\w-]{1,4000})$/
const allBelow = 0xfffffffe

export interface Bank {
  /** Banks of the slot that were replaced before it. */
  readonly replaced: number
  /** Null where no node told it. */
  readonly parent: number | null
}

/** What was sent of a slot that is not complete: everything up to the place. */
export interface SlotPart extends Bank {
  /** Index of a transaction, or a write: `placeOfWrite`; '' before the first. */
  readonly place: number | string
}

/** What was sent. */
export interface Sent {
  /** The newest slot of which something was sent. */
  readonly top: number
  /** Bit n: all of slot `top - n` was sent. */
  readonly bits: number
  readonly partials: ReadonlyMap<number, SlotPart>
}

export interface PubsubCursor extends Sent {
  readonly topic: string
  readonly commitment: Commitment | null
}

export type CursorProblem = 'malformed' | 'version'

/** What has been sent, as it grows. */
export class SentSlots implements Sent {
  top = -1
  bits = 0
  readonly partials = new Map<number, SlotPart>()
  /** What is below it never comes: no cursor says that it is still to be sent. */
  #first = 0

  /** Continues after a cursor. */
  startAfter({ top, bits, partials }: Sent): void {
    this.top = top
    this.bits = bits
    for (const [slot, partial] of partials) this.partials.set(slot, partial)
  }

  /** Everything up to the slot was before, and what is below `first` never comes. */
  begin(slot: number, first: number): void {
    this.#first = first
    if (slot >= 0) this.complete(slot)
  }

  /** All of the slot was sent. */
  complete(slot: number): void {
    this.#set(slot, true)
    this.partials.delete(slot)
  }

  /** Something of it was sent; `partial` may change afterwards. */
  open(slot: number, partial: SlotPart): void {
    if (this.partials.get(slot) === partial) return
    this.#set(slot, false)
    if (this.top - slot < windowSlots) this.partials.set(slot, partial)
  }

  /** Whether something of the slot was sent, and could be told. */
  knows(slot: number): boolean {
    return this.partials.has(slot) || (this.top >= slot && bitOf(this, slot))
  }

  #set(slot: number, isComplete: boolean): void {
    // What was before the first slot is not of the subscription.
    if (this.top < 0) [this.top, this.bits] = [slot, allBelow]
    if (slot > this.top) {
      const shift = slot - this.top
      this.bits = shift < windowSlots ? (this.bits << shift) >>> 0 : 0
      this.top = slot
      for (const one of this.partials.keys())
        if (slot - one >= windowSlots) this.partials.delete(one)
    }
    const own = Math.max(0, this.top - this.#first + 1)
    if (own < windowSlots) this.bits = (this.bits | (-1 << own)) >>> 0
    const bit = this.top - slot
    if (bit >= windowSlots || slot < this.#first) return
    const mask = (1 << bit) >>> 0
    this.bits = (isComplete ? this.bits | mask : this.bits & ~mask) >>> 0
  }
}

/** Whether it was sent before the cursor. */
export function wasSent(sent: Sent, slot: number, bank: Bank, place: SlotPart['place']): boolean {
  if (slot > sent.top) return false
  if (sent.top - slot >= windowSlots) return true
  const partial = sent.partials.get(slot)
  if (partial === undefined) return bitOf(sent, slot)
  const areKnown = partial.parent !== null && bank.parent !== null
  const isSame = areKnown ? partial.parent === bank.parent : partial.replaced === bank.replaced
  // A bank that was replaced before that of the cursor was sent, or was never seen there.
  return isSame ? isUpTo(place, partial.place) : bank.replaced < partial.replaced
}

/** Of an account, with so many of its writes to follow: the last one is its key alone. */
export function placeOfWrite(key: string, following: number): string {
  if (following === 0) return key
  const suffix = Buffer.alloc(placeSuffixBytes)
  suffix.writeUInt32BE(suffixMax - following)
  return key + suffix.toString('latin1')
}

const keyBytes = 32
const placeSuffixBytes = 4
const suffixMax = 0xffffffff

function isUpTo(place: SlotPart['place'], sent: SlotPart['place']): boolean {
  if (typeof place === 'number' || typeof sent === 'number' || sent === '') return place <= sent
  const bytes = keyBytes + placeSuffixBytes
  return place.padEnd(bytes, '\xff') <= sent.padEnd(bytes, '\xff')
}

function bitOf({ top, bits }: Sent, slot: number): boolean {
  const bit = top - slot
  return bit >= windowSlots || ((bits >>> bit) & 1) === 1
}

/** Of a subscription to what `kind` names. */
export function cursorText(
  { kind, commitment = null }: { readonly kind: string; readonly commitment?: Commitment | null },
  { top, bits, partials }: Sent,
): string {
  const rows = [...partials].map(([slot, { replaced, parent, place }]) => {
    const shown =
      typeof place === 'number' ? place : Buffer.from(place, 'latin1').toString('base64')
    return [slot, replaced, parent, shown]
  })
  const text = JSON.stringify([kind, commitment, top, bits, rows])
  return `c${version}_${checksum(text)}${Buffer.from(text).toString('base64url')}`
}

export function readCursor(text: string): PubsubCursor | CursorProblem {
  const [, given, sum, encoded = ''] = form.exec(text) ?? []
  if (given === undefined) return 'malformed'
  if (Number(given) !== version) return 'version'
  const json = Buffer.from(encoded, 'base64url').toString()
  if (checksum(json) !== sum) return 'malformed'
  try {
    return cursorFrom(JSON.parse(json)) ?? 'malformed'
  } catch {
    return 'malformed'
  }
}

/** The checksum is against accidents: whoever makes one up reads what the filter matches. */
function cursorFrom(value: unknown): PubsubCursor | null {
  if (!Array.isArray(value) || value.length !== 5) return null
  const [topic, commitment, top, bits, rows] = value as unknown[]
  if (typeof topic !== 'string' || !isCount(top) || !isCount(bits) || bits > 0xffffffff) return null
  if (commitment !== null && (!isCount(commitment) || commitment > 2)) return null
  if (!Array.isArray(rows) || rows.length > windowSlots) return null
  const partials = new Map<number, SlotPart>()
  for (const row of rows as unknown[]) {
    if (!Array.isArray(row) || row.length !== 4) return null
    const [slot, replaced, parent, place] = row as unknown[]
    if (!isCount(slot) || !isCount(replaced) || (parent !== null && !isCount(parent))) return null
    const isText = typeof place === 'string'
    if (!isText && !Number.isSafeInteger(place)) return null
    // Reason for the cast: an integer is a number.
    const shown = isText ? Buffer.from(place, 'base64').toString('latin1') : (place as number)
    partials.set(slot, { replaced, parent, place: shown })
  }
  // Reason for the cast: it is one of the three.
  return { topic, commitment: commitment as Commitment | null, top, bits, partials }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function checksum(text: string): string {
  return (crc32(text) & 0xffff).toString(16).padStart(4, '0')
}
