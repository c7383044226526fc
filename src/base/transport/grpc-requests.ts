// Limits what a caller may send on one gRPC call, before the library buffers it.
//
//   http2 stream --chunk--> prefixes of messages: size, count, time --> the library's decoder
//                                  |
//                                  +-- over a limit: status, and every later byte is discarded
//
// The library has one size limit for all methods and no timeout, so a message whose last byte
// never arrives would occupy memory for as long as the caller likes.
import type { ServerHttp2Stream } from 'node:http2'
import { type GrpcStatus, grpcCode } from './grpc-status.ts'
import { framePrefixBytes } from './grpc-stream.ts'

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
