import { beforeEach, describe, expect, test } from 'vitest'
import type { Principal } from '../../../../src/customers/auth/token.ts'
import {
  HandshakeTickets,
  ticketSecs,
  ticketsMax,
  ticketsPerSubscriptionMax,
} from '../../../../src/products/metrics/handshake-tickets.ts'
import { HandClock } from '../../../testkit/fake-execution.ts'

const principal = (id: string) => ({ subscription: { id }, digest: 'd' }) as unknown as Principal
const alice = principal('alice')

let clock: HandClock
let tickets: HandshakeTickets
let revoked: ReadonlySet<Principal>

beforeEach(() => {
  clock = new HandClock()
  revoked = new Set()
  tickets = new HandshakeTickets(clock, (of) => !revoked.has(of))
})

function issue(of = alice, address = '10.0.0.1'): string {
  const ticket = tickets.issue(of, address)
  if (!ticket.ok) throw new Error(ticket.refusal.message)
  return ticket.value
}

describe('a ticket', () => {
  test('is redeemed once, from its address', () => {
    const ticket = issue()
    expect(tickets.redeem(ticket, '10.0.0.2')).toBeNull()
    expect(tickets.redeem(ticket, '10.0.0.1')).toBe(alice)
    expect(tickets.redeem(ticket, '10.0.0.1')).toBeNull()
    expect(tickets.redeem('', '10.0.0.1')).toBeNull()
  })

  test('expires after 30 s', () => {
    const [first, second] = [issue(), issue()]
    clock.advance(ticketSecs * 1000 - 1)
    expect(tickets.redeem(first, '10.0.0.1')).toBe(alice)
    clock.advance(1)
    expect(tickets.redeem(second, '10.0.0.1')).toBeNull()
  })

  test('of a token that is not valid any more is refused, and used up', () => {
    const ticket = issue()
    revoked = new Set([alice])
    expect(tickets.redeem(ticket, '10.0.0.1')).toBeNull()
    revoked = new Set()
    expect(tickets.redeem(ticket, '10.0.0.1')).toBeNull()
  })

  test('cannot be guessed from another one', () => {
    const issued = new Set(Array.from({ length: 50 }, () => issue()))
    expect(issued.size).toBe(50)
    for (const ticket of issued) expect(ticket).toMatch(/^[\w-]{32}$/)
  })
})

describe('the number of unused tickets is bounded', () => {
  const refused = { ok: false, refusal: { kind: 'exhausted' } }

  test('per subscription, so that one cannot use up those of others', () => {
    const all = Array.from({ length: ticketsPerSubscriptionMax }, () => issue())
    expect(tickets.issue(alice, '10.0.0.1')).toMatchObject(refused)
    expect(tickets.issue(principal('bob'), '10.0.0.1').ok).toBe(true)
    tickets.redeem(all[0]!, '10.0.0.1')
    expect(tickets.issue(alice, '10.0.0.1').ok).toBe(true)
    clock.advance(ticketSecs * 1000)
    for (let count = 0; count < ticketsPerSubscriptionMax; count++) issue()
  })

  test('in all', () => {
    for (let count = 0; count < ticketsMax; count++) issue(principal(`customer ${count}`))
    expect(tickets.issue(alice, '10.0.0.1')).toMatchObject(refused)
    clock.advance(ticketSecs * 1000)
    expect(tickets.issue(alice, '10.0.0.1').ok).toBe(true)
  })
})
