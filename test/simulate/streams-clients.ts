// Clients of the streams world: PubSub with cursors, gRPC with `from_slot` and with a consumer. Each
// does what the documentation tells it to do, at any gateway, and compares what it has with the
// chain: after every message where the order is known, once a slot is final where it is not.
import { ProtoReader, WIRE_BYTES } from '../../src/base/proto-reader.ts'
import { type GrpcStatus, grpcCode } from '../../src/base/transport/grpc-status.ts'
import { readCursor } from '../../src/streams/pubsub/cursor.ts'
import { field, markOf, numberIn, retractionField, slotFields } from '../testkit/model-client.ts'
import { codec } from '../testkit/void-readers.ts'
import { blockMark, type ModelChain, type ModelSlot } from './streams-chain.ts'
import { GrpcLink, type PubsubLink, type StreamsGateway } from './streams-gateway.ts'
import { check } from './world.ts'

export const commitmentNames = ['processed', 'confirmed', 'finalized'] as const
const pongField = 9
/** A replay begins as many slots before its cursor. */
const replayedBack = 64

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
  const blank = { next: null, cursor: null, id: null, name: `${kind} at ${level}` }
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
  protected readonly deps: ClientDeps
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

  /** In order of their slots: once one begins, those before it are complete. */
  #takeProcessed(feed: Feed, name: string): void {
    const [slotText, signature] = name.split(' ')
    const slot = Number(slotText)
    const state = this.#processed.get(feed) ?? { first: null, newest: slot, seen: new Map() }
    this.#processed.set(feed, state)
    state.first ??= slot
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
      if (one.slot <= state.first || one.slot < state.newest || one.slot >= slot) continue
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
      return isNew(feed) || (this.#processed.get(feed)?.newest ?? 0) >= last
    })
  }

  get state(): string {
    return this.#feeds
      .map(({ name, next, expected }) => `${name} ${next}/${expected?.length}`)
      .join()
  }
}

// gRPC.

type Note =
  | { readonly kind: 'content'; readonly slot: number; readonly mark: string }
  | { readonly kind: 'retraction'; readonly slot: number }
  | { readonly kind: 'final'; readonly slot: number }
  | { readonly kind: 'pong'; readonly id: number }

/** Null for what says nothing of the chain. */
function noteOf(message: Buffer): Note | 'behind' | null {
  const fields = new ProtoReader(message)
  while (fields.next()) {
    const kind = fields.field
    if (fields.wire !== WIRE_BYTES || kind === 1 || kind === 11) continue
    const body = fields.bytes
    if (kind === pongField) return { kind: 'pong', id: idIn(body) }
    if (kind === behindField) return 'behind'
    if (!contentFields.has(kind) && kind !== field.slot && kind !== retractionField) continue
    const slot = numberIn(body, slotFields.get(kind) ?? 1)
    if (kind === retractionField) return { kind: 'retraction', slot }
    if (kind === field.slot) return numberIn(body, 3) === finalized ? { kind: 'final', slot } : null
    return { kind: 'content', slot, mark: kind === field.block ? blockMark : markOf(kind, body) }
  }
  return null
}

/** An int32: negative ones have ten bytes. */
function idIn(pong: Uint8Array): number {
  const reader = new ProtoReader(pong)
  return reader.next() ? Number(BigInt.asIntN(32, reader.big)) : 0
}

const finalized = 2
const behindField = 1011
const contentFields = new Set<number>([
  ...[field.account, field.transaction, field.block, field.meta, field.entry],
])

/** What a client holds of the chain, with what was taken back. */
class Held {
  readonly #deps: ClientDeps
  readonly #commitment: number
  readonly #slots = new Map<number, string[]>()
  /** Slots from here on it must have. */
  first: number
  settled: number
  #checked: number

  constructor(deps: ClientDeps, commitment: number, first: number) {
    this.#deps = deps
    this.#commitment = commitment
    this.first = first
    this.settled = first - 1
    this.#checked = first - 1
  }

