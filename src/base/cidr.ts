// Parses, formats and matches IP addresses and CIDRs. Pure; never throws.
// An address is four 32-bit words; IPv4 uses the last one. IPv4-mapped IPv6 is read as IPv4, since
// a dual-stack socket reports an IPv4 peer that way and a rule for 10.0.0.0/8 applies to it too.

export interface IpAddress {
  readonly family: 4 | 6
  /** Most significant first, unsigned. For IPv4 the first three are 0. */
  readonly words: readonly [number, number, number, number]
  /** Written as IPv4-mapped IPv6. */
  readonly isMapped: boolean
}

export interface Cidr {
  readonly family: 4 | 6
  readonly words: IpAddress['words']
  /** Bits that must agree, counted in the 128-bit form: an IPv4 /8 is 104. */
  readonly bits: number
}

const v4Offset = 96
const addressCharsMax = 45

export function parseAddress(text: string): IpAddress | null {
  if (text.length > addressCharsMax) return null
  if (!text.includes(':')) {
    const word = parseV4(text)
    return word === null ? null : { family: 4, words: [0, 0, 0, word], isMapped: false }
  }
  const groups = parseV6(text)
  if (groups === null) return null
  const word = (index: number) => ((groups[index]! << 16) | groups[index + 1]!) >>> 0
  const words: IpAddress['words'] = [word(0), word(2), word(4), word(6)]
  if (words[0] === 0 && words[1] === 0 && words[2] === 0xffff)
    return { family: 4, words: [0, 0, 0, words[3]], isMapped: true }
  return { family: 6, words, isMapped: false }
}

/** The canonical form: dotted, or lower-case IPv6 with the longest run of zeros as `::`. */
export function formatAddress(address: Pick<IpAddress, 'family' | 'words'>): string {
  const [a, b, c, d] = address.words
  if (address.family === 4) return [d >>> 24, (d >>> 16) & 255, (d >>> 8) & 255, d & 255].join('.')
  const groups = [a, b, c, d].flatMap((word) => [word >>> 16, word & 0xffff])
  let best = { start: 0, length: 0 }
  for (let start = 0; start < 8; start++) {
    let length = 0
    while (groups[start + length] === 0) length++
    if (length > best.length) best = { start, length }
  }
  const hex = groups.map((value) => value.toString(16))
  if (best.length < 2) return hex.join(':')
  return `${hex.slice(0, best.start).join(':')}::${hex.slice(best.start + best.length).join(':')}`
}

/** Whether a host to listen on is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true
  return parseAddress(host)?.family === 4 && host.startsWith('127.')
}

/** Key under which limits count an address: an IPv4 address, or the /64 of an IPv6 one, since a
 *  single client commonly has a whole /64. Text that is not an address is its own key. */
export function addressKey(text: string): string {
  if (!text.includes(':')) return text
  const address = parseAddress(text)
  if (address === null) return text
  if (address.family === 4) return formatAddress(address)
  const [high, low] = address.words
  return `${formatAddress({ family: 6, words: [high, low, 0, 0] })}/64`
}

/** A CIDR, or a bare address as a CIDR of one. Bits after the prefix must be zero. */
export function parseCidr(text: string): Cidr | null {
  const slash = text.indexOf('/')
  const address = parseAddress(slash === -1 ? text : text.slice(0, slash))
  if (address === null) return null
  const offset = address.family === 4 ? v4Offset : 0
  if (slash === -1) return { family: address.family, words: address.words, bits: 128 }
  const length = text.slice(slash + 1)
  if (address.isMapped || !/^(0|[1-9]\d{0,2})$/.test(length)) return null
  const bits = offset + Number(length)
  if (bits > 128) return null
  const isClean = address.words.every((word, index) => (word & ~maskOf(bits, index)) >>> 0 === 0)
  return isClean ? { family: address.family, words: address.words, bits } : null
}

export function formatCidr(cidr: Cidr): string {
  return `${formatAddress(cidr)}/${cidr.bits - (cidr.family === 4 ? v4Offset : 0)}`
}

export function contains(cidr: Cidr, address: IpAddress): boolean {
  if (cidr.family !== address.family) return false
  for (let index = 0; index < 4; index++)
    if (((cidr.words[index]! ^ address.words[index]!) & maskOf(cidr.bits, index)) !== 0)
      return false
  return true
}

export function containsAny(cidrs: readonly Cidr[], address: IpAddress): boolean {
  return cidrs.some((cidr) => contains(cidr, address))
}

/**
 * The client's address from trusted proxies: the rightmost X-Forwarded-For entry that is not
 * one of them. The header counts only when the peer itself is trusted; an entry that is not an
 * address ends the walk, because the author of the entries to its left is unknown.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  trusted: readonly Cidr[],
): string {
  if (trusted.length === 0) return peer
  const direct = parseAddress(peer)
  if (direct === null || !containsAny(trusted, direct)) return peer
  let nearest = formatAddress(direct)
  for (const entry of (forwardedFor ?? '').split(',').reverse()) {
    const address = parseAddress(withoutPort(entry.trim()))
    if (address === null) return nearest
    nearest = formatAddress(address)
    if (!containsAny(trusted, address)) return nearest
  }
  return nearest
}

/** Some proxies append the port to the address: `1.2.3.4:5`, `[2001:db8::1]:5`. */
function withoutPort(entry: string): string {
  if (entry.startsWith('[')) return entry.slice(1, Math.max(1, entry.indexOf(']')))
  const colon = entry.indexOf(':')
  return colon !== -1 && colon === entry.lastIndexOf(':') ? entry.slice(0, colon) : entry
}

/** The bits of a prefix of `bits` that lie in the given 32-bit word. */
function maskOf(bits: number, index: number): number {
  const inWord = Math.min(32, Math.max(0, bits - index * 32))
  return inWord === 0 ? 0 : (0xffffffff << (32 - inWord)) >>> 0
}

/** Four decimal numbers. A leading zero is refused: some parsers read it as octal. */
function parseV4(text: string): number | null {
  const parts = text.split('.')
  if (parts.length !== 4) return null
  let word = 0
  for (const part of parts) {
    if (!/^(0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) return null
    word = word * 256 + Number(part)
  }
  return word
}

/** Eight 16-bit groups. A zone (`%eth0`) is refused: it has a meaning on one machine only. */
function parseV6(text: string): number[] | null {
  const halves = text.split('::')
  if (halves.length > 2) return null
  const head = parseGroups(halves[0]!, halves.length === 1)
  const tail = halves.length === 2 ? parseGroups(halves[1]!, true) : []
  if (head === null || tail === null) return null
  const missing = 8 - head.length - tail.length
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null
  return [...head, ...new Array<number>(missing).fill(0), ...tail]
}

function parseGroups(text: string, mayEndInV4: boolean): number[] | null {
  if (text === '') return []
  const parts = text.split(':')
  const groups: number[] = []
  for (const [index, part] of parts.entries()) {
    if (mayEndInV4 && index === parts.length - 1 && part.includes('.')) {
      const word = parseV4(part)
      if (word === null) return null
      groups.push(word >>> 16, word & 0xffff)
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) groups.push(Number.parseInt(part, 16))
    else return null
  }
  return groups
}
