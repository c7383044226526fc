// Forwards accepted transactions to upstreams and tracks each one until it ends.
//
//   take -> send to all upstreams in parallel -> every 2 s: query its status -> resend
//     `-> queue while none is healthy            hub: it is in a confirmed block -> end
//
// Every submission ends exactly once: landed (in a confirmed block, and it succeeded), expired (its
// blockhash did, or two minutes passed where that is unknown) or failed (in a confirmed block with
// an error, refused by all upstreams, or accepted by none). Until then it is resent: a block that
// is only processed may be skipped or lose its fork. Nothing is dropped without being counted.
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { accept, type Outcome, type Refusal } from '../../base/errors.ts'
import { encodeBase58, keyOf } from '../../chain/solana/base58.ts'
import type { SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub } from '../../streams/hub/hub.ts'
import type { Fate, TransactionSender } from '../../upstream/ports.ts'
import type { Ending, ForwardState, TpuMeters } from './meters.ts'
import { busy, chainRefusal, noUpstream } from './refusals.ts'

/** Where the spec is silent: resend policy. */
const resendMs = 2_000
/** While its blockhash is unknown: a durable nonce, no chain of ours, no stream that shows it. */
const lifeMs = 120_000
const queuedMax = 10_000
const inFlightMax = 100_000
const tickMs = 250
/** Sent from the queue, or reviewed, per tick: up to 16,000 in flight are reviewed every 2 s. */
const perTickMax = 2_000

/** Where transactions go, and the chain on which they land. */
export interface TpuUpstream {
  /** At least one; stopped together with the endpoint. */
  readonly senders: readonly TransactionSender[]
  /** Publishes the transactions of blocks; null when no chain of ours receives them. */
  readonly hub: Hub<SolanaUpdate> | null
  /** Newest slot, and whether a blockhash is valid after the confirmed block; null when unknown. */
  readonly slot: () => number | null
  readonly isBlockhashValid: (blockhash: Uint8Array) => boolean | null
}

export interface ForwardDeps extends TpuUpstream {
  readonly whenDown: 'refuse' | 'queue'
  readonly wait: boolean
  readonly meters: TpuMeters
  readonly tips: TipLog
  readonly clock: Clock
}

export class Forwarder implements ForwardState {
  readonly #deps: ForwardDeps
  /** By signature, in the order of their next review. */
  readonly #live = new Map<string, Submission>()
  readonly #queued = new Map<string, Submission>()
  #timer: NodeJS.Timeout | null = null
  #unlisten = () => {}
  #review: Promise<void> | null = null

  constructor(deps: ForwardDeps) {
    this.#deps = deps
  }

