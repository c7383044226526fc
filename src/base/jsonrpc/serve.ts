// Admits a JSON-RPC request, answers its calls and builds the response. An endpoint calls these in
// a row, and adds what is its own between them:
//
//   parseRequest -> admit: permits and charge, whole -> refusalMessage
//                -> answer: each call by its method  -> responseMessage
//
// A batch is admitted or refused whole, its calls are answered concurrently, in order. What cannot
// be parsed costs as much as the cheapest call, so that garbage is not free. A streamed response
// keeps its in-flight permit until the stream ends.
import { codesOf } from '../errors.ts'
import {
  type Answer,
  answerMessage,
  batchMessage,
  errorMessage,
  failure,
  type Message,
  type RpcError,
  rpcErrors,
  watched,
} from './build.ts'
import type { Call, Item, RpcRequest } from './parse.ts'

/** Decision of the rate limiter; quota's `Verdict` has this shape. */
export interface Allowance {
  readonly ok: boolean
  readonly reason: string
  readonly retryAfterMs: number
}

/** Limits the calls of one caller; quota's `Budget` has this shape. */
export interface CallBudget<A extends Allowance = Allowance> {
  spend(methods: string | readonly string[]): A
  /** Takes an in-flight permit; false when all are taken. */
  enter(kind: 'calls'): boolean
  leave(kind: 'calls'): void
}

export const unlimitedCalls: CallBudget = {
  spend: () => unlimited,
  enter: () => true,
  leave() {},
}

export interface Admission<A> {
  /** The budget may overwrite it at its next decision: read it at once. */
  readonly allowance: A
  /** Null when every call was charged and has a permit; then `answer` must follow. */
  readonly refusal: RequestRefusal | null
}

export interface RequestRefusal {
  readonly error: RpcError
  /** False when a retry cannot succeed; else it can after `retryAfterMs`. */
  readonly isExhausted: boolean
  readonly retryAfterMs: number
}

/** Charges a request and takes a permit for each of its calls, or none. */
export function admit<A extends Allowance>(
  { items, isBatch }: RpcRequest,
  budget: CallBudget<A>,
): Admission<A> {
  // Permits first: what is refused must not be charged. No call costs nothing.
  if (!enterAll(items, budget)) return { allowance: budget.spend([]), refusal: tooManyInFlight }
  const allowance = budget.spend(isBatch ? items.map(costOf) : costOf(items[0]!))
  if (allowance.ok) return { allowance, refusal: null }
  for (const { method } of items) if (method !== null) budget.leave('calls')
  return { allowance, refusal: overBudget(allowance) }
}

/** Answers one call of a caller of type C, at once or later. */
export type Method<C> = (call: Call, caller: C) => Answer | Promise<Answer>

export type MethodTable<C> = Readonly<Record<string, Method<C>>>

/** The JSON-RPC methods of an endpoint by name. */
export class Methods<C> {
  readonly #byName: ReadonlyMap<string, Method<C>>

  /** When several tables name a method, the last one applies. */
  constructor(...tables: readonly MethodTable<C>[]) {
    this.#byName = new Map(tables.flatMap((table) => Object.entries(table)))
  }

  readonly call: Method<C> = (call, caller) => {
    const method = this.#byName.get(call.method)
    return method === undefined ? failure(rpcErrors.unknownMethod) : method(call, caller)
  }
}

/** Answers the calls of an endpoint. */
export class Answerer<C> {
  readonly #method: Method<C>
  readonly #reportBug: (error: unknown) => void

  /** `reportBug` receives what a method threw, which is our bug; the call gets -32603. */
  constructor(method: Method<C>, reportBug: (error: unknown) => void) {
    this.#method = method
    this.#reportBug = reportBug
  }

