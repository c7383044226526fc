// Frames of the WebSocket protocol for a client: builds masked ones, reads a server's.
import { randomBytes } from 'node:crypto'

export const opcodes = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

const final = 0x80
const masked = 0x80
const length16 = 126
const length64 = 127
const shortMax = 125
/** A message longer than this ends the connection. */
const messageBytesMax = 64 * 1024 * 1024

/** A whole masked frame. */
export function clientFrame(payload: Uint8Array, opcode: number = opcodes.text): Buffer {
  const mask = randomBytes(4)
  const { length } = payload
  const extra = length <= shortMax ? 0 : length < 65_536 ? 2 : 8
  const frame = Buffer.allocUnsafe(2 + extra + 4 + length)
  frame[0] = final | opcode
  if (extra === 0) frame[1] = masked | length
  else if (extra === 2) {
    frame[1] = masked | length16
    frame.writeUInt16BE(length, 2)
  } else {
    frame[1] = masked | length64
    frame.writeBigUInt64BE(BigInt(length), 2)
  }
  mask.copy(frame, 2 + extra)
  const at = 2 + extra + 4
  for (let index = 0; index < length; index += 1)
    frame[at + index] = payload[index]! ^ mask[index & 3]!
  return frame
}

/** Takes a whole message, or a control frame; the bytes are valid during the call. */
export type TakeFrame = (opcode: number, payload: Buffer) => void

/** Cuts the bytes of a server into messages; fragments are joined. */
export class FrameReader {
  readonly #take: TakeFrame
  #rest: Buffer | null = null
  #fragments: Buffer[] = []
  #opcode = 0

  constructor(take: TakeFrame) {
    this.#take = take
  }

  /** False when the bytes are not of this protocol. */
  push(bytes: Buffer): boolean {
    const isCopy = this.#rest !== null
    const whole = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
    let at = 0
    for (;;) {
      const frame = frameAt(whole, at)
      if (frame === 'bad') return false
      if (frame === null) break
      this.#frame(whole[at]!, whole.subarray(frame.from, frame.to))
      at = frame.to
    }
    const rest = whole.subarray(at)
    // A copy: the connection reads into the same buffer again.
    this.#rest = rest.length === 0 ? null : isCopy ? rest : Buffer.from(rest)
    return true
  }

  #frame(first: number, payload: Buffer): void {
    const opcode = first & 0x0f
    if (opcode >= opcodes.close) {
      this.#take(opcode, payload)
      return
    }
    if (opcode !== 0) this.#opcode = opcode
    const isFinal = (first & final) !== 0
    if (isFinal && this.#fragments.length === 0) {
      this.#take(this.#opcode, payload)
      return
    }
    this.#fragments.push(Buffer.from(payload))
    if (!isFinal) return
    const message = Buffer.concat(this.#fragments)
    this.#fragments = []
    this.#take(this.#opcode, message)
  }
}

function frameAt(bytes: Buffer, at: number): { from: number; to: number } | 'bad' | null {
  if (bytes.length - at < 2) return null
  const second = bytes[at + 1]!
  if ((bytes[at]! & 0x70) !== 0 || (second & masked) !== 0) return 'bad'
  let length = second
  let from = at + 2
  if (second === length16) {
    if (bytes.length < at + 4) return null
    length = bytes.readUInt16BE(at + 2)
    from = at + 4
  } else if (second === length64) {
    if (bytes.length < at + 10) return null
    length = Number(bytes.readBigUInt64BE(at + 2))
    from = at + 10
  }
  if (length > messageBytesMax) return 'bad'
  return bytes.length < from + length ? null : { from, to: from + length }
}
