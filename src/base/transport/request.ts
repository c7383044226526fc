// HTTP requests, whose head is read in a single pass over its headers.
// The pass collects the headers that an endpoint requested, counts repeated credentials, and
// detects framing that allows request smuggling: the native parser takes the first of two
// Content-Lengths and reads any Transfer-Encoding as chunked.
import { addressKey } from '../cidr.ts'
import type { Addresses } from './address.ts'
import type { NativeRequest, NativeResponse } from './uws.ts'

const HEADERS_MAX = 64
const HEADER_BYTES_MAX = 16_384

/** Headers that may contain a token; '' is absent. Has the shape of auth's `Credentials`. */
interface HeaderCredentials {
  readonly xToken: string
  readonly authorization: string
  readonly xApiKey: string
  /** One of the three was sent more than once. */
  readonly repeated: boolean
}

/** What an endpoint reads from its requests. */
export interface HeadOptions {
  readonly addresses: Addresses
  /** Lower-case names for `Request.header`. */
  readonly wants: ReadonlySet<string>
}

interface HeadProblem {
  readonly status: number
  readonly message: string
}

const NO_PARAMS: readonly string[] = []

export class Request {
  readonly method: string
  readonly path: string
  /** The raw query without `?`. Never log it: it may contain a token. */
  readonly query: string
  readonly credentials: HeaderCredentials
  readonly contentType: string
  /** The Origin header of a browser; '' for other clients. */
  readonly origin: string
  /** -1 when not stated. */
  readonly contentLength: number
  /** What is wrong with the head; answered with its status, and the connection is closed. */
  readonly problem: HeadProblem | null
  /** Values of the `:name` segments of the route's path, in order. */
  params: readonly string[] = NO_PARAMS
  readonly #headers: ReadonlyMap<string, string> | null
  readonly #addresses: Addresses
  readonly #forwarded: string
  #response: NativeResponse | null
  #address: string | null = null
  #addressKey: string | null = null
  #whenGone: (() => void)[] | null = null
  #isGone = false

  constructor(
    native: NativeRequest,
    response: NativeResponse,
    options: HeadOptions,
    route: { readonly verb: string; readonly path: string } | null,
  ) {
    pass.begin(options.wants)
    native.forEach(takeHeader)
    this.method = route === null ? native.getMethod().toUpperCase() : route.verb
    this.path = route === null ? native.getUrl() : route.path
    this.query = native.getQuery() ?? ''
    this.credentials = pass.credentials()
    this.contentType = pass.contentType
    this.origin = pass.origin
    this.contentLength = pass.contentLength
    this.problem = pass.problem()
    this.#headers = pass.headers
    this.#forwarded = pass.forwarded
    this.#addresses = options.addresses
    this.#response = response
  }

