// Finds the slots that an answer of a node shows its customer, and at which commitment.
import { Commitment, commitmentNamed } from '../../base/commitment.ts'
import type { Answer } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import { BodyStream } from '../http-client/body-stream.ts'

/** A slot is near the beginning of an answer that contains one. */
const SEARCHED_BYTES = 160
const NUMBER = /^\d{1,15}$/
const CONTEXT = /^\{"context":\{[^}]*"slot":(\d{1,15})/
const VERSION = /^\{"context":\{"apiVersion":"([\w.+-]{1,64})","slot":\d+\},/
const ABSOLUTE = /"absoluteSlot":(\d{1,15})/
/** As it is in statuses and lists of signatures. */
const STATUS = /"confirmationStatus":"(\w+)".*?"slot":(\d{1,15})/g
const SLOT = /"slot":(\d{1,15})/g
const SLOT_MEMBER = '"slot":'
/** Brackets, and strings as a whole, so that no bracket inside of one counts. */
const TOKENS = /"slot":\d{1,15}|"(?:[^"\\]|\\.)*"|[{}[\]]/g

/** Called with each slot whose state the answer shows, besides the one in `slotIn`. */
export function eachShown(
  { method, params }: Call,
  commitment: Commitment,
  answer: Answer,
  shown: (slot: number, commitment: Commitment) => void,
): void {
  switch (method) {
    case 'getSignatureStatuses':
    case 'getSignaturesForAddress':
      for (const [, name, slot] of textOf(answer).matchAll(STATUS)) {
        const reached = commitmentNamed(name)
        for (let at = reached ?? -1; at >= 0; at--) shown(Number(slot), at as Commitment)
      }
      break
    case 'getTransaction': {
      const slot = ownSlot(textOf(answer))
      if (slot !== null) shown(slot, commitment)
      break
    }
    case 'getRecentPrioritizationFees': {
      // Of confirmed blocks, whatever the call asks for; the newest is the last.
      const slot = [...textOf(answer).matchAll(SLOT)].at(-1)?.[1]
      if (slot !== undefined) shown(Number(slot), Commitment.confirmed)
      break
    }
    case 'getBlock': {
      const slot: unknown = Array.isArray(params) ? params[0] : null
      if (typeof slot === 'number' && answer.kind !== 'error') shown(slot, commitment)
    }
  }
}

/** The slot at which an answer was read; null when it does not show it. */
export function slotIn(method: string, answer: Answer): number | null {
  const opening = openingOf(answer)
  if (method === 'getSlot') return NUMBER.test(opening) ? Number(opening) : null
  if (method === 'getBlockHeight') return null
  const found = (method === 'getEpochInfo' ? ABSOLUTE : CONTEXT).exec(opening)
  return found === null ? null : Number(found[1])
}

/** Whether a result can be one of its method, where that is cheap to check: those with a slot. */
export function isResultOf(method: string, answer: Answer): boolean {
  if (answer.kind !== 'text') return method !== 'getSlot' && method !== 'getBlockHeight'
  try {
    const result = JSON.parse(answer.text)
    if (method === 'getSlot' || method === 'getBlockHeight') return Number.isSafeInteger(result)
    if (method === 'getVersion') return typeof result['solana-core'] === 'string'
    if (method === 'getEpochInfo') return Number.isSafeInteger(result.absoluteSlot)
    return Number.isSafeInteger(result.context.slot)
  } catch {
    return false
  }
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

/**
 * The member `slot` of the object itself. Others are part of what the sender of the transaction
 * wrote: an instruction of the vote program may carry any number.
 */
function ownSlot(text: string): number | null {
  let depth = 0
  for (const [token] of text.matchAll(TOKENS)) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (depth === 1 && token.startsWith(SLOT_MEMBER))
      return Number(token.slice(SLOT_MEMBER.length))
  }
  return null
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

function textOf(answer: Answer): string {
  if (answer.kind === 'text') return answer.text
  return answer.kind === 'bytes' ? answer.pieces.map(keyOf).join('') : ''
}

// Tracks the highest slot that each customer has seen at each commitment.
// The nodes of a set and their stream are not at the same slot; used in rotation they would show a
// customer a chain that runs backwards. So nodes known to have reached that slot are preferred,
// and the stream does not answer before it reached it.

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
