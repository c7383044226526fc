// One distinct subscription and everybody who has it. Thread: main. Made by registry.ts.
// Its number is the subscription id of all its subscribers, as on a validator: a notification is
// therefore the same bytes for everybody, encoded once and published under the feed's topic.

import type { Customer, Session } from './session.ts'
import type { Wanted } from './wanted.ts'

/** Hands one message to every socket that joined the topic. */
export type Publish = (topic: string, message: Uint8Array) => void

/** One connection's share in a feed. */
export interface Share {
  /** How often the connection subscribed to it; it is served once. */
  times: number
  /** The feed's totals up to which the connection's usage is metered. */
  meteredMessages: number
  meteredBytes: number
}

export class Feed<W extends Wanted = Wanted> {
  readonly id: number
  readonly wanted: W
  /** The wish as text, by which the registry finds the feed. */
  readonly text: string
  readonly topic: string
  readonly shares = new Map<Session, Share>()
  messages = 0
  bytes = 0
  /** Updates it was compared with in vain. */
  passed = 0
  /** True when it has said its last word and nobody is subscribed any more. */
  isOver = false
  /** Result of a signature's `receivedSignature` notification once it was sent. */
  received: string | null = null
  readonly #opening: string
  readonly #closing: string
  readonly #evict: (budget: Customer) => void
  /** Connections of each customer that have it, by the customer's budget. */
  readonly #holders = new Map<Customer, number>()
  #payers = this.#holders.keys()

  /** `evict` takes all connections of a customer out. */
  constructor(id: number, wanted: W, text: string, evict: (budget: Customer) => void) {
    this.id = id
    this.wanted = wanted
    this.text = text
    this.#evict = evict
    this.topic = String(id)
    this.#opening = `{"jsonrpc":"2.0","method":"${wanted.kind}Notification","params":{"result":`
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
    const share = this.shares.get(session)
    if (share !== undefined) {
      share.times++
      return
    }
    const { messages: meteredMessages, bytes: meteredBytes } = this
    this.shares.set(session, { times: 1, meteredMessages, meteredBytes })
    this.#holders.set(session.budget, (this.#holders.get(session.budget) ?? 0) + 1)
    session.join(this.topic)
  }

  isHeldBy(budget: Customer): boolean {
    return this.#holders.has(budget)
  }

  /** The customers in turn, so that all pay alike and each message is paid once. */
  nextPayer(): Customer | null {
    let next = this.#payers.next()
    if (next.done === true) {
      this.#payers = this.#holders.keys()
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
  settle(session: Session, share: Share): void {
    if (share.meteredMessages === this.messages) return
    session.budget.meter('notifications', this.messages - share.meteredMessages)
    session.budget.meter('bytes', this.bytes - share.meteredBytes)
    share.meteredMessages = this.messages
    share.meteredBytes = this.bytes
  }

  /** Takes a connection out, however often it subscribed. */
  drop(session: Session): void {
    const share = this.shares.get(session)
    if (share === undefined) return
    this.settle(session, share)
    this.shares.delete(session)
    const left = (this.#holders.get(session.budget) ?? 1) - 1
    if (left === 0) this.#holders.delete(session.budget)
    else this.#holders.set(session.budget, left)
    session.leave(this.topic)
  }
}
