// Puts the header blocks of a connection together, which may continue in several frames, and
// decodes them.
import { HeaderDecoder, type HeaderFields } from './hpack.ts'
import { type FrameHead, frameFlag, frameType } from './http2-wire.ts'

const blockBytesMax = 64 * 1024
const priorityBytes = 5
const nothing = Buffer.alloc(0)

export interface HeaderBlock {
  readonly stream: number
  /** The stream ends with it. */
  readonly isLast: boolean
  readonly fields: HeaderFields
}

export class HeaderBlocks {
  readonly #decoder = new HeaderDecoder()
  #open: { readonly stream: number; readonly isLast: boolean; bytes: Buffer } | null = null

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
    if (block.bytes.length + part.length > blockBytesMax) return 'malformed'
    block.bytes = Buffer.concat([block.bytes, part])
    if ((flags & frameFlag.endHeaders) === 0) return null
    this.#open = null
    const fields = this.#decoder.decode(block.bytes)
    return fields === null ? 'malformed' : { stream, isLast: block.isLast, fields }
  }

  /** The part of the block, without padding and priority; null when it is malformed. */
  #begin({ flags, stream }: FrameHead, payload: Buffer): Buffer | null {
    const isPadded = (flags & frameFlag.padded) !== 0
    const start = (isPadded ? 1 : 0) + ((flags & frameFlag.priority) === 0 ? 0 : priorityBytes)
    const end = payload.length - (isPadded ? (payload[0] ?? 0) : 0)
    this.#open = { stream, isLast: (flags & frameFlag.endStream) !== 0, bytes: nothing }
    return end < start ? null : payload.subarray(start, end)
  }
}
