// The head of one HTTP request, taken in a single pass over its headers. Thread: main.
// Called by http.ts and websocket.ts. The pass collects what a door asked for, counts repeated
// credentials, and finds the framing that smuggles requests: the native parser takes the first of
// two Content-Lengths and reads any Transfer-Encoding as chunked.
import type { Addresses } from './address.ts'
import type { NativeRequest, NativeResponse } from './uws.ts'

const HEADERS_MAX = 64
const HEADER_BYTES_MAX = 16_384

/** Where a token may stand in headers; '' is absent. Has the shape of auth's `Credentials`. */
export interface HeaderCredentials {
  xToken: string
  authorization: string
  xApiKey: string
  /** One of the three came more than once. */
  repeated: boolean
}

export class Request {
  readonly method: string
  readonly path: string
  /** The raw query without `?`. Never log it: it may hold a token. */
  readonly query: string
  /** The client's address, through trusted proxies. */
  readonly address: string
  readonly credentials: HeaderCredentials
  readonly contentType: string
  /** -1 when not stated. */
  readonly contentLength: number
  readonly isChunked: boolean
  /** What stood at the `:name` places of the route's path, in order. */
  params: readonly string[] = []
  readonly #headers: ReadonlyMap<string, string> | null
  #whenGone: (() => void)[] | null = null
  #isGone = false

  constructor(head: HeadPass, native: NativeRequest, address: string) {
    this.method = native.getMethod().toUpperCase()
    this.path = native.getUrl()
    this.query = native.getQuery() ?? ''
    this.address = address
    this.credentials = head.credentials
    this.contentType = head.contentType
    this.contentLength = head.contentLength === '' ? -1 : Number(head.contentLength)
    this.isChunked = head.transferEncoding !== ''
    this.#headers = head.headers
  }

  /** A header that the door listed in `wants`; '' when absent, the first when repeated. */
  header(name: string): string {
    return this.#headers?.get(name) ?? ''
  }

  /** The first value of a query parameter, decoded; null when absent. */
  parameter(name: string): string | null {
    return this.query === '' ? null : new URLSearchParams(this.query).get(name)
  }

  /** True once the client has left before it was answered. */
  get isGone(): boolean {
    return this.#isGone
  }

  /** Runs `cancel` when the client leaves before it was answered (routes with `watchesClient`). */
  onGone(cancel: () => void): void {
    this.#whenGone ??= []
    this.#whenGone.push(cancel)
  }

  /** Called by the door alone. */
  leave(): void {
    this.#isGone = true
    for (const cancel of this.#whenGone ?? []) cancel()
    this.#whenGone = null
  }
}

export type ReadHead =
  | { readonly request: Request; readonly problem: null }
  | { readonly request: Request; readonly problem: { status: number; message: string } }

/** Reads the head; a problem is answered with its status and the connection is closed. */
export function readHead(
  native: NativeRequest,
  response: NativeResponse,
  options: { readonly addresses: Addresses; readonly wants: ReadonlySet<string> },
): ReadHead {
  const pass = new HeadPass(options.wants)
  native.forEach(pass.take)
  const address = options.addresses.clientOf(response.getRemoteAddress(), pass.forwarded)
  return { request: new Request(pass, native, address), problem: pass.problem() }
}

/** Collects headers; `take` is handed to the native walk. */
class HeadPass {
  readonly credentials: HeaderCredentials = {
    xToken: '',
    authorization: '',
    xApiKey: '',
    repeated: false,
  }
  contentType = ''
  contentLength = ''
  transferEncoding = ''
  forwarded = ''
  headers: Map<string, string> | null = null
  #count = 0
  #bytes = 0
  #seen = 0
  #isSmuggling = false
  readonly #wants: ReadonlySet<string>

  constructor(wants: ReadonlySet<string>) {
    this.#wants = wants
  }

  readonly take = (name: string, value: string): void => {
    this.#count++
    this.#bytes += name.length + value.length
    switch (name) {
      case 'x-token':
        this.#credential(1)
        this.credentials.xToken ||= value
        break
      case 'authorization':
        this.#credential(2)
        this.credentials.authorization ||= value
        break
      case 'x-api-key':
        this.#credential(4)
        this.credentials.xApiKey ||= value
        break
      case 'content-type':
        this.contentType ||= value
        break
      case 'content-length':
        if (this.contentLength !== '' || !/^\d{1,15}$/.test(value)) this.#isSmuggling = true
        this.contentLength = value
        break
      case 'transfer-encoding':
        if (this.transferEncoding !== '' || value.toLowerCase() !== 'chunked')
          this.#isSmuggling = true
        this.transferEncoding = value
        break
      case 'x-forwarded-for':
        this.forwarded = this.forwarded === '' ? value : `${this.forwarded},${value}`
        break
    }
    if (this.#wants.has(name)) {
      this.headers ??= new Map()
      if (!this.headers.has(name)) this.headers.set(name, value)
    }
  }

  problem(): { status: number; message: string } | null {
    if (this.#count > HEADERS_MAX || this.#bytes > HEADER_BYTES_MAX)
      return { status: 431, message: 'too many headers' }
    const hasBoth = this.contentLength !== '' && this.transferEncoding !== ''
    return this.#isSmuggling || hasBoth
      ? { status: 400, message: 'ambiguous content length or transfer encoding' }
      : null
  }

  #credential(bit: number): void {
    if ((this.#seen & bit) !== 0) this.credentials.repeated = true
    this.#seen |= bit
  }
}
