// Finds the client address of a request. Thread: main, once per request.
// A small cache maps the peer's binary address to text; base/cidr.ts resolves trusted proxies.
import {
  type Cidr,
  clientAddress,
  containsAny,
  formatAddress,
  parseAddress,
  parseCidr,
} from '../cidr.ts'
import { assert } from '../errors.ts'

const TEXTS_MAX = 4096

export class Addresses {
  readonly #trusted: readonly Cidr[]
  readonly #texts = new Map<number | string, string>()

  /** `trustedProxies` are CIDRs, checked when the configuration was read. */
  constructor(trustedProxies: readonly string[]) {
    this.#trusted = trustedProxies.map((text) => {
      const cidr = parseCidr(text)
      assert(cidr !== null, `trustedProxies: ${text} is no CIDR`)
      return cidr
    })
  }

  /** Of a binary peer and its X-Forwarded-For values, joined by commas; '' when it has left. */
  clientOf(peer: ArrayBuffer, forwarded: string): string {
    return peer.byteLength === 0 ? '' : this.clientOfText(this.#textOf(peer), forwarded)
  }

  /** The same for a peer whose address is text already. */
  clientOfText(peer: string, forwarded: string): string {
    return this.#trusted.length === 0 ? peer : clientAddress(peer, forwarded, this.#trusted)
  }

  /** True for a proxy whose X-Forwarded-For is trusted. */
  isProxy(peer: string): boolean {
    if (this.#trusted.length === 0) return false
    const address = parseAddress(peer)
    return address !== null && containsAny(this.#trusted, address)
  }

  /** IPv4-mapped IPv6 becomes IPv4. */
  #textOf(binary: ArrayBuffer): string {
    const view = new DataView(binary)
    const isV4 = view.byteLength === 4 || isMapped(view)
    const key = isV4 ? view.getUint32(view.byteLength - 4) : Buffer.from(binary).toString('hex')
    const known = this.#texts.get(key)
    if (known !== undefined) return known
    const word = (at: number) => view.getUint32(at)
    const text =
      typeof key === 'number'
        ? formatAddress({ family: 4, words: [0, 0, 0, key] })
        : formatAddress({ family: 6, words: [word(0), word(4), word(8), word(12)] })
    if (this.#texts.size >= TEXTS_MAX) this.#texts.clear()
    this.#texts.set(key, text)
    return text
  }
}

function isMapped(view: DataView): boolean {
  return view.getUint32(0) === 0 && view.getUint32(4) === 0 && view.getUint32(8) === 0xffff
}
