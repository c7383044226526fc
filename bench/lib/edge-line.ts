// One raw TCP connection to an endpoint, which can stay idle, ask and wait for the whole answer, or
// ask and not read. Without a library, so that a process can have ten thousand of them.
// Thread: main of the clients of the bench `edge`.
import { connect, type Socket } from 'node:net'
import { headersFrame, openingBytes } from '../../src/base/transport/grpc-probe.ts'

export const edgeEndpoints = ['rpc', 'websocket', 'grpc', 'indexer', 'tpu', 'metrics'] as const
export type EdgeEndpoint = (typeof edgeEndpoints)[number]

export interface EdgeTarget {
  readonly endpoint: EdgeEndpoint
  readonly port: number
  readonly token: string
  readonly basic: string
}

/** What a connection of its own sends, for a client that is not of JavaScript. */
export interface EdgeBytes {
  readonly port: number
  readonly protocol: 'http' | 'websocket' | 'grpc'
  readonly opening: Uint8Array
  readonly request: Uint8Array
}

/** What each protocol sends, and how the end of an answer is seen. */
interface Protocol {
  readonly name: EdgeBytes['protocol']
  /** Sent at once; `isReady` of its answer opens the line. */
  readonly opening: Buffer | null
  request(count: number): Buffer
  /** Takes bytes; calls `line.answered` for each whole answer. */
  take(line: EdgeLine, bytes: Buffer): Buffer
}

export class EdgeLine {
  readonly socket: Socket
  readonly #protocol: Protocol
  readonly #ready: Promise<void>
  #opened: () => void = () => {}
  #rest: Buffer = Buffer.alloc(0)
  #requests = 0
  #waiting: ((isRight: boolean) => void)[] = []
  /** Why the server refused it, such as `429`; null for none. */
  refused: string | null = null
  isReady = false
  isClosed = false
  /** A message of the present answer came; of gRPC, whose answers end with trailers. */
  hasData = false
  /** Called once it has ended, by whomever. */
  onclose: () => void = () => {}

  constructor(target: EdgeTarget, localAddress: string) {
    this.#protocol = protocolOf(target)
    this.socket = connect({ port: target.port, host: '127.0.0.1', localAddress })
    this.socket.setNoDelay(true)
    this.#ready = new Promise((resolve) => {
      this.#opened = resolve
    })
    const { opening } = this.#protocol
    this.socket.on('connect', () => {
      if (opening === null) this.ready()
      else this.socket.write(opening)
    })
    this.socket.on('error', () => {})
    this.socket.on('data', (bytes: Buffer) => {
      const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
      this.#rest = this.#protocol.take(this, all)
    })
    this.socket.on('close', () => {
      this.isClosed = true
      if (!this.isReady) this.refused ??= 'closed'
      for (const done of this.#waiting.splice(0)) done(false)
      this.#opened()
      this.onclose()
    })
  }

  /** Resolves when the line is open or refused. */
  opened(): Promise<void> {
    return this.#ready
  }

  ready(): void {
    this.isReady = true
    this.#opened()
  }

  refuse(status: string): void {
    this.refused = status
    this.#opened()
    this.socket.destroy()
  }

  answered(isRight: boolean): void {
    this.#waiting.shift()?.(isRight)
  }

  /** True once the right answer is whole; false for a wrong one or none. */
  ask(): Promise<boolean> {
    if (this.isClosed) return Promise.resolve(false)
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.send()
    })
  }

  /** Without waiting for the answer. */
  send(): void {
    this.socket.write(this.#protocol.request(this.#requests++))
  }
}

export function bytesOf(target: EdgeTarget): EdgeBytes {
  const { name, opening, request } = protocolOf(target)
  return { port: target.port, protocol: name, opening: opening ?? empty, request: request(0) }
}

/** A batch of calls to the metrics endpoint. */
export function batchBytes(port: number, body: string): EdgeBytes {
  const head = ['POST / HTTP/1.1', 'host: 127.0.0.1', `content-length: ${Buffer.byteLength(body)}`]
  const request = Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
  return { port, protocol: 'http', opening: empty, request }
}

function protocolOf(target: EdgeTarget): Protocol {
  if (target.endpoint === 'grpc') return grpc(target)
  if (target.endpoint === 'websocket') return webSocket(target)
  return http(target)
}

const call = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}"}`
const empty = Buffer.alloc(0)

function http({ endpoint, token, basic }: EdgeTarget): Protocol {
  const body =
    endpoint === 'rpc' ? call('getSlot') : endpoint === 'tpu' ? call('getTipAccounts') : ''
  const path = endpoint === 'metrics' ? '/v1/tps' : endpoint === 'indexer' ? '/ping' : '/'
  const head = [
    `${body === '' ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'host: 127.0.0.1',
    ...(endpoint === 'rpc' || endpoint === 'indexer' ? [`x-token: ${token}`] : []),
    ...(endpoint === 'indexer' ? [`authorization: Basic ${basic}`] : []),
    ...(body === '' ? [] : ['content-type: application/json', `content-length: ${body.length}`]),
  ]
  const request = Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`)
  return { name: 'http', opening: null, request: () => request, take: takeHttp }
}

