// Tracks the highest slot that each customer has seen at each commitment.
// The nodes of a set and their stream are not at the same slot; used in rotation they would show a
// customer a chain that runs backwards. So nodes known to have reached that slot are preferred,
// and the stream does not answer before it reached it.
import type { Commitment } from '../../base/commitment.ts'

/** Customers tracked; the one whose slots were raised least recently is evicted first. */
const CUSTOMERS_MAX = 100_000

export class CustomerSlots {
  /** The least recently raised first. */
  readonly #slots = new Map<string, [number, number, number]>()
  readonly #customersMax: number

  constructor(customersMax = CUSTOMERS_MAX) {
    this.#customersMax = customersMax
  }

  /** 0 when it has seen none yet. */
  get(customer: string, commitment: Commitment): number {
    return this.#slots.get(customer)?.[commitment] ?? 0
  }

  raise(customer: string, commitment: Commitment, slot: number): void {
    const slots = this.#slots.get(customer) ?? [0, 0, 0]
    if (slot > slots[commitment]) slots[commitment] = slot
    // A map keeps the order of insertion, so that its first key is the least recently raised.
    this.#slots.delete(customer)
    this.#slots.set(customer, slots)
    if (this.#slots.size <= this.#customersMax) return
    const { value } = this.#slots.keys().next()
    if (value !== undefined) this.#slots.delete(value)
  }
}
