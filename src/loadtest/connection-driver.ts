// Calls over connections that carry one call at a time, whatever the protocol. Thread: load.
//
//   send ──► free connection ──► session.send ──► answer ──► done(ticket, code), free again
//   connection lost ──► done(ticket, 'closed') ──► reconnect after a pause
import { type Driver, type DriverEvents, type DriverTarget, probeProblem } from './driver.ts'
import { Lifeline } from './lifeline.ts'
import { openWire, pollUntil, type Wire, type WireConnection } from './wire.ts'

/** The protocol of one connection. */
export interface Session {
  /** The connection is open: the session may shake hands, and calls `ready` when it can send. */
  opened(): void
  send(call: number): void
  /** `bytes` up to `count`; the buffer is used again for the next read. */
  read(bytes: Buffer, count: number): void
}

/** What a session is given. */
export interface SessionEvents {
  readonly connection: () => WireConnection
  /** The call that was sent has its answer. */
  done(code: string): void
  /** The next call may be sent. */
  ready(): void
  /** The connection cannot be used any more; `code` is the answer to a call that waits. */
  fail(code: string): void
  notification(): void
  /** The endpoint refused a call for a limit, and named it. */
  limited(policy: string): void
}

/** Called once the wire is known, which keeps the bytes of calls. */
export type Protocol = (target: DriverTarget, wire: Wire) => (events: SessionEvents) => Session

interface Connection {
  wire: WireConnection | null
  session: Session | null
  ticket: number
}

const noTicket = -1
const probeTicket = -2
const probeMsMax = 5_000

export class ConnectionDriver implements Driver {
  notifications = 0
  policy: string | null = null
  readonly #target: DriverTarget
  readonly #events: DriverEvents
  readonly #protocol: Protocol
  readonly #connections: Connection[] = []
  readonly #free: Connection[] = []
  readonly #lifeline = new Lifeline()
  #wire: Wire | null = null
  #startSession: ReturnType<Protocol> | null = null
  /** A session has shaken hands. */
  #isReady = false
  #probed: ((code: string) => void) | null = null

  constructor(target: DriverTarget, events: DriverEvents, protocol: Protocol) {
    this.#target = target
    this.#events = events
    this.#protocol = protocol
  }

  get reconnects(): number {
    return this.#lifeline.reconnects
  }

  get poll(): Driver['poll'] {
    return this.#wire?.poll ?? null
  }

  async open(): Promise<string | null> {
    const wire = await openWire(this.#target)
    if (typeof wire === 'string') return wire
    this.#wire = wire
    this.#startSession = this.#protocol(this.#target, wire)
    return pollUntil(this.#start(), wire.poll)
  }

  isFree(): boolean {
    return this.#free.length > 0
  }

  send(call: number, ticket: number): void {
    const connection = this.#free.pop()!
    connection.ticket = ticket
    connection.session!.send(call)
  }

  abandon(ticket: number): void {
    const connection = this.#connections.find((one) => one.ticket === ticket)
    if (connection === undefined) return
    connection.ticket = noTicket
    connection.wire?.destroy()
  }

  failure(nowMs: number): string | null {
    return this.#lifeline.failure(nowMs)
  }

  close(): void {
    this.#lifeline.close()
    for (const { wire } of this.#connections) wire?.destroy()
    this.#wire?.end()
  }

  async #start(): Promise<string | null> {
    for (let index = 0; index < this.#target.connections; index += 1) {
      const connection = { wire: null, session: null, ticket: noTicket }
      this.#connections.push(connection)
      // The first one alone, so that an unreachable endpoint is not tried many times.
      if (index === 0) {
        const problem = await this.#probe(connection)
        if (problem !== null) return problem
      } else this.#connect(connection)
    }
    return this.#lifeline.opened(this.#target.connections)
  }

  /** One call outside the count: a refused credential is found before the run. */
  async #probe(connection: Connection): Promise<string | null> {
    const answered = new Promise<string>((resolve) => {
      this.#probed = resolve
      setTimeout(() => resolve('timeout'), probeMsMax).unref()
    })
    connection.ticket = probeTicket
    this.#connect(connection)
    const refused = await this.#lifeline.opened(1)
    if (refused !== null) return refused
    const code = await answered
    this.#probed = null
    const problem = probeProblem(code, this.#target)
    if (problem !== null || this.#isReady) return problem
    return `the endpoint did not accept the connection (${code})`
  }

  #connect(connection: Connection): void {
    let isLost = false
    const wire = this.#wire!.open({
      opened: () => {
        connection.wire = wire
        this.#lifeline.gained()
        connection.session!.opened()
      },
      read: (bytes, count) => connection.session!.read(bytes, count),
      closed: (reason) => {
        isLost = true
        const wasOpen = connection.wire !== null
        connection.wire = null
        const index = this.#free.indexOf(connection)
        if (index >= 0) this.#free.splice(index, 1)
        this.#finish(connection, 'closed')
        this.#lifeline.lost(wasOpen, reason, () => this.#connect(connection))
      },
    })
    connection.session = this.#startSession!({
      connection: () => wire,
      done: (code) => this.#finish(connection, code),
      ready: () => {
        if (!isLost) this.#release(connection)
      },
      fail: (code) => {
        this.#finish(connection, code)
        wire.destroy()
      },
      notification: () => {
        this.notifications += 1
      },
      limited: (policy) => {
        this.policy = policy
      },
    })
  }

  #finish(connection: Connection, code: string): void {
    const { ticket } = connection
    connection.ticket = noTicket
    if (ticket === probeTicket) this.#probed?.(code)
    else if (ticket !== noTicket) this.#events.done(ticket, code)
  }

  #release(connection: Connection): void {
    this.#isReady = true
    if (connection.ticket === probeTicket) {
      connection.session!.send(0)
      return
    }
    this.#free.push(connection)
    this.#events.free()
  }
}
