// Frames of the metrics stream, each encoded once per encoding whatever the number of clients.
//
//   {"seq":<n>,"<Kind>":<payload>}      JSON, UTF-8; the msgpack form is derived from these bytes
import { assert } from '../../base/errors.ts'
import type { FrameFacts } from '../../base/shared-log.ts'

/** Kinds that a client may subscribe to. Events (spec). */
export const streamKinds = ['TPS', 'ContentionData', 'TopAccesses', 'Lifecycle'] as const
export type StreamKind = (typeof streamKinds)[number]

/** Kinds that the log stores: the four above, and Gap, which goes to every client. */
export const frameKinds = [...streamKinds, 'Gap'] as const
export type FrameKind = (typeof frameKinds)[number]

/**
 * Kind of a frame that a later version of a gateway appended to the shared log: it has its number,
 * so that cursors stay exact, and is sent to nobody.
 */
export const unknownKind = 'unknown'
export type LogKind = FrameKind | typeof unknownKind

export const encodings = ['json', 'msgpack'] as const
export type Encoding = (typeof encodings)[number]

export interface StoredFrame {
  readonly seq: number
  readonly kind: LogKind
  /** The whole frame as JSON, UTF-8. Never changed after it was stored. */
  readonly json: Buffer
  /** The payload alone, without the envelope: what REST serves. A view into `json`. */
  readonly payload: Buffer
  /** Monotonic milliseconds at which the frame's source event was read. */
  readonly sinceMs: number
  /** Null when `append` was called without them. */
  readonly facts: FrameFacts | null
}

/** A frame that is not an event of the log: seq 0 never moves a cursor. */
export function controlFrame(
  kind: 'Resume' | 'Subscribed' | 'Error' | 'Warning' | 'Gap',
  payload: unknown,
  encoding: Encoding,
  seq = 0,
): Buffer {
  const json = Buffer.from(JSON.stringify({ seq, [kind]: payload }))
  return encoding === 'json' ? json : jsonToMsgpack(json)
}

/** The bytes before the payload. The payload is followed by one closing brace. */
export function envelope(seq: number, kind: LogKind): string {
  return `{"seq":${seq},"${kind}":`
}

// Transcodes UTF-8 JSON to msgpack, byte to byte, without building objects in between.
// Thread: main, once per frame that a msgpack client receives.
// Integers stay exact up to 64 bits, which a conversion through JavaScript numbers would lose.

const quote = 0x22
const zero = 0x30
const closeObject = 0x7d

/** `json` is valid: written by our own encoders, or checked. Throws where msgpack has no form. */
export function jsonToMsgpack(json: Uint8Array): Buffer {
  const source = Buffer.from(json.buffer, json.byteOffset, json.byteLength)
  // No value grows by more than 4 bytes over its text plus separator, except a one-digit float
  // (3 to 9 bytes); three times the text is enough for all of them.
  const writer = new Transcoder(source, Buffer.allocUnsafe(source.length * 3 + 16))
  writer.value()
  return writer.finish()
}

class Transcoder {
  readonly #source: Buffer
  readonly #target: Buffer
  #read = 0
  #written = 0

  constructor(source: Buffer, target: Buffer) {
    this.#source = source
    this.#target = target
  }

