// Clients of the streams world, and those of PubSub with cursors. Each does what the documentation
// tells it to do, at any gateway, and compares what it has with the chain: after every message where
// the order is known, once a slot is final where it is not.
import { readCursor } from '../../src/streams/pubsub/cursor.ts'
import type { ModelChain, ModelSlot } from './streams-chain.ts'
import type { PubsubLink, StreamsGateway } from './streams-gateway.ts'
import { check } from './world.ts'

export const commitmentNames = ['processed', 'confirmed', 'finalized'] as const
/** A replay begins as many slots before its cursor. */
const replayedBack = 64
/** A node that is behind sends later what another one skipped. */
const lateSlots = 6

export interface ClientDeps {
  readonly chain: ModelChain
  readonly random: () => number
  count(what: string): void
  trace(line: string): void
}

/** A subscription with a cursor. */
interface Feed {
  readonly name: string
  readonly method: string
  readonly params: (config: object) => unknown[]
  /** In their order; null at processed, where banks that are void are sent, too. */
  readonly expected: readonly string[] | null
  readonly nameOf: (result: never) => string
  next: number | null
  cursor: string | null
  id: number | null
  /** The newest slot of the gateway where it began, of which it may have missed the start. */
  began: number
}

/** At processed: what it has of the slots with one bank. */
interface AtProcessed {
  first: number | null
  newest: number
  readonly seen: Map<number, string[]>
}

interface Transacted {
  readonly slot: number
  readonly signature: string
}

interface Notified {
  readonly context: { readonly slot: number }
  readonly value: {
    readonly signature: string
    readonly pubkey: string
    readonly account: { readonly lamports: number; readonly data: readonly [string] }
    readonly block: { readonly blockhash: string }
  }
}

function feedOf(
  chain: ModelChain,
  kind: string,
  commitment: 0 | 1 | 2,
  random: () => number,
): Feed {
  const level = commitmentNames[commitment]
  const { line } = chain
  const owner = chain.owners[Math.floor(random() * chain.owners.length)]!
  const config = { commitment: level, encoding: 'base64' }
  const lines = (of: (slot: ModelSlot) => readonly string[]) =>
    line.flatMap((one) => of(one).map((name) => `${one.slot} ${name}`))
  const blank = { next: null, cursor: null, id: null, began: -1, name: `${kind} at ${level}` }
  const transactions = lines(({ signatures }) => signatures)
  const isProcessed = commitment === 0
  switch (kind) {
    case 'logs':
      return {
        ...{ ...blank, method: 'logsSubscribe', expected: isProcessed ? null : transactions },
        params: (more) => ['allWithVotes', { ...config, ...more }],
        nameOf: ({ context, value }: Notified) => `${context.slot} ${value.signature}`,
      }
    case 'transaction':
      return {
        ...{ ...blank, method: 'transactionSubscribe' },
        expected: isProcessed ? null : transactions,
        params: (more) => [{}, { ...config, transactionDetails: 'signatures', ...more }],
        nameOf: ({ slot, signature }: Transacted) => `${slot} ${signature}`,
      }
    case 'program':
      return {
        ...{ ...blank, method: 'programSubscribe' },
        expected: lines(({ writes }) =>
          writes.filter((one) => one.owner === owner).map(({ name }) => name),
        ),
        params: (more) => [owner, { ...config, ...more }],
        nameOf: ({ context, value: { pubkey, account } }: Notified) =>
          `${context.slot} ${pubkey} ${account.lamports} ${account.data[0]}`,
      }
    case 'block':
      return {
        ...{ ...blank, method: 'blockSubscribe' },
        expected: lines(({ blockhash }) => [blockhash]),
        params: (more) => ['all', { ...config, transactionDetails: 'none', ...more }],
        nameOf: ({ context, value }: Notified) => `${context.slot} ${value.block.blockhash}`,
      }
    default:
      return {
        ...{ ...blank, method: 'rootSubscribe', expected: lines(() => ['root']) },
        params: (more) => [more],
        nameOf: (slot: number) => `${slot} root`,
      }
  }
}