  start(): void {
    this.#timer = setInterval(() => this.tick(), tickMs).unref()
    this.#unlisten =
      this.#deps.hub?.listen(
        (commitment, update) => this.#onUpdate(commitment, update),
        (commitment) => commitment === Commitment.confirmed && this.#live.size > 0,
      ) ?? (() => {})
  }

  get isUp(): boolean {
    return this.#deps.senders.some((sender) => sender.isUp())
  }

  inFlight(): number {
    return this.#live.size
  }

  queued(): number {
    return this.#queued.size
  }

  upstreamsUp(): number {
    return this.#up().length
  }

  has(signature: Uint8Array): boolean {
    return this.#live.has(keyOf(signature))
  }

  /** Why it takes no submission now. */
  refusal() {
    const { isUp } = this
    if (!isUp && this.#deps.whenDown === 'refuse') return noUpstream
    return this.#live.size >= inFlightMax || (!isUp && this.#queued.size >= queuedMax) ? busy : null
  }

  /**
   * Accepts a submission, or refuses it. The outcome is immediate; with `wait` it follows the first
   * success of an upstream, or the refusal of all of them.
   */
  take(submission: Submission): Outcome<null> | Promise<Outcome<null>> {
    const { clock, isBlockhashValid, slot, wait } = this.#deps
    const refused = this.refusal()
    if (refused !== null) return refused
    submission.slot = slot()
    const nowMs = clock.monotonicMs()
    if (isBlockhashValid(submission.blockhash) === true) submission.validMs = nowMs
    submission.dueMs = nowMs + resendMs
    const name = keyOf(submission.signature)
    this.#live.set(name, submission)
    if (!this.isUp) {
      this.#queued.set(name, submission)
      return accept(null)
    }
    const sent = this.#send(submission)
    return wait ? sent : accept(null)
  }

  /** Sends queued submissions and reviews those that are due. */
  tick(): void {
    this.#sendQueued()
    this.#review ??= this.#reviewDue().finally(() => {
      this.#review = null
    })
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#unlisten()
    for (const submission of [...this.#live.values()]) this.#end(submission, 'failed', 'SHUTDOWN')
    await Promise.all(this.#deps.senders.map((sender) => sender.stop()))
  }

  #sendQueued(): void {
    if (!this.isUp) return
    let left = perTickMax
    for (const [name, submission] of this.#queued) {
      if (left-- === 0) return
      this.#queued.delete(name)
      void this.#send(submission)
    }
  }

  #up(): readonly TransactionSender[] {
    return this.#deps.senders.filter((sender) => sender.isUp())
  }

  /** One attempt on all healthy upstreams in parallel. Resolves with the first success, if any. */
  #send(submission: Submission): Promise<Outcome<null>> {
    submission.tries++
    submission.isSending = true
    const { meters } = this.#deps
    return new Promise((resolve) => {
      const sends = this.#up().map(async (sender) => {
        const outcome = await sender.send(submission.bytes)
        if (outcome.ok) {
          meters.sends.ok.inc()
          submission.isReached = true
          resolve(outcome)
        } else meters.sends[outcome.refusal.kind === 'rejected' ? 'refused' : 'unavailable'].inc()
        return outcome
      })
      void Promise.all(sends).then((outcomes) => {
        submission.isSending = false
        resolve(this.#judge(submission, outcomes))
      })
    })
  }

  /** Outcome of an attempt that no upstream accepted. */
  #judge(submission: Submission, outcomes: readonly Outcome<null>[]): Outcome<null> {
    if (submission.isOver || submission.isReached) return accept(null)
    const refusals = outcomes.flatMap((outcome) => (outcome.ok ? [] : [outcome.refusal]))
    const isRefused = (refusal: Refusal) =>
      refusal.kind === 'rejected' || refusal.kind === 'invalid'
    if (refusals.length > 0 && refusals.every(isRefused)) {
      const refused = chainRefusal(refusals[0]!)
      this.#end(submission, 'failed', refused.refusal.code)
      return refused
    }
    const { whenDown, wait } = this.#deps
    if (whenDown === 'queue' && !this.isUp && this.#queued.size < queuedMax) {
      submission.tries--
      this.#queued.set(keyOf(submission.signature), submission)
      return accept(null)
    }
    // A caller that waits gets the refusal and may retry; for others, and with a queue, we do.
    const isOurs = whenDown === 'queue' || !wait
    if (isOurs && submission.tries < submission.triesMax) return accept(null)
    this.#end(submission, 'failed', noUpstream.refusal.code)
    return noUpstream
  }

  #onUpdate(commitment: Commitment, update: SolanaUpdate): void {
    if (commitment !== Commitment.confirmed || update.kind !== 'transaction') return
    if (this.#live.size === 0) return
    const submission = this.#live.get(keyOf(update.signature))
    if (submission === undefined) return
    this.#land(submission, { slot: update.slot, isSuccess: update.err === null })
  }

  async #reviewDue(): Promise<void> {
    const due = this.#takeDue()
    if (due.length === 0) return
    const signatures = due.map(({ signature }) => signature)
    const fates = await Promise.all(this.#up().map((sender) => sender.fates(signatures)))
    const nowMs = this.#deps.clock.monotonicMs()
    for (const [index, submission] of due.entries()) {
      if (submission.isOver) continue
      const fate = fates.map((list) => list[index]).find((found) => found)
      if (fate) this.#land(submission, fate)
      else if (this.#isExpired(submission, nowMs)) this.#end(submission, 'expired', 'EXPIRED')
      else if (submission.isSending || this.#queued.has(keyOf(submission.signature))) continue
      else if (submission.tries < submission.triesMax) void this.#send(submission)
    }
  }

  /** Returns the submissions that are due; each moves to the end, due 2 s later. */
  #takeDue(): Submission[] {
    const nowMs = this.#deps.clock.monotonicMs()
    const due: Submission[] = []
    for (const [name, submission] of this.#live) {
      if (submission.dueMs > nowMs || due.length === perTickMax) break
      submission.dueMs = nowMs + resendMs
      this.#live.delete(name)
      due.push(submission)
    }
    for (const submission of due) this.#live.set(keyOf(submission.signature), submission)
    return due
  }

  /** By the confirmed block: what landed in time is confirmed before its blockhash expires. */
  #isExpired(submission: Submission, nowMs: number): boolean {
    const isValid = this.#deps.isBlockhashValid(submission.blockhash)
    if (isValid === true) submission.validMs = nowMs
    else if (isValid === false && submission.validMs !== null) return true
    return nowMs - (submission.validMs ?? submission.takenMs) >= lifeMs
  }

  #land(submission: Submission, { slot, isSuccess }: Fate): void {
    if (submission.isOver) return
    const { meters, clock } = this.#deps
    meters.landSeconds.observe((clock.monotonicMs() - submission.takenMs) / 1000)
    if (isSuccess) meters.tipsLanded.inc(submission.tipLamports)
    if (submission.slot !== null) meters.landSlots.observe(Math.max(0, slot - submission.slot))
    if (isSuccess) this.#end(submission, 'landed', '', slot)
    else this.#end(submission, 'failed', 'ON_CHAIN_ERROR', slot)
  }

  #end(submission: Submission, outcome: Ending, reason: string, landedSlot = 0): void {
    if (submission.isOver) return
    submission.isOver = true
    const name = keyOf(submission.signature)
    this.#live.delete(name)
    this.#queued.delete(name)
    if (outcome === 'failed' && !submission.isReached) submission.onUnsent()
    this.#deps.meters.endings[outcome].inc()
    this.#deps.tips.add(submission, { outcome, reason, landedSlot })
  }
}

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
  /** When its blockhash was last seen valid: that of a durable nonce is not, and never expires. */
  validMs: number | null
  tries: number
  /** Unlimited unless its sender said how often. */
  readonly triesMax: number
  /** True once an upstream accepted it. */
  isReached: boolean
  isSending: boolean
  isOver: boolean
  dueMs: number
  /** Called when it fails and no upstream has accepted it: its sender may submit it anew. */
  onUnsent: () => void
}

export function submissionOf(accepted: Accepted & Pick<Submission, 'triesMax'>): Submission {
  return {
    ...accepted,
    slot: null,
    validMs: null,
    tries: 0,
    isReached: false,
    isSending: false,
    isOver: false,
    dueMs: 0,
    onUnsent: () => {},
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
