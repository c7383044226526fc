// JSON-RPC over one WebSocket: a call is one message, and a subscribe is ended again. Thread: load.
//
//   upgrade ──► 101 ──► ready ──► call, id 1 ──► answer: done ──► unsubscribe, id 2 ──► ready
//   messages with a method are notifications: counted, not parsed
import { createHash, randomBytes } from 'node:crypto'
import type { Protocol, Session, SessionEvents } from './connection-driver.ts'
import type { DriverTarget } from './driver.ts'
import { AnswerParser, rpcErrorOf } from './http-answer.ts'
import type { Prepared } from './wire.ts'

/** The protocol's constant for the answer to a handshake (RFC 6455, 1.3). */
const handshakeKey = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const callId = 1
const unsubscribeId = 2
const headBytesMax = 16_384
const subscribeMethod = /^(\w+)Subscribe$/

export const socketProtocol: Protocol = (target, wire) => {
  const calls = target.calls.map((text) => {
    const { message, unsubscribe } = callOf(text)
    return { frame: wire.prepare(clientFrame(Buffer.from(message))), unsubscribe }
  })
  return (events) => new SocketSession(events, { target, calls })
}

interface SocketCall {
  readonly frame: Prepared
  /** The method that ends what the call opened; null for other calls. */
  readonly unsubscribe: string | null
}

interface SocketOptions {
  readonly target: DriverTarget
  readonly calls: readonly SocketCall[]
}

class SocketSession implements Session {
  readonly #events: SessionEvents
  readonly #options: SocketOptions
  readonly #frames = new FrameReader((opcode, payload) => this.#take(opcode, payload))
  readonly #key = randomBytes(16).toString('base64')
  /** Bytes of the answer to the handshake; null once it was accepted. */
  #head: Buffer | null = Buffer.alloc(0)
  #unsubscribe: string | null = null

  constructor(events: SessionEvents, options: SocketOptions) {
    this.#events = events
    this.#options = options
  }

  opened(): void {
    const url = new URL(this.#options.target.url)
    const { token } = this.#options.target
    const lines = [
      `GET ${url.pathname}${url.search} HTTP/1.1`,
      `host: ${url.host}`,
      'upgrade: websocket',
      'connection: upgrade',
      `sec-websocket-key: ${this.#key}`,
      'sec-websocket-version: 13',
      ...(token === null ? [] : [`x-token: ${token}`]),
    ]
    this.#events.connection().sendBytes(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'))
  }

  send(call: number): void {
    const { frame, unsubscribe } = this.#options.calls[call]!
    this.#unsubscribe = unsubscribe
    this.#events.connection().send(frame)
  }

  read(bytes: Buffer, count: number): void {
    const filled = bytes.subarray(0, count)
    const rest = this.#head === null ? filled : this.#shake(Buffer.concat([this.#head, filled]))
    if (rest !== null && rest.length > 0 && !this.#frames.push(rest))
      this.#events.fail('not a WebSocket server')
  }

  /** The bytes after the answer to the handshake; null while it is not accepted. */
  #shake(head: Buffer): Buffer | null {
    this.#head = head
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) {
      if (head.length > headBytesMax) this.#events.fail('not a WebSocket server')
      return null
    }
    const text = head.toString('latin1', 0, end + 2)
    const accept = createHash('sha1')
      .update(this.#key + handshakeKey)
      .digest('base64')
    const status = /^HTTP\/1\.1 (\d{3})/.exec(text)?.[1]
    const isAccepted = text.toLowerCase().includes(`sec-websocket-accept: ${accept.toLowerCase()}`)
    if (status !== '101' || !isAccepted) {
      const isHttp = new AnswerParser().parse(head, head.length) !== 'bad'
      this.#events.fail(isHttp && status !== '101' ? `HTTP ${status}` : 'not a WebSocket server')
      return null
    }
    this.#head = null
    this.#events.ready()
    return Buffer.from(head.subarray(end + 4))
  }

  #take(opcode: number, payload: Buffer): void {
    if (opcode === opcodes.ping)
      this.#events.connection().sendBytes(clientFrame(payload, opcodes.pong))
    else if (opcode === opcodes.close) this.#events.fail(closeCode(payload))
    else if (opcode === opcodes.text) this.#message(payload)
  }

