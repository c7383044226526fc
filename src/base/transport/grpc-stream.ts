// One streaming gRPC call: its sending side, compression, and the limits of what a caller sends.
//
//   product: queue of framed bytes --write--> http2 stream of the call --> socket
//
// Frames are whole gRPC messages with their 5-byte prefix, many joined in one buffer: one http2
// write then carries hundreds of messages, where call.write pays a round trip through three stream
// layers for each. The http2 stream is not public in the library: grpc-probe.ts checks it at start.
import { constants, type ServerHttp2Stream } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { BackWriter } from '../protobuf.ts'
import { compressZstd, decompressZstd } from '../zstd.ts'
import type { GrpcEncoding } from './grpc-encoding.ts'

/**
 * gRPC status codes by name. base/errors.ts maps refusals to their code; the codes here without a
 * refusal kind (out of range, data loss, aborted) are for streams only.
 */
export const grpcCode = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
} as const

export interface GrpcStatus {
  readonly code: number
  /** Shown to the caller; never a token. */
  readonly details: string
  /** When a retry makes sense; sent in the trailers. */
  readonly retryAfterMs?: number
}

const writer = new BackWriter()
const retryInfoType = 'type.googleapis.com/google.rpc.RetryInfo'

/** The bytes of `grpc-status-details-bin`: a google.rpc.Status that contains one RetryInfo. */
export function retryDetails(status: GrpcStatus, retryAfterMs: number): Buffer {
  const seconds = Math.floor(retryAfterMs / 1000)
  writer.number(2, Math.round((retryAfterMs - seconds * 1000) * 1e6))
  writer.number(1, seconds)
  // RetryInfo { retry_delay }, in Any { type_url, value }, in Status { code, message, details }.
  writer.wrap(1, 0)
  writer.wrap(2, 0)
  writer.stringAlways(1, retryInfoType)
  writer.wrap(3, 0)
  writer.stringAlways(2, status.details)
  writer.number(1, status.code)
  return writer.take()
}

/** Prefix of a gRPC message: one byte for compression, four for the length. */
export const framePrefixBytes = 5
/** A message with its prefix, not compressed. */
export function framed(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(framePrefixBytes + message.length)
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, framePrefixBytes)
  return frame
}

/** How long a status may wait for unsent bytes before the stream is reset. */
const endGraceMs = 5_000
/** Refused calls of one connection whose caller has not ended them; more are reset at once. */
const refusedStreamsMax = 16

export interface GrpcStream {
  /** Messages of the frames may be compressed with it; null for none. */
  readonly encoding: GrpcEncoding | null
  /** A header of the call; undefined when absent. */
  header(name: string): string | undefined
  /**
   * Writes frames; a long one may take several calls. False is backpressure: keep the rest until
   * `drained` is called. `sent` is called when the memory of the frames is free again; never, if
   * the stream ends before that.
   */
  write(frames: Buffer, sent?: () => void): boolean
  /** Bytes written that the peer's window or socket has not accepted yet. */
  readonly unsentBytes: number
  /** Ends the call; the first status counts. What was written before is sent first. */
  end(status: GrpcStatus): void
}

/** Events of a streaming call for its handler. Nothing follows `closed`. */
export interface StreamEvents {
  /** The next message is passed on once a promise resolves: another thread takes this one. */
  message(bytes: Buffer): void | Promise<void>
  /** The peer will send nothing more; it still receives. */
  halfClosed(): void
  drained(): void
  closed(): void
}

/** A call of the library, with what it does to messages. */
export interface LibraryCall {
  readonly stream: ServerHttp2Stream
  decompressMessage(frame: Buffer, encoding: string): Buffer | Promise<Buffer>
  serializeMessage(value: unknown): Buffer
}

/** Walks from a call, through any interceptors, to the one with the http2 stream, or null. */
export function innermostCall(call: unknown): LibraryCall | null {
  let current = call as { stream?: unknown; nextCall?: unknown; call?: unknown } | undefined
  for (let depth = 0; depth < 16 && typeof current === 'object' && current !== null; depth++) {
    const stream = current.stream as ServerHttp2Stream | undefined
    if (typeof stream?.write === 'function' && typeof stream.respond === 'function')
      return current as LibraryCall
    current = (current.nextCall ?? current.call) as typeof current
  }
  return null
}

/** Sends on the call's own http2 stream. */
export class DirectStream implements GrpcStream {
  readonly encoding: GrpcEncoding | null
  readonly header: GrpcStream['header']
  readonly #stream: ServerHttp2Stream
  readonly #finish: (status: GrpcStatus) => void
  #isEnded = false

