// A block's JSON text in pieces, each made when it is first asked for and kept while there is room.
// Thread: main. No piece takes long to make, so that a block of ten thousand transactions stalls
// nobody; whoever asks next finds the pieces that are there.
import { JsonBytes } from './json-bytes.ts'

/** A piece ends with the transaction that brings it over this. */
const pieceBytes = 32 * 1024

export interface TextSource {
  /** The text up to the bracket that opens the transactions. */
  opening(): string
  /** How many transactions it has; throws when the block is no longer kept. */
  count(): number
  /** Writes the transaction at a place, in block order. */
  write(out: JsonBytes, at: number): void
}

export class BlockText {
  readonly #source: TextSource
  readonly #memory: TextMemory
  /** Undefined where a piece was made and dropped again. */
  readonly #pieces: (Buffer | undefined)[] = []
  /** The transaction that each piece begins with; beyond their count after the last piece. */
  readonly #starts: number[] = [0]
  #length = 0
  #estimatedBytes: number

  constructor(source: TextSource, estimatedBytes: number, memory: TextMemory) {
    this.#source = source
    this.#estimatedBytes = estimatedBytes
    this.#memory = memory
  }

  /** Exact once the whole text was made. */
  get estimatedBytes(): number {
    return this.#estimatedBytes
  }

  /** The piece at an index, null after the last one. To be asked for in order. */
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

  /** Lets go of the pieces; they are made again when asked for. */
  drop(): void {
    this.#pieces.fill(undefined)
  }
}

/** Bounds the bytes of all kept texts: the one that was made the longest ago goes first. */
export class TextMemory {
  readonly #bytesMax: number
  readonly #texts = new Map<BlockText, number>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  add(text: BlockText, bytes: number): void {
    const before = this.#texts.get(text) ?? 0
    this.#texts.delete(text)
    this.#texts.set(text, before + bytes)
    this.#bytes += bytes
    for (const oldest of this.#texts.keys()) {
      if (this.#bytes <= this.#bytesMax) break
      this.remove(oldest)
    }
  }

  remove(text: BlockText): void {
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
