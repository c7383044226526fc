// Exchanges the digests of sent transactions with the other gateways within 20 ms.
// No request waits for it. Without PostgreSQL nothing is published or learned: a transaction may
// then be sent by several gateways, and the chain deduplicates it.
//
//   publish ─► outbox ─ 5 ms ─► send ─► sent first by another gateway?
//              notification: after(position) ─► learn
import { isFault } from '../base/errors.ts'
import type { Digests, SentElsewhere } from './ports.ts'

/** A digest waits this long for others of its batch. */
const sendMs = 5
/** A read waits this long for further notifications. */
const readMs = 4
/** A notification may be lost. */
const pollMs = 250
/** Digests of one batch. */
const batchMax = 2_000
/** Digests that wait to be published; more are not published. */
export const outboxMax = 20_000
/** Batches read at a time. */
const readMax = 100

/** A gateway alone: nothing is sent elsewhere. */
export const embeddedDigests: SentElsewhere = {
  publish: () => Promise.resolve(false),
  onLearned() {},
}

interface Waiting {
  readonly digest: string
  resolve(isElsewhere: boolean): void
}

export class SentDigests implements SentElsewhere {
  readonly #digests: Digests
  #outbox: Waiting[] = []
  #learn: (digest: string) => void = () => {}
  #observe: (seconds: number) => void = () => {}
  /** Null until the first read: what it finds was published before. */
  #position: number | null = null
  #sending: Promise<void> | null = null
  #reading: Promise<void> | null = null
  #sendTimer: NodeJS.Timeout | null = null
  #readTimer: NodeJS.Timeout | null = null
  #pollTimer: NodeJS.Timeout | null = null
  #unlisten: () => void = () => {}
  readonly #stats = { published: 0, learned: 0, late: 0, dropped: 0, failures: 0 }

  constructor(digests: Digests) {
    this.#digests = digests
  }

  /** Digests since the start, and exchanges that failed. */
  stats(): Readonly<Record<'published' | 'learned' | 'late' | 'dropped' | 'failures', number>> {
    return this.#stats
  }

  publish(digest: string): Promise<boolean> {
    if (this.#outbox.length >= outboxMax) {
      this.#stats.dropped++
      return Promise.resolve(false)
    }
    return new Promise((resolve) => {
      this.#outbox.push({ digest, resolve })
      this.#sendTimer ??= setTimeout(() => void this.send(), sendMs)
    })
  }

  onLearned(learn: (digest: string) => void): void {
    this.#learn = learn
  }

  /** Calls `observe` with the seconds from the publication of each batch to its read. */
  onRead(observe: (seconds: number) => void): void {
    this.#observe = observe
  }

  start(): void {
    this.#unlisten = this.#digests.listen(() => this.#readSoon())
    this.#pollTimer = setInterval(() => this.#readSoon(), pollMs)
    void this.read()
  }

  /** Publishes the rest, as far as PostgreSQL answers at once. */
  async stop(): Promise<void> {
    this.#unlisten()
    if (this.#pollTimer !== null) clearInterval(this.#pollTimer)
    if (this.#readTimer !== null) clearTimeout(this.#readTimer)
    await this.send()
    await this.send()
    await this.#reading
  }

  /** Publishes what waits; one batch at a time. */
  send(): Promise<void> {
    if (this.#sendTimer !== null) clearTimeout(this.#sendTimer)
    this.#sendTimer = null
    this.#sending ??= this.#exchange(() => this.#send()).finally(() => {
      this.#sending = null
      if (this.#outbox.length > 0) this.#sendTimer ??= setTimeout(() => void this.send(), sendMs)
    })
    return this.#sending
  }

  /** Learns what the other gateways published since the last read. */
  read(): Promise<void> {
    this.#reading ??= this.#exchange(() => this.#read()).finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  /** Reads after what runs, so that nothing published before now is missed. */
  #readSoon(): void {
    this.#readTimer ??= setTimeout(async () => {
      await this.#reading
      this.#readTimer = null
      await this.read()
    }, readMs)
  }

  async #exchange(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      // The connection itself reports that it is down.
      if (!isFault(error)) throw error
      this.#stats.failures++
    }
  }

  async #send(): Promise<void> {
    const own = this.#outbox.splice(0, batchMax)
    if (own.length === 0) return
    let elsewhere: ReadonlySet<string> | null = null
    try {
      const bytes = own.map(({ digest }) => Buffer.from(digest, 'latin1'))
      elsewhere = new Set((await this.#digests.send(bytes)).map(textOf))
    } finally {
      // Not repeated after a failure: what it would prevent has happened by then.
      this.#stats[elsewhere === null ? 'dropped' : 'published'] += own.length
      this.#stats.late += elsewhere?.size ?? 0
      for (const { digest, resolve } of own) resolve(elsewhere?.has(digest) ?? false)
    }
  }

  async #read(): Promise<void> {
    const isFirst = this.#position === null
    for (let isMore = true; isMore; ) {
      const batches = await this.#digests.after(this.#position ?? 0, readMax)
      for (const { number, ageMs, digests } of batches) {
        this.#position = number
        this.#stats.learned += digests.length
        if (!isFirst && digests.length > 0) this.#observe(ageMs / 1000)
        for (const digest of digests) this.#learn(textOf(digest))
      }
      this.#position ??= 0
      isMore = batches.length === readMax
    }
  }
}

function textOf(digest: Uint8Array): string {
  return Buffer.from(digest).toString('latin1')
}
