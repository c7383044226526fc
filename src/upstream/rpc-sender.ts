// Hands transactions to a node over JSON-RPC. Thread: main. Used by the tpu through the topology.
// Connections are kept alive and kept warm by the health question, which is asked every second and
// decides whether the node is worth sending to.
import { Pool } from 'undici'
import type { Clock } from '../base/clock.ts'
import { accept, messageOf, type Outcome, refuse } from '../base/errors.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'
import { bodyOf } from './call-body.ts'
import { NodeSecrets } from './node-secrets.ts'
import type { Fate, TransactionSender } from './ports.ts'
import { askFates, type RpcAnswer, sendBody, sendWord } from './send-words.ts'

const connections = 16
const keepAliveMs = 60_000
const answerMsMax = 5_000
const answerBytesMax = 1024 * 1024
const healthEveryMs = 1_000

export interface RpcSenderDeps {
  readonly clock: Clock
  readonly log: Log
}

export class RpcSender implements TransactionSender {
  readonly name: string
  readonly #pool: Pool
  readonly #path: string
  readonly #secrets: NodeSecrets
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
    this.#secrets = new NodeSecrets({ rpc: address })
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
    const answer = await this.#ask(bodyOf({ method: 'getHealth', paramsText: '[]' }))
    this.#isAsking = false
    this.#isUp = answer.ok && answer.value.result === 'ok'
  }

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    const answer = await this.#ask(sendBody(transaction))
    return answer.ok ? sendWord(answer.value, this.#secrets) : answer
  }

  fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    return askFates(signatures, async (body) => {
      const answer = await this.#ask(body)
      return answer.ok ? answer.value : null
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#isUp = false
    await this.#pool.destroy()
  }

  async #ask(asked: string): Promise<Outcome<RpcAnswer>> {
    try {
      const { statusCode, body } = await this.#pool.request({
        method: 'POST',
        path: this.#path,
        headers: { 'content-type': 'application/json' },
        body: asked,
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
    const reason = error instanceof SyntaxError ? 'its answer is no JSON' : this.#reasonOf(error)
    this.#deps.log.warn('an upstream does not answer', { upstream: this.name, reason })
  }

  /** A socket's error names the address; its code does not. */
  #reasonOf(error: unknown): string {
    const message = messageOf(error)
    if (!this.#secrets.isIn(message)) return message
    return String((error as { code?: unknown }).code ?? 'it cannot be reached')
  }
}
