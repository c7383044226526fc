// Identifies which configured source sent a packet, if any. Thread: shred worker.
// A source is identified by its index in the configuration, so that no address appears in a meter.
import { type Cidr, containsAny, type IpAddress, parseAddress } from '../../base/cidr.ts'

/** Size of the address cache; it is cleared when a flood of forged addresses fills it. */
const cachedMax = 1024

export class Sources {
  readonly #cidrs: readonly Cidr[]
  readonly #cache = new Map<number, number>()
  #lastKey = -1
  #lastIndex = -1

  constructor(cidrs: readonly Cidr[]) {
    this.#cidrs = cidrs
  }

  /** Index of an IPv4 sender's address in the configuration; -1 when it is not configured. */
  find(key: number): number {
    if (key === this.#lastKey) return this.#lastIndex
    let index = this.#cache.get(key)
    if (index === undefined) {
      index = this.#indexOf({ family: 4, words: [0, 0, 0, key], isMapped: false })
      if (this.#cache.size >= cachedMax) this.#cache.clear()
      this.#cache.set(key, index)
    }
    this.#lastKey = key
    this.#lastIndex = index
    return index
  }

  findV6(words: IpAddress['words']): number {
    return this.#indexOf({ family: 6, words, isMapped: false })
  }

  findText(text: string): number {
    const address = parseAddress(text)
    if (address === null) return -1
    return address.family === 4 ? this.find(address.words[3]) : this.findV6(address.words)
  }

  #indexOf(address: IpAddress): number {
    return this.#cidrs.findIndex((cidr) => containsAny([cidr], address))
  }
}
