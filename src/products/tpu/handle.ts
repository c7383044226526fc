// Decides on each submission: takes a transaction's bytes, returns its signature or a refusal.
// Thread: main; signatures are verified in workers. No sockets.
//
//   size, decode -> tip -> duplicate -> address rate | verify workers | fee payer rate -> forward
//
// Everything before the workers is synchronous and costs a few microseconds: a bad tip is found
// before anything else is done. A forged copy of another caller's transaction uses up only the rate
// of the address that sent it.
import { hash } from 'node:crypto'
import { addressKey } from '../../base/cidr.ts'
import type { Clock } from '../../base/clock.ts'
import { accept, type Outcome, type Refusal } from '../../base/errors.ts'
import { encodeBase58, keyOf } from '../../chain/solana/base58.ts'
import { TransactionLayout } from '../../chain/solana/transaction.ts'
import { Rates } from '../../customers/quota/rates.ts'
import { type Forwarder, type Submission, submissionOf, type TipLog } from './forward.ts'
import type { TpuMeters } from './meters.ts'
import { badSignature, busy, decodeRefusal, rateRefusal, tipRefusal } from './refusals.ts'
import { minimumTipLamports, type TipAccounts, TipCheck } from './tip.ts'

/** Where the spec is silent: rate limits. An address is an IPv4 address or an IPv6 /64. */
const addressRate = { perSecond: 50, burst: 100 }
const feePayerRate = { perSecond: 50, burst: 50 }

/** The sender, and when the request began. The address is only read before an await. */
export interface Sender {
  readonly address: string
  readonly beganMs: number
}

export interface TpuHandlerDeps {
  readonly accounts: TipAccounts
  readonly verifier: { verify(bytes: Uint8Array): Promise<Outcome<boolean>> }
  readonly forwarder: Pick<Forwarder, 'take' | 'refusal' | 'has'>
  readonly meters: TpuMeters
  readonly tips: TipLog
  readonly clock: Clock
}

/** The result of a dry run. */
export interface Checked {
  readonly accepted: boolean
  readonly reason?: string
  readonly requiredLamports: number
  readonly foundLamports: number
  readonly signature: string | null
}

type Answer = Outcome<string>

export class TpuHandler {
  readonly #deps: TpuHandlerDeps
  readonly #layout = new TransactionLayout({ v1: true })
  readonly #tip = new TipCheck()
  readonly #duplicates = new Duplicates()
  /** Submissions in verification, by digest: duplicates wait for the same result. */
  readonly #pending = new Map<string, Promise<Answer>>()
  readonly #addresses = new Rates(addressRate)
  readonly #payers = new Rates(feePayerRate)

  constructor(deps: TpuHandlerDeps) {
    this.#deps = deps
  }

