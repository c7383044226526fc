// Makes each change under an idempotency key once: a request that is sent again gets the answer of
// the first one, without its secrets, which are stored nowhere. Requests under one key run one
// after the other. A refusal is not stored: nothing was changed, and the next one may succeed.
import type { AnswerTable } from '../../customers/subscriptions/answer-table.ts'
import { digestOf } from '../../customers/subscriptions/issue.ts'
import { outcomeUnknown } from '../../customers/subscriptions/verbs.ts'
import { type Answer, refusedAnswer } from './routes.ts'

export interface KeyedRequest {
  /** Keys of different callers are different. */
  readonly caller: string
  readonly key: string
  /** Path and input: the same key with others is refused. */
  readonly request: string
}

const keyForm = /^[\x21-\x7e]{1,128}$/
const secretNames = new Set(['token', 'password'])

export class Repeats {
  readonly #table: AnswerTable
  /** The last request under each key that is being made. */
  readonly #running = new Map<string, Promise<unknown>>()

  constructor(table: AnswerTable) {
    this.#table = table
  }

  /** Makes the change, or answers as the first request under its key was answered. */
  async once(keyed: KeyedRequest, change: () => Promise<Answer>): Promise<Answer> {
    if (!keyForm.test(keyed.key)) return badKey
    const name = `${keyed.caller} ${keyed.key}`
    const turn = (this.#running.get(name) ?? Promise.resolve()).then(() =>
      this.#answer(keyed, change),
    )
    const done = turn.catch(() => {})
    this.#running.set(name, done)
    try {
      return await turn
    } finally {
      if (this.#running.get(name) === done) this.#running.delete(name)
    }
  }

  async #answer(
    { caller, key, request }: KeyedRequest,
    change: () => Promise<Answer>,
  ): Promise<Answer> {
    const known = this.#table.begin(caller, key, request)
    if (known === 'full') return tooManyKeys
    if (known !== 'begun') {
      if (known.request !== digestOf(request)) return otherRequest
      return known.answer === null ? cutOff : { status: 200, body: known.answer }
    }
    const answer = await change()
    if (answer.status === 200) this.#table.end(caller, key, withoutSecrets(answer.body))
    else if (answer.isInDoubt !== true) this.#table.end(caller, key, null)
    return answer
  }
}

/** What a repeated request is answered: the same, but for what is shown once. */
function withoutSecrets(body: string): string {
  const value = JSON.parse(body, (name, part: unknown) =>
    secretNames.has(name) && typeof part === 'string' ? undefined : part,
  ) as object
  return `${JSON.stringify({ ...value, repeated: true })}\n`
}

const badKey = refusedAnswer([
  'invalid',
  'bad-idempotency-key',
  'an idempotency key is 1 to 128 visible ASCII characters',
])
const otherRequest = refusedAnswer(
  ['invalid', 'key-reused', 'this idempotency key was used for another request'],
  422,
)
const unknown =
  'the first request under this key was cut off: whether it changed something is unknown; ' +
  'look at the subscription, then use another key'
const cutOff = refusedAnswer(['rejected', outcomeUnknown, unknown], 409)
const tooManyKeys = refusedAnswer([
  'exhausted',
  'too-many-keys',
  'too many idempotency keys within 24 hours',
  { retryAfterMs: 3_600_000 },
])