  /** `finish` sends the status of the call. */
  constructor(
    stream: ServerHttp2Stream,
    call: Pick<GrpcStream, 'encoding' | 'header'>,
    finish: (status: GrpcStatus) => void,
  ) {
    this.#stream = stream
    this.encoding = call.encoding
    this.header = call.header
    this.#finish = finish
  }

  get unsentBytes(): number {
    return this.#stream.writableLength
  }

  write(frames: Buffer, sent?: () => void): boolean {
    const stream = this.#stream
    // A closed stream discards writes: its handler gets `closed` and stops.
    if (this.#isEnded || stream.writableEnded || stream.destroyed || stream.closed) return true
    if (sent === undefined) return stream.write(frames)
    return stream.write(frames, (error) => {
      // After an error it is unknown whether the bytes are still in use.
      if (!error) sent()
    })
  }

  end(status: GrpcStatus): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#finish(status)
    closeLater(this.#stream, endGraceMs)
  }
}

/** Resets a stream that its peer keeps open after the end, so that such streams cannot pile up. */
export function closeLater(stream: ServerHttp2Stream | null, graceMs: number): void {
  if (stream === null || stream.closed) return
  const timer = setTimeout(() => {
    if (stream.closed) return
    // Everything was sent and only the peer's half is open: that is not an error of the peer.
    const isSent = stream.writableFinished
    stream.close(isSent ? constants.NGHTTP2_NO_ERROR : constants.NGHTTP2_CANCEL)
  }, graceMs)
  timer.unref()
  stream.once('close', () => clearTimeout(timer))
}

/** Closes refused calls that their callers keep open: after a grace period, at once when many. */
export class RefusedStreams {
  readonly #open = new WeakMap<object, number>()

