// Header blocks of HTTP/2: decodes those of a server, encodes those of a client (RFC 7541).
// A decoder belongs to one connection: its dynamic table is the peer's.
import { type FrameHead, frameFlag, frameType } from './http2-reader.ts'

/** `name: value` or `name`, from number 1 on (Appendix A). */
const staticTable =
  `:authority|:method: GET|:method: POST|:path: /|:path: /index.html|:scheme: http|
:scheme: https|:status: 200|:status: 204|:status: 206|:status: 304|:status: 400|:status: 404|
:status: 500|accept-charset|accept-encoding: gzip, deflate|accept-language|accept-ranges|accept|
access-control-allow-origin|age|allow|authorization|cache-control|content-disposition|
content-encoding|content-language|content-length|content-location|content-range|content-type|
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|
if-unmodified-since|last-modified|link|location|max-forwards|proxy-authenticate|
proxy-authorization|range|referer|refresh|retry-after|server|set-cookie|
strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate`
    .replaceAll('\n', '')
    .split('|')
    .map((text): Field => {
      const at = text.indexOf(': ')
      return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 2)]
    })

/** Bits of the Huffman code of each byte (Appendix B), in base 36; the code is canonical. */
const codeLengths = `dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad677777777
77777777777777878djde6f56565666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnm
molmnnllmlnmnnkmmmnmmnqqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq`

/** What a table entry counts beside its name and value. */
const entryBytes = 32
const tableBytesMax = 4_096
/** Largest header list that is taken. */
const listBytesInitial = 64 * 1024

type Field = readonly [name: string, value: string]

/** A name that comes more than once has its last value. */
export type HeaderFields = ReadonlyMap<string, string>

export class HeaderDecoder {
  /** The newest first. */
  readonly #table: Field[] = []
  #tableBytes = 0
  #tableBytesMax = tableBytesMax
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0
  readonly #listBytesMax: number

  constructor(listBytesMax = listBytesInitial) {
    this.#listBytesMax = listBytesMax
  }

  /** Null for a malformed block: the connection cannot go on. */
  decode(block: Buffer): HeaderFields | null {
    this.#bytes = block
    this.#at = 0
    const fields = new Map<string, string>()
    let bytes = 0
    while (this.#at < block.length) {
      if ((block[this.#at]! & 0xe0) === 0x20) {
        // The size of the table may change before the first field only.
        if (fields.size > 0 || !this.#resize()) return null
        continue
      }
      const field = this.#next()
      if (field === null) return null
      const [name, value] = field
      bytes += name.length + value.length + entryBytes
      if (bytes > this.#listBytesMax) return null
      fields.set(name, value)
    }
    return fields
  }

  #resize(): boolean {
    const size = this.#number(5)
    if (size < 0 || size > tableBytesMax) return false
    this.#tableBytesMax = size
    this.#evict()
    return true
  }

  /** Null for a malformed field. */
  #next(): Field | null {
    const first = this.#bytes[this.#at]!
    if (first >= 0x80) return this.#entry(this.#number(7))
    const isIndexed = first >= 0x40
    const index = this.#number(isIndexed ? 6 : 4)
    const name = index === 0 ? this.#text() : (this.#entry(index)?.[0] ?? null)
    const value = this.#text()
    if (name === null || value === null) return null
    if (isIndexed) {
      this.#table.unshift([name, value])
      this.#tableBytes += bytesOf([name, value])
      this.#evict()
    }
    return [name, value]
  }

  #entry(index: number): Field | null {
    if (index < 1) return null
    const own = index - 1 - staticTable.length
    return (own < 0 ? staticTable[index - 1] : this.#table[own]) ?? null
  }

  #evict(): void {
    while (this.#tableBytes > this.#tableBytesMax) this.#tableBytes -= bytesOf(this.#table.pop()!)
  }

  /** An integer with a prefix of so many bits; -1 when it is malformed. */
  #number(bits: number): number {
    const most = 2 ** bits - 1
    let value = this.#bytes[this.#at++]! & most
    if (value < most) return value
    for (let factor = 1; factor < 2 ** 28; factor *= 128) {
      const byte = this.#bytes[this.#at++]
      if (byte === undefined) return -1
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
    }
    return -1
  }

  #text(): string | null {
    if (this.#at >= this.#bytes.length) return null
    const isCoded = this.#bytes[this.#at]! >= 0x80
    const length = this.#number(7)
    const end = this.#at + length
    if (length < 0 || end > this.#bytes.length) return null
    const bytes = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return isCoded ? decodeHuffman(bytes) : bytes.toString('latin1')
  }
}

/** Literal fields that no table keeps. */
export function encodeHeaders(fields: Iterable<Field>): Buffer {
  // A table of no bytes, which every peer allows: one with a smaller table than usual wants to be
  // told the size at the start of a block.
  const parts: Buffer[] = [Buffer.of(0x20)]
  // Never indexed: a token among them must not get into a proxy's table.
  for (const [name, value] of fields) parts.push(Buffer.of(0x10), literal(name), literal(value))
  return Buffer.concat(parts)
}

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const length: number[] = []
  if (bytes.length < 127) length.push(bytes.length)
  else {
    length.push(127)
    let rest = bytes.length - 127
    for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), bytes])
}

