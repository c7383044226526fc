// The highest slot that each customer was told at each commitment. Thread: main.
// Owned by proxy-set.ts. Nodes of one set are not equally far; asked by turns they would show a
// customer a chain that runs backwards. So nodes known to be at the mark are preferred.
import type { Answer } from '../../../jsonrpc/build.ts'
import type { Commitment } from '../../ports.ts'

/** Customers remembered; the one not heard of longest is forgotten first. */
const CUSTOMERS_MAX = 100_000
/** A slot stands near the beginning of an answer that tells one. */
const LOOK_BYTES = 160
const NUMBER = /^\d{1,15}$/
const CONTEXT = /^\{"context":\{[^}]*"slot":(\d{1,15})/
const ABSOLUTE = /"absoluteSlot":(\d{1,15})/

export class SlotMarks {
  readonly #marks = new Map<string, [number, number, number]>()

  /** 0 when nothing was told yet. */
  get(customer: string, commitment: Commitment): number {
    return this.#marks.get(customer)?.[commitment] ?? 0
  }

  raise(customer: string, commitment: Commitment, slot: number): void {
    const marks = this.#marks.get(customer)
    if (marks !== undefined) {
      if (slot > marks[commitment]) marks[commitment] = slot
      return
    }
    if (this.#marks.size >= CUSTOMERS_MAX)
      for (const oldest of this.#marks.keys()) {
        this.#marks.delete(oldest)
        break
      }
    const fresh: [number, number, number] = [0, 0, 0]
    fresh[commitment] = slot
    this.#marks.set(customer, fresh)
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