const feedKinds = [
  ...[['logs', 1] as const, ['logs', 2] as const, ['program', 1] as const],
  ...[['program', 2] as const, ['transaction', 0] as const, ['transaction', 1] as const],
  ...[['block', 1] as const, ['block', 2] as const, ['root', 2] as const],
]

/** Reads from one gateway, and moves. */
export abstract class Client {
  abstract readonly name: string
  readonly deps: ClientDeps
  gateway: StreamsGateway | null = null
  /** Part of what is there that it reads in a moment. */
  pace = 1

  constructor(deps: ClientDeps) {
    this.deps = deps
  }

  abstract connect(gateway: StreamsGateway): void
  abstract read(): void
  abstract leave(): void
  /** Whether it has everything. */
  abstract get isDone(): boolean
  /** For a message. */
  abstract get state(): string

  protected get amount(): number {
    return this.pace === 1 ? Number.POSITIVE_INFINITY : this.pace * this.deps.random()
  }
}

export class PubsubClient extends Client {
  readonly name = 'pubsub'
  readonly #feeds: readonly Feed[]
  readonly #processed = new Map<Feed, AtProcessed>()
  #link: PubsubLink | null = null

  constructor(deps: ClientDeps) {
    super(deps)
    const { chain, random } = deps
    const kinds = feedKinds.toSorted(() => random() - 0.5).slice(0, 2)
    this.#feeds = kinds.map(([kind, commitment]) => feedOf(chain, kind, commitment, random))
  }

  connect(gateway: StreamsGateway): void {
    this.gateway = gateway
    const link = gateway.connectPubsub()
    this.#link = link
    for (const feed of this.#feeds) this.#subscribe(gateway, link, feed)
  }

  #subscribe(gateway: StreamsGateway, link: PubsubLink, feed: Feed): void {
    const more = feed.cursor === null ? { cursor: true } : { resume: feed.cursor }
    const answer = gateway.callPubsub(link, feed.method, feed.params(more))
    feed.id = null
    if (feed.cursor === null) feed.began = gateway.server.hub.newestSlot ?? -1
    if (answer.kind === 'text') feed.id = Number(answer.text)
    else if (answer.kind === 'error') {
      const { reason } = answer.error.data as { reason: string }
      this.deps.trace(`${this.name} ${feed.name}: ${reason}`)
      if (reason === 'replay-unavailable') {
        this.deps.count('unavailable')
        return
      }
      check(reason === 'cursor-too-old', `${feed.name}: ${JSON.stringify(answer.error)}`)
      this.#gap(gateway, feed)
    } else throw new Error(`${feed.name}: ${JSON.stringify(answer)}`)
  }

