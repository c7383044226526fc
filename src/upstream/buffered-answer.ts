// A small answer of a node, whole: for probes and for what the service itself asks. Thread: main.
// Used by node-probe.ts and set-sender.ts.
import type { AnswerHeaders, AnswerListener, CallFault, NodeCall } from './node-call.ts'

const answerBytesMax = 1024 * 1024

export type BufferedAnswer =
  | { readonly ok: true; readonly status: number; readonly body: Buffer }
  | { readonly ok: false; readonly fault: CallFault; readonly isSent: boolean }

/** Starts a call and gathers its answer; one that is too long counts as broken. Never rejects. */
export function bufferAnswer(
  start: (listener: AnswerListener) => NodeCall,
  bytesMax = answerBytesMax,
): Promise<BufferedAnswer> {
  return new Promise((resolve) => {
    const gathered = new Gathered(bytesMax, resolve)
    gathered.begin(start(gathered))
  })
}

class Gathered implements AnswerListener {
  readonly #bytesMax: number
  readonly #resolve: (answer: BufferedAnswer) => void
  readonly #chunks: Buffer[] = []
  #call: NodeCall | null = null
  #status = 0
  #bytes = 0

  constructor(bytesMax: number, resolve: (answer: BufferedAnswer) => void) {
    this.#bytesMax = bytesMax
    this.#resolve = resolve
  }

  begin(call: NodeCall): void {
    this.#call = call
  }

  onHead(status: number, _headers: AnswerHeaders): void {
    this.#status = status
  }

  onData(chunk: Buffer): void {
    this.#bytes += chunk.length
    this.#chunks.push(Buffer.from(chunk))
    if (this.#bytes <= this.#bytesMax) return
    this.#call?.abort()
    this.onFault('broken', true)
  }

  onEnd(): void {
    this.#resolve({ ok: true, status: this.#status, body: Buffer.concat(this.#chunks) })
  }

  onFault(fault: CallFault, isSent: boolean): void {
    this.#resolve({ ok: false, fault, isSent })
  }
}
