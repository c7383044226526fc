// Deduplicates forwarded transactions: the same bytes get the same answer and are sent once.
// Only transactions whose signatures verified are added: otherwise a forged copy
// could keep the real one from being sent. Keys are SHA-256 of all bytes: with a weaker hash a
// caller could forge a collision and suppress another caller's transaction.
import { hash } from 'node:crypto'

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

  get size(): number {
    return this.#until.size
  }
}
