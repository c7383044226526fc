// Writes JSON-RPC 2.0 responses.
// Ids are the text that the caller wrote and are returned unchanged. Field order is that of
// Solana's own server: jsonrpc, result or error, id.
// A long message is never whole in memory: its chunks are sent one after another, with backpressure
// from the reader.
import { assert } from '../errors.ts'

export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
  /** The whole object as JSON, where it is the same each time. */
  readonly text?: string
}

/** Result of a method: a value to encode, JSON that is ready or streamed, or an error. */
export type Answer =
  | { readonly kind: 'value'; readonly value: unknown }
  | {
      readonly kind: 'text'
      readonly text: string
      /** Absent when a node or the service itself answered. */
      readonly source?: 'stream'
    }
  | {
      readonly kind: 'bytes'
      readonly pieces: readonly Uint8Array[]
      /** The whole message with this end, where the value follows the usual opening in a buffer
       *  with room for it; null where not. Overwrites what follows the value. */
      readonly endWith?: (end: string) => Uint8Array | null
      /** Called when the pieces are sent and may be overwritten; may never be called. */
      readonly release?: () => void
    }
  | { readonly kind: 'stream'; readonly stream: ByteStream }
  | {
      readonly kind: 'error'
      readonly error: RpcError
      /** For the Retry-After header, where a rate limit refused the call. */
      readonly retryAfterMs?: number
    }

/** A message on the wire; bytes or a stream only where a result is one. */
export type Message = string | Uint8Array | PiecedMessage | MessageStream

export const rpcErrors = {
  parse: { code: -32700, message: 'Parse error' },
  invalidRequest: { code: -32600, message: 'Invalid request' },
  // Errors: JSON-RPC method not supported.
  unknownMethod: { code: -32601, message: 'Method not found' },
  invalidParams: { code: -32602, message: 'Invalid params' },
  internal: { code: -32603, message: 'Internal error' },
  // Solana's own; clients know to retry it.
  nodeUnhealthy: { code: -32005, message: 'Node is unhealthy', data: { numSlotsBehind: null } },
} as const satisfies Record<string, RpcError>

export function value(result: unknown): Answer {
  return { kind: 'value', value: result }
}

/** JSON text that is ready to send. */
export function encodedText(text: string): Answer {
  return { kind: 'text', text }
}

/** JSON bytes that are ready to send, piece after piece; kept until they are sent. */
export function encodedBytes(...pieces: readonly Uint8Array[]): Answer {
  return { kind: 'bytes', pieces }
}

/** JSON bytes that are too many to buffer; the response ends with the stream. */
export function streamed(stream: ByteStream): Answer {
  return { kind: 'stream', stream }
}

export function failure(error: RpcError): Answer {
  return { kind: 'error', error }
}

/** `end` is the text that the endpoint appends to every message. */
export function answerMessage(id: string, answer: Answer, end = ''): Message {
  switch (answer.kind) {
    case 'text':
      return `{"jsonrpc":"2.0","result":${answer.text},"id":${id}}${end}`
    case 'value':
      return `{"jsonrpc":"2.0","result":${JSON.stringify(answer.value ?? null)},"id":${id}}${end}`
    case 'error':
      return errorMessage(id, answer.error, end)
    case 'bytes': {
      const closing = `,"id":${id}}${end}`
      const whole = answer.endWith?.(closing) ?? null
      if (whole !== null) return bytesMessage([whole], answer)
      return bytesMessage([RESULT_OPENS, ...answer.pieces, Buffer.from(closing)], answer)
    }
    case 'stream':
      return new MessageStream([RESULT_OPENS, answer.stream, `,"id":${id}}${end}`])
  }
}

export function errorMessage(id: string, error: RpcError, end = ''): string {
  return `{"jsonrpc":"2.0","error":${errorTextOf(error)},"id":${id}}${end}`
}

/** The error object alone, for responses that are not JSON-RPC. */
export function errorTextOf(error: RpcError): string {
  if (error.text !== undefined) return error.text
  const data = error.data === undefined ? '' : `,"data":${JSON.stringify(error.data)}`
  return `{"code":${error.code},"message":${JSON.stringify(error.message)}${data}}`
}