  #message(payload: Buffer): void {
    if (payload.indexOf('"method"') >= 0) {
      this.#events.notification()
      return
    }
    const message = parsed(payload)
    if (message === null) return
    if (message.id === unsubscribeId) this.#events.ready()
    if (message.id !== callId) return
    this.#events.done(message.error === undefined ? '' : `rpc ${message.error?.code ?? 'error'}`)
    const { result } = message
    if (this.#unsubscribe === null || message.error !== undefined) this.#events.ready()
    else this.#events.connection().sendBytes(unsubscribeFrame(this.#unsubscribe, result))
  }
}

interface Message {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: number } | null
}

function parsed(payload: Buffer): Message | null {
  try {
    const value: unknown = JSON.parse(payload.toString())
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

function unsubscribeFrame(method: string, subscription: unknown): Buffer {
  const message = { jsonrpc: '2.0', id: unsubscribeId, method, params: [subscription] }
  return clientFrame(Buffer.from(JSON.stringify(message)))
}

/** The message of a call with our id, and how to end a subscription that it opens. */
function callOf(text: string): { message: string; unsubscribe: string | null } {
  const given = JSON.parse(text) as { method?: unknown }
  const name = subscribeMethod.exec(String(given.method))?.[1]
  return {
    message: JSON.stringify({ ...given, id: callId }),
    unsubscribe: name === undefined ? null : `${name}Unsubscribe`,
  }
}

function closeCode(payload: Buffer): string {
  return payload.length < 2 ? 'closed' : `close ${payload.readUInt16BE(0)}`
}

export const opcodes = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

const final = 0x80
const masked = 0x80
const length16 = 126
const length64 = 127
const shortMax = 125
/** A message longer than this ends the connection. */
const messageBytesMax = 64 * 1024 * 1024

/** A whole masked frame. */
export function clientFrame(payload: Uint8Array, opcode: number = opcodes.text): Buffer {
  const mask = randomBytes(4)
  const { length } = payload
  const extra = length <= shortMax ? 0 : length < 65_536 ? 2 : 8
  const frame = Buffer.allocUnsafe(2 + extra + 4 + length)
  frame[0] = final | opcode
  if (extra === 0) frame[1] = masked | length
  else if (extra === 2) {
    frame[1] = masked | length16
    frame.writeUInt16BE(length, 2)
  } else {
    frame[1] = masked | length64
    frame.writeBigUInt64BE(BigInt(length), 2)
  }
  mask.copy(frame, 2 + extra)
  const at = 2 + extra + 4
  for (let index = 0; index < length; index += 1)
    frame[at + index] = payload[index]! ^ mask[index & 3]!
  return frame
}

/** Takes a whole message, or a control frame; the bytes are valid during the call. */
type TakeFrame = (opcode: number, payload: Buffer) => void

/** Cuts the bytes of a server into messages; fragments are joined. */
export class FrameReader {
  readonly #take: TakeFrame
  #rest: Buffer | null = null
  #fragments: Buffer[] = []
  #opcode = 0

  constructor(take: TakeFrame) {
    this.#take = take
  }

  /** False when the bytes are not of this protocol. */
  push(bytes: Buffer): boolean {
    const isCopy = this.#rest !== null
    const whole = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
    let at = 0
    for (;;) {
      const frame = frameAt(whole, at)
      if (frame === 'bad') return false
      if (frame === null) break
      this.#frame(whole[at]!, whole.subarray(frame.from, frame.to))
      at = frame.to
    }
    const rest = whole.subarray(at)
    // A copy: the connection reads into the same buffer again.
    this.#rest = rest.length === 0 ? null : isCopy ? rest : Buffer.from(rest)
    return true
  }

  #frame(first: number, payload: Buffer): void {
    const opcode = first & 0x0f
    if (opcode >= opcodes.close) {
      this.#take(opcode, payload)
      return
    }
    if (opcode !== 0) this.#opcode = opcode
    const isFinal = (first & final) !== 0
    if (isFinal && this.#fragments.length === 0) {
      this.#take(this.#opcode, payload)
      return
    }
    this.#fragments.push(Buffer.from(payload))
    if (!isFinal) return
    const message = Buffer.concat(this.#fragments)
    this.#fragments = []
    this.#take(this.#opcode, message)
  }
}

function frameAt(bytes: Buffer, at: number): { from: number; to: number } | 'bad' | null {
  if (bytes.length - at < 2) return null
  const second = bytes[at + 1]!
  if ((bytes[at]! & 0x70) !== 0 || (second & masked) !== 0) return 'bad'
  let length = second
  let from = at + 2
  if (second === length16) {
    if (bytes.length < at + 4) return null
    length = bytes.readUInt16BE(at + 2)
    from = at + 4
  } else if (second === length64) {
    if (bytes.length < at + 10) return null
    length = Number(bytes.readBigUInt64BE(at + 2))
    from = at + 10
  }
  if (length > messageBytesMax) return 'bad'
  return bytes.length < from + length ? null : { from, to: from + length }
}

// HTTP/1.1 on one connection: a request that was encoded before the run, a parsed response.
// Thread: load.

/** A response longer than this ends the connection. */
const answerBytesMax = 64 * 1024 * 1024

export const httpProtocol: Protocol = (target, wire) => {
  const requests = target.calls.map((call) => wire.prepare(encodeRequest(target, call)))
  const parser = new AnswerParser()
  // The indexer answers in the format of the query, never in JSON-RPC.
  const options = { requests, parser, checksRpc: target.kind !== 'indexer' }
  return (events) => new HttpSession(events, options)
}

interface HttpOptions {
  readonly requests: readonly Prepared[]
  readonly parser: AnswerParser
  readonly checksRpc: boolean
}

class HttpSession implements Session {
  readonly #events: SessionEvents
  readonly #options: HttpOptions
  /** Bytes of a response that is not complete. */
  #rest: Buffer | null = null

  constructor(events: SessionEvents, options: HttpOptions) {
    this.#events = events
    this.#options = options
  }

  opened(): void {
    this.#events.ready()
  }

  send(call: number): void {
    this.#events.connection().send(this.#options.requests[call]!)
  }

  read(bytes: Buffer, count: number): void {
    const rest = this.#rest
    this.#rest = null
    const whole = rest === null ? bytes : Buffer.concat([rest, bytes.subarray(0, count)])
    const to = rest === null ? count : whole.length
    const answer = this.#options.parser.parse(whole, to)
    if (answer === null && to <= answerBytesMax) {
      // A copy: the connection reads into the same buffer again.
      this.#rest = rest === null ? Buffer.from(bytes.subarray(0, to)) : whole
      return
    }
    if (answer === null || answer === 'bad') {
      this.#events.fail('not an HTTP/1.1 server')
      return
    }
    const { status, isLast, policy, bodyAt, end } = answer
    if (policy !== undefined) this.#events.limited(policy)
    let code = ''
    if (status !== 200) code = `HTTP ${status}`
    else if (this.#options.checksRpc) code = rpcErrorOf(whole, bodyAt, end) ?? ''
    if (isLast) this.#events.fail(code)
    else {
      this.#events.done(code)
      this.#events.ready()
    }
  }
}

/** The bytes of a request: POST of a body, or GET of a path for a metrics call without a body. */
export function encodeRequest(
  target: Pick<DriverTarget, 'kind' | 'url' | 'token'>,
  call: string,
): Buffer {
  const url = new URL(target.url)
  const isGet = target.kind === 'metrics' && call.startsWith('/')
  const path = isGet ? call : `${url.pathname}${url.search}`
  const body = Buffer.from(isGet ? '' : call)
  const type = target.kind === 'indexer' ? 'text/plain' : 'application/json'
  const lines = [
    `${isGet ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    `host: ${url.host}`,
    'accept: */*',
    ...(target.token === null ? [] : [`x-token: ${target.token}`]),
    ...basicOf(url),
    ...(isGet ? [] : [`content-type: ${type}`, `content-length: ${body.length}`]),
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body])
}

/** Credentials of `http://name:password@host` go into the header that the indexer reads. */
function basicOf({ username, password }: URL): string[] {
  if (username === '') return []
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return [`authorization: Basic ${Buffer.from(pair).toString('base64')}`]
}
