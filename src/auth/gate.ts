// Says who is calling, or that nobody may know why not. Thread: main.
// Every door asks `admit` once per request or handshake, and `hold`s what it opened on the strength
// of it. A known and an unknown token take the same steps: one SHA-256, one look-up by digest.
//
//   credentials -> token.ts: which text -> digest -> directory: entry
//               -> door, address, time -> Principal
import type { Clock } from '../base/clock.ts'
import { digestOf, lookupKeyOf, lookupKeyOfDigest, tokenChars } from '../subscriptions/issue.ts'
import type { Subscription } from '../subscriptions/subscription.ts'
import type { Directory } from './directory.ts'
import {
  type Credentials,
  type Door,
  doors,
  type Origin,
  type Principal,
  tokenIn,
} from './token.ts'

interface Hold {
  readonly digest: string
  readonly door: Door
  readonly address: string
  /** The upstream set that served it; another one serves what is opened anew. */
  readonly upstream: string | null
  readonly close: () => void
}

export class Gate {
  readonly #directory: Directory
  readonly #clock: Clock
  readonly #holds = new Map<string, Set<Hold>>()
  readonly #refused: Record<Door, number> = Object.fromEntries(
    doors.map((door) => [door, 0]),
  ) as Record<Door, number>

  constructor(directory: Directory, { clock }: { clock: Clock }) {
    this.#directory = directory
    this.#clock = clock
    directory.watch((subscription) => this.#review(subscription))
  }

  /** The caller, or null: missing, malformed, unknown, suspended, wrong product or address. */
  admit(door: Door, credentials: Credentials, origin: Origin): Principal | null {
    const token = tokenIn(door, credentials)
    // Past the length, validity is the digest's alone: a checksum would only tell guessers more.
    if (token === null || token.length !== tokenChars) return this.#refuse(door)
    const entry = this.#directory.entry(lookupKeyOf(token))
    if (door === 'indexer') {
      const { user = '', password = '' } = credentials.basic ?? {}
      const digest = digestOf(password)
      if (entry?.principal.subscription.id !== user || !entry.isPassword(digest))
        return this.#refuse(door)
    }
    if (entry === undefined || !entry.permits(door, origin, this.#clock)) return this.#refuse(door)
    return entry.principal
  }

  /**
   * Calls `close` once, within a second, when the token dies, loses this door or address, or is
   * bound to another upstream set: a dedicated customer stays on no node but his own.
   * Returns what the holder calls when it closes by itself.
   */
  hold(principal: Principal, door: Door, address: string, close: () => void): () => void {
    const { id, upstream } = principal.subscription
    const hold: Hold = { digest: principal.digest, door, address, upstream, close }
    const holds = this.#holds.get(id) ?? new Set()
    holds.add(hold)
    this.#holds.set(id, holds)
    const release = () => {
      holds.delete(hold)
      if (holds.size === 0 && this.#holds.get(id) === holds) this.#holds.delete(id)
    }
    // The token may have died between `admit` and here; the caller must get its release first.
    if (!this.#isAlive(hold))
      queueMicrotask(() => {
        if (!holds.has(hold)) return
        release()
        close()
      })
    return release
  }

  /** Refusals since the start, by door: read by the meters. */
  refused(): Readonly<Record<Door, number>> {
    return this.#refused
  }

  /** What is held open at this moment. */
  held(): number {
    let count = 0
    for (const holds of this.#holds.values()) count += holds.size
    return count
  }

  #refuse(door: Door): null {
    this.#refused[door]++
    return null
  }

  #isAlive(hold: Hold): boolean {
    const entry = this.#directory.entry(lookupKeyOfDigest(hold.digest))
    if (entry?.permits(hold.door, hold.address, this.#clock) !== true) return false
    return entry.principal.subscription.upstream === hold.upstream
  }

  #review({ id }: Subscription): void {
    const holds = this.#holds.get(id)
    if (holds === undefined) return
    const dead = [...holds].filter((hold) => !this.#isAlive(hold))
    for (const hold of dead) holds.delete(hold)
    if (holds.size === 0) this.#holds.delete(id)
    const failures: unknown[] = []
    for (const hold of dead)
      try {
        hold.close()
      } catch (error) {
        failures.push(error)
      }
    // After all of them: one that throws must not keep the others open.
    if (failures.length > 0) throw failures[0]
  }
}