  /** What follows is not kept: it begins anew. */
  #gap(gateway: StreamsGateway, feed: Feed, back = 0): void {
    const cursor = readCursor(feed.cursor!)
    check(typeof cursor !== 'string', `${feed.name}: the cursor is ${String(cursor)}`)
    const low = Math.min(cursor.top, ...cursor.partials.keys())
    const oldest = gateway.server.log.oldestSlot
    const isKept = oldest !== null && low - back >= oldest
    check(!isKept, `${feed.name}: slot ${low} is kept from ${oldest}, and was said not to be`)
    this.deps.count('toldGaps')
    feed.cursor = null
    feed.next = null
    this.#processed.delete(feed)
    feed.id = null
  }

  read(): void {
    const link = this.#link
    if (link === null) return
    for (const text of link.read(this.amount)) this.#take(text)
    if (link.isEnded) {
      this.deps.count('slowEnds')
      this.leave()
      return
    }
    if (this.#feeds.some(({ id }) => id === null) && this.deps.random() < 0.3) this.leave()
  }

  leave(): void {
    const link = this.#link
    this.#link = null
    if (link !== null) this.gateway?.disconnect(link)
    this.gateway = null
  }

  #take(text: string): void {
    const { method, params, error } = JSON.parse(text)
    if (method === 'behindNotification') {
      if (params.result.isBehind) this.deps.count('behind')
      return
    }
    const id: number = error?.data.subscription ?? params.subscription
    const feed = this.#feeds.find((one) => one.id === id)
    if (feed === undefined) throw new Error(`${this.name}: ${text.slice(0, 300)}`)
    if (error !== undefined) {
      check(error.data.reason === 'replay-lost', `${feed.name}: ${text}`)
      this.deps.count('replaysLost')
      this.#gap(this.gateway!, feed, replayedBack)
      return
    }
    const name = feed.nameOf(params.result as never)
    this.deps.trace(
      `${this.name} ${feed.name} ${name.slice(0, 30)} ${JSON.stringify(readCursor(params.cursor))}`,
    )
    const isResumed = feed.cursor !== null && feed.next === null
    check(!isResumed || feed.expected === null, `${feed.name}: a cursor before a notification`)
    feed.cursor = params.cursor
    this.deps.count('notifications')
    if (feed.expected === null) this.#takeProcessed(feed, name)
    else this.#takeOrdered(feed, feed.expected, name)
  }

  #takeOrdered(feed: Feed, expected: readonly string[], name: string): void {
    const at = feed.next ?? expected.indexOf(name)
    const shown = (text: string | undefined) => String(text).slice(0, 40)
    if (expected[at] !== name) {
      const where = expected.indexOf(name)
      const what = where < 0 ? 'is not of the chain' : where < at ? 'came again' : 'came too early'
      const wanted = `${shown(expected[at])} was to come`
      throw new Error(`${this.name} ${feed.name}: ${shown(name)} ${what}, ${wanted}`)
    }
    feed.next = at + 1
  }

  /** Once a slot begins, those well before it are complete. */
  #takeProcessed(feed: Feed, name: string): void {
    const [slotText, signature] = name.split(' ')
    const slot = Number(slotText)
    const state = this.#processed.get(feed) ?? { first: null, newest: slot, seen: new Map() }
    this.#processed.set(feed, state)
    // What came late of a slot before it began says nothing of those in between.
    state.first ??= Math.max(slot, feed.began)
    const { seen } = state
    const model = this.deps.chain.line.find((one) => one.slot === slot)
    if (model?.isClean) {
      const known = seen.get(slot) ?? []
      check(!known.includes(signature!), `${feed.name}: ${slot} ${signature} came again`)
      check(model.signatures.includes(signature!), `${feed.name}: ${name} is of no block`)
      seen.set(slot, [...known, signature!])
    }
    if (slot <= state.newest) return
    for (const one of this.deps.chain.line) {
      const at = one.slot + lateSlots
      if (one.slot <= state.first || at < state.newest || at >= slot) continue
      const known = seen.get(one.slot) ?? []
      const lost = one.signatures.length - known.length
      if (one.isClean) check(lost === 0, `${this.name} ${feed.name}: ${one.slot} lacks ${lost}`)
    }
    state.newest = slot
  }

  get isDone(): boolean {
    const last = this.deps.chain.line.at(-1)!.slot
    // It begins anew where the chain has ended.
    const isNew = ({ id, cursor }: Feed) => id !== null && cursor === null
    return this.#feeds.every((feed) => {
      if (feed.expected !== null) return isNew(feed) || feed.next === feed.expected.length
      // What comes after the last slot began may be of late forks alone.
      if (isNew(feed) || feed.began >= last) return true
      return (this.#processed.get(feed)?.newest ?? 0) >= last
    })
  }

  get state(): string {
    return this.#feeds
      .map(({ name, next, expected }) => `${name} ${next}/${expected?.length}`)
      .join()
  }
}
