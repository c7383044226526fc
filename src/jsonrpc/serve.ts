// Serves a JSON-RPC request: parses it, charges the quota, calls the methods, builds the response.
// Thread: any (pure; time and side effects are the host's).
//
//   bytes -> parse -> spend (whole) -> enter (whole) -> call each -> leave -> message
//
// A batch is admitted or refused whole, its items are called concurrently and answered in order.
// What cannot be parsed costs as much as the cheapest call, so that garbage is not free. A streamed
// response keeps its in-flight permit until the stream ends.
import { codesOf } from '../base/codes.ts'
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
import { type Call, type Item, parseRequests } from './parse.ts'

/** Decision of the rate limiter; quota's `Verdict` has this shape. */
export interface Allowance {
  readonly ok: boolean
  readonly reason: string
  readonly retryAfterMs: number
}

/** Serves the calls of callers of type C on allowances of type A. */
export interface Host<C, A extends Allowance> {
  batchItemsMax(caller: C): number
  spend(caller: C, methods: string | readonly string[]): A
  /** Takes an in-flight permit; false when all are taken. */
  enter(caller: C): boolean
  leave(caller: C): void
  call(call: Call, caller: C): Answer | Promise<Answer>
  /** Text appended to every message of this endpoint; nothing by default. */
  readonly messageEnd?: string
  /** True for a call that is dropped without response and charge; `allowance` is then null. */
  ignores?(call: Call): boolean
  /** Called with each answer to a call, as soon as it is available. */
  answered?(method: string, answer: Answer): void
  /** Called for each method that was refused for lack of allowance. */
  refused?(method: string): void
  /** Called when a method threw, which is our bug; its caller gets -32603. */
  failed(method: string, error: unknown): void
}

export interface Served<A> {
  /** '' when there is no response. */
  readonly message: Message
  /** Null when the call was ignored. */
  readonly allowance: A | null
  /** True when it was refused for lack of allowance; a retry is possible after `retryAfterMs`. */
  readonly isExhausted: boolean
  readonly retryAfterMs: number
}

/** Method name under which malformed items are charged. */
const MALFORMED = ''
const IN_FLIGHT_RETRY_MS = 1_000

/** Never throws and never rejects. */
export function serve<C, A extends Allowance>(
  body: Buffer,
  caller: C,
  host: Host<C, A>,
): Served<A> | Promise<Served<A>> {
  const parsed = parseRequests(body, host.batchItemsMax(caller))
  if (parsed.kind === 'broken') {
    const allowance = host.spend(caller, MALFORMED)
    if (!allowance.ok) return refuse([], allowance, host)
    return served(errorMessage('null', parsed.error, host.messageEnd), allowance)
  }
  if (parsed.kind === 'single') return serveOne(parsed.item, caller, host)
  const allowance = host.spend(caller, parsed.items.map(costOf))
  if (!allowance.ok) return refuse(parsed.items, allowance, host)
  const calls = parsed.items.filter((item) => item.method !== null).length
  if (!enterAll(calls, caller, host)) return refuseFull(parsed.items, allowance, host)
  const answers = parsed.items.map((item) => answerItem(item, caller, host))
  return settleBatch(parsed.items, answers, allowance, host.messageEnd)
}

function serveOne<C, A extends Allowance>(
  item: Item,
  caller: C,
  host: Host<C, A>,
): Served<A> | Promise<Served<A>> {
  if (item.method !== null && host.ignores?.(item) === true)
    return { message: '', allowance: null, isExhausted: false, retryAfterMs: 0 }
  const allowance = host.spend(caller, costOf(item))
  if (!allowance.ok) return refuse(item, allowance, host)
  const end = host.messageEnd
  if (item.method === null) return served(errorMessage(item.id, item.error, end), allowance)
  if (!host.enter(caller)) return refuseFull(item, allowance, host)
  const answer = answerItem(item, caller, host)
  if (answer instanceof Promise) return answer.then((done) => finishOne(item, done, allowance, end))
  return finishOne(item, answer, allowance, end)
}

function finishOne<A>(item: Call, answer: Answer, allowance: A, end?: string): Served<A> {
  if (item.id !== null) return served(answerMessage(item.id, answer, end), allowance)
  discard(answer)
  return served('', allowance)
}

