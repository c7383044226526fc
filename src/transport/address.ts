// Whose address a request comes from. Thread: main, once per request.
// The peer's binary address becomes text through a small cache; behind trusted proxies the
// rightmost X-Forwarded-For entry that is not one of them decides, and only they may send one.
import { BlockList, isIP, isIPv4, SocketAddress } from 'node:net'

const TEXTS_MAX = 4096

export class Addresses {
  readonly #trusted: BlockList | null
  readonly #texts = new Map<number | string, string>()

  /** `trustedProxies` are CIDRs or single addresses, checked when the configuration was read. */
  constructor(trustedProxies: readonly string[]) {
    this.#trusted = trustedProxies.length === 0 ? null : new BlockList()
    for (const cidr of trustedProxies) addCidr(this.#trusted as BlockList, cidr)
  }

  /** True when X-Forwarded-For is looked at at all. */
  get looksAtForwarded(): boolean {
    return this.#trusted !== null
  }

  /** The peer's address as text; IPv4 in IPv6 clothes is IPv4. */
  textOf(binary: ArrayBuffer): string {
    const bytes = new Uint8Array(binary)
    const four = bytes.length === 4 ? bytes : mappedIpv4(bytes)
    const key = four === null ? Buffer.from(binary).toString('hex') : wordOf(four)
    const known = this.#texts.get(key)
    if (known !== undefined) return known
    const text = four === null ? ipv6Text(bytes) : four.join('.')
    if (this.#texts.size >= TEXTS_MAX) this.#texts.clear()
    this.#texts.set(key, text)
    return text
  }

  /** The client behind `peer`; `forwarded` is every X-Forwarded-For value, joined by commas. */
  clientOf(peer: string, forwarded: string): string {
    if (this.#trusted === null || forwarded === '' || !this.#trusts(peer)) return peer
    let client = peer
    const hops = forwarded.split(',')
    for (let index = hops.length - 1; index >= 0; index--) {
      const hop = canonical(hops[index]!.trim())
      // What a trusted proxy wrote and we cannot read ends the walk: nothing left of it is trusted.
      if (hop === null) return client
      client = hop
      if (!this.#trusts(hop)) return client
    }
    return client
  }

  #trusts(address: string): boolean {
    return this.#trusted?.check(address, isIPv4(address) ? 'ipv4' : 'ipv6') ?? false
  }
}

function addCidr(list: BlockList, cidr: string): void {
  const [address = '', bits] = cidr.split('/')
  const family = isIPv4(address) ? 'ipv4' : 'ipv6'
  if (bits === undefined) list.addAddress(address, family)
  else list.addSubnet(address, Number(bits), family)
}

/** An address as we write it, without port or brackets; null when it is none. */
function canonical(text: string): string | null {
  const bare = text.replace(/^\[([^\]]*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1')
  const family = isIP(bare)
  if (family === 4) return bare
  if (family !== 6 || bare.includes('%')) return null
  const written = new SocketAddress({ address: bare, family: 'ipv6' }).address
  return written.startsWith('::ffff:') && isIPv4(written.slice(7)) ? written.slice(7) : written
}

function mappedIpv4(bytes: Uint8Array): Uint8Array | null {
  for (let index = 0; index < 10; index++) if (bytes[index] !== 0) return null
  return bytes[10] === 0xff && bytes[11] === 0xff ? bytes.subarray(12, 16) : null
}

function wordOf(four: Uint8Array): number {
  return ((four[0]! << 24) | (four[1]! << 16) | (four[2]! << 8) | four[3]!) >>> 0
}

function ipv6Text(bytes: Uint8Array): string {
  const groups: string[] = []
  for (let index = 0; index < 16; index += 2)
    groups.push(((bytes[index]! << 8) | bytes[index + 1]!).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}
