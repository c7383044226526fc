// Admits a JSON-RPC request, has its calls answered and builds the response.
//
//   parseRequest -> admit: charge and permits, whole -> refusal -> refusalMessage
//                                                    -> answerCalls -> responseMessage
//
// A batch is admitted or refused whole, its calls are answered concurrently, in order. What cannot
// be parsed costs as much as the cheapest call, so that garbage is not free. A streamed response
// keeps its in-flight permit until the stream ends.
import { codesOf } from '../codes.ts'
import {
  type Answer,
  answerMessage,
  batchMessage,
  errorMessage,
  failure,
  type Message,
  type RpcError,
  rpcErrors,
} from './build.ts'
import { watched } from './message-stream.ts'
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
  /** Null when every call was charged and has a permit; then `answerCalls` must follow. */
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

/** How the calls of a request are answered, and the request by those answers. */
export interface CallHandling<R> {
  answer(call: Call): Answer | Promise<Answer>
  /** Receives an error that `answer` threw, which is our bug; the call gets -32603. */
  failed(error: unknown): void
  /** Where `admit` took the permits. */
  readonly budget: CallBudget
  /** Gets the answers in the order of the items. */
  respond(answers: readonly Answer[]): R
}

/** Returns what `respond` makes of the answers. An answered call returns its permit. */
export function answerCalls<R>({ items }: RpcRequest, handling: CallHandling<R>): R | Promise<R> {
  if (items.length === 1) return answerLone(items[0]!, handling)
  const answers = items.map((item) => {
    const given = beginItem(item, handling)
    if (!(given instanceof Promise)) return given
    return given.then(
      (answer) => leave(answer, handling),
      (error) => fail(error, handling),
    )
  })
  if (answers.some((given) => given instanceof Promise))
    return Promise.all(answers).then((all) => handling.respond(all))
  // Reason for the cast: the line above has shown that none is a promise.
  return handling.respond(answers as readonly Answer[])
}

function answerLone<R>(item: Item, handling: CallHandling<R>): R | Promise<R> {
  const given = beginItem(item, handling)
  if (!(given instanceof Promise)) return handling.respond([given])
  return given.then(
    (answer) => handling.respond([leave(answer, handling)]),
    (error) => handling.respond([fail(error, handling)]),
  )
}

/** A promise still has the permit of its call. */
function beginItem(item: Item, handling: CallHandling<unknown>): Answer | Promise<Answer> {
  if (item.method === null) return failure(item.error)
  try {
    const given = handling.answer(item)
    return given instanceof Promise ? given : leave(given, handling)
  } catch (error) {
    return fail(error, handling)
  }
}

/** Returns the permit, that of a stream when it ends. */
function leave(answer: Answer, { budget }: CallHandling<unknown>): Answer {
  if (answer.kind === 'stream')
    return { kind: 'stream', stream: watched(answer.stream, () => budget.leave('calls')) }
  budget.leave('calls')
  return answer
}

function fail(error: unknown, handling: CallHandling<unknown>): Answer {
  handling.failed(error)
  return leave(failure(rpcErrors.internal), handling)
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

function overBudget({ reason, retryAfterMs }: Allowance): RequestRefusal {
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
