// Calls over HTTP/1.1 on kept-alive connections, one call at a time on each. Thread: load.
// Raw sockets and requests that are encoded once: a call costs one write and one parsed answer.
//
//   trySend ──► free connection ──► write ──► answer ──► done(ticket, code), connection is free
//   connection lost ──► done(ticket, 'closed') ──► reconnect after a pause
import type { Socket } from 'node:net'
import type { Driver, DriverEvents, DriverTarget } from './driver.ts'
import { parseAnswer, rpcErrorOf } from './http-answer.ts'
import { encodeRequest } from './http-request.ts'
import { Lifeline } from './lifeline.ts'
import { openSocket } from './open-socket.ts'

/** A response longer than this ends the connection. */
const answerBytesMax = 64 * 1024 * 1024
const noTicket = -1
const probeTicket = -2

interface Connection {
  socket: Socket | null
  ticket: number
  /** Bytes of an answer that is not complete. */
  rest: Buffer | null
}

export class HttpDriver implements Driver {
  readonly #target: DriverTarget
  readonly #events: DriverEvents
  readonly #requests: readonly Buffer[]
  readonly #checksRpc: boolean
  readonly #connections: Connection[] = []
  readonly #free: Connection[] = []
  readonly #lifeline = new Lifeline()
  #probed: ((code: string) => void) | null = null

  constructor(target: DriverTarget, events: DriverEvents) {
    this.#target = target
    this.#events = events
    this.#requests = target.calls.map((call) => encodeRequest(target, call))
    this.#checksRpc = target.kind !== 'indexer'
  }

  get reconnects(): number {
    return this.#lifeline.reconnects
  }

  async open(): Promise<string | null> {
    for (let index = 0; index < this.#target.connections; index += 1) {
      const connection = { socket: null, ticket: noTicket, rest: null }
      this.#connections.push(connection)
      this.#connect(connection)
      // The first one alone, so that an unreachable endpoint is not tried many times.
      if (index === 0) {
        const problem = (await this.#lifeline.opened(1)) ?? (await this.#probe())
        if (problem !== null) return problem
      }
    }
    return this.#lifeline.opened(this.#target.connections)
  }

  trySend(call: number, ticket: number): boolean {
    const connection = this.#free.pop()
    if (connection === undefined) return false
    connection.ticket = ticket
    connection.socket!.write(this.#requests[call]!)
    return true
  }

  abandon(ticket: number): void {
    const connection = this.#connections.find((one) => one.ticket === ticket)
    if (connection === undefined) return
    connection.ticket = noTicket
    connection.socket?.destroy()
  }

  failure(nowMs: number): string | null {
    return this.#lifeline.failure(nowMs)
  }

  close(): void {
    this.#lifeline.close()
    for (const { socket } of this.#connections) socket?.destroy()
  }

  /** One call outside the count: a refused credential is found before the run. */
  async #probe(): Promise<string | null> {
    const code = await new Promise<string>((resolve) => {
      this.#probed = resolve
      const timer = setTimeout(() => resolve('timeout'), this.#target.connectMsMax)
      timer.unref()
      this.trySend(0, probeTicket)
    })
    const withToken = this.#target.token !== null
    if (code === 'HTTP 401' || code === 'HTTP 403')
      return `the endpoint refused the ${withToken ? 'token' : 'call without a token'} (${code})`
    if (code === 'timeout') return 'the endpoint accepts connections but did not answer a call'
    if (code === 'closed') return 'the endpoint closed the connection instead of answering a call'
    if (code === 'not HTTP') return 'the endpoint does not answer in HTTP/1.1'
    return null
  }

  #connect(connection: Connection): void {
    const socket = openSocket(this.#target, {
      opened: () => {
        connection.socket = socket
        this.#lifeline.gained()
        this.#release(connection)
      },
      read: (bytes, count) => this.#read(connection, bytes, count),
      closed: (reason) => {
        const wasOpen = connection.socket !== null
        connection.socket = null
        connection.rest = null
        const index = this.#free.indexOf(connection)
        if (index >= 0) this.#free.splice(index, 1)
        this.#finish(connection, 'closed')
        this.#lifeline.lost(wasOpen, reason, () => this.#connect(connection))
      },
    })
  }

  #read(connection: Connection, bytes: Buffer, count: number): void {
    let whole = bytes
    let to = count
    if (connection.rest !== null) {
      whole = Buffer.concat([connection.rest, bytes.subarray(0, count)])
      to = whole.length
      connection.rest = null
    }
    const answer = parseAnswer(whole, 0, to)
    if (answer === null && to <= answerBytesMax) {
      // A copy: the socket reads into the same buffer again.
      connection.rest = whole === bytes ? Buffer.from(bytes.subarray(0, to)) : whole
      return
    }
    if (answer === null || answer === 'bad') {
      this.#finish(connection, 'not HTTP')
      connection.socket?.destroy()
      return
    }
    const { status, isLast, bodyAt, end } = answer
    let code = ''
    if (status !== 200) code = `HTTP ${status}`
    else if (this.#checksRpc) code = rpcErrorOf(whole, bodyAt, end) ?? ''
    this.#finish(connection, code)
    if (isLast) connection.socket?.destroy()
    else this.#release(connection)
  }

  #finish(connection: Connection, code: string): void {
    const { ticket } = connection
    connection.ticket = noTicket
    if (ticket === probeTicket) this.#probed?.(code)
    else if (ticket !== noTicket) this.#events.done(ticket, code)
  }

  #release(connection: Connection): void {
    this.#free.push(connection)
    this.#events.free()
  }
}
