// One customer's connection from upgrade to close: its permit of the plan, the lease of its token,
// and the bound of its unsent bytes.

import { CLOSE_POLICY, CLOSE_TOO_SLOW } from '../../base/transport/reply.ts'
import type { Socket } from '../../base/transport/socket.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { Principal } from '../../customers/auth/token.ts'
import type { Budget } from '../../customers/quota/budget.ts'
import type { PubsubEngine } from '../../streams/pubsub/engine.ts'
import type { Session } from './handle.ts'

/** Clients ping every few seconds to keep a connection warm; only a flood shall cost something. */
const PINGS_PER_CREDIT = 10

export interface ConnectionDeps {
  readonly principal: Principal
  readonly budget: Budget
  readonly engine: PubsubEngine
  readonly unsentBytesMax: number
}

export class PubsubConnection implements Session {
  readonly budget: Budget
  readonly engine: PubsubEngine
  readonly #principal: Principal
  readonly #unsentBytesMax: number
  readonly #endings: (() => void)[] = []
  #socket: Socket<PubsubConnection> | null = null
  #pings = 0

  /** The caller has entered the budget's connections; `close` leaves them. */
  constructor(deps: ConnectionDeps) {
    this.#principal = deps.principal
    this.budget = deps.budget
    this.engine = deps.engine
    this.#unsentBytesMax = deps.unsentBytesMax
  }

  /** Ties the connection to its token: when that dies, 1008 follows within a second. */
  open(socket: Socket<PubsubConnection>, gate: Gate): void {
    this.#socket = socket
    const release = gate.lease(this.#principal, 'websocket', socket.address, () =>
      socket.end(CLOSE_POLICY, 'the token is no longer valid'),
    )
    this.#endings.push(release)
  }

  send(message: string | Uint8Array): void {
    const socket = this.#socket
    if (socket === null) return
    socket.send(message)
    this.budget.meter('bytes', message.length)
    this.checkUnsent()
  }

  /** Sends an answer, unless it is ''. */
  answer(message: string | Uint8Array): void {
    if (message !== '') this.send(message)
  }

  notify(message: string | Uint8Array): void {
    this.budget.meter('notifications', 1)
    this.send(message)
  }

  join(topic: string): void {
    this.#socket?.subscribe(topic)
  }

  leave(topic: string): void {
    this.#socket?.unsubscribe(topic)
  }

  checkUnsent(): void {
    const socket = this.#socket
    if (socket !== null && socket.unsentBytes > this.#unsentBytesMax)
      socket.end(CLOSE_TOO_SLOW, 'the client reads too slowly')
  }

  /** A ping of the protocol or in JSON. The connection stays, also when no credit is left. */
  countPing(): void {
    if (++this.#pings % PINGS_PER_CREDIT === 0) this.budget.spend('ping')
  }

  onEnd(release: () => void): void {
    this.#endings.push(release)
  }

  close(): void {
    this.#socket = null
    this.budget.leave('connections')
    for (const end of this.#endings.splice(0)) end()
  }
}
