// The connections to one node's JSON-RPC: kept alive, bounded, one call at a time on each.
// Thread: main. Used by upstream-node.ts alone. The address may hold a key of the provider: nothing
// that this file tells carries it. A client of our own, because a general one costs more than all
// the rest of a proxied call: it copies every answer through a parser in WebAssembly.
//
//   call ─► free connection ─► written ─► head, body, end ─► free ─► next in the queue
//        └► a new one, up to the bound ─┘
//        └► the queue, which the node bounds

import {
  LinkConnection,
  type LinkOwner,
  type LinkTarget,
  type LinkUser,
} from './link-connection.ts'
import type { AnswerHeaders, AnswerListener, NodeCall } from './node-call.ts'

const connectionsMax = 256
const readBytes = 64 * 1024
const lookEveryMs = 1_000
/** Shorter than the 5 s after which plain servers of Node drop an idle connection. */
const idleLooksMax = 3
const connectLooksMax = 2
/** A body that hardly moves for so long is given up; a paused one is not counted. */
const bodyLooksMax = 30

export class NodeLink implements LinkOwner {
  readonly #target: LinkTarget
  readonly #head: string
  readonly #connections = new Set<LinkConnection>()
  /** The last one freed goes first, so that a quiet time closes the others. */
  readonly #free: LinkConnection[] = []
  readonly #queue: LinkCall[] = []
  readonly #timer: NodeJS.Timeout
  #isOver = false

  /** `ca` stands in for the authorities that the machine trusts. */
  constructor(address: string, xToken: string, { ca }: { readonly ca?: Buffer } = {}) {
    const url = new URL(address)
    const isTls = url.protocol === 'https:'
    const port = url.port === '' ? (isTls ? 443 : 80) : Number(url.port)
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const readBuffer = Buffer.allocUnsafeSlow(readBytes)
    this.#target = { isTls, port, host, readBuffer, ...(ca === undefined ? {} : { ca }) }
    this.#head = headOf(url, xToken)
    this.#timer = setInterval(() => this.#look(), lookEveryMs).unref()
  }

  call(body: string | Uint8Array, timeoutMs: number, listener: AnswerListener): NodeCall {
    const call = new LinkCall(this.#requestOf(body), timeoutMs, listener)
    if (this.#isOver) call.onGone()
    else this.#place(call)
    return call
  }

  async stop(): Promise<void> {
    this.#isOver = true
    clearInterval(this.#timer)
    for (const call of this.#queue.splice(0)) call.onGone()
    for (const connection of [...this.#connections]) connection.end()
  }

  onFree(connection: LinkConnection): void {
    const next = this.#next()
    if (next === null) this.#free.push(connection)
    else next.goOn(connection)
  }

  onClosed(connection: LinkConnection): void {
    this.#connections.delete(connection)
    const at = this.#free.indexOf(connection)
    if (at >= 0) this.#free.splice(at, 1)
    const next = this.#isOver ? null : this.#next()
    if (next !== null) this.#place(next)
  }

  #place(call: LinkCall): void {
    const free = this.#free.pop()
    if (free !== undefined) call.goOn(free)
    else if (this.#connections.size >= connectionsMax) this.#queue.push(call)
    else {
      const connection = new LinkConnection(this.#target, this)
      this.#connections.add(connection)
      call.goOn(connection)
    }
  }

  #next(): LinkCall | null {
    let next = this.#queue.shift()
    while (next?.isOver === true) next = this.#queue.shift()
    return next ?? null
  }

  /** Once a second: what is idle for long, does not connect or stands still is ended. */
  #look(): void {
    for (const connection of [...this.#connections]) {
      const looks = connection.look()
      const isLate =
        (connection.isIdle && looks > idleLooksMax) ||
        (!connection.isConnected && looks > connectLooksMax) ||
        (connection.hasBegun && looks > bodyLooksMax)
      if (isLate) connection.end()
    }
  }

  #requestOf(body: string | Uint8Array): string | Uint8Array {
    if (typeof body === 'string') {
      // Nearly every body is ASCII, which is cheaper to write than UTF-8.
      if (Buffer.byteLength(body) !== body.length) return this.#requestOf(Buffer.from(body))
      return `${this.#head}${body.length}\r\n\r\n${body}`
    }
    const head = `${this.#head}${body.length}\r\n\r\n`
    const request = Buffer.allocUnsafe(head.length + body.length)
    request.write(head, 'latin1')
    request.set(body, head.length)
    return request
  }
}

/** One object per call: what the connection tells, and the caller's handle at once. */
class LinkCall implements NodeCall, LinkUser {
  isOver = false
  readonly #request: string | Uint8Array
  readonly #listener: AnswerListener
  readonly #timer: NodeJS.Timeout
  #connection: LinkConnection | null = null
  #hasHead = false

  constructor(request: string | Uint8Array, timeoutMs: number, listener: AnswerListener) {
    this.#request = request
    this.#listener = listener
    this.#timer = setTimeout(onTimeout, timeoutMs, this)
  }

  goOn(connection: LinkConnection): void {
    this.#connection = connection
    connection.send(this.#request, this)
  }

  pause(): void {
    if (!this.isOver) this.#connection?.pause()
  }

  resume(): void {
    if (!this.isOver) this.#connection?.resume()
  }

  abort(): void {
    if (this.isOver) return
    this.#over()
    this.#connection?.destroy()
  }

  /** No head in time. What came in during this very turn of the loop still counts. */
  expire(): void {
    setImmediate(() => {
      if (this.isOver || this.#hasHead) return
      const isSent = this.#connection?.isConnected === true
      this.abort()
      this.#listener.onFault('timeout', isSent)
    })
  }

  onHead(status: number, headers: AnswerHeaders): void {
    this.#hasHead = true
    clearTimeout(this.#timer)
    this.#listener.onHead(status, headers)
  }

  onData(chunk: Buffer): void {
    if (!this.isOver) this.#listener.onData(chunk)
  }

  onEnd(): void {
    if (this.isOver) return
    this.#over()
    this.#listener.onEnd()
  }

  onGone(): void {
    if (this.isOver) return
    // Nothing goes a second time from here: whether it may is for those who know the call.
    const isConnected = this.#connection?.isConnected === true
    this.#over()
    this.#listener.onFault(isConnected ? 'broken' : 'unreached', isConnected)
  }

  #over(): void {
    this.isOver = true
    clearTimeout(this.#timer)
  }
}

function onTimeout(call: LinkCall): void {
  call.expire()
}

/** Everything of a request but the length of its body and the body. */
function headOf({ pathname, search, host, username, password }: URL, xToken: string): string {
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return [
    `POST ${pathname}${search} HTTP/1.1`,
    `host: ${host}`,
    'content-type: application/json',
    ...(username === '' ? [] : [`authorization: Basic ${Buffer.from(pair).toString('base64')}`]),
    ...(xToken === '' ? [] : [`x-token: ${xToken}`]),
    'content-length: ',
  ].join('\r\n')
}
