// The interface of a log of numbered frames that several processes append to, one at a time, under
// a lease; of leases; and what is known of a frame's event besides it.

export interface Lease {
  readonly name: string
  /** Grows by one with each new holder: what the lease guards checks it. */
  readonly term: number
  /** On the holder's own monotonic clock: after it the lease must not be used. */
  readonly untilMs: number
}

/** What one holder may do at a time. Rows with the server's clock: a stopped holder loses it. */
export interface Leases {
  /** Renews what this gateway has of `names`, and takes free ones until it has `max`. */
  hold(names: readonly string[], ttlMs: number, max: number): Promise<readonly Lease[]>
  giveBack(name: string): Promise<void>
}

/** Name of the lease that appends are fenced by. */
export const eventsLease = 'events'
/** Numbers that a new run leaves out: no cursor of the last run can be one of its own. */
export const runJump = 65_536

export interface LogHead {
  readonly run: string
  /** Number of the next frame. */
  readonly next: number
}

/** The head, and where the frames begin that end there and follow each other. */
export interface LogStart extends LogHead {
  /** `next` where there is none, as in a run that has just begun. */
  readonly first: number
}

export interface LogFrame {
  readonly seq: number
  readonly frame: Buffer
}

/** Fields of the source event that its frame does not contain. */
export interface FrameFacts {
  readonly blockNumber: number
  /** Time of the event by the source's clock: nanoseconds since 1970. */
  readonly atNs: bigint
  /** Identifies the event at every source of the chain: the block's id, and the stage of a move. */
  readonly key?: string
  /** The block that ended; with ContentionData only. */
  readonly block?: {
    readonly blockHash: string
    readonly ethHash: string
    readonly txCount: number
    readonly gasUsed: number
    readonly startedNs: bigint
  }
}

export interface SharedLog {
  head(): Promise<LogHead>
  /** Where to begin to read at most `frames` of the newest: numbers before it have a hole. */
  start(frames: number): Promise<LogStart>
  /** At most `max` frames after that number, in order. */
  after(seq: number, max: number): Promise<readonly LogFrame[]>
  /** False when the term is over or the number is taken: nothing was appended. */
  append(lease: Lease, first: number, frames: readonly Uint8Array[]): Promise<boolean>
  /**
   * Starts another run when the log ends below that number in this one: it lost frames. Needs no
   * lease: whoever has a frame of this run with a higher number has proved it.
   */
  renumber(run: string, floor: number): Promise<void>
  /** Calls `notify` when frames may have been added; returns the function that ends it. */
  onNews(notify: () => void): () => void
}
