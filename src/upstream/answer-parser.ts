// Reads HTTP/1.1 answers out of the bytes of one connection. Thread: main. Pure: no socket.
// Used by link-connection.ts. It takes what RFC 9112 lets a server send and nothing else: whatever
// leaves the length of a body in doubt is broken, for the next answer would start in the wrong
// place.
//
//   head ──► length ─────────────────────────► done
//        ├─► size ─► chunk ─► line ─► size … ─► trailers ─► done
//        ├─► close ──(the connection ends)────► done
//        └─► done (no body)
import type { AnswerHeaders } from './node-call.ts'

/** Of a head; of all interim heads before it; of all trailers. */
const headBytesMax = 64 * 1024
const lineBytesMax = 4 * 1024
const lf = 0x0a
const cr = 0x0d
const headEnd = Buffer.from('\r\n\r\n')

export interface AnswerSink {
  onHead(status: number, headers: AnswerHeaders): void
  /** Borrowed: the buffer is read into again when this returns. */
  onData(chunk: Buffer): void
  /** True when it wants no more for now. */
  readonly isPaused: boolean
}

type State =
  | 'head'
  | 'length'
  | 'size'
  | 'chunk'
  | 'line'
  | 'trailers'
  | 'close'
  | 'done'
  | 'broken'

export class AnswerParser {
  state: State = 'head'
  /** After the answer: whether the connection can carry another one. */
  isReusable = true
  readonly #sink: AnswerSink
  #lastHead = ''
  #lastHeaders: AnswerHeaders | null = null
  #left = 0
  /** Of interim heads, then of trailers: neither may go on for ever. */
  #extraBytes = 0
  /** A head or a line whose end is not here yet. */
  #rest: Buffer | null = null

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  /** Ready for the next answer. */
  reset(): void {
    this.state = 'head'
    this.isReusable = true
    this.#left = 0
    this.#extraBytes = 0
    this.#rest = null
  }

  /**
   * Takes bytes up to the end of the answer, a pause or the end of the bytes, and gives the
   * position behind what it took.
   */
  feed(bytes: Buffer): number {
    let at = 0
    while (at < bytes.length && this.state !== 'done' && this.state !== 'broken') {
      if (this.#sink.isPaused) return at
      at = this.#step(bytes, at)
    }
    return at
  }

  /** The connection ended. */
  finish(): void {
    this.state = this.state === 'close' || this.state === 'done' ? 'done' : 'broken'
  }

  #step(bytes: Buffer, at: number): number {
    switch (this.state) {
      case 'head':
        return this.#takeHead(bytes, at)
      case 'length':
      case 'chunk':
        return this.#takeBody(bytes, at)
      case 'close':
        this.#give(bytes, at, bytes.length)
        return bytes.length
      default:
        return this.#takeLine(bytes, at)
    }
  }

  #takeHead(bytes: Buffer, at: number): number {
    const rest = this.#rest
    const whole = rest === null ? bytes.subarray(at) : Buffer.concat([rest, bytes.subarray(at)])
    const end = whole.indexOf(headEnd)
    if (end < 0) {
      this.#rest = rest === null ? Buffer.from(whole) : whole
      if (whole.length > headBytesMax) this.state = 'broken'
      return bytes.length
    }
    this.#rest = null
    this.#readHead(whole.toString('latin1', 0, end))
    return at + end + headEnd.length - (rest?.length ?? 0)
  }

  #readHead(text: string): void {
    const match = /^HTTP\/1\.([01]) (\d{3})(?: [^\r\n]*)?(?:\r\n|$)/.exec(text)
    const headers = match === null ? null : this.#headersOf(text, match[0].length)
    if (match === null || headers === null) {
      this.state = 'broken'
      return
    }
    const status = Number(match[2])
    // Interim answers: the real one follows. We never ask for another protocol.
    if (status < 200) {
      if (status === 101 || this.#isTooMuch(text.length)) this.state = 'broken'
      return
    }
    this.#extraBytes = 0
    const words = String(headers.connection ?? '')
      .toLowerCase()
      .split(/[,\s]+/)
    this.isReusable = match[1] === '1' ? !words.includes('close') : words.includes('keep-alive')
    this.state = this.#bodyState(status, headers)
    if (this.state !== 'broken') this.#sink.onHead(status, headers)
  }

  /** Heads of one node are often the same to the last byte, within a second of each other. */
  #headersOf(text: string, from: number): AnswerHeaders | null {
    if (text === this.#lastHead) return this.#lastHeaders
    this.#lastHead = text
    this.#lastHeaders = headersOf(text, from)
    return this.#lastHeaders
  }

  #bodyState(status: number, headers: AnswerHeaders): State {
    const encoding = headers['transfer-encoding']
    const length = headers['content-length']
    if (status === 204 || status === 304) return 'done'
    if (encoding !== undefined)
      // Both together is how answers are smuggled.
      return String(encoding).toLowerCase() === 'chunked' && length === undefined
        ? 'size'
        : 'broken'
    if (length === undefined) {
      this.isReusable = false
      return 'close'
    }
    if (typeof length !== 'string' || !/^\d{1,15}$/.test(length)) return 'broken'
    this.#left = Number(length)
    return this.#left === 0 ? 'done' : 'length'
  }

  #takeBody(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    // Before the listener hears it: what it does then may look at the state.
    if (this.#left === 0) this.state = this.state === 'length' ? 'done' : 'line'
    this.#give(bytes, at, end)
    return end
  }

  #give(bytes: Buffer, from: number, to: number): void {
    this.#sink.onData(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to))
  }

  /** A line of the chunked coding: a size, the end of a chunk, a trailer. */
  #takeLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(lf, at)
    const part = bytes.subarray(at, end < 0 ? bytes.length : end + 1)
    const line = this.#rest === null ? part : Buffer.concat([this.#rest, part])
    if (line.length > lineBytesMax) {
      this.state = 'broken'
      return bytes.length
    }
    if (end < 0) {
      this.#rest = Buffer.from(line)
      return bytes.length
    }
    this.#rest = null
    this.state =
      line.length < 2 || line[line.length - 2] !== cr
        ? 'broken'
        : this.#afterLine(line.toString('latin1', 0, line.length - 2))
    return end + 1
  }

  #afterLine(line: string): State {
    if (this.state === 'trailers') {
      if (line === '') return 'done'
      return this.#isTooMuch(line.length) ? 'broken' : 'trailers'
    }
    if (this.state === 'line') return line === '' ? 'size' : 'broken'
    const match = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i.exec(line)
    if (match === null) return 'broken'
    this.#left = Number.parseInt(match[1] as string, 16)
    return this.#left === 0 ? 'trailers' : 'chunk'
  }

  #isTooMuch(bytes: number): boolean {
    this.#extraBytes += bytes
    return this.#extraBytes > headBytesMax
  }
}

/** Names in lower case; a repeated one becomes a list. Null when a line is no header. */
function headersOf(text: string, from: number): AnswerHeaders | null {
  const headers: Record<string, string | string[]> = Object.create(null)
  let at = from
  while (at < text.length) {
    const next = text.indexOf('\r\n', at)
    const end = next < 0 ? text.length : next
    const colon = text.indexOf(':', at)
    if (colon <= at || colon >= end) return null
    const name = text.slice(at, colon).toLowerCase()
    if (/[\s\0]/.test(name)) return null
    const value = text.slice(colon + 1, end).trim()
    const known = headers[name]
    if (known === undefined) headers[name] = value
    else if (typeof known === 'string') headers[name] = [known, value]
    else known.push(value)
    at = end + 2
  }
  return headers
}
