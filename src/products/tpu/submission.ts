// Tracks an accepted transaction until it lands, expires or fails; logs the outcome.
import { encodeBase58 } from '../../chain/solana/base58.ts'
import type { Ending } from './meters.ts'

/** An accepted transaction. */
interface Accepted {
  /** The whole transaction; a copy that outlives the request. */
  readonly bytes: Uint8Array
  /** SHA-256 of the bytes. */
  readonly digest: string
  readonly signature: Uint8Array
  readonly feePayer: Uint8Array
  readonly blockhash: Uint8Array
  readonly tipAccount: string
  readonly tipLamports: number
  /** Wall time, for reports. */
  readonly receivedAtMs: number
  /** Monotonic. */
  readonly takenMs: number
}

export interface Submission extends Accepted {
  /** Newest slot when it was accepted; null when unknown. */
  slot: number | null
  /** Whether its blockhash was seen valid: that of a durable nonce is not, and never expires. */
  hasLiveBlockhash: boolean
  tries: number
  /** Unlimited unless its sender said how often. */
  readonly triesMax: number
  /** True once an upstream accepted it. */
  isReached: boolean
  isSending: boolean
  isOver: boolean
  dueMs: number
}

export function submissionOf(accepted: Accepted & Pick<Submission, 'triesMax'>): Submission {
  return {
    ...accepted,
    slot: null,
    hasLiveBlockhash: false,
    tries: 0,
    isReached: false,
    isSending: false,
    isOver: false,
    dueMs: 0,
  }
}

/** A row of the `tips` table, and of `sluice tips`. */
export interface TipRow {
  readonly receivedAtMs: number
  readonly signature: string
  readonly feePayer: string
  readonly tipAccount: string
  readonly lamports: bigint
  readonly outcome: Ending | 'rejected'
  /** '' when it landed. */
  readonly reason: string
  /** 0 when it is in no block. */
  readonly landedSlot: number
}

/** Keeps the last outcomes and notifies listeners of new ones. */
export class TipLog {
  readonly #rows: TipRow[] = []
  readonly #listeners = new Set<(row: TipRow) => void>()
  #next = 0

  add(submission: Submission, end: Pick<TipRow, 'outcome' | 'reason' | 'landedSlot'>): void {
    const row: TipRow = {
      receivedAtMs: submission.receivedAtMs,
      signature: encodeBase58(submission.signature),
      feePayer: encodeBase58(submission.feePayer),
      tipAccount: submission.tipAccount,
      lamports: BigInt(submission.tipLamports),
      ...end,
    }
    this.#rows[this.#next] = row
    this.#next = (this.#next + 1) % rowsMax
    for (const listener of this.#listeners) listener(row)
  }

  listen(listener: (row: TipRow) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The last `count` rows, newest first. */
  last(count: number): TipRow[] {
    const older = this.#rows.slice(0, this.#next)
    const newer = this.#rows.slice(this.#next)
    return [...newer, ...older].slice(-Math.min(count, rowsMax)).reverse()
  }
}

/** Outcomes kept for `sluice tips`. */
const rowsMax = 1_000
