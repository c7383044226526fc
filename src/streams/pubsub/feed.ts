// One distinct subscription and all its subscribers.
// Its number is the subscription id of all its subscribers, as on a validator: a notification is
// therefore the same bytes for all of them, encoded once and published under the feed's topic.

import type { Customer, Session } from './session.ts'
import type { SubscriptionParams } from './subscription-params.ts'

/** Hands one message to every socket that joined the topic. */
export type Publish = (topic: string, message: Uint8Array) => void

/** One connection's share in a feed. */
export interface FeedShare {
  /** The feed's totals up to which the connection's usage is metered. */
  meteredMessages: number
  meteredBytes: number
}

export class Feed<W extends SubscriptionParams = SubscriptionParams> {
  readonly id: number
  readonly params: W
  /** The params as text, by which the registry finds the feed. */
  readonly text: string
  readonly topic: string
  readonly shares = new Map<Session, FeedShare>()
  messages = 0
  bytes = 0
  /** Updates it was compared with in vain. */
  passed = 0
  /** True once its last notification was sent and every subscriber removed. */
  isOver = false
  readonly #opening: string
  readonly #closing: string
  readonly #evict: (budget: Customer) => void
  /** Connections of each customer that have it, by the customer's budget. */
  readonly #customers = new Map<Customer, number>()
  #payers = this.#customers.keys()

  /** `evict` takes all connections of a customer out. */
  constructor(id: number, params: W, text: string, evict: (budget: Customer) => void) {
    this.id = id
    this.params = params
    this.text = text
    this.#evict = evict
    this.topic = String(id)
    this.#opening = `{"jsonrpc":"2.0","method":"${params.kind}Notification","params":{"result":`
    this.#closing = `,"subscription":${id}}}`
  }

  /** The notification around a result that is JSON already. */
  message(result: string): Buffer {
    return Buffer.from(this.#opening + result + this.#closing)
  }

  /** Counts a message that all subscribers get. */
  count(message: Uint8Array): void {
    this.messages++
    this.bytes += message.length
  }

  join(session: Session): void {
    const { messages: meteredMessages, bytes: meteredBytes } = this
    this.shares.set(session, { meteredMessages, meteredBytes })
    this.#customers.set(session.budget, (this.#customers.get(session.budget) ?? 0) + 1)
    session.join(this.topic)
  }

  hasCustomer(budget: Customer): boolean {
    return this.#customers.has(budget)
  }

  /** The customers in turn, so that all pay alike and each message is paid once. */
  nextPayer(): Customer | null {
    let next = this.#payers.next()
    if (next.done === true) {
      this.#payers = this.#customers.keys()
      next = this.#payers.next()
    }
    return next.value ?? null
  }

  /** Takes a customer out, with a last message to each of its connections. */
  evict(budget: Customer, message: string): void {
    for (const session of this.shares.keys()) if (session.budget === budget) session.notify(message)
    this.#evict(budget)
  }

  /** Meters what a connection got since it was last metered. */
  settle(session: Session, share: FeedShare): void {
    if (share.meteredMessages === this.messages) return
    session.budget.meter('notifications', this.messages - share.meteredMessages)
    session.budget.meter('bytes', this.bytes - share.meteredBytes)
    share.meteredMessages = this.messages
    share.meteredBytes = this.bytes
  }

  /** Takes a connection out. */
  drop(session: Session): void {
    const share = this.shares.get(session)
    if (share === undefined) return
    this.settle(session, share)
    this.shares.delete(session)
    const left = (this.#customers.get(session.budget) ?? 1) - 1
    if (left === 0) this.#customers.delete(session.budget)
    else this.#customers.set(session.budget, left)
    session.leave(this.topic)
  }
}
