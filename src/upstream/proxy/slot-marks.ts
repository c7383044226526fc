// The highest slot that each customer was told at each commitment. Thread: main.
// Owned by proxy-set.ts. Nodes of one set are not equally far; asked by turns they would show a
// customer a chain that runs backwards. So nodes known to be at the mark are preferred.
import type { Commitment } from '../../base/commitment.ts'
import type { Answer } from '../../jsonrpc/build.ts'

/** Customers remembered; the least recently used is forgotten first. */
const CUSTOMERS_MAX = 100_000
/** A slot stands near the beginning of an answer that tells one. */
const LOOK_BYTES = 160
const NUMBER = /^\d{1,15}$/
const CONTEXT = /^\{"context":\{[^}]*"slot":(\d{1,15})/
const ABSOLUTE = /"absoluteSlot":(\d{1,15})/

export class SlotMarks {
  /** The least recently raised first. */
  readonly #marks = new Map<string, [number, number, number]>()
  readonly #customersMax: number

  constructor(customersMax = CUSTOMERS_MAX) {
    this.#customersMax = customersMax
  }

  /** 0 when nothing was told yet. */
  get(customer: string, commitment: Commitment): number {
    return this.#marks.get(customer)?.[commitment] ?? 0
  }

  raise(customer: string, commitment: Commitment, slot: number): void {
    const marks = this.#marks.get(customer) ?? [0, 0, 0]
    if (slot > marks[commitment]) marks[commitment] = slot
    // A map keeps the order of insertion, so that its first key is the least recently used.
    this.#marks.delete(customer)
    this.#marks.set(customer, marks)
    if (this.#marks.size <= this.#customersMax) return
    const { value } = this.#marks.keys().next()
    if (value !== undefined) this.#marks.delete(value)
  }
}

/** The slot that an answer tells; null when it tells none. */
export function slotIn(method: string, answer: Answer): number | null {
  if (answer.kind !== 'text') return null
  if (method === 'getSlot') return NUMBER.test(answer.text) ? Number(answer.text) : null
  if (method === 'getBlockHeight') return null
  const found = (method === 'getEpochInfo' ? ABSOLUTE : CONTEXT).exec(
    answer.text.slice(0, LOOK_BYTES),
  )
  return found === null ? null : Number(found[1])
}
