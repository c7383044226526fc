// Starts the components of a table, each after those it reads, and stops them in the table's order
// from the last to the first.
// Components that do not depend on each other start at the same time. When one fails to start, the
// others are stopped, so that nothing stays half open.

export type OwnedKind = 'thread' | 'process' | 'ring' | 'log' | 'hub' | 'queue' | 'cache' | 'file'

/** Something that a component creates and nothing else does, with its bound. */
export interface Owned {
  readonly kind: OwnedKind
  readonly name: string
  readonly bound: string
  /** How it comes back after it died; absent for memory. */
  readonly restart?: string
}

/** A row of the table. `R` are the names of what it reads, `V` is its value. */
export interface Component<P, R extends keyof P, V, C> {
  readonly kind: 'state' | 'pipeline' | 'endpoint'
  readonly does: string
  readonly reads: readonly R[]
  readonly owns?: readonly Owned[]
  /** Names of components or folders that it writes to. */
  readonly writes?: readonly string[]
  /** Where false, the component is not started and its value is null. */
  isEnabled?(context: C): boolean
  start(context: C, read: Pick<P, R>): V | Promise<V>
  /** Default: the value's own `stop`, where it has one. */
  stop?(value: V): void | Promise<void>
}

/** All rows. The order is that of the stop, from the last row to the first. */
export type ComponentTable<P, C> = {
  // biome-ignore lint/suspicious/noExplicitAny: each row reads components of its own.
  readonly [K in keyof P]: Component<P, any, P[K], C>
}

/** Stop timeout of one component; after it the next one is stopped. */
const stopMsMax = 8_000

export class ComponentLifecycle<P extends object, C> {
  readonly #table: ComponentTable<P, C>
  readonly #context: C
  readonly #onSlow: (name: string) => void
  readonly #starting = new Map<keyof P, Promise<unknown>>()
  readonly #started = new Map<keyof P, unknown>()
  #hasFailed = false
  #stopping: Promise<void> | null = null

  constructor(table: ComponentTable<P, C>, context: C, onSlow: (name: string) => void) {
    this.#table = table
    this.#context = context
    this.#onSlow = onSlow
  }

  /** Resolves when every component runs; rejects with the first error, after all have stopped. */
  async start(): Promise<P> {
    const names = Object.keys(this.#table) as (keyof P)[]
    const starts = names.map((name) => this.#start(name))
    try {
      await Promise.all(starts)
    } catch (error) {
      this.#hasFailed = true
      await Promise.allSettled(starts)
      // The error of the start is reported, not those of the stops.
      await this.stop().catch(() => {})
      throw error
    }
    // Reason for the cast: an entry per row, each of the row's type.
    return Object.fromEntries(this.#started) as P
  }

  /** Stops every component. Calls after the first share its outcome. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll()
    return this.#stopping
  }

  #start(name: keyof P): Promise<unknown> {
    let starting = this.#starting.get(name)
    if (starting === undefined) {
      starting = this.#startAfterReads(name)
      this.#starting.set(name, starting)
    }
    return starting
  }

  async #startAfterReads(name: keyof P): Promise<unknown> {
    const row = this.#table[name]
    const reads = row.reads as readonly (keyof P)[]
    const values = await Promise.all(reads.map((read) => this.#start(read)))
    // Only what the row declares is passed, so that the table cannot be wrong about it.
    const read = Object.fromEntries(reads.map((read, index) => [read, values[index]]))
    if (this.#hasFailed) return null
    const isEnabled = row.isEnabled?.(this.#context) ?? true
    const value = isEnabled ? await row.start(this.#context, read as never) : null
    this.#started.set(name, value)
    return value
  }

  /** A component that fails to stop (a full disk) does not keep the others from stopping. */
  async #stopAll(): Promise<void> {
    const faults: unknown[] = []
    for (const name of (Object.keys(this.#table) as (keyof P)[]).reverse()) {
      const stop = this.#stopOf(name)
      if (stop === null) continue
      let timer: NodeJS.Timeout | undefined
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          this.#onSlow(String(name))
          resolve()
        }, stopMsMax)
      })
      try {
        await Promise.race([stop(), timeout])
      } catch (error) {
        faults.push(error)
      } finally {
        clearTimeout(timer)
      }
    }
    if (faults.length > 0) throw faults[0]
  }

  #stopOf(name: keyof P): (() => void | Promise<void>) | null {
    const value = this.#started.get(name)
    const { stop } = this.#table[name]
    if (stop !== undefined && value != null) return () => stop(value as P[keyof P])
    return isStoppable(value) ? () => value.stop() : null
  }
}

interface Stoppable {
  stop(): void | Promise<void>
}

function isStoppable(value: unknown): value is Stoppable {
  return typeof value === 'object' && value !== null && 'stop' in value
}
