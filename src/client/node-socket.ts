// WebSocket client for Node before version 22, which has no global one, and for sending headers,
// which the global one cannot. Thread: any; Node only. The module `sluice/client/node`.
//
//   new MetricsClient({ url, open: (url) => new NodeSocket(url, { 'x-token': token }) })
//
// undici implements the protocol; this adds bounds, and a close timeout for a silent peer.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { buildConnector, Client, ping, WebSocket } from 'undici'

/** Longest accepted message, in one piece or many; the service's are a thousandth of it. */
const messageBytesMax = 16 * 1024 * 1024
const fragmentsMax = 4_096

const connectMsMax = 10_000
const closeMsMax = 2_000
const pongChannel = 'undici:websocket:pong'

export class NodeSocket {
  onopen: ((event: object) => void) | null = null
  onmessage: ((event: { data: string }) => void) | null = null
  onclose: ((event: { code: number; reason: string }) => void) | null = null
  onerror: ((event: { message: string }) => void) | null = null
  /** Bytes arrived; called before they are parsed, for exact arrival times. */
  onbytes: (() => void) | null = null
  /** The answer to `ping`. */
  onpong: (() => void) | null = null
  readonly #socket: WebSocket
  readonly #client: Client
  /** The TCP socket: the WebSocket has no way to disconnect a peer that does not answer. */
  #raw: Socket | null = null
  #problem = ''
  #isClosing = false

  /** `ca` is the PEM of the authority that signed the server's certificate. */
  constructor(url: string, headers: Readonly<Record<string, string>> = {}, ca?: string) {
    const target = new URL(url.replace(/^ws/, 'http'))
    const tls = ca === undefined ? {} : { ca }
    const connect = buildConnector({ timeout: connectMsMax, ...tls })
    this.#client = new Client(target.origin, {
      connect: (options, done) =>
        connect(options, (...given) => {
          this.#raw = given[1]
          if (this.#isClosing) this.#raw?.destroy()
          done(...given)
        }),
      webSocket: { maxPayloadSize: messageBytesMax, maxFragments: fragmentsMax },
    })
    this.#socket = new WebSocket(target, { dispatcher: this.#client, headers: { ...headers } })
    this.#socket.onopen = () => {
      this.#raw?.prependListener('data', () => this.onbytes?.())
      this.onopen?.({})
    }
    subscribe(pongChannel, this.#ponged)
    // The service sends binary messages only on request, which this client never makes.
    this.#socket.onmessage = ({ data }) => {
      if (typeof data === 'string') this.onmessage?.({ data })
    }
    this.#socket.onerror = ({ message, error }) => {
      this.#problem = message || String((error as Error | null)?.message || 'the connection failed')
      this.onerror?.({ message: this.#problem })
    }
    this.#socket.onclose = ({ code, reason }) => this.#closed(code, reason || this.#problem)
  }

  /** Sends nothing before the socket is open or after it was closed. */
  send(message: string): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(message)
  }

  ping(): void {
    ping(this.#socket)
  }

  close(): void {
    this.#isClosing = true
    this.#socket.close()
    // A peer that does not answer must not keep the program alive.
    setTimeout(() => this.#raw?.destroy(), closeMsMax).unref()
  }

  /** The channel has the pongs of all sockets of the thread. */
  readonly #ponged = (message: unknown) => {
    if ((message as { readonly websocket: WebSocket }).websocket === this.#socket) this.onpong?.()
  }

  #closed(code: number, reason: string): void {
    unsubscribe(pongChannel, this.#ponged)
    this.#raw?.destroy()
    this.#client.destroy().catch(() => {})
    this.onclose?.({ code, reason })
  }
}
