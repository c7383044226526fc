// A call on its way: hears the link, counts for the node, tells the caller. Thread: main.
// Made by UpstreamNode.call; one object per call is the caller's handle, too.
import type {
  AnswerHeaders,
  AnswerListener,
  CallFault,
  CallOptions,
  NodeCall,
} from './node-call.ts'

/** How a call ends. `limited` is a 429, `left` was given up because its node left. */
export const callOutcomes = [
  'ok',
  'limited',
  'status',
  'unreached',
  'broken',
  'timeout',
  'busy',
  'left',
  'aborted',
] as const
export type CallOutcome = (typeof callOutcomes)[number]

/** The node that counts it. */
export interface ExchangeOwner {
  nowMs(): number
  headed(exchange: NodeExchange, status: number, ms: number, isHeavy: boolean): void
  ended(exchange: NodeExchange, outcome: CallOutcome): void
  failed(fault: CallFault): void
}

export class NodeExchange implements AnswerListener, NodeCall {
  readonly #node: ExchangeOwner
  readonly #options: CallOptions
  readonly #listener: AnswerListener
  readonly #startMs: number
  #link: NodeCall | null = null
  #status = 0
  #isOver = false

  constructor(
    node: ExchangeOwner,
    options: CallOptions,
    listener: AnswerListener,
    startMs: number,
  ) {
    this.#node = node
    this.#options = options
    this.#listener = listener
    this.#startMs = startMs
  }

  begin(link: NodeCall): void {
    this.#link = link
  }

  pause(): void {
    this.#link?.pause()
  }

  resume(): void {
    this.#link?.resume()
  }

  abort(): void {
    if (this.#isOver) return
    this.#over('aborted')
    this.#link?.abort()
  }

  /**
   * The node leaves the rotation: whoever waits for a head may ask elsewhere. While it is only
   * doubted, a scan stays: it may be what keeps the node busy, and would do so to the next one.
   */
  letGo(isOnlyDoubted: boolean): void {
    const { isKept, isHeavy } = this.#options
    if (this.#isOver || this.#status !== 0 || isKept === true) return
    if (isOnlyDoubted && isHeavy === true) return
    this.#over('left')
    this.#link?.abort()
    this.#listener.onFault('left', true)
  }

  onHead(status: number, headers: AnswerHeaders): void {
    if (this.#isOver) return
    this.#status = status
    const ms = this.#node.nowMs() - this.#startMs
    this.#node.headed(this, status, ms, this.#options.isHeavy === true)
    this.#listener.onHead(status, headers)
  }

  onData(chunk: Buffer): void {
    if (!this.#isOver) this.#listener.onData(chunk)
  }

  onEnd(): void {
    if (this.#isOver) return
    this.#over(this.#status >= 500 ? 'status' : this.#status === 429 ? 'limited' : 'ok')
    this.#listener.onEnd()
  }

  onFault(fault: CallFault, isSent: boolean): void {
    if (this.#isOver) return
    this.#over(fault)
    this.#node.failed(fault)
    this.#listener.onFault(fault, isSent)
  }

  #over(outcome: CallOutcome): void {
    this.#isOver = true
    this.#node.ended(this, outcome)
  }
}
