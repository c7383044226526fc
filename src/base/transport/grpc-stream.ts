// The sending side of one streaming gRPC call.
//
//   product: queue of framed bytes --write--> http2 stream of the call --> socket
//
// Frames are whole gRPC messages with their 5-byte prefix, many joined in one buffer: one http2
// write then carries hundreds of messages, where call.write pays a round trip through three stream
// layers for each. The http2 stream is not public in the library: grpc-probe.ts checks it at start.
import { constants, type ServerHttp2Stream } from 'node:http2'
import type { GrpcEncoding } from './grpc-encoding.ts'
import type { GrpcStatus } from './grpc-status.ts'

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
  message(bytes: Buffer): void
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
