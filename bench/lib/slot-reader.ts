// Reads the WebSocket frames of one subscription by hand: counts notifications and checks that
// their slots rise. Thread: any (pure).
// Rising slots and the right count together mean that each notification came exactly once. Control
// frames are no notifications: a ping is answered, anything else is skipped.

const OPCODE_TEXT = 1
const OPCODE_PING = 9
const PONG = 0x8a
const MASKED = 0x80

export class SlotReader {
  /** Notifications, and those whose slot was not above the one before. */
  frames = 0
  unordered = 0
  readonly #send: (frame: Buffer) => void
  #slot = 0
  #rest: Buffer = Buffer.alloc(0)

  /** `send` gets the pongs. */
  constructor(send: (frame: Buffer) => void) {
    this.#send = send
  }

  read(chunk: Buffer): void {
    const data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    for (;;) {
      const body = bodyOf(data, at)
      if (body === null) break
      const opcode = data[at]! & 0x0f
      if (opcode === OPCODE_TEXT) this.#notification(data, body.start)
      else if (opcode === OPCODE_PING) this.#send(pongOf(data.subarray(body.start, body.end)))
      at = body.end
    }
    this.#rest = data.subarray(at)
  }

  #notification(data: Buffer, start: number): void {
    const slot = numberAfter(data, '"slot":', start)
    if (slot <= this.#slot) this.unordered++
    this.#slot = slot
    this.frames++
  }
}

/** Null while the frame is not whole. No frame here has 65,536 bytes or more. */
function bodyOf(data: Buffer, at: number): { start: number; end: number } | null {
  if (data.length < at + 2) return null
  const short = data[at + 1]!
  const start = short < 126 ? at + 2 : at + 4
  if (data.length < start) return null
  const end = start + (short < 126 ? short : data.readUInt16BE(at + 2))
  return data.length < end ? null : { start, end }
}

/** Clients mask what they send; a mask of zeros leaves the bytes as they are. */
function pongOf(payload: Buffer): Buffer {
  return Buffer.concat([Buffer.of(PONG, MASKED | payload.length, 0, 0, 0, 0), payload])
}

function numberAfter(data: Buffer, name: string, from: number): number {
  let at = data.indexOf(name, from, 'latin1') + name.length
  let value = 0
  for (; data[at]! >= 48 && data[at]! <= 57; at++) value = value * 10 + data[at]! - 48
  return value
}
