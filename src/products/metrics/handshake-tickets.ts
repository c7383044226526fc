// Issues one-time tickets for WebSocket handshakes of browsers, which cannot send a token in a
// header. In memory only; a ticket is valid once, for 30 s, from one address.
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { accept, assert, type Outcome, refuse } from '../../base/errors.ts'
import type { Principal } from '../../customers/auth/token.ts'

export const ticketSecs = 30
/** Unused tickets of all callers together, and of one subscription. */
export const ticketsMax = 4096
export const ticketsPerSubscriptionMax = 64
const ticketBytes = 24

interface Ticket {
  readonly principal: Principal
  readonly address: string
  readonly expiresMs: number
}

export class HandshakeTickets {
  /** In the order of their expiry. */
  readonly #tickets = new Map<string, Ticket>()
  /** Unused tickets per subscription. */
  readonly #held = new Map<string, number>()
  readonly #clock: Clock
  readonly #isAdmitted: (principal: Principal, address: string) => boolean

  /** `isAdmitted` says whether the token that a ticket was issued for is still valid. */
  constructor(clock: Clock, isAdmitted: (principal: Principal, address: string) => boolean) {
    this.#clock = clock
    this.#isAdmitted = isAdmitted
  }

  /** Refuses with `exhausted` while too many tickets are unused. */
  issue(principal: Principal, address: string): Outcome<string> {
    const nowMs = this.#clock.monotonicMs()
    this.#expire(nowMs)
    const held = this.#held.get(principal.subscription.id) ?? 0
    if (this.#tickets.size >= ticketsMax || held >= ticketsPerSubscriptionMax)
      return refuse(
        'exhausted',
        'tickets',
        `too many unused tickets: they expire in ${ticketSecs} s`,
      )
    const text = randomBytes(ticketBytes).toString('base64url')
    this.#tickets.set(text, { principal, address, expiresMs: nowMs + ticketSecs * 1000 })
    this.#held.set(principal.subscription.id, held + 1)
    return accept(text)
  }

  /** Redeems a ticket; null when it is unknown, used, expired, revoked or of another address. */
  redeem(text: string, address: string): Principal | null {
    this.#expire(this.#clock.monotonicMs())
    const ticket = this.#tickets.get(text)
    // A ticket that another address presents stays valid: it must not end the owner's.
    if (ticket === undefined || ticket.address !== address) return null
    this.#delete(text, ticket)
    return this.#isAdmitted(ticket.principal, address) ? ticket.principal : null
  }

  #expire(nowMs: number): void {
    for (const [text, ticket] of this.#tickets) {
      if (ticket.expiresMs > nowMs) return
      this.#delete(text, ticket)
    }
  }

  #delete(text: string, { principal }: Ticket): void {
    const isUnused = this.#tickets.delete(text)
    const { id } = principal.subscription
    const held = (this.#held.get(id) ?? 0) - 1
    assert(isUnused && held >= 0, 'a ticket is used once')
    if (held === 0) this.#held.delete(id)
    else this.#held.set(id, held)
  }
}
