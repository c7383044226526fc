// The tables of a simulated PostgreSQL: transactions at READ COMMITTED, row locks, advisory locks.
// A transaction writes into its own layer; a commit appends the layer to the log of its host, and
// is visible to others only when the host says so. Locks are held until then.
import { type Rows, SqlError } from './wire.ts'

type Layer = Map<string, Map<string, unknown>>

/** What a transaction committed. */
export interface Commit {
  readonly writes: Layer
  readonly notified: readonly (readonly [channel: string, payload: string])[]
}

/** Emptied by a crash of the host, and absent from its standbys. */
const unlogged: ReadonlySet<string> = new Set(['budgets'])

export class Tables {
  readonly #rows: Layer = new Map()

  apply({ writes }: Commit, isReplay: boolean): void {
    for (const [table, rows] of writes) {
      if (isReplay && unlogged.has(table)) continue
      for (const [key, row] of rows) {
        if (row === undefined) this.of(table).delete(key)
        else this.of(table).set(key, row)
      }
    }
  }

  of(table: string): Map<string, unknown> {
    const rows = this.#rows.get(table)
    if (rows !== undefined) return rows
    const fresh = new Map<string, unknown>()
    this.#rows.set(table, fresh)
    return fresh
  }
}

interface Waiter {
  readonly transaction: Transaction
  readonly grant: () => void
}

export class Locks {
  readonly #holders = new Map<string, Transaction>()
  readonly #waiters = new Map<string, Waiter[]>()

  /** Resolves when the transaction holds it; never when it ended before. */
  take(name: string, transaction: Transaction): Promise<void> | null {
    const holder = this.#holders.get(name)
    if (holder === transaction) return null
    if (holder === undefined) {
      this.#holders.set(name, transaction)
      return null
    }
    return new Promise((grant) => {
      this.#waiters.set(name, [...(this.#waiters.get(name) ?? []), { transaction, grant }])
    })
  }

  /** Whether the transaction waits for one that another holds. */
  isFree(name: string, transaction: Transaction): boolean {
    const holder = this.#holders.get(name)
    return holder === undefined || holder === transaction
  }

  release(transaction: Transaction): void {
    for (const [name, waiting] of this.#waiters)
      this.#waiters.set(
        name,
        waiting.filter((waiter) => waiter.transaction !== transaction),
      )
    for (const [name, holder] of this.#holders) {
      if (holder !== transaction) continue
      const next = this.#waiters.get(name)?.shift()
      if (next === undefined) this.#holders.delete(name)
      else {
        this.#holders.set(name, next.transaction)
        next.grant()
      }
    }
  }
}

/** What functions of SQL know of their server. */
export interface ServerFacts {
  /** Milliseconds since 1970. */
  nowMs(): number
  /** System identifier and timeline, which grows with each promotion. */
  origin(): string
  /** Commits wait for a standby. */
  readonly isSynchronous: boolean
}

export class Transaction {
  readonly #tables: Tables
  readonly #locks: Locks
  readonly #writes: Layer = new Map()
  readonly #notified: [string, string][] = []
  readonly server: ServerFacts

  constructor(tables: Tables, locks: Locks, server: ServerFacts) {
    this.#tables = tables
    this.#locks = locks
    this.server = server
  }

  get commit(): Commit {
    return { writes: this.#writes, notified: this.#notified }
  }

  /** Whether a standby gets anything of it. */
  get isLogged(): boolean {
    return [...this.#writes.keys()].some((table) => !unlogged.has(table))
  }

  read(table: string, key: string): unknown {
    const written = this.#writes.get(table)
    return written?.has(key) ? written.get(key) : this.#tables.of(table).get(key)
  }

  /** Keys and rows of a table. */
  scan(table: string): [string, unknown][] {
    const rows = new Map([...this.#tables.of(table), ...(this.#writes.get(table) ?? [])])
    return [...rows].filter(([, row]) => row !== undefined)
  }

  /** Waits for whoever holds the row, and reads what was committed last. */
  async lock(table: string, key: string): Promise<unknown> {
    await this.#locks.take(`${table}/${key}`, this)
    return this.read(table, key)
  }

  /** Whether `lock` would not wait: for SKIP LOCKED. */
  isFree(table: string, key: string): boolean {
    return this.#locks.isFree(`${table}/${key}`, this)
  }

  async write(table: string, key: string, row: unknown): Promise<void> {
    await this.#locks.take(`${table}/${key}`, this)
    const rows = this.#writes.get(table) ?? new Map<string, unknown>()
    rows.set(key, row)
    this.#writes.set(table, rows)
  }

  /** Of a row that must not be there. */
  async insert(table: string, key: string, row: unknown): Promise<void> {
    if ((await this.lock(table, key)) !== undefined)
      throw new SqlError('23505', `duplicate key value violates ${table}_pkey`)
    await this.write(table, key, row)
  }

  notify(channel: string, payload: string): void {
    this.#notified.push([channel, payload])
  }

  release(): void {
    this.#locks.release(this)
  }
}

/** Runs a statement with its parameters. */
export type Run = (
  transaction: Transaction,
  values: readonly (string | null)[],
) => Rows | Promise<Rows>
