// The connections to one node's JSON-RPC: kept alive, bounded, one call at a time on each.
// Thread: main. Used by upstream-node.ts alone. The address may hold a key of the provider: no
// error of this file carries it.
import { type Dispatcher, Pool } from 'undici'
import type { AnswerHeaders, AnswerListener, CallFault, NodeCall } from './node-call.ts'

const connectionsMax = 256
/** Shorter than the 10 s after which servers of our own kind drop an idle connection. */
const keepAliveMs = 5_000
const connectMsMax = 2_000
/** A body that moves no byte for so long is given up; a paused one is not counted. */
const bodyIdleMsMax = 30_000

const neverConnected: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])

export class NodeLink {
  readonly #pool: Pool
  readonly #path: string
  readonly #headers: Readonly<Record<string, string>>

  constructor(address: string, xToken: string) {
    const { origin, pathname, search } = new URL(address)
    this.#path = `${pathname}${search}`
    this.#headers = {
      'content-type': 'application/json',
      ...(xToken === '' ? {} : { 'x-token': xToken }),
    }
    this.#pool = new Pool(origin, {
      connections: connectionsMax,
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // The head's time is each call's own.
      headersTimeout: 0,
      bodyTimeout: bodyIdleMsMax,
      connect: { timeout: connectMsMax },
    })
  }

  call(body: string | Uint8Array, timeoutMs: number, listener: AnswerListener): NodeCall {
    const call = new LinkCall(listener, timeoutMs)
    this.#pool.dispatch({ method: 'POST', path: this.#path, headers: this.#headers, body }, call)
    return call
  }

  stop(): Promise<void> {
    return this.#pool.destroy()
  }
}

/** One object per call: undici's handler and the caller's handle at once. */
class LinkCall implements NodeCall, Dispatcher.DispatchHandler {
  readonly #listener: AnswerListener
  readonly #timer: NodeJS.Timeout
  #controller: Dispatcher.DispatchController | null = null
  #hasHead = false
  #isOver = false

  constructor(listener: AnswerListener, timeoutMs: number) {
    this.#listener = listener
    this.#timer = setTimeout(onTimeout, timeoutMs, this)
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  abort(): void {
    if (this.#isOver) return
    this.#over()
    this.#controller?.abort(aborted)
  }

  /** No head in time. What came in during this very turn of the loop still counts. */
  expire(): void {
    setImmediate(() => {
      if (this.#isOver || this.#hasHead) return
      const isSent = this.#controller !== null
      this.abort()
      this.#listener.onFault('timeout', isSent)
    })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isOver) controller.abort(aborted)
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: AnswerHeaders,
  ): void {
    if (this.#isOver || status < 200) return
    this.#hasHead = true
    clearTimeout(this.#timer)
    this.#listener.onHead(status, headers)
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#isOver) this.#listener.onData(chunk)
  }

  onResponseEnd(): void {
    if (this.#isOver) return
    this.#over()
    this.#listener.onEnd()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#isOver) return
    const isSent = this.#controller !== null
    this.#over()
    this.#listener.onFault(faultOf(error), isSent)
  }

  #over(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
  }
}

/** Made once: a reason with a stack for each abort would be dear, and nobody reads it. */
const aborted = new Error('aborted')

function onTimeout(call: LinkCall): void {
  call.expire()
}

function faultOf(error: Error): CallFault {
  const { code = '' } = error as NodeJS.ErrnoException
  if (neverConnected.has(code)) return 'unreached'
  if (code === 'UND_ERR_BODY_TIMEOUT') return 'timeout'
  // Several addresses were tried, each in vain.
  if (error instanceof AggregateError) return 'unreached'
  return 'broken'
}
