// A WebSocket client for Node without a global one (before 22), which can also send headers.
// Thread: any; Node only. Part of `sluice/client/node`; depends on nothing.
//
//   new MetricsClient({ url, open: (url) => new NodeSocket(url, { 'x-token': token }) })
//
// Speaks what the metrics service speaks: text messages, whole or in pieces, ping, pong, close.
import { randomBytes } from 'node:crypto'
import { type ClientRequest, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Duplex } from 'node:stream'

/** Longest message that is taken; the service's are a thousandth of it. */
const messageBytesMax = 16 * 1024 * 1024

const closeMsMax = 2000

const text = 1
const close = 8
const ping = 9
const pong = 10

export class NodeSocket {
  onopen: ((event: object) => void) | null = null
  onmessage: ((event: { data: string }) => void) | null = null
  onclose: ((event: { code: number; reason: string }) => void) | null = null
  onerror: ((event: { message: string }) => void) | null = null
  readonly #request: ClientRequest
  #stream: Duplex | null = null
  #buffered: Buffer = Buffer.alloc(0)
  #pieces: Buffer[] = []
  #code = 1006
  #reason = ''
  #isClosed = false

  constructor(url: string, headers: Readonly<Record<string, string>> = {}) {
    const target = new URL(url.replace(/^ws/, 'http'))
    const ask = target.protocol === 'https:' ? httpsRequest : httpRequest
    this.#request = ask(target, {
      headers: {
        ...headers,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': randomBytes(16).toString('base64'),
      },
    })
    this.#request.on('upgrade', (_, stream, first) => this.#begin(stream, first))
    this.#request.on('response', (response) => {
      this.#fail(`HTTP ${response.statusCode}`)
      response.destroy()
    })
    this.#request.on('error', (error) => this.#fail(error.message))
    this.#request.end()
  }

  send(message: string): void {
    this.#write(text, Buffer.from(message))
  }

  close(): void {
    const stream = this.#stream
    if (stream === null) {
      this.#request.destroy()
      this.#end()
      return
    }
    this.#write(close, Buffer.from([0x03, 0xe8]))
    stream.end()
    // A peer that does not answer must not keep the program alive.
    setTimeout(() => stream.destroy(), closeMsMax).unref()
  }

  #begin(stream: Duplex, first: Buffer): void {
    if (this.#isClosed) {
      stream.destroy()
      return
    }
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => this.#take(chunk))
    stream.on('error', () => {})
    stream.on('close', () => this.#end())
    this.onopen?.({})
    if (first.length > 0) this.#take(first)
  }

  #take(chunk: Buffer): void {
    this.#buffered = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk])
    for (let frame = this.#nextFrame(); frame !== null; frame = this.#nextFrame())
      this.#handle(frame)
    if (this.#buffered.length > messageBytesMax) this.#stream?.destroy()
  }

  /** Takes one whole frame off the buffer. A server's frames are not masked. */
  #nextFrame(): { isLast: boolean; code: number; payload: Buffer } | null {
    const buffer = this.#buffered
    if (buffer.length < 2) return null
    const short = buffer[1]! & 0x7f
    const start = short < 126 ? 2 : short === 126 ? 4 : 10
    if (buffer.length < start) return null
    const length =
      short < 126
        ? short
        : short === 126
          ? buffer.readUInt16BE(2)
          : Number(buffer.readBigUInt64BE(2))
    if (buffer.length < start + length) return null
    this.#buffered = buffer.subarray(start + length)
    const payload = buffer.subarray(start, start + length)
    return { isLast: (buffer[0]! & 0x80) !== 0, code: buffer[0]! & 0x0f, payload }
  }

  #handle(frame: { isLast: boolean; code: number; payload: Buffer }): void {
    const { code, payload, isLast } = frame
    if (code === ping) this.#write(pong, payload)
    else if (code === close) {
      this.#code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005
      this.#reason = payload.toString('utf8', 2)
      this.#write(close, payload.subarray(0, 2))
      this.#stream?.end()
    } else if (code < close) {
      this.#pieces.push(payload)
      if (!isLast) return
      const data = Buffer.concat(this.#pieces).toString('utf8')
      this.#pieces = []
      this.onmessage?.({ data })
    }
  }

  /** A client masks what it sends; the mask need not be secret towards a server of ours. */
  #write(code: number, payload: Buffer): void {
    if (this.#stream === null || this.#stream.writableEnded) return
    const isShort = payload.length < 126
    const head = Buffer.alloc(isShort ? 6 : 8)
    head[0] = 0x80 | code
    head[1] = 0x80 | (isShort ? payload.length : 126)
    if (!isShort) head.writeUInt16BE(payload.length, 2)
    const mask = randomBytes(4)
    mask.copy(head, head.length - 4)
    const masked = Buffer.from(payload)
    for (let index = 0; index < masked.length; index++) masked[index]! ^= mask[index & 3]!
    this.#stream.write(Buffer.concat([head, masked]))
  }

  #fail(message: string): void {
    if (this.#isClosed) return
    this.#reason = message
    this.onerror?.({ message })
    this.#end()
  }

  #end(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.onclose?.({ code: this.#code, reason: this.#reason })
  }
}