  /** The client's address, through trusted proxies. Read on first use, which must be before the
   *  request is answered; later it is ''. */
  get address(): string {
    if (this.#address === null && this.#response !== null)
      this.#address = this.#addresses.clientOf(this.#response.getRemoteAddress(), this.#forwarded)
    return this.#address ?? ''
  }

  /** Key under which limits count the client: IPv4 by address, IPv6 by /64. */
  get addressKey(): string {
    this.#addressKey ??= addressKey(this.address)
    return this.#addressKey
  }

  /** A header that the endpoint listed in `wants`; '' when absent, the first of duplicates. */
  header(name: string): string {
    return this.#headers?.get(name) ?? ''
  }

  /** The first value of a query parameter, decoded; null when absent. */
  parameter(name: string): string | null {
    return this.query === '' ? null : new URLSearchParams(this.query).get(name)
  }

  /** True when a query parameter is given more than once. */
  isRepeated(name: string): boolean {
    return this.query !== '' && new URLSearchParams(this.query).getAll(name).length > 1
  }

  /** True once the client has disconnected before it was answered. */
  get isGone(): boolean {
    return this.#isGone
  }

  /** Runs `cancel` when the client disconnects before the answer (routes with `watchesClient`). */
  onGone(cancel: () => void): void {
    this.#whenGone ??= []
    this.#whenGone.push(cancel)
  }

  // The methods below are for the transport module only.

  /** The native response must not be used any more. */
  seal(): void {
    this.#response = null
  }

  leave(): void {
    this.#isGone = true
    for (const cancel of this.#whenGone ?? []) cancel()
    this.#whenGone = null
  }
}

const NO_CREDENTIALS: HeaderCredentials = {
  xToken: '',
  authorization: '',
  xApiKey: '',
  repeated: false,
}

/** Collects headers. One object serves all requests: the native iteration is synchronous. */
class HeadPass {
  contentType = ''
  origin = ''
  /** -1 when not stated. */
  contentLength = -1
  transferEncoding = ''
  forwarded = ''
  headers: Map<string, string> | null = null
  wants: ReadonlySet<string> = new Set()
  xToken = ''
  authorization = ''
  xApiKey = ''
  /** A bit for each credential header that was present. */
  seen = 0
  isRepeated = false
  isSmuggling = false
  count = 0
  bytes = 0

  begin(wants: ReadonlySet<string>): void {
    this.wants = wants
    this.headers = null
    this.contentType = this.transferEncoding = this.forwarded = this.origin = ''
    this.contentLength = -1
    this.xToken = this.authorization = this.xApiKey = ''
    this.seen = this.count = this.bytes = 0
    this.isRepeated = this.isSmuggling = false
  }

  credentials(): HeaderCredentials {
    if (this.seen === 0) return NO_CREDENTIALS
    const { xToken, authorization, xApiKey, isRepeated } = this
    return { xToken, authorization, xApiKey, repeated: isRepeated }
  }

  problem(): HeadProblem | null {
    if (this.count > HEADERS_MAX || this.bytes > HEADER_BYTES_MAX)
      return { status: 431, message: 'too many headers' }
    const hasBoth = this.contentLength !== -1 && this.transferEncoding !== ''
    return this.isSmuggling || hasBoth
      ? { status: 400, message: 'ambiguous content length or transfer encoding' }
      : null
  }

  see(bit: number): void {
    if ((this.seen & bit) !== 0) this.isRepeated = true
    this.seen |= bit
  }
}

const pass = new HeadPass()

function takeHeader(name: string, value: string): void {
  pass.count++
  pass.bytes += name.length + value.length
  switch (name) {
    case 'x-token':
      pass.see(1)
      pass.xToken ||= value
      break
    case 'authorization':
      pass.see(2)
      pass.authorization ||= value
      break
    case 'x-api-key':
      pass.see(4)
      pass.xApiKey ||= value
      break
    case 'content-type':
      pass.contentType ||= value
      break
    case 'origin':
      pass.origin ||= value
      break
    case 'content-length':
      if (pass.contentLength !== -1) pass.isSmuggling = true
      pass.contentLength = numberIn(value)
      if (pass.contentLength === -1) pass.isSmuggling = true
      break
    case 'transfer-encoding':
      if (pass.transferEncoding !== '' || value.toLowerCase() !== 'chunked') pass.isSmuggling = true
      pass.transferEncoding = value
      break
    case 'x-forwarded-for':
      pass.forwarded = pass.forwarded === '' ? value : `${pass.forwarded},${value}`
      break
  }
  if (pass.wants.size > 0 && pass.wants.has(name)) {
    pass.headers ??= new Map()
    if (!pass.headers.has(name)) pass.headers.set(name, value)
  }
}

/** A number of 1 to 15 digits; -1 for any other text. */
function numberIn(text: string): number {
  if (text.length === 0 || text.length > 15) return -1
  let number = 0
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number
}

/** The spellings that most clients use. */
const plainTypes = ['application/json', 'application/octet-stream', 'text/plain'] as const

/** The media type without its parameters, in lower case. */
export function mediaTypeOf(contentType: string): string {
  for (const type of plainTypes) if (contentType === type) return type
  return contentType.split(';', 1)[0]!.trim().toLowerCase()
}