  add(stream: ServerHttp2Stream | null, graceMs: number): void {
    const session = stream?.session
    if (stream === null || session === undefined) return
    const count = (this.#open.get(session) ?? 0) + 1
    this.#open.set(session, count)
    stream.once('close', () => this.#open.set(session, this.#open.get(session)! - 1))
    closeLater(stream, count > refusedStreamsMax ? 0 : graceMs)
  }
}

// Compresses the messages of answers and inflates those of requests.
//
//   request with flag 1 -> inflated within the method's size limit -> the library
//   run of frames       -> each message compressed, flag 1 -> every stream that asks for it
//
// The library inflates gzip and deflate requests and compresses no answer, hence the two methods
// of its calls that are replaced here. A message may always be sent uncompressed, with flag 0.

/** A shorter message gains nothing. */
const compressBytesMin = 256
/** A longer one would hold the main thread for more than 20 ms. */
const compressBytesMax = 4 * 1024 * 1024
/** The higher levels take twice the time and save a few percent. */
const level = 1

/** Compresses the messages of a run of frames, which may be split into several buffers. */
export function compressFrames(
  runs: readonly { readonly bytes: Buffer }[],
  encoding: GrpcEncoding,
): Buffer {
  const frames = runs.length === 1 ? runs[0]!.bytes : Buffer.concat(runs.map(({ bytes }) => bytes))
  const parts: Uint8Array[] = []
  let copied = 0
  for (let at = 0; at < frames.length; ) {
    const end = at + framePrefixBytes + frames.readUInt32BE(at + 1)
    const message = frames.subarray(at + framePrefixBytes, end)
    if (message.length >= compressBytesMin && message.length <= compressBytesMax) {
      const isGzip = encoding === 'gzip'
      const compressed = isGzip ? gzipSync(message, { level }) : compressZstd(message, level)
      if (compressed.length < message.length) {
        const prefix = Buffer.allocUnsafe(framePrefixBytes)
        prefix[0] = 1
        prefix.writeUInt32BE(compressed.length, 1)
        parts.push(frames.subarray(copied, at), prefix, compressed)
        copied = end
      }
    }
    at = end
  }
  return Buffer.concat([...parts, frames.subarray(copied)])
}

/** Lets a call take zstd requests, limits what requests inflate to, and compresses its answers. */
export function handleCompression(
  call: LibraryCall,
  options: {
    readonly messageBytesMax: number
    readonly encoding: GrpcEncoding | null
    /** The call ends with a status because of a request. */
    refused(): void
  },
): void {
  const inflate = call.decompressMessage
  call.decompressMessage = async (frame, encoding) => {
    try {
      const message = await (encoding === 'zstd'
        ? inflateZstd(frame.subarray(framePrefixBytes), options.messageBytesMax)
        : inflate.call(call, frame, encoding))
      if (message.length > options.messageBytesMax) throw inflatesTooLarge(options.messageBytesMax)
      return message
    } catch (status) {
      options.refused()
      throw status
    }
  }
  const { encoding } = options
  if (encoding === null) return
  const serialize = call.serializeMessage
  call.serializeMessage = (value) =>
    compressFrames([{ bytes: serialize.call(call, value) }], encoding)
}

/** Throws a status, as the library's own method does. */
function inflateZstd(bytes: Buffer, bytesMax: number): Buffer {
  const outcome = decompressZstd(bytes, bytesMax)
  if (outcome === 'too-large') throw inflatesTooLarge(bytesMax)
  if (outcome === 'damaged') throw damaged
  return outcome
}

function inflatesTooLarge(bytesMax: number): GrpcStatus {
  const details = `Received message that decompresses to a size larger than ${bytesMax}`
  return { code: grpcCode.resourceExhausted, details }
}

const damaged: GrpcStatus = { code: grpcCode.internal, details: 'Failed to decompress message' }

// Limits what a caller may send on one gRPC call, before the library buffers it.
//
//   http2 stream --chunk--> prefixes of messages: size, count, time --> the library's decoder
//                                  |
//                                  +-- over a limit: status, and every later byte is discarded
//
// The library has one size limit for all methods and no timeout, so a message whose last byte
// never arrives would occupy memory for as long as the caller likes.

export interface RequestLimits {
  readonly messageBytesMax: number
  /** One more ends the call with INVALID_ARGUMENT. */
  readonly messagesMax: number
  /** Timeout from the headers of the call to its whole first message; null for none. */
  readonly firstMessageMs: number | null
}

/** Timeout from the first byte of a message to its last. */
export const messageDeadlineMs = 30_000

/** Installs the limits between the stream and the library. `refuse` is called at most once. */
export function limitRequests(
  stream: ServerHttp2Stream,
  limits: RequestLimits,
  refuse: (status: GrpcStatus) => void,
): void {
  const gather = stream.rawListeners('data') as ((chunk: Buffer) => void)[]
  stream.removeAllListeners('data')
  const { firstMessageMs } = limits
  let timer = firstMessageMs === null ? undefined : deadline(firstMessageMs)
  const prefixes = new MessagePrefixes(limits)
  const onChunk = (chunk: Buffer) => {
    const hadMessages = prefixes.messages
    const status = prefixes.read(chunk)
    if (status !== null) {
      cut(status)
      return
    }
    if (prefixes.messages > hadMessages) {
      clearTimeout(timer)
      timer = undefined
    }
    if (prefixes.isInside) timer ??= deadline(messageDeadlineMs)
    for (const listener of gather) listener.call(stream, chunk)
  }
  function deadline(ms: number): NodeJS.Timeout {
    const details = `a request message did not arrive within ${ms / 1_000} seconds`
    return setTimeout(() => cut({ code: grpcCode.deadlineExceeded, details }), ms).unref()
  }
  function cut(status: GrpcStatus): void {
    clearTimeout(timer)
    stream.off('data', onChunk)
    refuse(status)
    // Without a listener, bytes that still arrive are discarded.
    stream.resume()
  }
  // The library has paused the stream, so that this does not start it.
  stream.on('data', onChunk)
  stream.once('close', () => clearTimeout(timer))
}

/** Reads the prefixes of messages, however they are split into chunks, and skips the payloads. */
class MessagePrefixes {
  readonly #limits: RequestLimits
  /** Whole messages so far. */
  messages = 0
  #prefixRead = 0
  #size = 0
  /** Bytes of the current message still to be skipped. */
  #left = 0

  constructor(limits: RequestLimits) {
    this.#limits = limits
  }

  /** A message has begun and is not complete. */
  get isInside(): boolean {
    return this.#prefixRead > 0
  }

  /** Null, or the status with which the call must end. */
  read(chunk: Buffer): GrpcStatus | null {
    const { messageBytesMax, messagesMax } = this.#limits
    for (let at = 0; at < chunk.length; ) {
      if (this.#prefixRead < framePrefixBytes) {
        if (this.messages >= messagesMax) return tooManyMessages
        // The first byte is the compression flag; the others are the length.
        this.#size = this.#prefixRead === 0 ? 0 : this.#size * 256 + chunk[at]!
        at++
        if (++this.#prefixRead < framePrefixBytes) continue
        if (this.#size > messageBytesMax) return tooLarge(this.#size, messageBytesMax)
        this.#left = this.#size
      } else {
        const skipped = Math.min(this.#left, chunk.length - at)
        this.#left -= skipped
        at += skipped
      }
      if (this.#left > 0) continue
      this.messages++
      this.#prefixRead = 0
    }
    return null
  }
}

const tooManyMessages: GrpcStatus = {
  code: grpcCode.invalidArgument,
  details: 'more request messages than the method takes',
}

function tooLarge(size: number, max: number): GrpcStatus {
  const details = `Received message larger than max (${size} vs ${max})`
  return { code: grpcCode.resourceExhausted, details }
}
