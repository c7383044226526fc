// Reads the frames of an HTTP/2 connection from memory that the socket fills, and the gRPC messages
// of one stream in place: they are not copied, unless they lie in several frames or are few.
// A batch's memory is given away with its messages, and moves to another thread.
//
//   slab: | head | 0 length message | head | 0 length mess | head | age |    free: the next read
//                  └───── whole ───┘         └ moved together ──────┘
//         └──────────────── the next batch ─────────────────────────────┘

/** Least room for a read. */
const roomBytesMin = 16 * 1024
/** Slabs are twice as large as the last batch, within these. */
const slabBytesMin = 64 * 1024
const slabBytesMax = 1024 * 1024
/** Shorter batches are copied, so that a quiet stream keeps little memory. */
const copiedBytesMax = 32 * 1024
/** Longest frame that is not DATA. */
const frameBytesMax = 64 * 1024

export interface FrameSink {
  /** A whole frame that is not DATA. The bytes are valid during the call. */
  frame(head: FrameHead, payload: Buffer): void
  /** A part of the DATA of a stream that is not read in place. Valid during the call. */
  data(stream: number, bytes: Buffer): void
  /** So many bytes of DATA of the stream that is read in place arrived. */
  arrived(bytes: number): void
  /** Whole messages of the stream that is read in place. */
  messages: TakeMessages
  /** The end of a DATA frame; `bytes` counts for flow control. */
  dataEnd(stream: number, bytes: number, isLast: boolean): void
  /** The frames, or the messages of the stream that is read in place, are malformed. */
  malformed(what: 'frames' | 'messages'): void
}

export class Http2Reader {
  /** The stream whose messages are read in place; 0 for none. */
  inPlace = 0
  readonly #sink: FrameSink
  #slab: Buffer = Buffer.allocUnsafeSlow(slabBytesMin)
  #filled = 0
  /** The next byte to parse. */
  #at = 0
  /** The message that is not whole yet. */
  #start = 0
  #end = 0
  #offsets: number[] = []
  /** The DATA frame that is being read. */
  #data = { stream: 0, bytes: 0, isLast: false }
  #dataLeft = 0
  #paddingLeft = 0
  #isFirst = true
  #isStopped = false

  constructor(sink: FrameSink) {
    this.#sink = sink
  }

  /** Where the next bytes go. */
  room(): Buffer {
    return this.#slab.subarray(this.#filled)
  }

