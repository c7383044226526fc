// Consumers of subscriptions: names under which the places of clients in a stream are stored.
//
//   commit ─► last of each name ─ every 50 ms ─► table: this registry's, or the cluster's
//
// A name is held by the stream that opened it last: its term is then the highest, and commits with
// another term change nothing. A stream learns within a second that it holds its name no more.
import type { Clock } from '../../base/clock.ts'
import { isBug, messageOf } from '../../base/errors.ts'
import { type Log, LogThrottle } from '../../base/telemetry/log.ts'

export const consumersMax = 16
/** One that was not used for as long is forgotten when its subscription opens another. */
export const unusedDays = 30
const nameForm = /^[A-Za-z0-9._-]{1,64}$/
const batchMs = 50
const lookMs = 1_000

export interface ConsumerRow {
  readonly term: number
  readonly position: string | null
  /** When it was opened or committed last. */
  readonly atMs: number
}

export interface NamedConsumer extends Omit<ConsumerRow, 'term'> {
  readonly name: string
}

/** A name that a stream holds; with the position that is committed, if any. */
export interface HeldName {
  readonly id: string
  readonly name: string
  readonly term: number
  readonly position: string | null
}

export interface ConsumerTable {
  /** With a new term. */
  open(id: string, name: string): Promise<Omit<ConsumerRow, 'atMs'> | 'too-many'>
  /**
   * Stores the positions; returns the names that are not held any more. Of two batches the one with
   * the higher number holds, whichever comes first.
   */
  commit(
    held: readonly HeldName[],
    batch?: number,
  ): Promise<readonly Pick<HeldName, 'id' | 'name'>[]>
  list(id: string): Promise<readonly NamedConsumer[]>
  /** All of a subscription without a name; returns how many there were. */
  remove(id: string, name?: string): Promise<number>
}

interface Held {
  readonly id: string
  readonly name: string
  readonly term: number
  readonly taken: () => void
  /** What was committed and is not stored yet. */
  waiting: { readonly position: () => string; readonly stored: (() => void)[] } | null
}

export interface ConsumersDeps {
  readonly table: ConsumerTable
  readonly clock: Clock
  readonly log: Log
}

export class Consumers {
  readonly #deps: ConsumersDeps
  readonly #throttle = new LogThrottle()
  readonly #held = new Map<string, Held>()
  readonly #looking: NodeJS.Timeout
  #timer: NodeJS.Timeout | null = null
  #batch = 0
  #writing: Promise<void> | null = null

  constructor(deps: ConsumersDeps) {
    this.#deps = deps
    this.#looking = setInterval(() => void this.#write(true), lookMs).unref()
  }

  /** Those of one subscription. */
  of(id: string) {
    return { open: (name: string, taken: () => void) => this.#open(id, name, taken) }
  }

  /** Stores what was committed, if the table answers. */
  async stop(): Promise<void> {
    clearInterval(this.#looking)
    await this.#write(false)
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  async #open(id: string, name: string, taken: () => void) {
    if (!nameForm.test(name)) return 'bad-name'
    const key = keyOf(id, name)
    // What the stream before has committed is where this one begins.
    if (this.#held.get(key)?.waiting) await this.#write(false)
    const row = await this.#try(() => this.#deps.table.open(id, name))
    if (row === null) return 'away'
    if (row === 'too-many') return row
    const held: Held = { id, name, term: row.term, taken, waiting: null }
    const before = this.#held.get(key)
    this.#held.set(key, held)
    before?.taken()
    return {
      position: row.position,
      commit: (position: () => string) => this.#commit(held, position),
      close: () => this.#close(held),
    }
  }

  #commit(held: Held, position: () => string): Promise<void> {
    return new Promise((resolve) => {
      // Of one that is not held any more nothing is stored, and nothing follows.
      if (this.#held.get(keyOf(held.id, held.name)) !== held) return
      held.waiting = { position, stored: [...(held.waiting?.stored ?? []), resolve] }
      this.#timer ??= setTimeout(() => void this.#write(false), batchMs).unref()
    })
  }

  #close(held: Held): void {
    const key = keyOf(held.id, held.name)
    const isMine = () => this.#held.get(key) === held
    const end = () => {
      if (isMine()) this.#held.delete(key)
    }
    if (held.waiting !== null && isMine()) void this.#write(false).then(end)
    else end()
  }

  /** One batch at a time; `all` also asks for the names without a commit. */
  async #write(all: boolean): Promise<void> {
    while (this.#writing !== null) await this.#writing
    this.#writing = this.#writeNow(all).finally(() => {
      this.#writing = null
    })
    await this.#writing
  }

  async #writeNow(all: boolean): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const due = [...this.#held.values()].filter(({ waiting }) => all || waiting !== null)
    if (due.length === 0) return
    const taken = due.map((held) => ({ held, waiting: held.waiting }))
    for (const { held } of taken) held.waiting = null
    const rows = taken.map(({ held: { id, name, term }, waiting }) => {
      return { id, name, term, position: waiting?.position() ?? null }
    })
    const batch = ++this.#batch
    const lost = await this.#try(() => this.#deps.table.commit(rows, batch))
    if (lost === null) this.#putBack(taken)
    else {
      const keys = new Set(lost.map(({ id, name }) => keyOf(id, name)))
      for (const { held, waiting } of taken)
        if (keys.has(keyOf(held.id, held.name))) this.#lose(held)
        else for (const stored of waiting?.stored ?? []) stored()
    }
  }

  /** The table did not answer: the next batch has it, unless a later commit does. */
  #putBack(taken: readonly { held: Held; waiting: Held['waiting'] }[]): void {
    for (const { held, waiting } of taken) {
      if (waiting === null) continue
      const stored = [...waiting.stored, ...(held.waiting?.stored ?? [])]
      held.waiting = { position: held.waiting?.position ?? waiting.position, stored }
    }
  }

  #lose(held: Held): void {
    const key = keyOf(held.id, held.name)
    if (this.#held.get(key) === held) this.#held.delete(key)
    held.taken()
  }

  /** Null when the table does not answer. */
  async #try<T>(work: () => Promise<T>): Promise<T | null> {
    try {
      return await work()
    } catch (error) {
      if (isBug(error)) throw error
      const { log, clock } = this.#deps
      if (this.#throttle.allows('consumers', clock.monotonicMs()))
        log.warn('positions of consumers are not stored now', { reason: messageOf(error) })
      return null
    }
  }
}

function keyOf(id: string, name: string): string {
  return `${id} ${name}`
}