  drop(from: number): void {
    for (const slot of this.#slots.keys()) if (slot >= from) this.#slots.delete(slot)
  }

  dropSlot(slot: number): void {
    this.#slots.delete(slot)
  }

  take(note: Note, client: string): void {
    if (note.kind === 'pong' || note.slot < this.first) return
    const { slot } = note
    if (note.kind === 'retraction') this.#slots.delete(slot)
    else if (note.kind === 'final') this.settled = Math.max(this.settled, slot)
    else {
      check(slot > this.#checked, `${client}: ${slot} is complete, and ${note.mark} came again`)
      const marks = this.#slots.get(slot) ?? []
      marks.push(note.mark)
      this.#slots.set(slot, marks)
      if (this.#commitment > 0) this.#checkOpen(slot, note.mark, client)
    }
  }

  #checkOpen(slot: number, mark: string, client: string): void {
    const model = this.#deps.chain.line.find((one) => one.slot === slot)
    const times = (marks: readonly string[]) => marks.filter((one) => one === mark).length
    const [found, due] = [times(this.#slots.get(slot)!), times(model?.marks ?? [])]
    check(found <= due, `${client}: ${slot} ${mark} came ${found} times, and is there ${due} times`)
  }

  /** Slots that are final, and those below them: what is taken back came before. */
  check(client: string, isEnd: boolean): void {
    const to = isEnd ? this.settled : this.settled - 1
    for (const { slot, marks } of this.#deps.chain.line) {
      if (slot <= this.#checked || slot > to) continue
      const found = (this.#slots.get(slot) ?? []).toSorted()
      const missing = minus(marks, found)
      const more = minus(found, marks)
      check(missing.length === 0, `${client}: ${missing.length} of slot ${slot} are lost`)
      check(more.length === 0, `${client}: ${more.length} of slot ${slot} came again`)
      this.#slots.delete(slot)
    }
    for (const slot of this.#slots.keys())
      check(slot > to, `${client}: slot ${slot} is of no chain, and was not taken back`)
    this.#checked = Math.max(this.#checked, to)
  }
}

function minus(all: readonly string[], some: readonly string[]): string[] {
  const left = [...some]
  return all.filter((one) => {
    const at = left.indexOf(one)
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

const requestType = codec.root.lookupType('geyser.SubscribeRequest')
const encode = (request: object) =>
  Buffer.from(requestType.encode(requestType.fromObject(request)).finish())
const everything = {
  ...{ accounts: { a: {} }, slots: { s: {} }, transactions: { t: {} }, blocksMeta: { m: {} } },
  ...{ entry: { e: {} }, blocks: { b: { includeTransactions: true, includeAccounts: true } } },
}

abstract class GrpcClient extends Client {
  protected readonly commitment: number
  protected held: Held | null = null
  protected link: GrpcLink | null = null

  constructor(deps: ClientDeps, commitment: number) {
    super(deps)
    this.commitment = commitment
  }

  protected abstract headers(): Record<string, string>
  protected abstract take(note: Note): void
  protected abstract ended(status: GrpcStatus, gateway: StreamsGateway): void

  protected open(gateway: StreamsGateway, fromSlot: number | null): void {
    this.gateway = gateway
    const retractions = this.commitment === 0 ? { 'x-retractions': 'true' } : {}
    this.link = new GrpcLink({ ...this.headers(), ...retractions })
    gateway.openStream(this.link)
    const from = fromSlot === null ? {} : { fromSlot }
    this.ask({ ...everything, commitment: this.commitment, ...from })
  }

  protected ask(request: object): void {
    this.gateway!.sendTo(this.link!, encode(request))
  }

  read(): void {
    const { link, gateway } = this
    if (link === null || gateway === null) return
    // Who is fast reads until nothing comes any more.
    for (let messages = link.read(this.amount); messages.length > 0; ) {
      for (const message of messages) this.#note(message)
      gateway.drained(link)
      messages = this.pace === 1 ? link.read(this.amount) : []
    }
    this.held?.check(this.name, false)
    if (link.status === null || !link.isRead) return
    this.deps.trace(`${this.name} ended: ${link.status.code} ${link.status.details}`)
    this.ended(link.status, gateway)
    this.leave()
  }

  #note(message: Buffer): void {
    const note = noteOf(message)
    if (note === 'behind') this.deps.count('behind')
    else if (note !== null) this.take(note)
  }

  leave(): void {
    if (this.link !== null) this.gateway?.closeStream(this.link)
    this.link = null
    this.gateway = null
  }

  /** Told that what follows is not kept: it begins anew. */
  protected gap(gateway: StreamsGateway, next: number): void {
    const oldest = gateway.server.log.oldestSlot
    const isKept = oldest !== null && next >= oldest
    check(!isKept, `${this.name}: slot ${next} is kept from ${oldest}, and was said not to be`)
    this.deps.count('toldGaps')
    this.held = null
  }

  get isDone(): boolean {
    const last = this.deps.chain.line.at(-1)!.slot
    if (this.held === null) return false
    if (this.held.first > last) return true
    if (this.held.settled < last) return false
    this.held.check(this.name, true)
    return true
  }

  get state(): string {
    return `${this.held?.first} to ${this.held?.settled} ${this.link?.status?.details}`
  }
}

/** After a cut it asks for the slot behind the last that is final, and drops what it has of it. */
export class FromSlotClient extends GrpcClient {
  readonly name: string
  #from = 0

  constructor(deps: ClientDeps, commitment: number) {
    super(deps, commitment)
    this.name = `from_slot at ${commitmentNames[commitment]}`
  }

  connect(gateway: StreamsGateway): void {
    this.held ??= gateway.begin((first) => new Held(this.deps, this.commitment, first))
    if (this.held === null) return
    this.#from = this.held.settled + 1
    this.held.drop(this.#from)
    this.open(gateway, this.#from)
  }

  protected headers() {
    return {}
  }

  protected take(note: Note): void {
    // A gateway that is behind has earlier slots still to finalize, and sends their statuses.
    if (note.kind === 'pong' || note.slot < this.#from) return
    this.deps.count('updates')
    this.held?.take(note, this.name)
  }

  protected ended({ code, details }: GrpcStatus, gateway: StreamsGateway): void {
    if (code === grpcCode.outOfRange) this.gap(gateway, this.#from)
    else if (code === grpcCode.dataLoss) this.deps.count('lagged')
    else check(code === grpcCode.unavailable, `${this.name}: ${details}`)
  }
}

/** Commits what it has read now and then; what it has not committed comes again. */
export class ConsumerClient extends GrpcClient {
  readonly name: string
  #names = 0
  /** Of this stream, not committed. */
  #read: Note[] = []
  #marks = new Map<number, number>()
  #sent: number | null = null
  #pings = 0
  /** Of a commit whose acknowledgement did not come: whether it was made, the table knows. */
  #doubtful: Note[] = []
  #stored: string | null = null
  #isOpened = false

  constructor(deps: ClientDeps, commitment: number) {
    super(deps, commitment)
    this.name = `consumer at ${commitmentNames[commitment]}`
  }

  get #consumer(): string {
    return `c${this.commitment}.${this.#names}`
  }

  protected headers() {
    return { consumer: this.#consumer }
  }

  connect(gateway: StreamsGateway): void {
    this.held ??= gateway.begin((first) => new Held(this.deps, this.commitment, first))
    if (this.held === null) return
    this.#isOpened = false
    this.open(gateway, this.held.first)
  }

  protected take(note: Note): void {
    this.deps.count('updates')
    if (!this.#isOpened) this.#opened()
    if (note.kind !== 'pong') this.#read.push(note)
    else if (note.id > 0) this.#marks.set(note.id, this.#read.length)
    else this.#committed(-note.id)
  }

  /** The stream has begun after what was committed last. */
  #opened(): void {
    this.#isOpened = true
    const stored = this.gateway!.openedAt(this.#consumer)
    if (stored !== this.#stored) this.#process(this.#doubtful)
    this.#doubtful = []
    this.#stored = stored
  }

  override read(): void {
    super.read()
    if (this.link === null || this.link.status !== null || this.deps.random() < 0.6) return
    // The place where it begins is stored, too.
    this.#stored ??= this.gateway!.storedOf(this.#consumer)
    const mark = this.#stored === null ? undefined : [...this.#marks.keys()].at(-1)
    if (mark !== undefined && this.#sent === null && this.deps.random() < 0.7) {
      this.#sent = mark
      this.ask({ ping: { id: -mark } })
    } else if (this.#marks.size < 3) this.ask({ ping: { id: ++this.#pings } })
  }

  #committed(id: number): void {
    this.#sent = null
    this.#stored = this.gateway!.storedOf(this.#consumer)
    const count = this.#marks.get(id)!
    this.#process(this.#read.splice(0, count))
    for (const [other, at] of [...this.#marks])
      if (at <= count) this.#marks.delete(other)
      else this.#marks.set(other, at - count)
    this.deps.count('commits')
  }

  #process(notes: readonly Note[]): void {
    for (const note of notes) this.held?.take(note, this.name)
  }

  override leave(): void {
    if (this.#sent !== null) {
      this.#doubtful = this.#read.slice(0, this.#marks.get(this.#sent)!)
      this.deps.count('doubtful')
    }
    this.#sent = null
    this.#read = []
    this.#marks.clear()
    super.leave()
  }

  protected ended({ code, details }: GrpcStatus, gateway: StreamsGateway): void {
    const other = /^slot (\d+) has another block/.exec(details)
    if (other !== null) {
      this.deps.count('otherBlocks')
      check(this.commitment === 0, `${this.name}: ${details}`)
      if (!this.#isOpened) this.#opened()
      const slot = Number(other[1])
      this.held?.dropSlot(slot)
      // Also of what is in doubt: the server has dropped it there.
      this.#read = this.#read.map((note) =>
        note.kind === 'content' && note.slot === slot ? { kind: 'retraction', slot } : note,
      )
    } else if (code === grpcCode.outOfRange) {
      const [, floor] = /is at slot (\d+)/.exec(details)!
      this.gap(gateway, Number(floor))
      this.#names++
      this.#doubtful = []
      this.#sent = null
      this.#stored = null
    } else if (code === grpcCode.dataLoss) this.deps.count('lagged')
    else {
      const isKnown = code === grpcCode.unavailable || code === grpcCode.aborted
      check(isKnown, `${this.name}: ${details}`)
    }
  }
}