function bytesOf([name, value]: Field): number {
  return name.length + value.length + entryBytes
}

/** Bytes by their code, `length:code`: shorter codes first, then in the order of the bytes. */
const huffman = new Map<number, number>()
{
  const lengths = [...codeLengths.replaceAll('\n', '')].map((text) => Number.parseInt(text, 36))
  let code = 0
  let last = 0
  for (const [length, byte] of lengths
    .map((length, byte) => [length, byte] as const)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    code *= 2 ** (length - last)
    last = length
    huffman.set(codeKey(length, code++), byte)
  }
}

function codeKey(length: number, code: number): number {
  return length * 2 ** 31 + code
}

/** Null for what is no code, or padding that is longer than a byte or not of ones. */
function decodeHuffman(bytes: Buffer): string | null {
  let text = ''
  let code = 0
  let length = 0
  for (const byte of bytes)
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + ((byte >> bit) & 1)
      if (++length > 30) return null
      const found = huffman.get(codeKey(length, code))
      if (found === undefined) continue
      text += String.fromCharCode(found)
      code = 0
      length = 0
    }
  return length < 8 && code === 2 ** length - 1 ? text : null
}

// Puts the header blocks of a connection together, which may continue in several frames, and
// decodes them.

const blockBytesMax = 64 * 1024
/** Frames of a block, of which each may be empty. */
const blockFramesMax = 64
const priorityBytes = 5

export interface HeaderBlock {
  readonly stream: number
  /** The stream ends with it. */
  readonly isLast: boolean
  readonly fields: HeaderFields
}

interface OpenBlock {
  readonly stream: number
  readonly isLast: boolean
  /** One of each frame so far. */
  readonly parts: Buffer[]
  bytes: number
}

export class HeaderBlocks {
  readonly #decoder = new HeaderDecoder()
  #open: OpenBlock | null = null

  /** True between the frames of a block: no other frame may come. */
  get isOpen(): boolean {
    return this.#open !== null
  }

  /** Takes a HEADERS or CONTINUATION frame; null when the block continues. */
  take(head: FrameHead, payload: Buffer): HeaderBlock | 'malformed' | null {
    const { type, flags, stream } = head
    const part = type === frameType.headers ? this.#begin(head, payload) : payload
    const block = this.#open
    if (part === null || block?.stream !== stream) return 'malformed'
    block.bytes += part.length
    if (block.bytes > blockBytesMax || block.parts.length === blockFramesMax) return 'malformed'
    if ((flags & frameFlag.endHeaders) === 0) {
      // A copy: the bytes are valid during the call only.
      block.parts.push(Buffer.from(part))
      return null
    }
    this.#open = null
    const { parts } = block
    const fields = this.#decoder.decode(parts.length === 0 ? part : Buffer.concat([...parts, part]))
    return fields === null ? 'malformed' : { stream, isLast: block.isLast, fields }
  }

  /** The part of the block, without padding and priority; null when it is malformed. */
  #begin({ flags, stream }: FrameHead, payload: Buffer): Buffer | null {
    const isPadded = (flags & frameFlag.padded) !== 0
    const start = (isPadded ? 1 : 0) + ((flags & frameFlag.priority) === 0 ? 0 : priorityBytes)
    const end = payload.length - (isPadded ? (payload[0] ?? 0) : 0)
    const isLast = (flags & frameFlag.endStream) !== 0
    this.#open = { stream, isLast, parts: [], bytes: 0 }
    return end < start ? null : payload.subarray(start, end)
  }
}
