// A host with PostgreSQL: sessions, its log of commits, crashes and recovery.
// A commit that waits for a synchronous standby is on the disk of its host, invisible to others,
// holds its locks, and outlives its session: that is how PostgreSQL does it.
import { type Commit, Locks, Tables, Transaction } from './database.ts'
import type { Path, Peer } from './network.ts'
import { runStatement } from './statements.ts'
import {
  answer,
  Frontend,
  failed,
  failure,
  greeting,
  nothing,
  notification,
  type Received,
  type Rows,
  SqlError,
  type Statement,
} from './wire.ts'

export type Role = 'primary' | 'standby' | 'down'

const flushMs = 1
/** Its clock, which steps of the gateways' clocks leave alone. */
const startMs = 1_700_000_000_000

export class Host {
  readonly name: string
  role: Role
  tables = new Tables()
  locks = new Locks()
  /** Commits on its disk, in order. */
  wal: Commit[] = []
  /** As many of them are visible. */
  visible = 0
  /** Milliseconds that its clock differs. */
  skewMs = 0
  /** Its sessions answer nothing before. */
  stalledUntilMs = 0
  /** Statements that the simulation does not know: a defect of the simulation. */
  readonly problems: string[] = []
  onFlushed: () => void = () => {}
  readonly #sessions = new Set<ServerSession>()
  #waiting: { lsn: number; finish: () => void }[] = []
  #life = 0

  readonly isSynchronous: boolean
  /** Grows with each promotion. */
  timeline = 1

  constructor(name: string, role: Role, isSynchronous: boolean) {
    this.name = name
    this.role = role
    this.isSynchronous = isSynchronous
  }

  accept(path: Path): Peer | null {
    if (this.role === 'down') return null
    const session = new ServerSession(this, path)
    this.#sessions.add(session)
    return session
  }

  begin(): Transaction {
    return new Transaction(this.tables, this.locks, {
      nowMs: () => startMs + performance.now() + this.skewMs,
      origin: () => `system/${this.timeline}`,
      isSynchronous: this.isSynchronous,
    })
  }

