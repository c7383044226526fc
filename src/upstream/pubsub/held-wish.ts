// One wish of the websocket door, wherever it is held at the moment. Thread: main.
// Made by set-relay.ts; node-subscriptions.ts says where it is, recovery.ts what it missed.
import type { PubsubListener, PubsubWish } from '../ports.ts'
import { slotOf } from './message.ts'
import type { PubsubNode } from './node.ts'

/** Results this short may be the word that a signature was seen. */
const RECEIVED_CHARS_MAX = 128

export class HeldWish {
  readonly wish: PubsubWish
  readonly bornMs: number
  /** Nodes that answered it with an error since it last had a place. */
  readonly refusedBy = new Set<PubsubNode>()
  /** Grows whenever a node takes it: whoever works for an earlier place finds out. */
  epoch = 0
  isOver = false
  /** The slot of the last account notice. */
  slot = 0
  /** True when a notice came since a node last took it. */
  isHeard = false
  /** Not placed again before, when every node refused it. */
  restUntilMs = 0
  /** True when a signature's first sight was told. */
  isReceived = false
  readonly #listener: PubsubListener

  constructor(wish: PubsubWish, listener: PubsubListener, bornMs: number) {
    this.wish = wish
    this.#listener = listener
    this.bornMs = bornMs
  }

  get method(): string {
    return methodOf(this.wish.topic)
  }

  /** True when its customers were told that it stands; from then on it only ends by their will. */
  get isOpened(): boolean {
    return this.epoch > 0
  }

  /** A node took it. True when it is not the first one: something may have been missed. */
  taken(): boolean {
    this.epoch++
    this.isHeard = false
    this.refusedBy.clear()
    if (this.epoch > 1) return true
    this.#listener.opened()
    return false
  }

  refuse(error: Parameters<PubsubListener['refused']>[0]): void {
    this.isOver = true
    this.#listener.refused(error)
  }

  /** Passes a result on. True when it was the last one. */
  tell(result: string): boolean {
    if (this.isOver) return false
    this.isHeard = true
    const { topic } = this.wish
    if (topic === 'account') this.slot = slotOf(result) ?? this.slot
    if (topic === 'signature') {
      if (result.length > RECEIVED_CHARS_MAX || !result.includes('"receivedSignature"')) {
        this.isOver = true
        this.#listener.notice(result, true)
        return true
      }
      // The next node says it again.
      if (this.isReceived) return false
      this.isReceived = true
    }
    this.#listener.notice(result, false)
    return false
  }
}

export function methodOf(topic: string): string {
  return `${topic}Subscribe`
}
