// Finds the end and the status of an HTTP/1.1 response in the bytes of a connection.
// Reads what a load generator needs and no more: status, length, and whether JSON-RPC failed.

export interface HttpAnswer {
  readonly status: number
  /** True when the server closes the connection after it. */
  readonly isLast: boolean
  /** Its `ratelimit-policy`, where it was refused for a limit. */
  readonly policy?: string
  readonly bodyAt: number
  /** First byte after the response. */
  readonly end: number
}

const headBytesMax = 16_384
const blank = Buffer.from('\r\n\r\n')
const lengthLine = /\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*(?=\r\n)/i
const chunkedLine = /\r\ntransfer-encoding:[ \t]*chunked/i
const closeLine = /\r\nconnection:[ \t]*close/i
const policyLine = /\r\nratelimit-policy:[ \t]*([^\r]{1,200})/i
const statusAt = 9

/** What the head of a response says about its body. */
interface Head {
  readonly text: string
  readonly status: number
  readonly isLast: boolean
  /** Null without a length. */
  readonly length: number | null
  readonly isChunked: boolean
  readonly policy: string
}

export class AnswerParser {
  /** Servers repeat themselves: an equal head is not parsed again. */
  #head: Head = headOf('')

  /** Null while it is not complete; 'bad' when the bytes are no response with a known end. */
  parse(bytes: Buffer, to: number): HttpAnswer | 'bad' | null {
    const filled = bytes.subarray(0, to)
    const blankAt = filled.indexOf(blank)
    if (blankAt < 0) return to > headBytesMax ? 'bad' : null
    const text = filled.toString('latin1', 0, blankAt + 2)
    if (text !== this.#head.text) {
      if (!text.startsWith('HTTP/1.')) return 'bad'
      this.#head = headOf(text)
    }
    const { status, isLast, length, isChunked, policy } = this.#head
    const known = { status, isLast, ...(policy === '' ? {} : { policy }) }
    const bodyAt = blankAt + blank.length
    if (length !== null) {
      const end = bodyAt + length
      return end > to ? null : { ...known, bodyAt, end }
    }
    if (status === 204 || status === 304) return { ...known, bodyAt, end: bodyAt }
    if (!isChunked) return 'bad'
    const end = chunkedEnd(bytes, bodyAt, to)
    return typeof end === 'number' ? { ...known, bodyAt, end } : end
  }
}

function headOf(text: string): Head {
  const length = lengthLine.exec(text)?.[1]
  const status = Number(text.slice(statusAt, statusAt + 3))
  return {
    text,
    status,
    isLast: closeLine.test(text),
    length: length === undefined ? null : Number(length),
    isChunked: chunkedLine.test(text),
    policy: status === 429 ? (policyLine.exec(text)?.[1] ?? '') : '',
  }
}

/** First byte after the last chunk of a chunked body. */
function chunkedEnd(bytes: Buffer, from: number, to: number): number | 'bad' | null {
  let at = from
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0 || lineEnd >= to) return null
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    if (Number.isNaN(size)) return 'bad'
    at = lineEnd + 2 + size + 2
    if (at > to) return null
    if (size === 0) return at
  }
}

/** The JSON-RPC error code of a body, or null. The body is parsed only where it says "error". */
export function rpcErrorOf(bytes: Buffer, from: number, to: number): string | null {
  // Within the body only: the buffer after it may be long.
  if (bytes.subarray(from, to).indexOf('"error"') < 0) return null
  try {
    const answer = JSON.parse(bytes.toString('utf8', from, to)) as unknown
    const failed = [answer].flat().find(hasError)
    return failed === undefined ? null : `rpc ${failed.error.code ?? 'error'}`
  } catch {
    return 'bad JSON'
  }
}

function hasError(value: unknown): value is { error: { code?: number } } {
  if (typeof value !== 'object' || value === null || !('error' in value)) return false
  return typeof value.error === 'object' && value.error !== null
}