  /** Returns the base58 signature. Reads `bytes` only during the call. Never throws or rejects. */
  submit(
    bytes: Uint8Array,
    sender: Sender,
    maxRetries = Number.POSITIVE_INFINITY,
  ): Answer | Promise<Answer> {
    const refusal = this.#look(bytes)
    if (refusal !== null) return this.#refuse(refusal)
    const { clock, meters } = this.#deps
    const nowMs = clock.monotonicMs()
    const digest = digestOf(bytes)
    if (this.#duplicates.has(digest, nowMs)) {
      meters.duplicates.inc()
      return accept(this.#signature(bytes))
    }
    const pending = this.#pending.get(digest)
    if (pending !== undefined) {
      meters.duplicates.inc()
      return pending
    }
    const waitMs = this.#addresses.take(addressKey(sender.address), nowMs)
    if (waitMs > 0) return this.#refuse(rateRefusal('ADDRESS_RATE', waitMs).refusal)
    const submission = this.#submissionOf(bytes, digest, maxRetries)
    submission.onUnsent = () => this.#duplicates.forget(digest)
    const answer = this.#admit(submission, sender.beganMs)
    this.#pending.set(digest, answer)
    return answer.finally(() => this.#pending.delete(digest))
  }

  /** Checks the transaction and its tip, not its signatures: a draft can be checked. */
  check(bytes: Uint8Array): Checked {
    const refusal = this.#look(bytes)
    const isRead = refusal === null || refusal.kind === 'rejected'
    return {
      accepted: refusal === null,
      ...(refusal === null ? {} : { reason: refusal.code }),
      requiredLamports: minimumTipLamports,
      foundLamports: isRead ? this.#tip.lamports : 0,
      signature: isRead ? this.#signature(bytes) : null,
    }
  }

  #look(bytes: Uint8Array): Refusal | null {
    const problem = this.#layout.decode(bytes)
    if (problem !== 'ok') return decodeRefusal(problem).refusal
    const tip = this.#tip
    if (tip.look(this.#layout, bytes, this.#deps.accounts)) return null
    return tipRefusal(tip.reason, tip.lamports).refusal
  }

  #signature(bytes: Uint8Array): string {
    const at = this.#layout.signaturesAt
    return encodeBase58(bytes, at, at + 64)
  }

  /** Copies what must outlive the call: the next call overwrites layout and tip. */
  #submissionOf(bytes: Uint8Array, digest: string, maxRetries: number): Submission {
    const { signaturesAt, keysAt, blockhashAt } = this.#layout
    const owned = new Uint8Array(bytes)
    return submissionOf({
      bytes: owned,
      digest,
      signature: owned.subarray(signaturesAt, signaturesAt + 64),
      feePayer: owned.subarray(keysAt, keysAt + 32),
      blockhash: owned.subarray(blockhashAt, blockhashAt + 32),
      tipAccount: this.#deps.accounts.texts[this.#tip.account]!,
      tipLamports: this.#tip.lamports,
      receivedAtMs: this.#deps.clock.nowMs(),
      takenMs: this.#deps.clock.monotonicMs(),
      triesMax: maxRetries + 1,
    })
  }

  async #admit(submission: Submission, beganMs: number): Promise<Answer> {
    const { clock, forwarder, meters, tips, verifier } = this.#deps
    const verdict = await verifier.verify(submission.bytes)
    if (!verdict.ok) return this.#refuse(busy.refusal)
    if (!verdict.value) return this.#refuse(badSignature.refusal)
    const signature = encodeBase58(submission.signature)
    // Verification takes a while: another copy of it may have been sent meanwhile.
    const isKnown = this.#duplicates.has(submission.digest, clock.monotonicMs())
    if (isKnown || forwarder.has(submission.signature)) {
      meters.duplicates.inc()
      return accept(signature)
    }
    // What is refused for another reason is not counted against its fee payer.
    const isOpen = forwarder.refusal() === null
    const waitMs = isOpen ? this.#payers.take(keyOf(submission.feePayer), clock.monotonicMs()) : 0
    const taken = waitMs > 0 ? rateRefusal('FEE_PAYER_RATE', waitMs) : forwarder.take(submission)
    if (!(taken instanceof Promise) && !taken.ok) {
      const { code: reason } = taken.refusal
      tips.add(submission, { outcome: 'rejected', reason, landedSlot: 0 })
      return this.#refuse(taken.refusal)
    }
    meters.forward.observeMs(clock.monotonicMs() - beganMs)
    meters.accepted.inc()
    meters.tips.observe(submission.tipLamports)
    // A failure from here on is counted by its outcome: the submission was accepted.
    const outcome = await taken
    if (!outcome.ok) return outcome
    this.#duplicates.remember(submission.digest, clock.monotonicMs())
    return accept(signature)
  }

  #refuse(refusal: Refusal): Answer {
    this.#deps.meters.rejected.count(refusal.code)
    return { ok: false, refusal }
  }
}

// Deduplicates forwarded transactions: the same bytes get the same answer and are sent once.
// Only transactions whose signatures verified are added: otherwise a forged copy
// could keep the real one from being sent. Keys are SHA-256 of all bytes: with a weaker hash a
// caller could forge a collision and suppress another caller's transaction.

/** Where the spec is silent: duplicates. Longer than a blockhash is valid. */
export const duplicateMs = 120_000
/** The oldest are evicted first; two minutes of 4,000 verified transactions a second. */
const entriesMax = 500_000

export function digestOf(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'binary')
}

export class Duplicates {
  /** Digest to its expiry, in the order of expiry. */
  readonly #until = new Map<string, number>()

  has(digest: string, nowMs: number): boolean {
    const untilMs = this.#until.get(digest)
    return untilMs !== undefined && nowMs < untilMs
  }

  remember(digest: string, nowMs: number): void {
    for (const [oldest, untilMs] of this.#until) {
      if (untilMs > nowMs && this.#until.size < entriesMax) break
      this.#until.delete(oldest)
    }
    this.#until.delete(digest)
    this.#until.set(digest, nowMs + duplicateMs)
  }

  forget(digest: string): void {
    this.#until.delete(digest)
  }

  get size(): number {
    return this.#until.size
  }
}
