// Splits the bytes of a gRPC stream into messages, and frames a message. Thread: main.
// A message inside one chunk is returned as a view of it; one that spans chunks is copied once.
//
//   chunk: | 0 | length u32 | message | 0 | length u32 | mess      chunk: age | 0 | …

/** One byte for compression, four for the length. */
const framePrefixBytes = 5
/** Larger than any account, block or transaction of the chain. */
const messageBytesMax = 64 * 1024 * 1024

export class MessageSplitter {
  readonly #take: (message: Uint8Array) => void
  readonly #prefix = Buffer.alloc(framePrefixBytes)
  #prefixBytes = 0
  /** The message that spans chunks, and how many bytes of it arrived; null between messages. */
  #partial: Buffer | null = null
  #partialBytes = 0

  constructor(take: (message: Uint8Array) => void) {
    this.#take = take
  }

  /** False for a malformed stream: a compressed message, or one over the size limit. */
  push(chunk: Buffer): boolean {
    let at = 0
    while (at < chunk.length) {
      if (this.#partial !== null) {
        at = this.#fill(this.#partial, chunk, at)
        continue
      }
      if (this.#prefixBytes > 0 || chunk.length - at < framePrefixBytes) {
        at = this.#fillPrefix(chunk, at)
        if (this.#prefixBytes < framePrefixBytes) return true
        this.#prefixBytes = 0
        if (!this.#begin(this.#prefix, 0)) return false
        continue
      }
      const length = lengthAt(chunk, at)
      const end = at + framePrefixBytes + length
      if (end > chunk.length || length > messageBytesMax || chunk[at] !== 0) {
        if (!this.#begin(chunk, at)) return false
        at += framePrefixBytes
        continue
      }
      this.#take(chunk.subarray(at + framePrefixBytes, end))
      at = end
    }
    return true
  }

  #begin(bytes: Buffer, at: number): boolean {
    const length = lengthAt(bytes, at)
    if (bytes[at] !== 0 || length > messageBytesMax) return false
    if (length === 0) {
      this.#take(Buffer.alloc(0))
      return true
    }
    this.#partial = Buffer.allocUnsafeSlow(length)
    this.#partialBytes = 0
    return true
  }

  #fill(partial: Buffer, chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + partial.length - this.#partialBytes)
    chunk.copy(partial, this.#partialBytes, at, end)
    this.#partialBytes += end - at
    if (this.#partialBytes === partial.length) {
      this.#partial = null
      this.#take(partial)
    }
    return end
  }

  #fillPrefix(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + framePrefixBytes - this.#prefixBytes)
    chunk.copy(this.#prefix, this.#prefixBytes, at, end)
    this.#prefixBytes += end - at
    return end
  }
}

/** The message with its gRPC prefix. */
export function frameMessage(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(framePrefixBytes + message.length)
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, framePrefixBytes)
  return frame
}

function lengthAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at + 1)
}