/** Calls one item and releases its permit when it is done; a method that throws is our bug. */
function answerItem<C, A extends Allowance>(
  item: Item,
  caller: C,
  host: Host<C, A>,
): Answer | Promise<Answer> {
  if (item.method === null) return failure(item.error)
  try {
    const answer = host.call(item, caller)
    if (!(answer instanceof Promise)) return leave(item, answer, caller, host)
    return answer.then(
      (done) => leave(item, done, caller, host),
      (error) => fail(item, error, caller, host),
    )
  } catch (error) {
    return fail(item, error, caller, host)
  }
}

/** Releases the permit, for a stream when it ends. */
function leave<C, A extends Allowance>(
  { method }: Call,
  answer: Answer,
  caller: C,
  host: Host<C, A>,
): Answer {
  host.answered?.(method, answer)
  if (answer.kind === 'stream')
    return { kind: 'stream', stream: watched(answer.stream, () => host.leave(caller)) }
  host.leave(caller)
  return answer
}

function fail<C, A extends Allowance>(
  { method }: Call,
  error: unknown,
  caller: C,
  host: Host<C, A>,
): Answer {
  host.failed(method, error)
  host.leave(caller)
  return failure(rpcErrors.internal)
}

function settleBatch<A>(
  items: readonly Item[],
  answers: readonly (Answer | Promise<Answer>)[],
  allowance: A,
  end?: string,
): Served<A> | Promise<Served<A>> {
  const join = (done: readonly Answer[]) => {
    const messages = items.flatMap(({ id }, index) => {
      if (id !== null) return [answerMessage(id, done[index]!)]
      discard(done[index]!)
      return []
    })
    return served(batchMessage(messages, end), allowance)
  }
  if (answers.some((answer) => answer instanceof Promise)) return Promise.all(answers).then(join)
  // Reason for the cast: the line above has shown that none is a promise.
  return join(answers as readonly Answer[])
}

/** The answer to a notification is never read, so its stream would wait forever. */
function discard(answer: Answer): void {
  if (answer.kind === 'stream') answer.stream.cancel()
}

/** One error per item, ids kept; [] means that the request could not be parsed. */
function refuse<C, A extends Allowance>(
  items: Item | readonly Item[],
  allowance: A,
  host: Host<C, A>,
): Served<A> {
  // A cost above the burst can never be admitted, so a retry does not help.
  const isExhausted = allowance.reason !== 'too-dear'
  const error = isExhausted
    ? exhausted(allowance.reason, allowance.retryAfterMs)
    : { code: -32600, message: 'Invalid request: the batch costs more than the plan ever allows' }
  return refused(items, error, {
    allowance,
    isExhausted,
    retryAfterMs: allowance.retryAfterMs,
    host,
  })
}

function refuseFull<C, A extends Allowance>(
  items: Item | readonly Item[],
  allowance: A,
  host: Host<C, A>,
): Served<A> {
  const error = exhausted('in-flight', IN_FLIGHT_RETRY_MS)
  return refused(items, error, {
    allowance,
    isExhausted: true,
    retryAfterMs: IN_FLIGHT_RETRY_MS,
    host,
  })
}

function refused<C, A extends Allowance>(
  items: Item | readonly Item[],
  error: RpcError,
  how: { allowance: A; isExhausted: boolean; retryAfterMs: number; host: Host<C, A> },
): Served<A> {
  const { allowance, isExhausted, retryAfterMs, host } = how
  const list = 'length' in items ? items : [items]
  for (const { method } of list) if (method !== null) host.refused?.(method)
  const end = host.messageEnd
  const message =
    'length' in items && items.length > 0
      ? batchMessage(
          list.map(({ id }) => errorMessage(id ?? 'null', error)),
          end,
        )
      : errorMessage(list[0]?.id ?? 'null', error, end)
  return {
    message,
    allowance,
    isExhausted,
    retryAfterMs,
  }
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

function enterAll<C, A extends Allowance>(count: number, caller: C, host: Host<C, A>): boolean {
  for (let entered = 0; entered < count; entered++) {
    if (host.enter(caller)) continue
    while (entered-- > 0) host.leave(caller)
    return false
  }
  return true
}

function costOf(item: Item): string {
  return item.method ?? MALFORMED
}

function served<A>(message: Message, allowance: A): Served<A> {
  return { message, allowance, isExhausted: false, retryAfterMs: 0 }
}
