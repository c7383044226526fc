// Wraps one open WebSocket for products.
// The native socket throws when it is used after its close; this one then does nothing.
import type { Request } from './request.ts'
import { type NativeSocket, nativeText } from './uws.ts'

/** Outcome of a send: written to the kernel, waiting in our memory (backpressure), or dropped. */
export type Sent = 'sent' | 'queued' | 'dropped'

export class Socket<S> {
  readonly state: S
  readonly protocol: string
  /** The client's address, through trusted proxies. */
  readonly address: string
  /** Key under which limits count it. */
  readonly addressKey: string
  readonly path: string
  /** When the peer last sent anything. Set by websocket.ts. */
  heardMs: number
  pingMs = 0
  silenceMsMax = 0
  #pingedMs: number
  #native: NativeSocket<unknown> | null = null

  constructor(decided: { state: S; protocol: string }, request: Request, nowMs: number) {
    this.state = decided.state
    this.protocol = decided.protocol
    this.address = request.address
    this.addressKey = request.addressKey
    this.path = request.path
    this.heardMs = nowMs
    this.#pingedMs = nowMs
  }

  get isOpen(): boolean {
    return this.#native !== null
  }

  /** Bytes that wait in our memory; the kernel buffers 3 to 4 MB before this grows. */
  get unsentBytes(): number {
    return this.#native?.getBufferedAmount() ?? 0
  }

  send(message: string | Uint8Array, isBinary = false): Sent {
    const status = this.#native?.send(nativeText(message), isBinary) ?? 2
    return status === 1 ? 'sent' : status === 0 ? 'queued' : 'dropped'
  }

  /** Sends several messages in one write. */
  batch(send: () => void): void {
    this.#native?.cork(send)
  }

  subscribe(topic: string): void {
    this.#native?.subscribe(topic)
  }

  unsubscribe(topic: string): void {
    this.#native?.unsubscribe(topic)
  }

  /** Closes with a code; the route's `close` runs before this returns. */
  end(code: number, reason: string): void {
    this.#native?.end(code, nativeText(reason))
  }

  /** Closes without a close frame, for a peer that cannot receive one. */
  cut(): void {
    this.#native?.close()
  }

  // The methods below are for websocket.ts only.

  attach(native: NativeSocket<unknown>): void {
    this.#native = native
  }

  detach(): void {
    this.#native = null
  }

  /** Pings when it is due, closes a peer that has been silent longer than its timeout. */
  tick(nowMs: number): void {
    if (nowMs - this.heardMs >= this.silenceMsMax) this.cut()
    else if (nowMs - this.#pingedMs >= this.pingMs) {
      this.#pingedMs = nowMs
      this.#native?.ping()
    }
  }
}
