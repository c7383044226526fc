// Finds the end and the status of an HTTP/1.1 response in the bytes of a connection. Thread: any.
// Reads what a load generator needs and no more: status, length, and whether JSON-RPC failed.

export interface HttpAnswer {
  readonly status: number
  /** True when the server closes the connection after it. */
  readonly isLast: boolean
  readonly bodyAt: number
  /** First byte after the response. */
  readonly end: number
}

const headBytesMax = 16_384
const blank = Buffer.from('\r\n\r\n')
const lengthLine = /\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*(?=\r\n)/i
const chunkedLine = /\r\ntransfer-encoding:[ \t]*chunked/i
const closeLine = /\r\nconnection:[ \t]*close/i
const statusAt = 9
const zero = 0x30

/** Null while it is not complete; 'bad' when the bytes are no response with a known end. */
export function parseAnswer(bytes: Buffer, from: number, to: number): HttpAnswer | 'bad' | null {
  const blankAt = bytes.indexOf(blank, from)
  if (blankAt < 0 || blankAt >= to) return to - from > headBytesMax ? 'bad' : null
  const head = bytes.toString('latin1', from, blankAt + 2)
  if (!head.startsWith('HTTP/1.')) return 'bad'
  const status =
    (bytes[from + statusAt]! - zero) * 100 +
    (bytes[from + statusAt + 1]! - zero) * 10 +
    (bytes[from + statusAt + 2]! - zero)
  const isLast = closeLine.test(head)
  const bodyAt = blankAt + blank.length
  const length = lengthLine.exec(head)?.[1]
  if (length !== undefined) {
    const end = bodyAt + Number(length)
    return end > to ? null : { status, isLast, bodyAt, end }
  }
  if (status === 204 || status === 304) return { status, isLast, bodyAt, end: bodyAt }
  if (!chunkedLine.test(head)) return 'bad'
  const end = chunkedEnd(bytes, bodyAt, to)
  return typeof end === 'number' ? { status, isLast, bodyAt, end } : end
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
  const at = bytes.indexOf('"error"', from)
  if (at < 0 || at >= to) return null
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
