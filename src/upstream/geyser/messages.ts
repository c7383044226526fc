// Gathers the bytes of a gRPC stream into batches of whole messages, and frames a message.
// Each byte is copied once, into memory of the batch's own: a batch lives as long as
// one of its messages, and moves to another thread without another copy.
//
//   chunk: | 0 | length u32 | message | 0 | length u32 | mess      chunk: age | 0 | …
//   slab:  | 0 | length u32 | message | 0 | length u32 | message | 0 | …  free |
//          └─────────────── the next batch ────────────────────┘ moves to the next slab

/** One byte for compression, four for the length. */
export const framePrefixBytes = 5
/** Larger than any account, block or transaction of the chain. */
const messageBytesMax = 64 * 1024 * 1024
const slabBytesMin = 4 * 1024
/** Longer batches save nothing. */
const slabBytesMax = 256 * 1024

/** Takes whole frames; `offsets` has the start and end of each message in turn. */
export type TakeMessages = (bytes: Buffer, offsets: readonly number[]) => void

export class MessageBatcher {
  readonly #take: TakeMessages
  #slab = Buffer.allocUnsafeSlow(slabBytesMin)
  #filled = 0
  /** Start of the frame that is not whole yet. */
  #at = 0
  #offsets: number[] = []

  constructor(take: TakeMessages) {
    this.#take = take
  }

  /** False for a malformed stream: a compressed message, or one over the size limit. */
  push(chunk: Buffer): boolean {
    if (this.#filled + chunk.length > this.#slab.length) this.#renew(chunk.length)
    chunk.copy(this.#slab, this.#filled)
    this.#filled += chunk.length
    while (this.#filled - this.#at >= framePrefixBytes) {
      const length = messageBytesAt(this.#slab, this.#at)
      if (length < 0) return false
      const start = this.#at + framePrefixBytes
      if (start + length > this.#filled) break
      this.#offsets.push(start, start + length)
      this.#at = start + length
    }
    return true
  }

  /** Hands over what is whole. */
  flush(): void {
    if (this.#offsets.length > 0) this.#renew(0)
  }

  /** Ends the batch; the frame that is not whole goes to the next slab, with room for `bytes`. */
  #renew(bytes: number): void {
    const slab = this.#slab
    const end = this.#at
    const rest = this.#filled - end
    const whole = rest < framePrefixBytes ? 0 : framePrefixBytes + slab.readUInt32BE(end + 1)
    // Twice the last one, so that a quiet stream takes little memory and a busy one large batches.
    const size = Math.min(slabBytesMax, Math.max(slabBytesMin, end * 2))
    this.#slab = Buffer.allocUnsafeSlow(Math.max(size, rest + bytes, whole))
    slab.copy(this.#slab, 0, end, this.#filled)
    this.#filled = rest
    this.#at = 0
    if (this.#offsets.length === 0) return
    const offsets = this.#offsets
    this.#offsets = []
    // Memory that a batch does not use would be kept with it.
    this.#take(end * 2 < slab.length ? exactly(slab, end) : slab.subarray(0, end), offsets)
  }
}

/** Of the message whose prefix is there; -1 for a compressed message, or one over the limit. */
export function messageBytesAt(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at + 1)
  return bytes[at] === 0 && length <= messageBytesMax ? length : -1
}

/** The message with its gRPC prefix. */
export function frameMessage(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(framePrefixBytes + message.length)
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, framePrefixBytes)
  return frame
}

function exactly(slab: Buffer, end: number): Buffer {
  const bytes = Buffer.allocUnsafeSlow(end)
  slab.copy(bytes, 0, 0, end)
  return bytes
}
