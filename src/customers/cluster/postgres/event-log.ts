// The shared event log: frames under consecutive numbers, appended by the holder of one lease.
// An append is one statement. It is fenced by the lease's term and by the next number, so that a
// gateway whose time is over, or that repeats a number, changes nothing. Frames lie in partitions
// of 100,000 numbers, which are dropped whole.
//
// A promoted standby or a restored copy may lack the newest frames, which clients already have. It
// has another timeline (or system identifier) than the last append: unless that append waited for a
// synchronous standby, a new run begins above all numbers, whether a gateway remembers them or not.
import { Fault } from '../../../base/errors.ts'
import type { Lease, LogFrame, LogHead, LogStart, SharedLog } from '../../../base/shared-log.ts'
import type { PostgresConnection } from './client.ts'

const channel = 'events'

export class PostgresEventLog implements SharedLog {
  readonly #connection: PostgresConnection
  readonly #holder: string

  /** On the connection that renews the lease. */
  constructor(connection: PostgresConnection, holder: string) {
    this.#connection = connection
    this.#holder = holder
  }

  async head(): Promise<LogHead> {
    const [head] = await this.#connection.poll<LogHead>('SELECT run, next FROM event_head')
    if (head === undefined) throw headless()
    return head
  }

  async start(frames: number): Promise<LogStart> {
    const [start] = await this.#connection.query<LogStart>(
      `WITH head AS (SELECT run, next FROM event_head),
       numbers AS (
         SELECT seq FROM event_frames WHERE seq >= (SELECT next FROM head) - $1
         UNION ALL SELECT next FROM head
       ),
       steps AS (SELECT seq, lag(seq) OVER (ORDER BY seq) AS before FROM numbers)
       SELECT run, next,
         (SELECT max(seq) FROM steps WHERE before IS DISTINCT FROM seq - 1) AS first FROM head`,
      [frames],
    )
    if (start === undefined) throw headless()
    return start
  }

  after(seq: number, max: number): Promise<readonly LogFrame[]> {
    return this.#connection.query<LogFrame>(
      'SELECT seq, frame FROM event_frames WHERE seq > $1 ORDER BY seq LIMIT $2',
      [seq, max],
    )
  }

  async append(lease: Lease, first: number, frames: readonly Uint8Array[]): Promise<boolean> {
    const [row] = await this.#connection.query<{ done: boolean }>(
      'SELECT append_events($1, $2, $3, $4) AS done',
      [lease.term, this.#holder, first, frames],
    )
    return row!.done
  }

  async renumber(run: string, floor: number): Promise<void> {
    await this.#connection.query('SELECT renumber_events($1, $2)', [run, floor])
  }

  onNews(notify: () => void): () => void {
    return this.#connection.listen(channel, notify)
  }
}

function headless(): Fault {
  return new Fault('cluster', 'the table event_head of the database has no row')
}
