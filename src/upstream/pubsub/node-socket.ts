// One WebSocket to a node: the handshake, calls with their answers, notices, and the end of it all
// when the node is gone or silent. Thread: main. Made by node-subscriptions.ts.
// The address may hold a key of the provider: nothing that leaves this file carries it.
//
//   connecting ──open──► calls queue, a bounded number of them in flight ──► answers
//       └── any error, close, or silence: `lost` once, then nothing
import type { Socket } from 'node:net'
import { buildConnector, Client, ping, WebSocket } from 'undici'
import type { RpcError } from '../../jsonrpc/build.ts'
import { readMessage } from './message.ts'
import type { PubsubNode } from './node.ts'

export type NodeAnswer =
  | { readonly ok: true; readonly result: string }
  | { readonly ok: false; readonly error: RpcError }

export type Loss = 'refused' | 'closed' | 'silent' | 'unanswered'

export interface SocketListener {
  opened(): void
  notice(subscription: string, result: string): void
  /** Told once; nothing comes after it. Not told after `close`. */
  lost(loss: Loss): void
}

/** A connection as node-subscriptions.ts uses it; tests have one without a socket. */
export interface NodeConnection {
  /** `answered` is not called when the connection is lost before. */
  ask(method: string, params: string, answered: (answer: NodeAnswer) => void): void
  /** Once a second: pings, and looks for silence. */
  tick(): void
  close(): void
}

export type Connect = (node: PubsubNode, listener: SocketListener) => NodeConnection

const HANDSHAKE_MS_MAX = 3_000
/** Our own door lets a customer of the standard plan have a hundred in flight. */
const IN_FLIGHT_MAX = 64
/** Ticks without a byte, although each sends a ping. Ticks, so that a stall of ours is one. */
const SILENT_TICKS_MAX = 4
const UNANSWERED_TICKS_MAX = 10
/** Whole blocks are the longest notices there are. */
const NOTICE_BYTES_MAX = 256 * 1024 * 1024

interface Ask {
  readonly text: string
  readonly answered: (answer: NodeAnswer) => void
  ticks: number
}

export const connectNode: Connect = (node, listener) => {
  try {
    return new NodeSocket(node.addresses, listener)
  } catch {
    // An address that is none, which the error would quote.
    queueMicrotask(() => listener.lost('refused'))
    return { ask() {}, tick() {}, close() {} }
  }
}

class NodeSocket implements NodeConnection {
  readonly #listener: SocketListener
  readonly #client: Client
  readonly #handshake: NodeJS.Timeout
  readonly #queue: Ask[] = []
  readonly #inFlight = new Map<string, Ask>()
  #socket: WebSocket | null = null
  /** Beneath the WebSocket, which has no way to cut a peer that does not answer. */
  #raw: Socket | null = null
  #bytesRead = 0
  #silentTicks = 0
  #nextId = 1
  #isOpen = false
  #isOver = false

  constructor({ ws, xToken }: PubsubNode['addresses'], listener: SocketListener) {
    this.#listener = listener
    const connector = buildConnector({ timeout: HANDSHAKE_MS_MAX })
    const { protocol, host } = new URL(ws)
    this.#client = new Client(`${protocol === 'wss:' ? 'https' : 'http'}://${host}`, {
      connect: (options, done) =>
        connector(options, (...given) => {
          this.#raw = given[1]
          if (this.#isOver) this.#raw?.destroy()
          done(...given)
        }),
      webSocket: { maxPayloadSize: NOTICE_BYTES_MAX },
    })
    this.#handshake = setTimeout(() => this.#lose('refused'), HANDSHAKE_MS_MAX)
    const headers: Record<string, string> = xToken === '' ? {} : { 'x-token': xToken }
    const socket = new WebSocket(ws, { dispatcher: this.#client, headers })
    this.#socket = socket
    socket.onopen = () => this.#opened()
    socket.onmessage = ({ data }) => this.#take(data)
    socket.onerror = () => this.#lose(this.#isOpen ? 'closed' : 'refused')
    socket.onclose = () => this.#lose(this.#isOpen ? 'closed' : 'refused')
  }

  ask(method: string, params: string, answered: (answer: NodeAnswer) => void): void {
    const text = `"method":"${method}","params":${params}}`
    this.#queue.push({ text, answered, ticks: 0 })
    this.#flush()
  }

  tick(): void {
    if (!this.#isOpen || this.#isOver) return
    const bytesRead = this.#raw?.bytesRead ?? 0
    this.#silentTicks = bytesRead === this.#bytesRead ? this.#silentTicks + 1 : 0
    this.#bytesRead = bytesRead
    if (this.#silentTicks >= SILENT_TICKS_MAX) {
      this.#lose('silent')
      return
    }
    for (const ask of this.#inFlight.values())
      if (++ask.ticks > UNANSWERED_TICKS_MAX) {
        this.#lose('unanswered')
        return
      }
    if (this.#socket !== null) ping(this.#socket)
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#handshake)
    this.#queue.length = 0
    this.#inFlight.clear()
    // A peer that listens gets a word; the socket is cut right behind it, whoever listens.
    if (this.#isOpen) this.#socket?.close(1000)
    this.#raw?.destroySoon()
    setTimeout(() => this.#raw?.destroy(), HANDSHAKE_MS_MAX).unref()
    this.#client.destroy().catch(() => {})
  }

  #opened(): void {
    if (this.#isOver) return
    this.#isOpen = true
    clearTimeout(this.#handshake)
    this.#listener.opened()
    this.#flush()
  }

  #lose(loss: Loss): void {
    if (this.#isOver) return
    this.close()
    this.#raw?.destroy()
    this.#listener.lost(loss)
  }

  #flush(): void {
    while (this.#isOpen && !this.#isOver && this.#inFlight.size < IN_FLIGHT_MAX) {
      const ask = this.#queue.shift()
      if (ask === undefined) return
      const id = String(this.#nextId++)
      this.#inFlight.set(id, ask)
      this.#socket?.send(`{"jsonrpc":"2.0","id":${id},${ask.text}`)
    }
  }

  #take(data: unknown): void {
    if (this.#isOver || typeof data !== 'string') return
    const message = readMessage(data)
    if (message === null) return
    if (message.kind === 'notice') {
      this.#listener.notice(message.subscription, message.result)
      return
    }
    const ask = this.#inFlight.get(message.id)
    if (ask === undefined) return
    this.#inFlight.delete(message.id)
    if (message.kind === 'answer') ask.answered({ ok: true, result: message.result })
    else ask.answered({ ok: false, error: message.error })
    this.#flush()
  }
}
