// Decides for each packet whether it is the first copy of a valid shred, and counts the verdict.
// Thread: shred worker. No sockets, no allocation unless `verify` or `recover` is on.
//
//   source known? ─► well formed? ─► plausible slot? ─► first copy? ─► (signed?) ─► forward
//        every "no" is counted under one drop reason
//
// Long work, the search for a slot's leader and rebuilding, is done by `step`, one small unit per
// turn of the loop; shreds of a slot whose leader is being searched wait meanwhile.
import { type Cidr, containsAny, type IpAddress, parseAddress } from '../../base/cidr.ts'
import type { TapWriter } from '../../base/rings/tap.ts'
import type { Steps } from '../../base/steps.ts'
import {
  flagBits,
  flagsOf,
  flawOf,
  flaws,
  indexOf,
  isCodeVariant,
  offsets,
  setOf,
  shredBytesOf,
  slotOf,
  slotShredsMax,
} from '../../chain/solana/shred.ts'
import { ShredSet } from '../../chain/solana/shred-set.ts'
import type { LeaderSearch, LeaderSignatures } from '../../chain/solana/shred-signature.ts'
import { type DropReason, dropReasons, type SharedStats, windowSlots } from './shared-stats.ts'
import type { SlotWindow } from './window.ts'

export interface AdmitOptions {
  /** The cluster's shred version; 0 accepts any. */
  readonly version: number
  /** Null: signatures are not verified. */
  readonly signatures: LeaderSignatures | null
  /** Null: nothing is rebuilt. */
  readonly recovery: Recovery | null
  /** Gets every packet while it is on. */
  readonly tap?: TapWriter | null
}

/** Result of `admit`: forward the packet as a data shred or as a code shred, or drop it. */
export const verdicts = { data: 0, code: 1, drop: -1 } as const
export type Verdict = (typeof verdicts)[keyof typeof verdicts]

interface Held {
  readonly shred: Uint8Array
  readonly source: number
}

/** Drop reason of each flaw, by the flaw's number. */
const reasonOfFlaw: readonly (DropReason | null)[] = [
  null,
  'size',
  'variant',
  'version',
  'slot',
  'layout',
]

export class ShredAdmission {
  readonly #stats: SharedStats
  readonly #window: SlotWindow
  readonly #options: AdmitOptions
  /** Indexes of the drop reasons in the totals, looked up once. */
  readonly #indexOf: Readonly<Record<DropReason, number>>
  readonly #received: number
  readonly #accepted: number
  readonly #sourceColumns: Readonly<Record<'packets' | 'first' | 'duplicates', number>>
  readonly #slotColumns: Readonly<Record<'data' | 'code' | 'dataEnd' | 'duplicates', number>>
  /** Waiting shreds by search and id. Bounded: 64 searches, and 64 shreds of a set. */
  readonly #held = new Map<LeaderSearch, Map<number, Held>>()

