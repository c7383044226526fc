// A network inside of the process: connections to nodes that a world scripts, on virtual time.
// What opens a plain TCP connection (node:net) gets one that is refused, hangs, is cut or answers
// HTTP, as its node decides; the client's own code runs as it is.
//
//   client ─ write ─► request, whole ─► node.answer ─► after its time, in pieces ─► client
import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

const realConnect = net.connect

/** How a connection attempt ends: `silent` never does, others are codes of socket errors. */
export type Attempt = 'accept' | 'silent' | 'ECONNREFUSED' | 'EMFILE'

export interface NodeAnswer {
  readonly afterMs: number
  /** HTTP status and body; null cuts the connection instead. */
  readonly response: { readonly status: number; readonly body: string } | null
}

/** A node that listens. */
export interface NetworkNode {
  connect(): { readonly afterMs: number; readonly attempt: Attempt }
  /** Null for a request that gets no answer. */
  answer(body: string): NodeAnswer | null
}

interface ConnectOptions {
  readonly port: number
  readonly onread: { readonly buffer: Buffer; callback(count: number, buffer: Buffer): boolean }
}

export class VirtualNetwork {
  readonly #nodes = new Map<number, NetworkNode>()
  readonly #random: () => number
  readonly sockets = new Set<VirtualSocket>()

  /** `random` decides how answers are cut into pieces. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** Returns the address of the node. */
  listen(node: NetworkNode): string {
    const port = this.#nodes.size + 1
    this.#nodes.set(port, node)
    return `http://127.0.0.1:${port}`
  }

  /** Connections of this process go here until `close`. */
  open(): void {
    const connect = (options: ConnectOptions) => {
      const node = this.#nodes.get(options.port)
      if (node === undefined) throw new Error(`nothing listens on ${options.port}`)
      const socket = new VirtualSocket(node, options, this.#random)
      this.sockets.add(socket)
      socket.once('close', () => this.sockets.delete(socket))
      return socket
    }
    Object.assign(net, { connect })
    syncBuiltinESMExports()
  }

  close(): void {
    Object.assign(net, { connect: realConnect })
    syncBuiltinESMExports()
  }

  /** The connections of a node are gone, its requests with them. */
  cut(node: NetworkNode): void {
    for (const socket of [...this.sockets]) if (socket.node === node) socket.fail('ECONNRESET')
  }
}

/** What a client uses of a net.Socket. */
class VirtualSocket extends EventEmitter {
  readonly node: NetworkNode
  readonly #options: ConnectOptions
  readonly #random: () => number
  readonly #unread: Buffer[] = []
  #written = ''
  #isConnected = false
  #isPaused = false
  #isOver = false

  constructor(node: NetworkNode, options: ConnectOptions, random: () => number) {
    super()
    this.node = node
    this.#options = options
    this.#random = random
    const { afterMs, attempt } = node.connect()
    if (attempt === 'silent') return
    setTimeout(() => {
      if (this.#isOver) return
      if (attempt !== 'accept') return this.fail(attempt)
      this.#isConnected = true
      this.emit('connect')
      this.#exchange()
    }, afterMs)
  }

  setNoDelay(): this {
    return this
  }

  write(bytes: string | Uint8Array, encoding: BufferEncoding): boolean {
    this.#written += typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString(encoding)
    this.#exchange()
    return true
  }

  pause(): this {
    this.#isPaused = true
    return this
  }

  resume(): this {
    this.#isPaused = false
    this.#deliver()
    return this
  }

  destroy(): this {
    this.#end()
    return this
  }

  fail(code: string): void {
    if (this.#isOver) return
    this.emit('error', Object.assign(new Error(code), { code }))
    this.#end()
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    process.nextTick(() => this.emit('close'))
  }

  #exchange(): void {
    const headEnd = this.#written.indexOf('\r\n\r\n')
    if (!this.#isConnected || headEnd < 0) return
    const length = Number(/content-length: (\d+)/i.exec(this.#written)![1])
    const body = this.#written.slice(headEnd + 4, headEnd + 4 + length)
    if (body.length < length) return
    this.#written = this.#written.slice(headEnd + 4 + length)
    const answer = this.node.answer(body)
    if (answer === null) return
    setTimeout(() => this.#respond(answer), answer.afterMs)
  }

  #respond({ response }: NodeAnswer): void {
    if (this.#isOver) return
    if (response === null) {
      this.fail('ECONNRESET')
      return
    }
    const { status, body } = response
    const head = `HTTP/1.1 ${status} X\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`
    const bytes = Buffer.from(head + body)
    const cut = Math.floor(this.#random() * bytes.length)
    this.#unread.push(
      ...[bytes.subarray(0, cut), bytes.subarray(cut)].filter((one) => one.length > 0),
    )
    this.#deliver()
  }

  #deliver(): void {
    const { buffer, callback } = this.#options.onread
    while (!this.#isPaused && !this.#isOver) {
      const next = this.#unread.shift()
      if (next === undefined) return
      const count = next.copy(buffer)
      if (count < next.length) this.#unread.unshift(next.subarray(count))
      if (!callback(count, buffer)) this.#isPaused = true
    }
  }
}
