// Counts the requests in flight of each client address: waiting for body, answer or reader.
// An address is an IPv4 one or an IPv6 /64. A request that is answered at once is
// never counted and needs no address at all: reading it from the native server costs as much as a
// token check.
import { addressKey } from '../cidr.ts'

export class InFlight {
  /** How many one address may have. */
  readonly max: number
  readonly #counts = new Map<string, number>()
  #full = 0

  constructor(perAddressMax: number) {
    this.max = perAddressMax
  }

  get isEmpty(): boolean {
    return this.#counts.size === 0
  }

  /** True when some address has all its permits taken, and callers must be checked. */
  get isAnyFull(): boolean {
    return this.#full > 0
  }

  isFull(address: string): boolean {
    return (this.#counts.get(addressKey(address)) ?? 0) >= this.max
  }

  /** Takes a permit; false when all permits of the address are taken. */
  enter(address: string): boolean {
    const key = addressKey(address)
    const count = this.#counts.get(key) ?? 0
    if (count >= this.max) return false
    this.#counts.set(key, count + 1)
    if (count + 1 === this.max) this.#full++
    return true
  }

  leave(address: string): void {
    const key = addressKey(address)
    const count = this.#counts.get(key) ?? 0
    if (count === this.max) this.#full--
    if (count <= 1) this.#counts.delete(key)
    else this.#counts.set(key, count - 1)
  }
}
