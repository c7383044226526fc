// gRPC clients of the streams world: with `from_slot` and with a consumer.
import { isCommitment } from '../../src/base/commitment.ts'
import { ProtoReader, WIRE_BYTES } from '../../src/base/protobuf.ts'
import { type GrpcStatus, grpcCode } from '../../src/base/transport/grpc-stream.ts'
import { field, markOf, numberIn, retractionField, slotFields } from '../testkit/model-client.ts'
import { codec } from '../testkit/void-readers.ts'
import { blockMark, lie, type ModelSlot } from './streams-chain.ts'
import { Client, type ClientDeps, commitmentNames } from './streams-clients.ts'
import { GrpcLink, type StreamsGateway } from './streams-gateway.ts'
import { check } from './world.ts'

const pongField = 9

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
    if (kind === field.slot) {
      const status = numberIn(body, 3)
      if (status === finalized) return { kind: 'final', slot }
      return isCommitment(status) ? { kind: 'content', slot, mark: `status ${status}` } : null
    }
    if (kind === field.account && Buffer.from(body).includes(lie)) return null
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

interface Asked {
  readonly deps: ClientDeps
  readonly commitment: number
  readonly hasRetractions: boolean
}

/** What a client holds of the chain, with what was taken back. */
class Held {
  readonly #deps: ClientDeps
  readonly #commitment: number
  /** At processed. */
  readonly #hasRetractions: boolean
  readonly #slots = new Map<number, string[]>()
  /** Slots from here on it must have. */
  first: number
  settled: number
  #checked: number

  constructor({ deps, commitment, hasRetractions }: Asked, first: number) {
    this.#deps = deps
    this.#commitment = commitment
    this.#hasRetractions = hasRetractions
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
    else if (this.#isDue(slot, note.mark)) {
      check(slot > this.#checked, `${client}: ${slot} is complete, and ${note.mark} came again`)
      const marks = this.#slots.get(slot) ?? []
      const isLate = !statusMarks.includes(note.mark) && this.#commitment === 0
      check(
        !isLate || !marks.includes(processedMark),
        `${client}: ${slot} is processed, and ${note.mark} came after that`,
      )
      marks.push(note.mark)
      this.#slots.set(slot, marks)
      if (this.#commitment > 0) this.#checkOpen(slot, note.mark, client)
    }
  }

  /** Statuses are of one bank; without retractions nobody knows what of several banks is void. */
  #isDue(slot: number, mark: string): boolean {
    if (this.#deps.chain.line.some((one) => one.slot === slot && one.isClean)) return true
    return !statusMarks.includes(mark) && (this.#commitment > 0 || this.#hasRetractions)
  }

  #checkOpen(slot: number, mark: string, client: string): void {
    const model = this.#deps.chain.line.find((one) => one.slot === slot)
    const times = (marks: readonly string[]) => marks.filter((one) => one === mark).length
    const [found, due] = [times(this.#slots.get(slot)!), times(model ? marksOf(model) : [])]
    check(found <= due, `${client}: ${slot} ${mark} came ${found} times, and is there ${due} times`)
  }

  /** Slots that are final, and those below them: what is taken back came before. */
  check(client: string, isEnd: boolean): void {
    const to = isEnd ? this.settled : this.settled - 1
    for (const model of this.#deps.chain.line) {
      const { slot } = model
      if (slot <= this.#checked || slot > to) continue
      const marks = marksOf(model).filter((mark) => this.#isDue(slot, mark))
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

const processedMark = 'status 0'
const statusMarks = [processedMark, 'status 1']

function marksOf({ marks, isClean }: ModelSlot): readonly string[] {
  return isClean ? [...marks, ...statusMarks] : marks
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

abstract class GrpcClient extends Client implements Asked {
  readonly commitment: number
  readonly hasRetractions: boolean
  protected held: Held | null = null
  protected link: GrpcLink | null = null

  constructor(deps: ClientDeps, commitment: number) {
    super(deps)
    this.commitment = commitment
    this.hasRetractions = commitment === 0 && deps.random() < 0.5
  }

  protected abstract headers(): Record<string, string>
  protected abstract take(note: Note): void
  protected abstract ended(status: GrpcStatus, gateway: StreamsGateway): void

  protected open(gateway: StreamsGateway, fromSlot: number | null): void {
    this.gateway = gateway
    const retractions = this.hasRetractions ? { 'x-retractions': 'true' } : {}
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
    this.held ??= gateway.begin((first) => new Held(this, first))
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
    this.held ??= gateway.begin((first) => new Held(this, first))
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
