// A client with a consumer, as the documentation describes one, on @grpc/grpc-js: it processes what
// it reads, commits now and then, is cut at any moment and subscribes again with the same name.
import type { Client } from '@grpc/grpc-js'
import { everything, wordsIn } from './geyser-everything.ts'
import { Subscription, withToken } from './grpc-stage.ts'
import { until } from './until.ts'

/** Of SubscribeUpdateSlot. */
const finalized = 2

/** Everything that a stream has, each with its slot before it. */
export function linesOf(stream: Subscription): string[] {
  return stream.updates.flatMap((_, at) => lineOf(stream, at))
}

/** One update of it; nothing for a ping, a pong and what says that the stream is behind. */
export function lineOf({ raw, updates }: Subscription, at: number): string[] {
  const { filters, createdAt, behind, ...kinds } = updates[at]
  // Tells of the stream, not of the chain.
  if (behind) return []
  // Reason for the cast: one member is there, and all but pings have a slot.
  const [content] = Object.values(kinds) as [{ slot?: unknown } | undefined]
  return wordsIn([raw[at]!]).map((words) => `${content?.slot} ${words}`)
}

export class ConsumerClient {
  readonly #name: string
  readonly #request: object
  /** Messages whose commit the server has acknowledged, over all streams. */
  readonly committed: string[] = []
  /** Messages of this stream that were read and not committed. */
  #read: string[] = []
  /** Messages before each pong of this stream, counted from the last commit. */
  #marks = new Map<number, number>()
  /** Slots that were told to be final, each with the messages up to it, counted likewise. */
  #finals: { readonly slot: number; readonly at: number }[] = []
  /** Of commits that were sent and not acknowledged when the stream ended: they may come again. */
  readonly #uncertain = new Set<string>()
  /** The id of a commit that was sent and is not acknowledged. */
  #sent: number | null = null
  #pings = 0
  #taken = 0
  stream!: Subscription

  constructor(name: string, request: object = {}) {
    this.#name = name
    this.#request = request
  }

  open(client: Client, token: string): Subscription {
    const metadata = withToken(token)
    metadata.set('consumer', this.#name)
    this.stream = new Subscription(client, metadata)
    this.#read = []
    this.#marks = new Map()
    this.#finals = []
    this.#taken = 0
    this.stream.ask({ ...everything, ...this.#request })
    return this.stream
  }

  /** Takes in what has arrived. */
  take(): void {
    for (; this.#taken < this.stream.updates.length; this.#taken++) {
      const { pong, slot } = this.stream.updates[this.#taken]
      if (!pong) this.#read.push(...lineOf(this.stream, this.#taken))
      if (slot?.status === finalized)
        this.#finals.push({ slot: Number(slot.slot), at: this.#read.length })
      if (!pong) continue
      if (pong.id > 0) this.#marks.set(pong.id, this.#read.length)
      else this.#commit(-pong.id)
    }
  }

  #commit(id: number): void {
    this.#sent = null
    const count = this.#marks.get(id)!
    this.#count(this.#read.splice(0, count))
    for (const [other, at] of this.#marks) this.#marks.set(other, at - count)
    const passed = this.#finals.filter(({ at }) => at <= count)
    const final = passed.at(-1)?.slot ?? 0
    // Nothing of slots that are final before an acknowledged commit comes again, whatever it was.
    for (const line of this.#uncertain)
      if (Number.parseInt(line, 10) <= final) this.#uncertain.delete(line)
    const left = this.#finals.slice(passed.length)
    this.#finals = left.map(({ slot, at }) => ({ slot, at: at - count }))
  }

  /** What may come again was counted when it came first. */
  #count(lines: readonly string[]): void {
    this.committed.push(...lines.filter((line) => !this.#uncertain.delete(line)))
  }

  /** Commits what was sent so far; the place of the pong decides. */
  async commit(): Promise<void> {
    const id = ++this.#pings
    this.stream.ask({ ping: { id } })
    await this.#until(() => this.#marks.has(id), `pong ${id}`)
    if (this.stream.status !== null) return
    this.#sent = id
    this.stream.ask({ ping: { id: -id } })
    const isDone = () => this.stream.of('pong').some((pong) => pong.id === -id)
    await this.#until(isDone, `pong ${-id}`)
  }

  async #until(holds: () => boolean, what: string): Promise<void> {
    await until(() => {
      this.take()
      return holds() || this.stream.status !== null
    }, what)
  }

  /** The connection is gone: what was not committed is forgotten. */
  async cut(): Promise<void> {
    this.stream.stream.cancel()
    await until(() => this.stream.status !== null, 'the end')
    this.ended()
  }

  /** The stream has ended by itself. */
  ended(): void {
    this.take()
    if (this.#sent === null) return
    // They are processed. Whether the server has stored that is told by what it sends next, at
    // another gateway in another order.
    const before = this.#read.slice(0, this.#marks.get(this.#sent)!)
    this.#sent = null
    const fresh = before.filter((line) => !this.#uncertain.has(line))
    this.committed.push(...fresh)
    for (const line of fresh) this.#uncertain.add(line)
  }
}