function takeHttp(line: EdgeLine, bytes: Buffer): Buffer {
  let rest = bytes
  for (;;) {
    const end = rest.indexOf('\r\n\r\n')
    if (end === -1) return rest
    const head = rest.toString('latin1', 0, end).toLowerCase()
    const length = Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0)
    const whole = head.includes('transfer-encoding: chunked')
      ? rest.indexOf('0\r\n\r\n', end + 4) + 5
      : end + 4 + length
    if (whole < end + 4 || rest.length < whole) return rest
    line.answered(head.startsWith('http/1.1 200'))
    rest = rest.subarray(whole)
  }
}

function webSocket({ token }: EdgeTarget): Protocol {
  const opening = Buffer.from(
    [
      'GET / HTTP/1.1',
      ...['host: 127.0.0.1', 'connection: Upgrade', 'upgrade: websocket'],
      ...['sec-websocket-version: 13', 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=='],
      ...[`x-token: ${token}`, '', ''],
    ].join('\r\n'),
  )
  const request = wsFrame(1, Buffer.from(call('getVersion')))
  return { name: 'websocket', opening, request: () => request, take: takeWebSocket }
}

/** Masked with zeros: the payload stays as it is. */
function wsFrame(opcode: number, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), payload])
}

function takeWebSocket(line: EdgeLine, bytes: Buffer): Buffer {
  let rest = bytes
  if (!line.isReady) {
    const end = rest.indexOf('\r\n\r\n')
    if (end === -1) return rest
    const status = rest.toString('latin1', 9, 12)
    if (status !== '101') {
      line.refuse(status)
      return empty
    }
    rest = rest.subarray(end + 4)
    line.ready()
  }
  while (rest.length >= 2) {
    const short = rest[1]! & 127
    const head = short === 126 ? 4 : short === 127 ? 10 : 2
    if (rest.length < head) break
    const length =
      short === 126 ? rest.readUInt16BE(2) : short === 127 ? Number(rest.readBigUInt64BE(2)) : short
    if (rest.length < head + length) break
    const opcode = rest[0]! & 15
    const payload = rest.subarray(head, head + length)
    if (opcode === 9) line.socket.write(wsFrame(10, payload))
    else if (opcode === 1) line.answered(payload.includes('"result"'))
    rest = rest.subarray(head + length)
  }
  return rest
}

const frame = { headers: 1, settings: 4, ping: 6, goaway: 7 } as const
const endStream = 1
const ack = 1
const headBytes = 9
/** A message of no bytes, as the last of its stream. */
const lastMessage = (stream: number) =>
  Buffer.concat([http2Head(5, { type: 0, flags: endStream, stream }), Buffer.alloc(5)])

function http2Head(length: number, of: { type: number; flags: number; stream: number }): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUIntBE(length, 0, 3)
  head[3] = of.type
  head[4] = of.flags
  head.writeUInt32BE(of.stream, 5)
  return head
}

function grpc({ token }: EdgeTarget): Protocol {
  const request = (count: number) => {
    const stream = 2 * count + 1
    const headers = headersFrame(stream, [
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', '/geyser.Geyser/GetVersion'],
      [':authority', '127.0.0.1'],
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
      ['x-token', token],
    ])
    return Buffer.concat([headers, lastMessage(stream)])
  }
  return { name: 'grpc', opening: openingBytes(), request, take: takeGrpc }
}

function takeGrpc(line: EdgeLine, bytes: Buffer): Buffer {
  let rest = bytes
  let data = false
  while (rest.length >= headBytes) {
    const length = rest.readUIntBE(0, 3)
    if (rest.length < headBytes + length) break
    const [type, flags] = [rest[3]!, rest[4]!]
    const payload = rest.subarray(headBytes, headBytes + length)
    const isAck = (flags & ack) !== 0
    if (type === frame.settings && !isAck) {
      line.socket.write(http2Head(0, { type, flags: ack, stream: 0 }))
      if (!line.isReady) line.ready()
    } else if (type === frame.ping && !isAck)
      line.socket.write(
        Buffer.concat([http2Head(length, { type, flags: ack, stream: 0 }), payload]),
      )
    else if (type === 0) data = true
    else if (type === frame.headers && (flags & endStream) !== 0) {
      // Trailers; a refusal has them alone.
      line.answered(data || line.hasData)
      line.hasData = false
      data = false
    } else if (type === frame.goaway && !line.isReady) line.refuse('goaway')
    rest = rest.subarray(headBytes + length)
  }
  if (data) line.hasData = true
  return rest
}
