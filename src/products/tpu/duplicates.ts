// Remembers what was forwarded, so that the same bytes get the same answer and go out once.
// Thread: main. Called by handle.ts. Only transactions whose signatures verified come in here:
// otherwise a forged copy could keep the true one from being sent.
// Keys are SHA-256 of all bytes: whoever could choose colliding ones could suppress a stranger's.
import { hash } from 'node:crypto'

/** Where the spec is silent: duplicates. Longer than a blockhash lives. */
export const duplicateMs = 120_000
/** The oldest go first; two minutes of 4,000 verified transactions a second. */
const rememberedMax = 500_000

export function digestOf(bytes: Uint8Array): string {
  return hash('sha256', bytes, 'binary')
}

export class Duplicates {
  /** Digest to the time it is forgotten; in the order of those times. */
  readonly #until = new Map<string, number>()

  has(digest: string, nowMs: number): boolean {
    const untilMs = this.#until.get(digest)
    return untilMs !== undefined && nowMs < untilMs
  }

  remember(digest: string, nowMs: number): void {
    for (const [oldest, untilMs] of this.#until) {
      if (untilMs > nowMs && this.#until.size < rememberedMax) break
      this.#until.delete(oldest)
    }
    this.#until.delete(digest)
    this.#until.set(digest, nowMs + duplicateMs)
  }

  get size(): number {
    return this.#until.size
  }
}