/** The responses of a batch as one array; '' when there are none. */
export function batchMessage(answers: readonly Message[], end = ''): Message {
  if (answers.length === 0) return ''
  if (answers.every((answer) => typeof answer === 'string')) return `[${answers.join(',')}]${end}`
  const parts: Part[] = answers.flatMap((answer, index) => [
    index === 0 ? '[' : ',',
    ...partsOf(answer),
  ])
  parts.push(`]${end}`)
  if (answers.some((answer) => answer instanceof MessageStream)) return new MessageStream(parts)
  // Reason for the cast: the line above has shown that none is a stream.
  const pieces = parts as (string | Uint8Array)[]
  const bytes = pieces.map((part) => (typeof part === 'string' ? Buffer.from(part) : part))
  return bytesMessage(bytes, {})
}

/** Short pieces are cheaper to join than to send one by one. */
function bytesMessage(pieces: Uint8Array[], { release }: { release?: () => void }): Message {
  const message = new PiecedMessage(pieces, release)
  if (message.length > JOINED_BYTES_MAX) return message
  const joined = Buffer.concat(pieces, message.length)
  release?.()
  return joined
}

function partsOf(answer: Message): readonly Part[] {
  if (answer instanceof MessageStream) return answer.parts
  return answer instanceof PiecedMessage ? answer.pieces : [answer]
}

const JOINED_BYTES_MAX = 32_768
const RESULT_OPENS = Buffer.from('{"jsonrpc":"2.0","result":')

/** Bytes read on demand, from a source that waits meanwhile (backpressure). */
export interface ByteStream {
  /** The next bytes, null after the last; rejects when the source failed. One read at a time;
   *  the bytes are borrowed until the next read. */
  read(): Promise<Uint8Array | null>
  /** Stops the source. Allowed at any time and more than once. */
  cancel(): void
}

type Part = string | Uint8Array | ByteStream

/**
 * A message of several parts, read once, to the end or until `return`. A part that fails rejects:
 * what was read until then must not be taken for a whole message.
 */
export class MessageStream implements AsyncIterableIterator<Uint8Array> {
  readonly #parts: readonly Part[]
  /** Called with the number of bytes of each chunk. */
  onBytes: ((count: number) => void) | null = null
  #at = 0
  #isOver = false

  constructor(parts: readonly Part[]) {
    this.#parts = parts
  }

  /** The parts, for embedding the message in a longer one. */
  get parts(): readonly Part[] {
    return this.#parts
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    try {
      while (!this.#isOver && this.#at < this.#parts.length) {
        const part = this.#parts[this.#at]!
        if (isStream(part)) {
          const bytes = await part.read()
          if (bytes !== null) return this.#give(bytes)
          this.#at++
        } else {
          this.#at++
          return this.#give(typeof part === 'string' ? Buffer.from(part) : part)
        }
      }
    } catch (error) {
      this.#end()
      throw error
    }
    this.#end()
    return { done: true, value: undefined }
  }

  return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#end()
    return Promise.resolve({ done: true, value: undefined })
  }

  #give(value: Uint8Array): IteratorResult<Uint8Array, undefined> {
    this.onBytes?.(value.length)
    return { done: false, value }
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const part of this.#parts.slice(this.#at)) if (isStream(part)) part.cancel()
  }
}

/** A message in separate pieces, for senders that can write them one after another. */
export class PiecedMessage {
  readonly pieces: readonly Uint8Array[]
  readonly length: number
  /** Reports that the pieces are sent and may be overwritten; calling it is optional. */
  readonly release: (() => void) | undefined

  constructor(pieces: readonly Uint8Array[], release?: () => void) {
    this.pieces = pieces
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0)
    this.release = release
  }
}

/** For endpoints that send whole messages: none of their methods streams. */
export function whole(message: Message): string | Uint8Array {
  assert(!(message instanceof MessageStream), 'this endpoint does not stream')
  return message instanceof PiecedMessage ? Buffer.concat(message.pieces) : message
}

/** Wraps a stream: `done` runs once when it is read to the end, failed or cancelled. */
export function watched(stream: ByteStream, done: () => void): ByteStream {
  let isOver = false
  const end = () => {
    if (!isOver) done()
    isOver = true
  }
  return {
    async read() {
      try {
        const bytes = await stream.read()
        if (bytes === null) end()
        return bytes
      } catch (error) {
        end()
        throw error
      }
    },
    cancel() {
      stream.cancel()
      end()
    },
  }
}

function isStream(part: Part): part is ByteStream {
  return typeof part !== 'string' && !(part instanceof Uint8Array)
}