  finish(): Buffer {
    this.#skipSpace()
    assert(this.#read === this.#source.length, 'one JSON value and nothing after it')
    return Buffer.from(this.#target.subarray(0, this.#written))
  }

  value(): void {
    this.#skipSpace()
    const byte = this.#source[this.#read]
    if (byte === 0x7b) this.#container(0xde, closeObject)
    else if (byte === 0x5b) this.#container(0xdc, 0x5d)
    else if (byte === quote) this.#string()
    else if (byte === 0x74) this.#word('true', 0xc3)
    else if (byte === 0x66) this.#word('false', 0xc2)
    else if (byte === 0x6e) this.#word('null', 0xc0)
    else this.#number()
  }

  /** The count is only known at the end, so the header has a fixed width of 16 bits. */
  #container(header: number, close: number): void {
    this.#target[this.#written] = header
    const countAt = this.#written + 1
    this.#written += 3
    this.#read++
    let count = 0
    for (this.#skipSpace(); this.#source[this.#read] !== close; this.#skipSpace()) {
      if (count > 0) assert(this.#source[this.#read++] === 0x2c, 'a JSON separator')
      if (close === closeObject) {
        this.#skipSpace()
        this.#string()
        this.#skipSpace()
        assert(this.#source[this.#read++] === 0x3a, 'a JSON separator')
      }
      this.value()
      count++
    }
    this.#read++
    this.#target.writeUInt16BE(count, countAt)
  }

  #string(): void {
    const source = this.#source
    const from = this.#read
    assert(source[from] === quote, 'a JSON string begins with a quote')
    let hasEscape = false
    let at = from + 1
    for (; source[at] !== quote && at < source.length; at++) {
      if (source[at] !== 0x5c) continue
      hasEscape = true
      at++
    }
    assert(at < source.length, 'a JSON string ends')
    this.#read = at + 1
    if (!hasEscape) this.#text(source, from + 1, at)
    else this.#text(Buffer.from(JSON.parse(source.toString('utf8', from, at + 1)) as string))
  }

  /** By a loop: a view of so few bytes takes longer. */
  #text(from: Buffer, first = 0, end = from.length): void {
    const length = end - first
    if (length < 32) this.#target[this.#written++] = 0xa0 | length
    else this.#sized(0xd9, length)
    for (let at = first; at < end; at++) this.#target[this.#written++] = from[at]!
  }

  #number(): void {
    const from = this.#read
    let isInteger = true
    let natural = 0
    let digits = 0
    let at = from
    for (; at < this.#source.length; at++) {
      const byte = this.#source[at]!
      if (byte >= zero && byte <= zero + 9) {
        natural = natural * 10 + byte - zero
        digits++
      } else if (byte === 0x2e || byte === 0x65 || byte === 0x45 || byte === 0x2b) isInteger = false
      else if (byte !== 0x2d) break
    }
    assert(at > from, 'a JSON value')
    this.#read = at
    // So many digits are always a safe integer.
    const isNatural = digits === at - from && digits <= 15
    const text = isNatural ? '' : this.#source.toString('latin1', from, at)
    const value = isNatural ? natural : Number(text)
    assert(Number.isFinite(value), 'a JSON number')
    if (!isInteger || Object.is(value, -0)) this.#float(value)
    else if (Number.isSafeInteger(value)) this.#integer(value)
    else this.#wideInteger(BigInt(text), value)
  }

  #integer(value: number): void {
    if (value < -32)
      this.#header(0xd3, () => this.#target.writeBigInt64BE(BigInt(value), this.#written))
    else if (value < 0x80) this.#target[this.#written++] = value & 0xff
    else if (value <= 0xffffffff) this.#sized(0xcc, value)
    else this.#header(0xcf, () => this.#target.writeBigUInt64BE(BigInt(value), this.#written))
  }

  /** A number of 8, 16 or 32 bits after its header, of which the first is given. */
  #sized(header: number, value: number): void {
    const width = value < 0x100 ? 1 : value < 0x10000 ? 2 : 4
    this.#target[this.#written] = header + (width >> 1)
    this.#written = this.#target.writeUIntBE(value, this.#written + 1, width)
  }

  #wideInteger(value: bigint, rounded: number): void {
    if (value >= 0n && value < 1n << 64n)
      this.#header(0xcf, () => this.#target.writeBigUInt64BE(value, this.#written))
    else if (value < 0n && value >= -(1n << 63n))
      this.#header(0xd3, () => this.#target.writeBigInt64BE(value, this.#written))
    else this.#float(rounded)
  }

  #float(value: number): void {
    this.#header(0xcb, () => this.#target.writeDoubleBE(value, this.#written))
  }

  #header(byte: number, body: () => number): void {
    this.#target[this.#written++] = byte
    this.#written = body()
  }

  #word(word: string, byte: number): void {
    const end = this.#read + word.length
    assert(this.#source.toString('latin1', this.#read, end) === word, 'a JSON word')
    this.#read = end
    this.#target[this.#written++] = byte
  }

  #skipSpace(): void {
    let byte = this.#source[this.#read]
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09)
      byte = this.#source[++this.#read]
  }
}