  /** So many bytes came into the room, which is another one afterwards. */
  read(count: number): void {
    this.#filled += count
    while (!this.#isStopped && this.#at < this.#filled && this.#parse());
    if (this.#offsets.length > 0) this.#hand()
    else if (this.#slab.length - this.#filled < this.#missingBytes()) this.#renew(0)
    else if (this.#at === this.#filled) this.#rewind()
  }

  /** Hands over the whole messages of the read that is being parsed. */
  flush(): void {
    if (this.#offsets.length > 0) this.#copy()
  }

  /** No stream is read in place any more; what is not handed over is dropped. */
  release(): void {
    this.inPlace = 0
    this.#offsets = []
    this.#start = this.#end
  }

  stop(): void {
    this.#isStopped = true
  }

  /** False when it needs more bytes. */
  #parse(): boolean {
    if (this.#dataLeft > 0) {
      const count = Math.min(this.#dataLeft, this.#filled - this.#at)
      this.#readData(count)
      this.#at += count
      this.#dataLeft -= count
    } else if (this.#paddingLeft > 0) {
      const count = Math.min(this.#paddingLeft, this.#filled - this.#at)
      this.#at += count
      this.#paddingLeft -= count
    } else return this.#readHead()
    if (this.#dataLeft === 0 && this.#paddingLeft === 0) this.#endData()
    return true
  }

  #readHead(): boolean {
    const slab = this.#slab
    const at = this.#at
    const available = this.#filled - at
    if (available < frameHeadBytes) return false
    const length = slab.readUIntBE(at, 3)
    const type = slab[at + 3]!
    const flags = slab[at + 4]!
    const stream = slab.readUInt32BE(at + 5) & 0x7fff_ffff
    const isData = type === frameType.data
    // A peer that does not speak HTTP/2 begins with something else.
    if (this.#isFirst && type !== frameType.settings) return this.#fail()
    if (!isData && length > frameBytesMax) return this.#fail()
    const isPadded = isData && (flags & frameFlag.padded) !== 0
    const needed = isData ? (isPadded ? 1 : 0) : length
    if (available < frameHeadBytes + needed) return false
    this.#isFirst = false
    const start = at + frameHeadBytes
    this.#at = start + needed
    if (!isData) {
      this.#sink.frame({ type, flags, stream }, slab.subarray(start, start + length))
      return true
    }
    this.#paddingLeft = isPadded ? slab[start]! : 0
    this.#dataLeft = length - needed - this.#paddingLeft
    if (this.#dataLeft < 0) return this.#fail()
    this.#data = { stream, bytes: length, isLast: (flags & frameFlag.endStream) !== 0 }
    if (this.#dataLeft === 0 && this.#paddingLeft === 0) this.#endData()
    return true
  }

  #endData(): void {
    const { stream, bytes, isLast } = this.#data
    this.#sink.dataEnd(stream, bytes, isLast)
  }

  #readData(count: number): void {
    const slab = this.#slab
    const at = this.#at
    if (this.#data.stream !== this.inPlace) {
      this.#sink.data(this.#data.stream, slab.subarray(at, at + count))
      return
    }
    this.#sink.arrived(count)
    if (this.#start === this.#end) {
      this.#start = at
      this.#end = at
    } else if (this.#end !== at) slab.copyWithin(this.#end, at, at + count)
    this.#end += count
    while (this.#end - this.#start >= framePrefixBytes) {
      const length = messageBytesAt(slab, this.#start)
      if (length < 0) {
        this.#sink.malformed('messages')
        return
      }
      const start = this.#start + framePrefixBytes
      if (start + length > this.#end) return
      this.#offsets.push(start, start + length)
      this.#start = start + length
    }
  }

  #fail(): false {
    this.#isStopped = true
    this.#sink.malformed('frames')
    return false
  }

  /** Ends the batch, and makes room. */
  #hand(): void {
    const end = this.#start
    if (end <= copiedBytesMax || end * 2 < this.#slab.length) {
      this.#copy()
      // A slab that is much too long would have every batch copied.
      if (end > copiedBytesMax) this.#renew(end)
      else this.#move(this.#slab)
      return
    }
    const bytes = this.#slab.subarray(0, end)
    const offsets = this.#offsets
    this.#offsets = []
    this.#renew(end)
    this.#sink.messages(bytes, offsets)
  }

  #copy(): void {
    const offsets = this.#offsets
    this.#offsets = []
    const start = offsets[0]! - framePrefixBytes
    const bytes = Buffer.allocUnsafeSlow(this.#start - start)
    this.#slab.copy(bytes, 0, start, this.#start)
    const moved = offsets.map((offset) => offset - start)
    this.#sink.messages(bytes, moved)
  }

  /** Another slab for what follows a batch of so many bytes. */
  #renew(batchBytes: number): void {
    const rest = this.#end - this.#start + this.#filled - this.#at
    const size = Math.min(slabBytesMax, Math.max(slabBytesMin, batchBytes * 2))
    this.#move(Buffer.allocUnsafeSlow(Math.max(size, rest + this.#missingBytes())))
  }

  /** Bytes of the message or frame that is not whole, and of a read at least. */
  #missingBytes(): number {
    const message = this.#end - this.#start
    const frame = this.#filled - this.#at
    let missing = roomBytesMin
    if (message >= framePrefixBytes)
      missing += framePrefixBytes + messageBytesAt(this.#slab, this.#start) - message
    if (frame >= frameHeadBytes) missing += frameBytesMax
    return missing
  }

  /** What is not whole goes to the start of a slab: the message, then what is not parsed. */
  #move(slab: Buffer): void {
    const message = this.#end - this.#start
    this.#slab.copy(slab, 0, this.#start, this.#end)
    this.#slab.copy(slab, message, this.#at, this.#filled)
    this.#filled = message + this.#filled - this.#at
    this.#at = message
    this.#start = 0
    this.#end = message
    this.#slab = slab
  }

  /** Everything is parsed: reuses what is behind the message that is not whole. */
  #rewind(): void {
    if (this.#start === this.#end) this.#move(this.#slab)
    this.#at = this.#end
    this.#filled = this.#end
  }
}

// Frames of HTTP/2, as a client writes them (RFC 9113).
//
//   | length u24 | type u8 | flags u8 | stream u32 | payload … |

const frameHeadBytes = 9
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
const joinedBytesMin = 4 * 1024
/** Longer batches save nothing. */
const joinedBytesMax = 256 * 1024

/** Takes whole frames; `offsets` has the start and end of each message in turn. */
export type TakeMessages = (bytes: Buffer, offsets: readonly number[]) => void

export class MessageBatcher {
  readonly #take: TakeMessages
  #slab = Buffer.allocUnsafeSlow(joinedBytesMin)
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
    const size = Math.min(joinedBytesMax, Math.max(joinedBytesMin, end * 2))
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
function messageBytesAt(bytes: Buffer, at: number): number {
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
