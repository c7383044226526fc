// Parses HTTP/1.1 responses from the bytes of one connection. Pure: no socket.
// It accepts what RFC 9112 lets a server send and nothing else: a response whose body
// length is ambiguous is broken, because the next response would start at the wrong offset.
//
//   head ──► length ─────────────────────────► done
//        ├─► size ─► chunk ─► line ─► size … ─► trailers ─► done
//        ├─► close ──(the connection ends)────► done
//        └─► done (no body)

/** Of a head; of all interim heads before it; of all trailers. */
const headBytesMax = 64 * 1024
const lineBytesMax = 4 * 1024
const lf = 0x0a
const cr = 0x0d
const headEnd = Buffer.from('\r\n\r\n')

/** Receives one response. */
export interface ResponseSink {
  /** `length` is the content length; -1 when it is not stated. */
  head(status: number, length: number): void
  /** Borrowed: the buffer is overwritten when this returns. */
  data(chunk: Buffer): void
  /** True while no more data is accepted. */
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

/** The headers that decide how long the body is and whether the connection stays open. */
interface Framing {
  readonly length: string | undefined
  readonly encoding: string | undefined
  readonly connection: string
}

export class ResponseParser {
  state: State = 'head'
  /** After the response: whether the connection can carry another one. */
  isReusable = true
  #sink: ResponseSink | null = null
  #lastHead = ''
  #lastFraming: Framing | null = null
  #left = 0
  /** Of interim heads, then of trailers: neither may go on forever. */
  #extraBytes = 0
  /** A head or a line whose end is not here yet. */
  #rest: Buffer | null = null

  /** Ready for the next response. */
  reset(sink: ResponseSink): void {
    this.#sink = sink
    this.state = 'head'
    this.isReusable = true
    this.#left = 0
    this.#extraBytes = 0
    this.#rest = null
  }

  /**
   * Consumes bytes up to the end of the response, a pause or the end of the bytes. Returns the
   * offset after what it consumed.
   */
  feed(bytes: Buffer): number {
    let at = 0
    while (at < bytes.length && this.state !== 'done' && this.state !== 'broken') {
      if (this.#sink!.isPaused) return at
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
    const fresh = at === 0 ? bytes : bytes.subarray(at)
    const whole = rest === null ? fresh : Buffer.concat([rest, fresh])
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
    const match = /^HTTP\/1\.([01]) ([1-9]\d{2})(?: [^\r\n]*)?(?:\r\n|$)/.exec(text)
    const framing = match === null ? null : this.#framingOf(text, match[0].length)
    if (match === null || framing === null) {
      this.state = 'broken'
      return
    }
    const status = Number(match[2])
    // Interim responses: the final one follows. We never request another protocol.
    if (status < 200) {
      if (status === 101 || this.#isTooMuch(text.length)) this.state = 'broken'
      return
    }
    this.#extraBytes = 0
    this.isReusable = isKept(framing.connection, match[1] === '1')
    this.state = this.#bodyState(status, framing)
    if (this.state === 'broken') return
    this.#sink!.head(status, this.state === 'length' ? this.#left : this.state === 'done' ? 0 : -1)
  }

  /** Heads of one server are often the same to the last byte, within a second of each other. */
  #framingOf(text: string, from: number): Framing | null {
    if (text === this.#lastHead) return this.#lastFraming
    this.#lastHead = text
    this.#lastFraming = framingOf(text, from)
    return this.#lastFraming
  }

  #bodyState(status: number, { length, encoding }: Framing): State {
    const isChunked = encoding?.toLowerCase() === 'chunked'
    // Both together is how responses are smuggled.
    if (encoding !== undefined && (!isChunked || length !== undefined)) return 'broken'
    if (length !== undefined && !/^\d{1,15}$/.test(length)) return 'broken'
    if (status === 204 || status === 304) return 'done'
    if (isChunked) return 'size'
    if (length === undefined) {
      this.isReusable = false
      return 'close'
    }
    this.#left = Number(length)
    return this.#left === 0 ? 'done' : 'length'
  }

  #takeBody(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#left)
    this.#left -= end - at
    // Before the sink gets it: what it does then may depend on the state.
    if (this.#left === 0) this.state = this.state === 'length' ? 'done' : 'line'
    this.#give(bytes, at, end)
    return end
  }

  #give(bytes: Buffer, from: number, to: number): void {
    this.#sink!.data(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to))
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

/** Whether the connection stays open: by default since HTTP/1.1. */
function isKept(connection: string, byDefault: boolean): boolean {
  if (connection === '') return byDefault
  const words = connection.toLowerCase().split(/[,\s]+/)
  return byDefault ? !words.includes('close') : words.includes('keep-alive')
}

/** Repeated headers are joined by a comma. Null when a line is not a header. */
function framingOf(text: string, from: number): Framing | null {
  let length: string | undefined
  let encoding: string | undefined
  let connection: string | undefined
  if (UNSAFE.test(text)) return null
  let at = from
  while (at < text.length) {
    const next = text.indexOf('\r\n', at)
    const end = next < 0 ? text.length : next
    const colon = nameEnd(text, at)
    if (colon <= at || colon >= end) return null
    // Only names of these lengths matter; each text that is cut out costs an allocation.
    switch (colon - at) {
      case 10:
        if (isName(text, at, 'connection')) connection = joined(connection, text, colon, end)
        break
      case 14:
        if (isName(text, at, 'content-length')) length = joined(length, text, colon, end)
        break
      case 17:
        if (isName(text, at, 'transfer-encoding')) encoding = joined(encoding, text, colon, end)
    }
    at = end + 2
  }
  return { length, encoding, connection: connection ?? '' }
}

/** The offset of the colon after a name; -1 when it is no token of RFC 9110. */
function nameEnd(text: string, from: number): number {
  NAME.lastIndex = from
  return NAME.test(text) ? NAME.lastIndex - 1 : -1
}

function isName(text: string, at: number, name: string): boolean {
  return text.slice(at, at + name.length).toLowerCase() === name
}

function joined(before: string | undefined, text: string, colon: number, end: number): string {
  // Not `trim`: it takes a no-break space away, which is part of the value.
  const value = text.slice(colon + 1, end).replaceAll(/^[ \t]+|[ \t]+$/g, '')
  return before === undefined ? value : `${before},${value}`
}

const NAME = /[!#$%&'*+.^`|~\w-]+:/y
/** Characters that no head contains, and halves of the end of a line. */
const UNSAFE = /[^\t\r\n\x20-\x7e\x80-\xff]|\r(?!\n)|(?<!\r)\n/
