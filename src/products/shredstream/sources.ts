// Who may send us shreds: the configured addresses, in their order. Thread: shred worker.
// A source is known by its place in the configuration, so that no address stands in a meter.
import { type Cidr, containsAny, type IpAddress, parseAddress } from '../../base/cidr.ts'

/** Addresses whose verdict is remembered; a flood of made-up ones empties it now and then. */
const rememberedMax = 1024

export class Sources {
  readonly #cidrs: readonly Cidr[]
  readonly #known = new Map<number, number>()
  #lastKey = -1
  #lastPlace = -1

  constructor(cidrs: readonly Cidr[]) {
    this.#cidrs = cidrs
  }

  /** The place of an IPv4 sender in the configuration; -1 for a stranger. */
  find(key: number): number {
    if (key === this.#lastKey) return this.#lastPlace
    let place = this.#known.get(key)
    if (place === undefined) {
      place = this.#placeOf({ family: 4, words: [0, 0, 0, key], isMapped: false })
      if (this.#known.size >= rememberedMax) this.#known.clear()
      this.#known.set(key, place)
    }
    this.#lastKey = key
    this.#lastPlace = place
    return place
  }

  findV6(words: IpAddress['words']): number {
    return this.#placeOf({ family: 6, words, isMapped: false })
  }

  findText(text: string): number {
    const address = parseAddress(text)
    if (address === null) return -1
    return address.family === 4 ? this.find(address.words[3]) : this.findV6(address.words)
  }

  #placeOf(address: IpAddress): number {
    return this.#cidrs.findIndex((cidr) => containsAny([cidr], address))
  }
}
