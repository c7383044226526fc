// Frames of HTTP/2, as a client writes them (RFC 9113).
//
//   | length u24 | type u8 | flags u8 | stream u32 | payload … |

export const frameHeadBytes = 9
export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

export const frameType = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

/** `endStream` and `ack` are one bit, of different types of frames. */
export const frameFlag = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 32 } as const

export const setting = { enablePush: 2, initialWindowSize: 4, maxFrameSize: 5 } as const

/** Error code of a stream that its client does not want any more. */
export const cancelCode = 8

/** What a connection and each stream may send before the peer allows more. */
export const defaultWindowBytes = 65_535
/** Largest payload that every peer takes. */
export const frameBytesDefault = 16_384

const nothing = Buffer.alloc(0)

export interface FrameHead {
  readonly type: number
  readonly flags: number
  /** 0: the connection. */
  readonly stream: number
}

export function frameOf({ type, flags, stream }: FrameHead, payload: Buffer = nothing): Buffer {
  const frame = Buffer.allocUnsafe(frameHeadBytes + payload.length)
  frame.writeUIntBE(payload.length, 0, 3)
  frame[3] = type
  frame[4] = flags
  frame.writeUInt32BE(stream, 5)
  payload.copy(frame, frameHeadBytes)
  return frame
}

/** A frame whose payload is one number. */
export function numberFrame(type: number, stream: number, value: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  payload.writeUInt32BE(value)
  return frameOf({ type, flags: 0, stream }, payload)
}

export function settingsFrame(values: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(values.length * 6)
  for (const [index, [id, value]] of values.entries()) {
    payload.writeUInt16BE(id, index * 6)
    payload.writeUInt32BE(value, index * 6 + 2)
  }
  return frameOf({ type: frameType.settings, flags: 0, stream: 0 }, payload)
}
