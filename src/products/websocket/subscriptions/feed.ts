// One distinct subscription and everybody who has it. Thread: main. Made by registry.ts.
// Its number is the subscription id of all its subscribers, as on a validator: a notification is
// therefore the same bytes for everybody, encoded once and published under the feed's topic.
import type { Session } from '../handle.ts'
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
  /** True when it has said its last word and nobody is subscribed any more. */
  isOver = false
  readonly #opening: string
  readonly #closing: string

  constructor(id: number, wanted: W, text: string) {
    this.id = id
    this.wanted = wanted
    this.text = text
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
    session.join(this.topic)
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
    session.leave(this.topic)
  }
}
