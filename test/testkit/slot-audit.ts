// What readers of a chain got, slot by slot, beside what the node itself has of the slot: counts
// what is missing and what came twice. A slot is compared once every reader is past it, and then
// forgotten, so that an audit may take hours.
import { createHash } from 'node:crypto'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { lineOf } from './consumer-client.ts'
import { codec, type Subscription } from './grpc-stage.ts'
import type { SolanaNode } from './solana-node.ts'

const finalized = 2
/** Of SubscribeUpdate. */
const slotField = '3'
const problemsMax = 20

/** Names of messages by slot. */
export class SlotLines {
  readonly #names = new Map<number, string[]>()

  add(slot: number, name: string): void {
    const names = this.#names.get(slot)
    if (names === undefined) this.#names.set(slot, [name])
    else names.push(name)
  }

  take(slot: number): string[] {
    const names = this.#names.get(slot) ?? []
    this.#names.delete(slot)
    return names
  }
}

/** A geyser message in few bytes, and whether it says that its slot is final. */
export function noteOf(line: string): { slot: number; name: string; isFinal: boolean } {
  const [, kind, bytes] = / (\d+):([0-9a-f]*) $/.exec(line)!
  const hash = createHash('sha1').update(line).digest('base64').slice(0, 12)
  const slot = Number.parseInt(line, 10)
  if (kind !== slotField) return { slot, name: `${kind} ${hash}`, isFinal: false }
  // Reason for the cast: protobufjs decodes to what the message says.
  const update = codec.decode('geyser.SubscribeUpdateSlot', Buffer.from(bytes!, 'hex')) as {
    readonly status: number
  }
  return { slot, name: `status ${update.status} ${hash}`, isFinal: update.status === finalized }
}

export interface AuditedReader {
  readonly name: string
  readonly lines: SlotLines
  /** The first slot of which it must have everything; null while it has begun nowhere. */
  readonly first: number | null
  /** It will get nothing more of this slot and earlier ones. */
  readonly settled: number
  /** What it must have of a slot. */
  due(content: SlotContent): readonly string[]
}

/** What the node has of a slot. */
export class SlotContent {
  readonly slot: number
  parent = -1
  readonly signatures: string[] = []
  /** The last state of each account that was written. */
  readonly accounts = new Map<string, { owner: string; lamports: number }>()
  /** Geyser messages of the streams at processed, confirmed and finalized. */
  readonly geyser: readonly string[][] = [[], [], []]

  constructor(slot: number) {
    this.slot = slot
  }
}

/** Reads the node's own geyser streams, one per commitment. */
export class NodeContent {
  readonly #streams: readonly Subscription[]
  readonly #slots = new Map<number, SlotContent>()
  readonly #finals = [0, 0, 0]

  constructor(streams: readonly Subscription[]) {
    this.#streams = streams
  }

  /** Everything of this slot and earlier ones was read. */
  get settled(): number {
    return Math.min(...this.#finals)
  }

  read(): void {
    for (const [commitment, stream] of this.#streams.entries()) {
      for (let at = 0; at < stream.updates.length; at++) this.#take(stream, at, commitment)
      stream.updates.length = 0
      stream.raw.length = 0
      if (stream.status !== null) throw new Error(`the node ended: ${stream.status.details}`)
    }
  }

  take(slot: number): SlotContent {
    const content = this.#of(slot)
    this.#slots.delete(slot)
    return content
  }

  #of(slot: number): SlotContent {
    const known = this.#slots.get(slot) ?? new SlotContent(slot)
    this.#slots.set(slot, known)
    return known
  }

  #take(stream: Subscription, at: number, commitment: number): void {
    for (const line of lineOf(stream, at)) {
      const { slot, name, isFinal } = noteOf(line)
      this.#of(slot).geyser[commitment]!.push(name)
      if (isFinal) this.#finals[commitment] = Math.max(this.#finals[commitment]!, slot)
      if (commitment === 0) this.#note(this.#of(slot), stream.updates[at])
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: updates are read field by field, as in a client.
  #note(content: SlotContent, { account, transaction, blockMeta }: any): void {
    if (transaction) content.signatures.push(encodeBase58(transaction.transaction.signature))
    if (blockMeta) content.parent = Number(blockMeta.parentSlot)
    if (!account) return
    const { pubkey, owner, lamports } = account.account
    const state = { owner: encodeBase58(owner), lamports: Number(lamports) }
    content.accounts.set(encodeBase58(pubkey), state)
  }
}

export class SlotAudit {
  readonly problems: string[] = []
  slots = 0
  messages = 0
  lost = 0
  repeated = 0
  /** Readers with something wrong: how much of it, and in which slots. */
  readonly wrong = new Map<string, { count: number; first: number; last: number }>()
  readonly #node: SolanaNode
  readonly #content: NodeContent
  #next: number

  /** `first` is the first slot of which the streams of `content` have everything. */
  constructor(node: SolanaNode, content: NodeContent, first: number) {
    this.#node = node
    this.#content = content
    this.#next = first
  }

  /** The first slot that was not compared yet. */
  get next(): number {
    return this.#next
  }

  /** Compares what every reader is past, as far as `last`. */
  async compare(readers: readonly AuditedReader[], last = Number.MAX_SAFE_INTEGER): Promise<void> {
    this.#content.read()
    const settled = readers.map((reader) => (reader.first === null ? 0 : reader.settled))
    const end = Math.min(this.#content.settled, last, ...settled)
    for (; this.#next <= end; this.#next++) {
      const content = this.#content.take(this.#next)
      await this.#compareWithBlock(content)
      for (const reader of readers) this.#compareReader(reader, content)
      this.slots++
    }
  }

  /** The streams that are compared with have what the node answers by RPC. */
  async #compareWithBlock({ slot, signatures }: SlotContent): Promise<void> {
    const options = { transactionDetails: 'signatures', maxSupportedTransactionVersion: 0 }
    const { result } = await this.#node.call('getBlock', slot, { ...options, rewards: false })
    this.#count('getBlock', slot, signatures, result?.signatures ?? [])
  }

  #compareReader(reader: AuditedReader, content: SlotContent): void {
    const names = reader.lines.take(content.slot)
    if (content.slot < reader.first!) return
    this.messages += names.length
    this.#count(reader.name, content.slot, names, reader.due(content))
  }

  #count(who: string, slot: number, names: readonly string[], due: readonly string[]): void {
    const left = new Map<string, number>()
    for (const name of due) left.set(name, (left.get(name) ?? 0) + 1)
    for (const name of names) left.set(name, (left.get(name) ?? 0) - 1)
    for (const [name, count] of left) {
      if (count === 0) continue
      if (count > 0) this.lost += count
      else this.repeated -= count
      const about = this.wrong.get(who) ?? { count: 0, first: slot, last: slot }
      this.wrong.set(who, { ...about, count: about.count + Math.abs(count), last: slot })
      if (this.problems.length < problemsMax)
        this.problems.push(`${who}, slot ${slot}: ${count > 0 ? 'lost' : 'too many of'} ${name}`)
    }
  }
}