  /** In the order of the items; each call returns its permit as soon as it is answered. Never
   *  throws and never rejects. */
  answer(
    { items }: RpcRequest,
    caller: C,
    budget: CallBudget = unlimitedCalls,
  ): readonly Answer[] | Promise<readonly Answer[]> {
    const answers = new Array<Answer>(items.length)
    const waiting: Promise<readonly Answer[]>[] = []
    for (let index = 0; index < items.length; index++) {
      const item = items[index]!
      const settle = (answer: Answer): readonly Answer[] => {
        answers[index] = leave(answer, budget)
        return answers
      }
      if (item.method === null) answers[index] = failure(item.error)
      else {
        const given = this.#call(item, caller)
        if (given instanceof Promise)
          waiting.push(given.then(settle, (error) => settle(this.#bug(error))))
        else settle(given)
      }
    }
    if (waiting.length === 0) return answers
    return waiting.length === 1 ? waiting[0]! : Promise.all(waiting).then(() => answers)
  }

  #call(call: Call, caller: C): Answer | Promise<Answer> {
    try {
      return this.#method(call, caller)
    } catch (error) {
      return this.#bug(error)
    }
  }

  #bug(error: unknown): Answer {
    this.#reportBug(error)
    return failure(rpcErrors.internal)
  }
}

/** Returns the permit of a call, that of a stream when it ends. */
function leave(answer: Answer, budget: CallBudget): Answer {
  if (answer.kind === 'stream')
    return { kind: 'stream', stream: watched(answer.stream, () => budget.leave('calls')) }
  budget.leave('calls')
  return answer
}

/** `end` is the text that the endpoint appends to every message. '' when nothing is responded. */
export function responseMessage(
  { items, isBatch }: RpcRequest,
  answers: readonly Answer[],
  end = '',
): Message {
  if (!isBatch) return messageOf(items[0]!, answers[0]!, end)
  const messages = items.map((item, index) => messageOf(item, answers[index]!, ''))
  return batchMessage(
    messages.filter((message) => message !== ''),
    end,
  )
}

function messageOf({ id }: Item, answer: Answer, end: string): Message {
  if (id !== null) return answerMessage(id, answer, end)
  // The answer to a notification is never read, so its stream would wait forever.
  if (answer.kind === 'stream') answer.stream.cancel()
  return ''
}

/** One error per item, ids kept. */
export function refusalMessage({ items, isBatch }: RpcRequest, error: RpcError, end = ''): Message {
  if (!isBatch) return errorMessage(items[0]!.id ?? 'null', error, end)
  const messages = items.map(({ id }) => errorMessage(id ?? 'null', error))
  return batchMessage(messages, end)
}

export const callOutcomes = ['ok', 'error', 'refused'] as const
export type CallOutcome = (typeof callOutcomes)[number]

/** Counts every call of a request by its outcome; without answers it was refused. */
export function countCalls(
  calls: { count(method: string, outcome: CallOutcome): void },
  { items }: RpcRequest,
  answers?: readonly Answer[],
): void {
  for (let index = 0; index < items.length; index++) {
    const { method } = items[index]!
    if (method === null) continue
    const kind = answers?.[index]?.kind
    calls.count(method, kind === undefined ? 'refused' : kind === 'error' ? 'error' : 'ok')
  }
}

/** Method name under which malformed items are charged. */
const MALFORMED = ''
const IN_FLIGHT_RETRY_MS = 1_000
const unlimited: Allowance = { ok: true, reason: 'ok', retryAfterMs: 0 }

function costOf({ method }: Item): string {
  return method ?? MALFORMED
}

function enterAll(items: readonly Item[], budget: CallBudget): boolean {
  let entered = 0
  for (const { method } of items) {
    if (method === null) continue
    if (budget.enter('calls')) entered++
    else {
      while (entered-- > 0) budget.leave('calls')
      return false
    }
  }
  return true
}

/** How a charge that was not admitted is answered. */
export function overBudget({ reason, retryAfterMs }: Allowance): RequestRefusal {
  // A cost above the burst can never be admitted, so a retry does not help.
  const isExhausted = reason !== 'too-expensive'
  return {
    error: isExhausted ? exhausted(reason, retryAfterMs) : tooExpensive,
    isExhausted,
    retryAfterMs,
  }
}

const tooExpensive: RpcError = {
  code: -32600,
  message: 'Invalid request: the batch costs more than the plan ever allows',
}

const EXHAUSTED_TEXTS: Readonly<Record<string, string>> = {
  rate: 'Too many requests: the rate of the plan is used up',
  'method-rate': 'Too many requests: the rate of this method is used up',
  credits: 'Too many requests: the credits of these 30 days are used up',
  'in-flight': 'Too many requests: too many calls are in flight',
}

function exhausted(reason: string, retryAfterMs: number): RpcError {
  const message = EXHAUSTED_TEXTS[reason] ?? 'Too many requests'
  const data = { reason, retryAfterMs: Math.ceil(retryAfterMs) }
  return { code: codesOf.exhausted.jsonrpc, message, data }
}

const tooManyInFlight: RequestRefusal = {
  error: exhausted('in-flight', IN_FLIGHT_RETRY_MS),
  isExhausted: true,
  retryAfterMs: IN_FLIGHT_RETRY_MS,
}
