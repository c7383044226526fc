// Decides who may call the operator API. On the socket in the data folder the file's mode has
// decided, and a credential that is sent must be valid all the same; on a port each request needs
// one. What a browser sends is refused: a page could otherwise use what its user can reach. The
// credentials of indexers are no subject of the API: who has a leaked one could issue another.
import { addressKey } from '../../base/cidr.ts'
import type { Clock } from '../../base/clock.ts'
import { LruMap } from '../../base/lru-map.ts'
import { digestOf } from '../../customers/subscriptions/issue.ts'
import type { Store } from '../../customers/subscriptions/store.ts'
import {
  isEnrolled,
  isOperator,
  type Registered,
} from '../../customers/subscriptions/subscription.ts'
import type { AnswerTable } from '../../customers/subscriptions/tables.ts'
import { outcomeUnknown } from '../../customers/subscriptions/verbs.ts'
import { type Answer, refusedAnswer } from './routes.ts'

type Credentials = Pick<Store, 'version' | 'changedSince' | 'registered' | 'allRegistered' | 'find'>

export const socketCaller = 'socket'

export interface Caller {
  /** Id of the credential; `socketCaller` without one. */
  readonly id: string
  /** For the audit table. */
  readonly who: string
}

export interface AccessRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Of the client; null on the socket. */
  readonly address: string | null
}

/** With more changes than this at once, reading all records is cheaper. */
const changesMax = 1_000
const failuresMax = 5
const failureWindowMs = 60_000
/** Addresses whose failures are counted; the one that was quiet longest is forgotten. */
const addressesMax = 10_000

export class Access {
  readonly #store: Credentials
  readonly #clock: Clock
  readonly #user: string
  readonly #hosts: ReadonlySet<string>
  readonly #failures = new LruMap<string, { count: number; readonly endMs: number }>()
  /** Credentials by the digest of their secret, as of that version of the registry. */
  readonly #known = new Map<string, Caller>()
  #version = -1

  /** `user` is the name of who calls through the socket. */
  constructor(
    store: Credentials,
    given: { readonly clock: Clock; readonly user: string; readonly hosts: readonly string[] },
  ) {
    this.#store = store
    this.#clock = given.clock
    this.#user = given.user
    this.#hosts = new Set(['localhost', '127.0.0.1', '[::1]', ...given.hosts])
  }

  /** The caller, or the answer of a request that is refused. */
  check({ headers, address }: AccessRequest): Caller | Answer {
    const [host = ''] = /^(\[[^\]]*\]|[^:]*)/.exec(String(headers.host ?? '').toLowerCase()) ?? []
    if (!this.#hosts.has(host)) return foreignHost
    if (headers.origin !== undefined) return foreignOrigin
    if (address === null && headers.authorization === undefined)
      return { id: socketCaller, who: `${this.#user} (operator API)` }
    const key = address === null ? null : addressKey(address)
    const leftMs = key === null ? 0 : this.#blockedMs(key)
    if (leftMs > 0) return tooManyFailures(leftMs)
    const [, token = ''] = /^Bearer +(\S+)$/i.exec(String(headers.authorization ?? '')) ?? []
    const found = this.#credentials().get(digestOf(token))
    if (found !== undefined) return found
    if (key !== null) this.#countFailure(key)
    return headers.authorization === undefined ? noCredential : badCredential
  }

  /** Whether an id or a label is that of an indexer's credential. */
  isEnrolled(ref: string): boolean {
    const found = this.#store.find(ref)
    return found !== null && isEnrolled(found)
  }

  #blockedMs(key: string): number {
    const failed = this.#failures.peek(key)
    const leftMs = (failed?.endMs ?? 0) - this.#clock.monotonicMs()
    return failed !== undefined && failed.count >= failuresMax ? leftMs : 0
  }

  #countFailure(key: string): void {
    const nowMs = this.#clock.monotonicMs()
    const failed = this.#failures.get(key)
    if (failed !== undefined && failed.endMs > nowMs) failed.count++
    else this.#failures.set(key, { count: 1, endMs: nowMs + failureWindowMs })
    if (this.#failures.size > addressesMax) this.#failures.evict()
  }

  /** By digest. Reads what changed in the registry since the last call. */
  #credentials(): ReadonlyMap<string, Caller> {
    const version = this.#store.version()
    const isFollowed = this.#version >= 0 && version >= this.#version
    const changed = isFollowed ? this.#store.changedSince(this.#version, changesMax) : null
    if (changed === null) this.#known.clear()
    const records = changed === null ? this.#store.allRegistered() : this.#recordsOf(changed)
    for (const { subscription, tokenDigest } of records) {
      if (!isOperator(subscription)) continue
      const { id, label, state } = subscription
      if (state === 'active') this.#known.set(tokenDigest, { id, who: `${label} (operator API)` })
      else this.#known.delete(tokenDigest)
    }
    this.#version = version
    return this.#known
  }

  *#recordsOf(ids: Iterable<string>): Iterable<Registered> {
    for (const id of ids) {
      const record = this.#store.registered(id)
      if (record !== null) yield record
    }
  }
}

const foreignHost = refusedAnswer(
  ['invalid', 'foreign-host', 'the Host is not one of this API: set operator.names'],
  421,
)
const foreignOrigin = refusedAnswer(
  ['rejected', 'foreign-origin', 'requests of web pages are refused'],
  403,
)
const challenge = { headers: { 'www-authenticate': 'Bearer' } }
const howTo = 'send authorization: Bearer <credential>; sluice operator add issues one'
const noCredential = {
  ...refusedAnswer(['unauthenticated', 'no-credential', howTo]),
  ...challenge,
}
const badCredential = {
  ...refusedAnswer(['unauthenticated', 'bad-credential', 'the credential is not valid']),
  ...challenge,
}

function tooManyFailures(leftMs: number): Answer {
  const message = `${failuresMax} requests of this address had no valid credential: wait`
  return refusedAnswer(['exhausted', 'too-many-failures', message, { retryAfterMs: leftMs }])
}

// Makes each change under an idempotency key once: a request that is sent again gets the answer of
// the first one, without its secrets, which are stored nowhere. Requests under one key run one
// after the other. A refusal is not stored: nothing was changed, and the next one may succeed.

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
    if (answer.status !== 200 && answer.isInDoubt === true) return answer
    try {
      this.#table.end(caller, key, answer.status === 200 ? withoutSecrets(answer.body) : null)
    } catch {
      // On a full disk it stays open, which a repeat is told; what was made is told here and now.
    }
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