  /** Resolves when the commit is durable and visible; never when the host crashed before. */
  commit(transaction: Transaction): Promise<void> {
    if (!transaction.isLogged) {
      // Nothing to write to the log, and nobody to wait for.
      this.#show(transaction.commit)
      transaction.release()
      return Promise.resolve()
    }
    const life = this.#life
    return new Promise((resolve) => {
      setTimeout(() => {
        if (this.#life !== life) return
        this.wal.push(transaction.commit)
        const finish = () => {
          this.#show(transaction.commit)
          transaction.release()
          resolve()
        }
        this.#waiting.push({ lsn: this.wal.length, finish })
        this.onFlushed()
      }, flushMs)
    })
  }

  /** Commits up to that one are where they must be. */
  acknowledge(lsn: number): void {
    while (this.#waiting[0] !== undefined && this.#waiting[0].lsn <= lsn) {
      this.visible = this.#waiting[0].lsn
      this.#waiting.shift()!.finish()
    }
  }

  /** Commits that wait for a standby. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** A standby writes and applies what the primary sent. */
  receive(commits: readonly Commit[]): void {
    for (const commit of commits) {
      this.wal.push(commit)
      this.tables.apply(commit, true)
      this.visible = this.wal.length
    }
  }

  /** The process is gone; what its disk has stays. */
  crash(): void {
    this.#life++
    this.role = 'down'
    this.#waiting = []
    for (const session of this.#sessions) session.kill()
    this.#sessions.clear()
  }

  /** Starts from a log: all that is in it is visible. */
  recover(role: Role, wal: readonly Commit[] = this.wal): void {
    this.role = role
    this.wal = []
    this.tables = new Tables()
    this.locks = new Locks()
    this.visible = 0
    this.receive(wal)
  }

  left(session: ServerSession): void {
    this.#sessions.delete(session)
  }

  #show(commit: Commit): void {
    this.tables.apply(commit, false)
    for (const [channel, payload] of commit.notified)
      for (const session of this.#sessions) session.notify(channel, payload)
  }
}

/** The server's process of one connection. */
class ServerSession implements Peer {
  readonly #host: Host
  readonly #path: Path
  readonly #frontend = new Frontend()
  readonly #channels = new Set<string>()
  readonly #messages: Received[] = []
  #settings: ReadonlyMap<string, string> = new Map()
  #transaction: Transaction | null = null
  #hasFailed = false
  #isBusy = false
  #isGone = false
  #idle: NodeJS.Timeout | undefined

  constructor(host: Host, path: Path) {
    this.#host = host
    this.#path = path
  }

  receive(chunk: Buffer): void {
    if (this.#isGone) return
    this.#messages.push(...this.#frontend.read(chunk))
    void this.#work()
  }

  /** A backend notices when it next reads: not while a statement runs. */
  ended(): void {
    this.#isGone = true
    if (!this.#isBusy) this.#end()
  }

  kill(): void {
    this.#isGone = true
    clearTimeout(this.#idle)
    this.#path.reset()
  }

  notify(channel: string, payload: string): void {
    if (this.#channels.has(channel)) this.#path.respond(notification(channel, payload))
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return
    this.#isBusy = true
    clearTimeout(this.#idle)
    for (;;) {
      const message = this.#messages.shift()
      if (message === undefined || this.#isGone) break
      const stallMs = this.#host.stalledUntilMs - performance.now()
      if (stallMs > 0) await new Promise((resolve) => setTimeout(resolve, stallMs))
      const response = await this.#respond(message)
      if (response === null) this.#isGone = true
      else if (!this.#isGone) this.#path.respond(response)
    }
    this.#isBusy = false
    if (this.#isGone) return this.#end()
    const idleMs = Number(this.#settings.get('idle_in_transaction_session_timeout') ?? 0)
    if (this.#transaction !== null && idleMs > 0)
      this.#idle = setTimeout(() => this.#expire(), idleMs)
  }

  #expire(): void {
    this.#isGone = true
    this.#path.respond(failed('25P03', 'idle-in-transaction timeout'))
    this.#path.reset()
    this.#end()
  }

  async #respond(message: Received): Promise<Buffer | null> {
    if (message.kind === 'terminate') return null
    if (message.kind === 'startup') {
      this.#settings = message.settings
      this.#path.name = message.settings.get('application_name') ?? ''
      return greeting()
    }
    const { statement, isPrepared } = message
    try {
      const rows = await this.#run(statement)
      return answer(rows, isPrepared, this.#transaction === null ? 'I' : 'T')
    } catch (error) {
      if (!(error instanceof SqlError)) this.#host.problems.push(String(error))
      this.#hasFailed = this.#transaction !== null
      this.#transaction?.release()
      const sql = error instanceof SqlError ? error : new SqlError('XX000', String(error))
      return failure(sql, this.#hasFailed ? 'E' : 'I')
    }
  }

  async #run(statement: Statement): Promise<Rows> {
    const [word = ''] = statement.text.trim().split(/\s+/)
    if (word === 'SET') return nothing
    if (word === 'SHOW') {
      const isReadOnly = this.#host.role === 'standby'
      return {
        columns: [['transaction_read_only', 'text']],
        rows: [[isReadOnly ? 'on' : 'off']],
      }
    }
    if (word === 'LISTEN') {
      this.#channels.add(statement.text.split(' ')[1]!)
      return nothing
    }
    if (word === 'ROLLBACK') return this.#rollBack()
    if (word === 'COMMIT') return await this.#commit()
    if (this.#hasFailed) throw new SqlError('25P02', 'current transaction is aborted')
    if (word === 'BEGIN') {
      this.#transaction = this.#host.begin()
      return nothing
    }
    if (this.#transaction !== null) return await this.#bounded(this.#transaction, statement)
    return await this.#alone(statement)
  }

  /** A statement outside of a transaction is one. */
  async #alone(statement: Statement): Promise<Rows> {
    const transaction = this.#host.begin()
    try {
      const rows = await this.#bounded(transaction, statement)
      await this.#host.commit(transaction)
      return rows
    } catch (error) {
      transaction.release()
      throw error
    }
  }

  /** Waiting for locks is bounded, waiting for a standby is not. */
  #bounded(transaction: Transaction, statement: Statement): Promise<Rows> {
    const boundMs = Number(this.#settings.get('statement_timeout') ?? 0)
    return new Promise((resolve, reject) => {
      const cancel = () => reject(new SqlError('57014', 'statement timeout'))
      const timer = boundMs > 0 ? setTimeout(cancel, boundMs) : undefined
      const run = async () => await runStatement(transaction, statement)
      run()
        .then(resolve, reject)
        .finally(() => clearTimeout(timer))
    })
  }

  async #commit(): Promise<Rows> {
    const transaction = this.#transaction
    if (transaction === null || this.#hasFailed) return this.#rollBack()
    // It is the host's from here on: the end of the session does not end it.
    this.#transaction = null
    await this.#host.commit(transaction)
    return nothing
  }

  #rollBack(): Rows {
    this.#transaction?.release()
    this.#transaction = null
    this.#hasFailed = false
    return nothing
  }

  #end(): void {
    clearTimeout(this.#idle)
    this.#rollBack()
    this.#host.left(this)
  }
}
