// Tracks the highest slot that each customer has seen at each commitment. Thread: main.
// The nodes of a set and their stream are not at the same slot; used in rotation they would show a
// customer a chain that runs backwards. So nodes known to have reached that slot are preferred,
// and the stream does not answer before it reached it.
import type { Commitment } from '../../base/commitment.ts'
import type { Answer } from '../../jsonrpc/build.ts'
import { keyOf } from '../../solana/keys.ts'
import { BodyStream } from '../http-client/body-stream.ts'

/** Customers tracked; the least recently used is evicted first (LRU). */
const CUSTOMERS_MAX = 100_000
/** A slot is near the beginning of an answer that contains one. */
const SEARCHED_BYTES = 160
const NUMBER = /^\d{1,15}$/
const CONTEXT = /^\{"context":\{[^}]*"slot":(\d{1,15})/
const VERSION = /^\{"context":\{"apiVersion":"([\w.+-]{1,64})","slot":\d+\},/
const ABSOLUTE = /"absoluteSlot":(\d{1,15})/

export class SlotTracker {
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
    // A map keeps the order of insertion, so that its first key is the least recently used.
    this.#slots.delete(customer)
    this.#slots.set(customer, slots)
    if (this.#slots.size <= this.#customersMax) return
    const { value } = this.#slots.keys().next()
    if (value !== undefined) this.#slots.delete(value)
  }
}

/** The slot in an answer; null when absent. */
export function slotIn(method: string, answer: Answer): number | null {
  const opening = openingOf(answer)
  if (method === 'getSlot') return NUMBER.test(opening) ? Number(opening) : null
  if (method === 'getBlockHeight') return null
  const found = (method === 'getEpochInfo' ? ABSOLUTE : CONTEXT).exec(opening)
  return found === null ? null : Number(found[1])
}

/** The block height in an answer; null when the method shows none of its own. */
export function heightIn(method: string, answer: Answer): number | null {
  if (method !== 'getBlockHeight' || answer.kind !== 'text') return null
  return NUMBER.test(answer.text) ? Number(answer.text) : null
}

/** The node's version in the context of an answer, where it is written as agave does. */
export function apiVersionIn(answer: Answer): string | null {
  return VERSION.exec(openingOf(answer))?.[1] ?? null
}

function openingOf(answer: Answer): string {
  if (answer.kind === 'text') return answer.text.slice(0, SEARCHED_BYTES)
  if (answer.kind === 'bytes') {
    const first = answer.pieces[0]
    return first === undefined ? '' : keyOf(first.subarray(0, SEARCHED_BYTES))
  }
  if (answer.kind !== 'stream' || !(answer.stream instanceof BodyStream)) return ''
  const body = answer.stream.peek(2 * SEARCHED_BYTES)
  return body.slice(Math.max(0, body.indexOf('{"context":')))
}
