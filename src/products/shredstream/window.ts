// Deduplicates shreds and judges which slots are plausible, in an exact table of fixed size.
// Thread: shred worker. In shared memory, so that a restarted worker sends no duplicates.
//
//   slot number x 64 | state | first arrival of one id in 16 | bits: 64 x (data, code) x 32,768
//
// The window follows accepted shreds: 64 slots below the highest, 32 above. A single packet with
// an absurd slot does not move it. When nothing inside the window arrived for two seconds, or fewer
// than 64 shreds were accepted so far, four packets that agree on another slot range move it there.
import { slotShredsMax } from '../../chain/solana/shred.ts'
import { type SharedStats, windowSlots } from './shared-stats.ts'

const aheadMax = 32
const agreeMin = 4
const settledMin = 64
const staleMs = 2000
/** The first arrival of one id in this many is stored, to measure the lag of other sources. */
const lagSampling = 16

const idsPerSlot = 2 * slotShredsMax
const wordsPerSlot = idsPerSlot / 32
const samplesPerSlot = idsPerSlot / lagSampling
const stateNumbers = 8
const timesAt = (windowSlots + stateNumbers) * 8
const bitsAt = timesAt + windowSlots * samplesPerSlot * 8
export const windowBytes = bitsAt + windowSlots * wordsPerSlot * 4

const state = { head: 0, accepted: 1, lastMs: 2, candidate: 3, agreed: 4, isOpen: 5 } as const

export class SlotWindow {
  readonly #slots: Float64Array
  readonly #state: Float64Array
  readonly #times: Float64Array
  readonly #bits: Int32Array
  readonly #stats: SharedStats

  constructor(buffer: SharedArrayBuffer, stats: SharedStats) {
    this.#slots = new Float64Array(buffer, 0, windowSlots)
    this.#state = new Float64Array(buffer, windowSlots * 8, stateNumbers)
    this.#times = new Float64Array(buffer, timesAt, windowSlots * samplesPerSlot)
    this.#bits = new Int32Array(buffer, bitsAt, windowSlots * wordsPerSlot)
    this.#stats = stats
  }

  /** Whether a shred of that slot is worth checking further. Cheap, without side effects. */
  mayTake(slot: number, nowMs: number): boolean {
    return this.#isInside(slot) || this.#isLoose(nowMs)
  }

  /** Whether a slot is plausible; moves the window when enough shreds agree. */
  takesSlot(slot: number, nowMs: number): boolean {
    if (this.#isInside(slot)) return true
    const s = this.#state
    if (s[state.isOpen] === 0) return this.#moveTo(slot, nowMs)
    const isNear = Math.abs(slot - s[state.candidate]!) <= aheadMax
    s[state.agreed] = isNear ? s[state.agreed]! + 1 : 1
    s[state.candidate] = slot
    if (s[state.agreed]! < agreeMin || !this.#isLoose(nowMs)) return false
    return this.#moveTo(slot, nowMs)
  }

  /** `id` is the index, plus 32,768 for code. */
  has(slot: number, id: number): boolean {
    const cell = slot % windowSlots
    if (this.#slots[cell] !== slot) return false
    return (this.#bits[cell * wordsPerSlot + (id >>> 5)]! & (1 << (id & 31))) !== 0
  }

  /** Adds an id of a slot that `takesSlot` accepted. */
  mark(slot: number, id: number, nowMs: number): void {
    const cell = slot % windowSlots
    if (this.#slots[cell] !== slot) this.#open(cell, slot)
    this.#bits[cell * wordsPerSlot + (id >>> 5)]! |= 1 << (id & 31)
    if (id % lagSampling === 0)
      this.#times[cell * samplesPerSlot + Math.floor(id / lagSampling)] = nowMs
    if (slot > this.#state[state.head]!) this.#state[state.head] = slot
    this.#state[state.accepted]! += 1
    // While good shreds arrive, out-of-window packets never accumulate enough agreement.
    if (this.#state[state.accepted]! >= settledMin) this.#state[state.agreed] = 0
    this.#state[state.lastMs] = nowMs
  }

  /** Time since the first copy of a sampled id arrived; -1 when it is unknown. */
  lagMs(slot: number, id: number, nowMs: number): number {
    if (id % lagSampling !== 0) return -1
    const first = this.#times[(slot % windowSlots) * samplesPerSlot + Math.floor(id / lagSampling)]!
    return first > 0 && first <= nowMs ? nowMs - first : -1
  }

  #isInside(slot: number): boolean {
    const head = this.#state[state.head]!
    if (this.#state[state.isOpen] === 0) return false
    return slot > head - windowSlots && slot <= head + aheadMax
  }

  /** Whether the window may move: it is not settled yet, or nothing inside it arrives any more. */
  #isLoose(nowMs: number): boolean {
    const s = this.#state
    if (s[state.isOpen] === 0) return true
    const isUnsettled = s[state.accepted]! < settledMin && s[state.agreed]! >= s[state.accepted]!
    return isUnsettled || nowMs - s[state.lastMs]! > staleMs
  }

  #moveTo(slot: number, nowMs: number): boolean {
    this.#state.fill(0)
    this.#state[state.isOpen] = 1
    this.#state[state.head] = slot
    this.#state[state.lastMs] = nowMs
    this.#stats.totals.add(0, 'windowMoves', 1)
    return true
  }

  #open(cell: number, slot: number): void {
    this.#slots[cell] = slot
    this.#bits.fill(0, cell * wordsPerSlot, (cell + 1) * wordsPerSlot)
    this.#times.fill(0, cell * samplesPerSlot, (cell + 1) * samplesPerSlot)
    this.#stats.slots.clear(cell)
    this.#stats.slots.set(cell, 'slot', slot)
  }
}
