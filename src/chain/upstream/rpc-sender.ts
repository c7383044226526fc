// Hands transactions to a node over JSON-RPC. Thread: main. Used by the tpu through the topology.
// Connections are kept alive and kept warm by the health question, which is asked every second and
// decides whether the node is worth sending to.
import { Pool } from 'undici'
import type { Clock } from '../../base/clock.ts'
import { accept, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { encodeBase58 } from '../../solana/base58.ts'
import { type Log, LogThrottle } from '../../telemetry/log.ts'
import type { Fate, TransactionSender } from '../ports.ts'

const connections = 16
const keepAliveMs = 60_000
const answerMsMax = 5_000
const answerBytesMax = 1024 * 1024
const healthEveryMs = 1_000
/** As many as getSignatureStatuses takes. */
const fatesMax = 256
const notNow: ReadonlySet<number> = new Set([-32005, -32429])

interface RpcAnswer {
  readonly result?: unknown
  readonly error?: { readonly code?: number; readonly message?: string; readonly data?: unknown }
}

export interface RpcSenderDeps {
  readonly clock: Clock
  readonly log: Log
}

export class RpcSender implements TransactionSender {
  readonly name: string
  readonly #pool: Pool
  readonly #path: string
  readonly #deps: RpcSenderDeps
  readonly #throttle = new LogThrottle()
  readonly #timer: NodeJS.Timeout
  #isUp = false
  #isAsking = false

  /** `address` may hold a key of the provider: it is never told to anybody, `name` is. */
  constructor(name: string, address: string, deps: RpcSenderDeps) {
    const { origin, pathname, search } = new URL(address)
    this.name = name
    this.#path = `${pathname}${search}`
    this.#deps = deps
    this.#pool = new Pool(origin, {
      connections,
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: answerMsMax,
      bodyTimeout: answerMsMax,
      connect: { timeout: answerMsMax },
      maxResponseSize: answerBytesMax,
    })
    this.#timer = setInterval(() => void this.warm(), healthEveryMs).unref()
  }

  isUp(): boolean {
    return this.#isUp
  }

  /** Asks for the node's health now; the start does, so that the door opens knowing it. */
  async warm(): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    const answer = await this.#ask('getHealth', '[]')
    this.#isAsking = false
    this.#isUp = answer.ok && answer.value.result === 'ok'
  }

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    const { buffer, byteOffset, length } = transaction
    const text = Buffer.from(buffer, byteOffset, length).toString('base64')
    // Preflight and retries are ours: the node only passes it on.
    const options = '{"encoding":"base64","skipPreflight":true,"maxRetries":0}'
    const answer = await this.#ask('sendTransaction', `["${text}",${options}]`)
    if (!answer.ok) return answer
    const { error } = answer.value
    if (error === undefined) return accept(null)
    const message = String(error.message ?? 'no reason given')
    // A node that is behind, a door like ours whose rate is spent, a provider's own limits.
    if (notNow.has(error.code ?? 0) || (error.code ?? 0) > -32000)
      return refuse('unavailable', 'upstream', message)
    const { err } = (error.data ?? {}) as { err?: unknown }
    if (err === 'AlreadyProcessed') return accept(null)
    return refuse('rejected', 'upstream', message, err === undefined ? {} : { data: { err } })
  }

  async fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    const found: (Fate | null)[] = []
    for (let at = 0; at < signatures.length; at += fatesMax) {
      const some = signatures.slice(at, at + fatesMax)
      const names = some.map((signature) => `"${encodeBase58(signature)}"`).join(',')
      const answer = await this.#ask('getSignatureStatuses', `[[${names}]]`)
      const { value } = ((answer.ok && answer.value.result) || {}) as { value?: unknown }
      const list = Array.isArray(value) ? value : []
      for (const index of some.keys()) found.push(fateOf(list[index]))
    }
    return found
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#isUp = false
    await this.#pool.destroy()
  }

  async #ask(method: string, params: string): Promise<Outcome<RpcAnswer>> {
    try {
      const { statusCode, body } = await this.#pool.request({
        method: 'POST',
        path: this.#path,
        headers: { 'content-type': 'application/json' },
        body: `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`,
      })
      const text = await body.text()
      // Some nodes answer errors with another status; what is no JSON is no answer.
      const answer: unknown = JSON.parse(text)
      if (typeof answer === 'object' && answer !== null && statusCode !== 429 && statusCode < 500)
        return accept(answer as RpcAnswer)
      return refuse('unavailable', 'upstream', `the upstream answered ${statusCode}`)
    } catch (error) {
      this.#isUp = false
      this.#tell(error)
      return refuse('unavailable', 'upstream', 'the upstream cannot be reached')
    }
  }

  #tell(error: unknown): void {
    if (!this.#throttle.allows('ask', this.#deps.clock.monotonicMs())) return
    // A SyntaxError quotes what it choked on, which may be anything.
    const reason = error instanceof SyntaxError ? 'its answer is no JSON' : messageOf(error)
    this.#deps.log.warn('an upstream does not answer', { upstream: this.name, reason })
  }
}

function fateOf(status: unknown): Fate | null {
  if (typeof status !== 'object' || status === null) return null
  const { slot, err } = status as { slot?: unknown; err?: unknown }
  return typeof slot === 'number' ? { slot, isSuccess: err === null || err === undefined } : null
}
