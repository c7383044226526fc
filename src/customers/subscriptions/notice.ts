// Declares the notices to the operator's receiver.

/** What the operator's receiver gets, as JSON. */
export interface Notice {
  /** Made of what it says: the same at every gateway and in every attempt. */
  readonly id: string
  readonly type: 'quota' | 'ends-soon' | 'ended'
  readonly subscription: string
  readonly label: string
  readonly [fact: string]: string | number
}

export interface StoredNotice {
  readonly notice: Notice
  readonly atMs: number
  /** Null while it waits. */
  readonly sentMs: number | null
}

/** Waiting at once; while more are due, the newest are not stored, and are due again later. */
export const waitingMax = 1_000