  constructor(stats: SharedStats, window: SlotWindow, options: AdmitOptions) {
    this.#stats = stats
    this.#window = window
    this.#options = options
    const indexes = dropReasons.map((reason) => [reason, stats.totals.at(0, reason)])
    this.#indexOf = Object.fromEntries(indexes) as Record<DropReason, number>
    this.#received = stats.totals.at(0, 'received')
    this.#accepted = stats.totals.at(0, 'accepted')
    const { sources, slots } = stats
    this.#sourceColumns = {
      packets: sources.column('packets'),
      first: sources.column('first'),
      duplicates: sources.column('duplicates'),
    }
    this.#slotColumns = {
      data: slots.column('data'),
      code: slots.column('code'),
      dataEnd: slots.column('dataEnd'),
      duplicates: slots.column('duplicates'),
    }
  }

  /** Judges the packet of `length` bytes at `at`; `source` is its sender's index, -1 if unknown. */
  admit(bytes: Uint8Array, at: number, length: number, source: number, nowMs: number): Verdict {
    const { totals, sources } = this.#stats
    const { tap = null } = this.#options
    if (tap?.isOn === true) tapPacket(tap, bytes.subarray(at, at + length), source, nowMs)
    totals.numbers[this.#received]! += 1
    if (source < 0) return this.#drop('source')
    const sourceAt = source * sources.width
    sources.numbers[sourceAt + this.#sourceColumns.packets]! += 1
    const flaw = flawOf(bytes, at, length, this.#options.version)
    if (flaw !== flaws.none) return this.#drop(reasonOfFlaw[flaw]!)
    const slot = slotOf(bytes, at)
    if (!this.#window.mayTake(slot, nowMs)) {
      this.#window.takesSlot(slot, nowMs)
      return this.#drop('slot')
    }
    const id = idOf(bytes, at)
    if (this.#window.has(slot, id)) return this.#duplicate(slot, id, source, nowMs)
    const isSigned = this.#isSigned(bytes, at)
    if (isSigned === false) return this.#drop('signature')
    if (isSigned === true) return this.#take(bytes, at, source, nowMs)
    const held = this.#held.get(isSigned) ?? new Map<number, Held>()
    if (held.has(id)) return this.#duplicate(slot, id, source, nowMs)
    const end = at + shredBytesOf(bytes[at + offsets.variant]!)
    held.set(id, { shred: Uint8Array.from(bytes.subarray(at, end)), source })
    this.#held.set(isSigned, held)
    return verdicts.drop
  }

  /** True while `step` has work to do. */
  get isBusy(): boolean {
    const { signatures, recovery } = this.#options
    return signatures?.isBusy === true || recovery?.isBusy === true
  }

  /** Does one unit of long work; returns the shreds to forward as a result. */
  step(nowMs: number): readonly Uint8Array[] {
    const { signatures, recovery } = this.#options
    const ended = signatures?.isBusy === true ? signatures.search() : none
    if (ended.length > 0) return ended.flatMap((search) => this.#release(search, nowMs))
    if (recovery?.isBusy !== true) return none
    return recovery.step().filter((shred) => this.#admitRebuilt(shred, nowMs))
  }

  /** Accepts a shred that passed every check, unless its slot has left the window since. */
  #take(bytes: Uint8Array, at: number, source: number, nowMs: number): Verdict {
    const { totals, sources } = this.#stats
    const slot = slotOf(bytes, at)
    const isCode = isCodeVariant(bytes[at + offsets.variant]!) === true
    if (!this.#window.takesSlot(slot, nowMs)) return this.#drop('slot')
    this.#window.mark(slot, idOf(bytes, at), nowMs)
    sources.numbers[source * sources.width + this.#sourceColumns.first]! += 1
    totals.numbers[this.#accepted]! += 1
    this.#countInSlot(bytes, at, slot, isCode)
    this.#options.recovery?.add(bytes, at)
    return isCode ? verdicts.code : verdicts.data
  }

  /** Ends a search: accepts or drops the shreds that waited for it; returns the accepted. */
  #release(search: LeaderSearch, nowMs: number): Uint8Array[] {
    const held = this.#held.get(search)
    this.#held.delete(search)
    const taken: Uint8Array[] = []
    for (const [id, { shred, source }] of held ?? none) {
      const slot = slotOf(shred)
      if (search.isSigned !== true) this.#drop('signature')
      else if (this.#window.has(slot, id)) this.#duplicate(slot, id, source, nowMs)
      else if (this.#take(shred, 0, source, nowMs) !== verdicts.drop) taken.push(shred)
    }
    return taken
  }

  /** Admits a rebuilt shred; true when no copy of it was forwarded yet. */
  #admitRebuilt(shred: Uint8Array, nowMs: number): boolean {
    const slot = slotOf(shred)
    const isCode = isCodeVariant(shred[offsets.variant]!) === true
    const id = idOf(shred, 0)
    if (this.#window.has(slot, id) || !this.#window.takesSlot(slot, nowMs)) return false
    this.#window.mark(slot, id, nowMs)
    this.#countInSlot(shred, 0, slot, isCode)
    this.#stats.slots.add(slot % windowSlots, 'rebuilt', 1)
    this.#stats.totals.add(0, 'rebuilt', 1)
    return true
  }

  #isSigned(bytes: Uint8Array, at: number): boolean | LeaderSearch {
    const { signatures } = this.#options
    if (signatures === null) return true
    const length = shredBytesOf(bytes[at + offsets.variant]!)
    return signatures.check(bytes.subarray(at, at + length))
  }

  #duplicate(slot: number, id: number, source: number, nowMs: number): Verdict {
    const { slots, sources } = this.#stats
    slots.numbers[(slot % windowSlots) * slots.width + this.#slotColumns.duplicates]! += 1
    sources.numbers[source * sources.width + this.#sourceColumns.duplicates]! += 1
    const lagMs = this.#window.lagMs(slot, id, nowMs)
    if (lagMs >= 0) {
      sources.add(source, 'lagSamples', 1)
      sources.add(source, 'lagMs', lagMs)
    }
    return this.#drop('duplicate')
  }

  #countInSlot(bytes: Uint8Array, at: number, slot: number, isCode: boolean): void {
    const { slots } = this.#stats
    const cell = slot % windowSlots
    const { data, code, dataEnd } = this.#slotColumns
    slots.numbers[cell * slots.width + (isCode ? code : data)]! += 1
    if (isCode) return
    const end = indexOf(bytes, at) + 1
    const endAt = cell * slots.width + dataEnd
    if (end > slots.numbers[endAt]!) slots.numbers[endAt] = end
    if ((flagsOf(bytes, at) & flagBits.lastInSlot) === flagBits.lastInSlot)
      slots.set(cell, 'isLastKnown', 1)
  }

  #drop(reason: DropReason): Verdict {
    this.#stats.totals.numbers[this.#indexOf[reason]]! += 1
    return verdicts.drop
  }
}

const now = Buffer.alloc(8)

/** Its source is the tag. */
function tapPacket(tap: TapWriter, packet: Uint8Array, source: number, nowMs: number): void {
  now.writeDoubleLE(nowMs)
  tap.write(source, now, packet)
  tap.publish()
}

/** The shred's number in its slot: its index, after all data shreds for code. */
function idOf(bytes: Uint8Array, at: number): number {
  const isCode = isCodeVariant(bytes[at + offsets.variant]!) === true
  return indexOf(bytes, at) + (isCode ? slotShredsMax : 0)
}

const none: readonly never[] = []

// Identifies which configured source sent a packet, if any.
// A source is identified by its index in the configuration, so that no address appears in a meter.

/** Size of the address cache; it is cleared when a flood of forged addresses fills it. */
const cachedMax = 1024

export class Sources {
  readonly #cidrs: readonly Cidr[]
  readonly #cache = new Map<number, number>()
  #lastKey = -1
  #lastIndex = -1

  constructor(cidrs: readonly Cidr[]) {
    this.#cidrs = cidrs
  }

  /** Index of an IPv4 sender's address in the configuration; -1 when it is not configured. */
  find(key: number): number {
    if (key === this.#lastKey) return this.#lastIndex
    let index = this.#cache.get(key)
    if (index === undefined) {
      index = this.#indexOf({ family: 4, words: [0, 0, 0, key], isMapped: false })
      if (this.#cache.size >= cachedMax) this.#cache.clear()
      this.#cache.set(key, index)
    }
    this.#lastKey = key
    this.#lastIndex = index
    return index
  }

  findV6(words: IpAddress['words']): number {
    return this.#indexOf({ family: 6, words, isMapped: false })
  }

  findText(text: string): number {
    const address = parseAddress(text)
    if (address === null) return -1
    return address.family === 4 ? this.find(address.words[3]) : this.findV6(address.words)
  }

  #indexOf(address: IpAddress): number {
    return this.#cidrs.findIndex((cidr) => containsAny([cidr], address))
  }
}

// Rebuilds lost shreds from the erasure sets that are forwarded. Thread: shred worker, only with
// `shredstream.recover`. As soon as half of a set has arrived the other half is rebuilt and sent,
// so that a receiver has the whole set before its slowest shred arrives. Rebuilding a set takes
// milliseconds: it is done in small steps between batches, and forwarding never waits for more than
// one step.

/** Sets kept at once: about three seconds of a busy cluster, 20 MB at most. */
const setsMax = 256

export class Recovery {
  readonly #stats: SharedStats
  /** In insertion order; the oldest set is evicted first. */
  readonly #sets = new Map<string, ShredSet>()
  /** Sets that wait to be rebuilt; a subset of `#sets`. */
  readonly #ripe = new Set<ShredSet>()
  #current: { readonly set: ShredSet; readonly steps: Steps<Uint8Array[] | null> } | null = null

  constructor(stats: SharedStats) {
    this.#stats = stats
  }

  /** True while there is something to rebuild. */
  get isBusy(): boolean {
    return this.#current !== null || this.#ripe.size > 0
  }

  /** Adds a shred that is being forwarded. */
  add(bytes: Uint8Array, at: number): void {
    const key = `${slotOf(bytes, at)}/${setOf(bytes, at)}`
    let set = this.#sets.get(key)
    if (set === undefined) {
      if (this.#sets.size >= setsMax) this.#evict()
      set = new ShredSet()
      this.#sets.set(key, set)
    }
    if (set.isDone) return
    set.add(bytes, at)
    if (set.isRipe) this.#ripe.add(set)
    else if (set.isDone) this.#finish(set)
  }

  /** Does one step of the work; returns the rebuilt shreds when it completes a set. */
  step(): readonly Uint8Array[] {
    this.#current ??= this.#begin()
    if (this.#current === null) return none
    const { set, steps } = this.#current
    const { done, value } = steps.next()
    if (done !== true) return none
    this.#current = null
    this.#finish(set)
    if (value !== null) return value
    this.#stats.totals.add(0, 'rebuildFailed', 1)
    return none
  }

  #begin(): { readonly set: ShredSet; readonly steps: Steps<Uint8Array[] | null> } | null {
    for (const set of this.#ripe) {
      this.#ripe.delete(set)
      return { set, steps: set.rebuild() }
    }
    return null
  }

  /** Frees the shreds of a finished set; the empty set stays, so it is not rebuilt again. */
  #finish(set: ShredSet): void {
    this.#ripe.delete(set)
    set.release()
  }

  #evict(): void {
    const [key, set] = this.#sets.entries().next().value!
    this.#sets.delete(key)
    this.#ripe.delete(set)
  }
}
