// Builds a block's JSON text lazily in pieces and caches them within a byte bound.
// Each piece takes little time, so that a block of ten thousand transactions does not stall the
// event loop; later requests reuse the cached pieces.
import { JsonBytes } from './json-bytes.ts'

/** A piece ends with the transaction that makes it reach this size. */
const pieceBytes = 32 * 1024

export interface TextSource {
  /** The text up to the bracket that opens the transactions. */
  opening(): string
  /** Number of transactions; throws when the block was evicted. */
  count(): number
  /** Writes the transaction at an index, in block order. */
  write(out: JsonBytes, at: number): void
}

export class LazyBlockText {
  readonly #source: TextSource
  readonly #memory: TextCache
  /** Undefined where a piece was built and dropped. */
  readonly #pieces: (Buffer | undefined)[] = []
  /** Index of each piece's first transaction; above the count after the last piece. */
  readonly #starts: number[] = [0]
  #length = 0
  #estimatedBytes: number

  constructor(source: TextSource, estimatedBytes: number, memory: TextCache) {
    this.#source = source
    this.#estimatedBytes = estimatedBytes
    this.#memory = memory
  }

  /** Exact once the whole text was built. */
  get estimatedBytes(): number {
    return this.#estimatedBytes
  }

  /** The piece at an index, null after the last one. Pieces must be requested in order. */
  piece(index: number): Uint8Array | null {
    const known = this.#pieces[index]
    if (known !== undefined) return known
    const count = this.#source.count()
    const from = this.#starts[index]
    if (from === undefined || from > count) return null
    const { piece, next } = made(this.#source, from, count)
    if (this.#starts.length === index + 1) {
      this.#starts.push(next)
      this.#length += piece.length
      if (next > count) this.#estimatedBytes = this.#length
    }
    this.#pieces[index] = piece
    this.#memory.add(this, piece.length)
    return piece
  }

  /** Drops the cached pieces; they are rebuilt on the next request. */
  drop(): void {
    this.#pieces.fill(undefined)
  }
}

/** Bounds the bytes of all cached texts; evicts the text that grew the longest ago first. */
export class TextCache {
  readonly #bytesMax: number
  readonly #texts = new Map<LazyBlockText, number>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  add(text: LazyBlockText, bytes: number): void {
    const before = this.#texts.get(text) ?? 0
    this.#texts.delete(text)
    this.#texts.set(text, before + bytes)
    this.#bytes += bytes
    for (const oldest of this.#texts.keys()) {
      if (this.#bytes <= this.#bytesMax) break
      this.remove(oldest)
    }
  }

  remove(text: LazyBlockText): void {
    this.#bytes -= this.#texts.get(text) ?? 0
    this.#texts.delete(text)
    text.drop()
  }
}

const out = new JsonBytes()
const comma = Buffer.from(',')
const closing = Buffer.from(']}')

function made(source: TextSource, from: number, count: number): { piece: Buffer; next: number } {
  if (from === 0) out.ascii(Buffer.from(source.opening()))
  let at = from
  for (; at < count && out.length < pieceBytes; at++) {
    if (at > 0) out.ascii(comma)
    source.write(out, at)
  }
  if (at < count) return { piece: out.take(), next: at }
  out.ascii(closing)
  return { piece: out.take(), next: at + 1 }
}
