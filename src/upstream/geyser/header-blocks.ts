// Puts the header blocks of a connection together, which may continue in several frames, and
// decodes them.
import { HeaderDecoder, type HeaderFields } from './hpack.ts'
import { type FrameHead, frameFlag, frameType } from './http2-wire.ts'

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
