// Subscriptions to the nodes of one upstream set. Thread: main. Made by subscriptions.ts.
// Equal wishes share a feed, and a feed is one subscription at one node, however many have it. The
// subscriber's id is the feed's, whatever the node calls it and whichever node it is.
//
//   first subscriber -> feed -> relay.subscribe -> the node's word -> answers of all who wait
//   node's result    -> spliced into the feed's message -> outbox -> everybody
//   last one gone    -> subscription.close

import type { RpcError } from '../../jsonrpc/build.ts'
import type { Asked, Engine } from '../../pubsub/engine.ts'
import type { Feed } from '../../pubsub/feed.ts'
import { LANDED_DELAY_MS } from '../../pubsub/hub-subscriptions.ts'
import type { Outbox } from '../../pubsub/outbox.ts'
import { type Ids, Registry } from '../../pubsub/registry.ts'
import type { Wanted } from '../../pubsub/wanted.ts'
import type { PubsubListener, PubsubRelay, PubsubSubscription } from '../../upstream/ports.ts'
import type { Session } from './handle.ts'
import { wantedParams } from './wanted-params.ts'

export interface RelaySubscriptionsDeps {
  readonly set: string
  readonly relay: PubsubRelay
  readonly ids: Ids
  readonly outbox: Outbox
}

export class RelaySubscriptions implements Engine {
  readonly registry: Registry
  readonly #set: string
  readonly #relay: PubsubRelay
  readonly #outbox: Outbox
  readonly #sources = new Map<Feed, FeedSource>()

  constructor({ set, relay, ids, outbox }: RelaySubscriptionsDeps) {
    this.#set = set
    this.#relay = relay
    this.#outbox = outbox
    this.registry = new Registry(
      { add: (feed) => this.#open(feed), remove: (feed) => this.#close(feed) },
      ids,
    )
  }

  subscribe(session: Session, wanted: Wanted): Asked | Promise<Asked> {
    const problem = this.#relay.problem({ set: this.#set, topic: wanted.kind })
    if (problem !== null) return problem
    const feed = this.registry.subscribe(session, wanted)
    if (typeof feed === 'string') return feed
    const source = this.#sources.get(feed)!
    if (!source.isOpen) return source.opening.then((error) => error ?? feed)
    if (source.received !== null) this.#tellReceived(session, feed, source.received)
    return feed
  }

  unsubscribe(session: Session, id: number): boolean {
    return this.registry.unsubscribe(session, id)
  }

  stop(): void {
    for (const feed of [...this.#sources.keys()]) this.#close(feed)
  }

  #open(feed: Feed): void {
    const source = new FeedSource(feed, {
      send: (result) => this.#outbox.send(feed, result),
      finish: () => this.registry.finish(feed),
    })
    this.#sources.set(feed, source)
    const { kind } = feed.wanted
    source.subscription = this.#relay.subscribe(
      { set: this.#set, topic: kind, params: wantedParams(feed.wanted) },
      source,
    )
  }

  #close(feed: Feed): void {
    this.#sources.get(feed)?.subscription?.close()
    this.#sources.delete(feed)
  }

  /** Whoever comes between the first sight of a signature and its outcome hears of both. */
  #tellReceived(session: Session, feed: Feed, result: string): void {
    setTimeout(() => {
      if (!feed.isOver && feed.shares.has(session)) this.#outbox.sendTo(session, feed, result)
    }, LANDED_DELAY_MS)
  }
}

interface Doing {
  send(result: string): void
  /** Takes everybody out of the feed. */
  finish(): void
}

interface Notice {
  readonly result: string
  readonly isLast: boolean
}

/** What the relay tells of one feed. */
class FeedSource implements PubsubListener {
  subscription: PubsubSubscription | null = null
  /** Null when a node took it, else its error. */
  readonly opening: Promise<RpcError | null>
  isOpen = false
  /** What was told when a signature was first seen. */
  received: string | null = null
  readonly #feed: Feed
  readonly #doing: Doing
  #settle: (error: RpcError | null) => void = () => {}
  /** Notices that wait until the answers are out; null when nothing waits any more. */
  #held: Notice[] | null = []

  constructor(feed: Feed, doing: Doing) {
    this.#feed = feed
    this.#doing = doing
    this.opening = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  opened(): void {
    this.isOpen = true
    this.#settle(null)
    // The answers are on their way only when the promise's followers have run, and some clients
    // lose what they read together with an answer.
    setTimeout(() => {
      const held = this.#held ?? []
      this.#held = null
      for (const notice of held) this.#tell(notice)
    }, LANDED_DELAY_MS)
  }

  refused(error: RpcError): void {
    this.#doing.finish()
    this.#settle(error)
  }

  notice(result: string, isLast: boolean): void {
    if (this.#held === null) this.#tell({ result, isLast })
    else this.#held.push({ result, isLast })
  }

  #tell({ result, isLast }: Notice): void {
    if (this.#feed.isOver || this.#feed.shares.size === 0) return
    if (this.#feed.wanted.kind === 'signature' && !isLast) this.received = result
    this.#doing.send(result)
    if (isLast) this.#doing.finish()
  }
}
