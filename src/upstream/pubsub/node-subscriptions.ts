// The wishes that are held at one node, over one socket: our subscriptions by the node's ids.
// Thread: main. Made by set-relay.ts, which decides what is held where.
//
//   add(wish) -> xSubscribe -> the node's id -> taken      notice(id) -> its wishes
//   remove(wish) -> xUnsubscribe when nobody else has the id
import type { RpcError } from '../../jsonrpc/build.ts'
import { type NodeSecrets, secretsOf } from '../node-secrets.ts'
import type { HeldWish } from './held-wish.ts'
import type { PubsubNode } from './node.ts'
import type { Connect, Loss, NodeConnection, SocketListener } from './node-socket.ts'

export interface Owner {
  taken(wish: HeldWish): void
  refused(wish: HeldWish, held: NodeSubscriptions, error: RpcError): void
  notice(wish: HeldWish, result: string): void
  /** The socket is gone and with it every place here. */
  lost(held: NodeSubscriptions, loss: Loss): void
}

/** Notices that may come before the answer which says whose they are. */
const EARLY_MAX = 256

export class NodeSubscriptions implements SocketListener {
  readonly node: PubsubNode
  /** Every wish that is or wants to be held here. */
  readonly wishes = new Set<HeldWish>()
  isConnected = false
  /** As many as there were when the node took no more over this socket. */
  fullAt = Number.POSITIVE_INFINITY
  /** Ticks for which nothing was held here. */
  idleTicks = 0
  /** Ticks since the connection opened. */
  liveTicks = 0
  readonly #owner: Owner
  readonly #secrets: NodeSecrets
  readonly #connection: NodeConnection
  readonly #byId = new Map<string, HeldWish[]>()
  readonly #idOf = new Map<HeldWish, string>()
  /** Notices of ids that nobody has yet, while some call is unanswered. */
  #early: { readonly id: string; readonly result: string }[] = []
  /** Calls that the node has not answered, by what they ask for. */
  readonly #asked = new Map<string, { wish: HeldWish | null }>()

  constructor(node: PubsubNode, owner: Owner, connect: Connect) {
    this.node = node
    this.#owner = owner
    this.#secrets = secretsOf(node.addresses)
    this.#connection = connect(node, this)
  }

  /** Subscriptions that the node has taken. */
  get count(): number {
    return this.#byId.size
  }

  get isFull(): boolean {
    return this.wishes.size >= this.fullAt
  }

  add(wish: HeldWish): void {
    this.wishes.add(wish)
    const key = `${wish.method}${wish.wish.params}`
    const asked = this.#asked.get(key)
    // Somebody wanted the same and gave it up: a second call would get the same id, and the end
    // of the first would be the end of both.
    if (asked !== undefined) {
      asked.wish = wish
      return
    }
    const ask = { wish: wish as HeldWish | null }
    this.#asked.set(key, ask)
    this.#connection.ask(wish.method, wish.wish.params, (answer) => {
      this.#asked.delete(key)
      const found = ask.wish !== null && this.wishes.has(ask.wish) ? ask.wish : null
      if (!answer.ok) {
        if (found !== null && this.wishes.delete(found))
          this.#owner.refused(found, this, this.#secrets.redactError(answer.error))
      } else if (found === null) this.#unsubscribe(wish, answer.result)
      else this.#taken(found, answer.result)
      if (this.#asked.size === 0) this.#early = []
    })
  }

  /** `isEnded` when the node has ended it by itself and need not be told. */
  remove(wish: HeldWish, isEnded = false): void {
    this.wishes.delete(wish)
    const id = this.#idOf.get(wish)
    if (id === undefined) return
    this.#idOf.delete(wish)
    const others = (this.#byId.get(id) ?? []).filter((one) => one !== wish)
    if (others.length > 0) this.#byId.set(id, others)
    else {
      this.#byId.delete(id)
      if (!isEnded) this.#unsubscribe(wish, id)
    }
  }

  tick(): void {
    this.idleTicks = this.wishes.size === 0 ? this.idleTicks + 1 : 0
    if (this.isConnected) this.liveTicks++
    this.#connection.tick()
  }

  close(): void {
    this.isConnected = false
    this.#connection.close()
  }

  opened(): void {
    this.isConnected = true
  }

  notice(subscription: string, result: string): void {
    const wishes = this.#byId.get(subscription)
    if (wishes !== undefined) for (const wish of wishes) this.#owner.notice(wish, result)
    else if (this.#asked.size > 0 && this.#early.length < EARLY_MAX)
      this.#early.push({ id: subscription, result })
  }

  lost(loss: Loss): void {
    this.isConnected = false
    this.#owner.lost(this, loss)
  }

  #taken(wish: HeldWish, id: string): void {
    // A node gives equal wishes one id; ours may be equal to it where we see a difference.
    this.#byId.set(id, [...(this.#byId.get(id) ?? []), wish])
    this.#idOf.set(wish, id)
    this.#owner.taken(wish)
    for (const early of this.#early) if (early.id === id) this.#owner.notice(wish, early.result)
    this.#early = this.#early.filter((early) => early.id !== id)
  }

  #unsubscribe(wish: HeldWish, id: string): void {
    this.#connection.ask(`${wish.wish.topic}Unsubscribe`, `[${id}]`, () => {})
  }
}
