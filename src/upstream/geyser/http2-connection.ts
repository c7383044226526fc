// A client's HTTP/2 connection: streams, flow control, pings. Thread: that of geyser-client.ts.
// Frames are written here and read by http2-reader.ts: node:http2 gives each frame in memory of its
// own, and what is copied together again costs as much as everything else that the worker does.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { encodeHeaders, HeaderBlocks, type HeaderFields } from './hpack.ts'
import {
  cancelCode,
  defaultWindowBytes,
  type FrameHead,
  type FrameSink,
  frameBytesDefault,
  frameFlag,
  frameOf,
  frameType,
  Http2Reader,
  numberFrame,
  preface,
  setting,
  settingsFrame,
  type TakeMessages,
} from './http2-reader.ts'

/** Flow-control window: fills a link of 1 Gbit/s at 250 ms. */
const windowBytes = 32 * 1024 * 1024
/** The peer may send that much more once so much was read. */
const windowStepBytes = windowBytes / 4
const frameBytesMax = 1024 * 1024
/** Unsent bytes at which a peer gets no further answer: it asks and does not read. */
const unsentBytesMax = 64 * 1024
/** PING and SETTINGS frames of a peer, each of which is answered; honest ones send a few. */
const askingFramesPerSecondMax = 100

export interface StreamEvents {
  headers(fields: HeaderFields): void
  /** Of a stream that is not read in place. Valid during the call. */
  data(bytes: Buffer): void
  /** The peer ended it, or reset it with an error code. */
  ended(resetCode: number | null): void
}

/** Of the one stream whose messages are read in place. */
export interface InPlaceEvents {
  arrived(bytes: number): void
  messages: TakeMessages
  malformed(): void
}

export interface ConnectionEvents extends SocketEvents {
  goneAway(): void
  /** Called once, with the code of an error where there is one. */
  closed(code: string): void
}

interface Stream {
  readonly events: StreamEvents
  readonly waiting: Buffer[]
  sendWindow: number
  unreported: number
  /** Nothing follows what waits. */
  isEnding: boolean
}

export class Http2Connection implements FrameSink {
  readonly #socket: Socket
  readonly #events: ConnectionEvents
  readonly #reader = new Http2Reader(this)
  readonly #blocks = new HeaderBlocks()
  readonly #origin: URL
  readonly #streams = new Map<number, Stream>()
  #nextStream = 1
  #inPlace: InPlaceEvents | null = null
  #sendWindow = defaultWindowBytes
  #initialWindow = defaultWindowBytes
  /** Bytes read that the peer was not yet allowed to send again. */
  #unreported = 0
  readonly #pings: ((ms: number) => void)[] = []
  /** PING and SETTINGS frames in the second that began then. */
  #asking = { sinceMs: 0, frames: 0 }
  #isConnected = false
  #errorCode = ''

  /** Connects at once, to a Unix socket where `path` is given; what is sent waits until then. */
  constructor(origin: URL, events: ConnectionEvents, path?: string) {
    this.#origin = origin
    this.#events = events
    const connected = () => {
      this.#isConnected = true
      events.connected()
    }
    const received = () => events.received()
    this.#socket = openSocket(origin, this.#reader, { connected, received }, path)
    this.#socket.on('error', (error: NodeJS.ErrnoException) => {
      this.#errorCode ||= error.code ?? ''
    })
    this.#socket.on('close', () => {
      this.#reader.stop()
      events.closed(this.#errorCode)
    })
    this.#socket.write(preface)
    this.#socket.write(
      settingsFrame([
        [setting.enablePush, 0],
        [setting.initialWindowSize, windowBytes],
        [setting.maxFrameSize, frameBytesMax],
      ]),
    )
    this.#allow(0, windowBytes - defaultWindowBytes)
  }

  /** Opens a stream; `inPlace` is used while no other stream is read in place. */
  open(
    headers: readonly (readonly [string, string])[],
    events: StreamEvents,
    inPlace: InPlaceEvents | null,
  ): number {
    const stream = this.#nextStream
    this.#nextStream += 2
    const isInPlace = inPlace !== null && this.#reader.inPlace === 0
    if (isInPlace) {
      this.#reader.inPlace = stream
      this.#inPlace = inPlace
    }
    const sendWindow = this.#initialWindow
    this.#streams.set(stream, { events, waiting: [], sendWindow, unreported: 0, isEnding: false })
    const { protocol, host } = this.#origin
    const block = encodeHeaders([
      [':method', 'POST'],
      [':scheme', protocol.slice(0, -1)],
      [':authority', host],
      ...headers,
    ])
    this.#write({ type: frameType.headers, flags: frameFlag.endHeaders, stream }, block)
    return stream
  }

  /** Sends DATA as far as the peer allows, the rest later. */
  send(stream: number, bytes: Buffer): void {
    this.#streams.get(stream)?.waiting.push(bytes)
    this.#pump(stream)
  }

  /** Ends our side of a stream after what was sent on it. */
  endSending(stream: number): void {
    const found = this.#streams.get(stream)
    if (found !== undefined) found.isEnding = true
    this.#pump(stream)
  }

  /** Ends a stream; it gets no further calls. */
  reset(stream: number): void {
    if (!this.#forget(stream) || this.#socket.destroyed) return
    this.#socket.write(numberFrame(frameType.resetStream, stream, cancelCode))
  }

  /** The round trip in milliseconds; not called without an answer. */
  ping(take: (ms: number) => void): void {
    if (!this.#isConnected || this.#socket.destroyed) return
    const sentMs = performance.now()
    this.#pings.push((receivedMs) => take(receivedMs - sentMs))
    this.#write({ type: frameType.ping, flags: 0, stream: 0 }, Buffer.alloc(8))
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  destroy(): void {
    this.#reader.stop()
    this.#streams.clear()
    this.#socket.destroy()
  }

  frame(head: FrameHead, payload: Buffer): void {
    const { type, flags, stream } = head
    const isContinued = type === frameType.continuation
    if (this.#blocks.isOpen && !isContinued) this.malformed('frames')
    else if (type === frameType.headers || isContinued) this.#readHeaders(head, payload)
    else if (type === frameType.settings && (flags & frameFlag.ack) === 0) this.#settle(payload)
    else if (type === frameType.ping && (flags & frameFlag.ack) !== 0)
      this.#pings.shift()?.(performance.now())
    else if (type === frameType.ping)
      this.#answer({ type, flags: frameFlag.ack, stream: 0 }, payload)
    else if (type === frameType.windowUpdate && payload.length === 4)
      this.#widen(stream, payload.readUInt32BE() & 0x7fff_ffff)
    else if (type === frameType.resetStream && payload.length === 4)
      this.#end(stream, payload.readUInt32BE())
    else if (type === frameType.goAway) this.#events.goneAway()
    else if (type === frameType.pushPromise) this.malformed('frames')
  }

  data(stream: number, bytes: Buffer): void {
    this.#streams.get(stream)?.events.data(bytes)
  }

  arrived(bytes: number): void {
    this.#inPlace?.arrived(bytes)
  }

  messages(bytes: Buffer, offsets: readonly number[]): void {
    this.#inPlace?.messages(bytes, offsets)
  }

  dataEnd(stream: number, bytes: number, isLast: boolean): void {
    this.#unreported += bytes
    if (this.#unreported >= windowStepBytes) {
      this.#allow(0, this.#unreported)
      this.#unreported = 0
    }
    const found = this.#streams.get(stream)
    if (found === undefined) return
    found.unreported += bytes
    if (isLast) this.#end(stream, null)
    else if (found.unreported >= windowStepBytes) {
      this.#allow(stream, found.unreported)
      found.unreported = 0
    }
  }

  malformed(what: 'frames' | 'messages'): void {
    if (what === 'messages') this.#inPlace?.malformed()
    else this.#fail('malformed HTTP/2')
  }

  #fail(code: string): void {
    this.#errorCode ||= code
    this.#reader.stop()
    this.#socket.destroy()
  }

  #readHeaders(head: FrameHead, payload: Buffer): void {
    const block = this.#blocks.take(head, payload)
    if (block === null) return
    if (block === 'malformed') return void this.malformed('frames')
    this.#streams.get(block.stream)?.events.headers(block.fields)
    if (block.isLast) this.#end(block.stream, null)
  }

  #settle(payload: Buffer): void {
    for (let at = 0; at + 6 <= payload.length; at += 6) {
      if (payload.readUInt16BE(at) !== setting.initialWindowSize) continue
      const size = payload.readUInt32BE(at + 2)
      for (const stream of this.#streams.values()) stream.sendWindow += size - this.#initialWindow
      this.#initialWindow = size
    }
    this.#answer({ type: frameType.settings, flags: frameFlag.ack, stream: 0 })
    for (const stream of this.#streams.keys()) this.#pump(stream)
  }

  /** Answers a PING or SETTINGS frame, unless the peer sends too many or does not read. */
  #answer(head: FrameHead, payload?: Buffer): void {
    const nowMs = performance.now()
    const asking = this.#asking
    if (nowMs - asking.sinceMs >= 1_000) this.#asking = { sinceMs: nowMs, frames: 1 }
    else asking.frames++
    if (this.#asking.frames > askingFramesPerSecondMax) this.#fail('flood of PING or SETTINGS')
    else if (this.#socket.writableLength > unsentBytesMax) this.#fail('answers are not read')
    else this.#write(head, payload)
  }

  #widen(stream: number, bytes: number): void {
    const found = this.#streams.get(stream)
    if (stream === 0) this.#sendWindow += bytes
    else if (found !== undefined) found.sendWindow += bytes
    for (const one of stream === 0 ? [...this.#streams.keys()] : [stream]) this.#pump(one)
  }

  #pump(stream: number): void {
    const found = this.#streams.get(stream)
    if (found === undefined) return
    for (let first = found.waiting[0]; first !== undefined; ) {
      const allowed = Math.min(this.#sendWindow, found.sendWindow, frameBytesDefault)
      const count = Math.min(first.length, allowed)
      if (count <= 0) return
      this.#write({ type: frameType.data, flags: 0, stream }, first.subarray(0, count))
      this.#sendWindow -= count
      found.sendWindow -= count
      if (count === first.length) found.waiting.shift()
      else found.waiting[0] = first.subarray(count)
      first = found.waiting[0]
    }
    if (!found.isEnding) return
    found.isEnding = false
    this.#write({ type: frameType.data, flags: frameFlag.endStream, stream })
  }

  #end(stream: number, resetCode: number | null): void {
    if (stream === this.#reader.inPlace) this.#reader.flush()
    const found = this.#streams.get(stream)
    if (this.#forget(stream)) found!.events.ended(resetCode)
  }

  #forget(stream: number): boolean {
    if (!this.#streams.delete(stream)) return false
    if (this.#reader.inPlace === stream) {
      this.#reader.release()
      this.#inPlace = null
    }
    return true
  }

  #allow(stream: number, bytes: number): void {
    this.#socket.write(numberFrame(frameType.windowUpdate, stream, bytes))
  }

  #write(head: FrameHead, payload?: Buffer): void {
    this.#socket.write(frameOf(head, payload))
  }
}

// Opens the socket of an HTTP/2 connection, whose bytes go into the memory of its reader.

export interface SocketEvents {
  connected(): void
  /** Something was received; called before it is read. */
  received(): void
}

export function openSocket(
  origin: URL,
  reader: Http2Reader,
  events: SocketEvents,
  path?: string,
): Socket {
  const { protocol, hostname, port } = origin
  const host = hostname.replace(/^\[|\]$/g, '')
  if (protocol === 'https:') {
    const servername = /^[\d.]+$|:/.test(host) ? '' : host
    const options = { host, port: Number(port || 443), servername, ALPNProtocols: ['h2'] }
    const socket = connectTls(options)
    // TLS gives memory of its own.
    socket.on('data', (bytes) => {
      events.received()
      for (let at = 0; at < bytes.length; ) {
        const count = bytes.copy(reader.room(), 0, at)
        at += count
        reader.read(count)
      }
    })
    return socket.on('secureConnect', events.connected).setNoDelay(true)
  }
  // The memory of a batch is given away inside of `read`: the socket then asks for the next.
  const buffer = () => reader.room()
  const callback = (count: number) => {
    events.received()
    reader.read(count)
    return true
  }
  const at = path === undefined ? { host, port: Number(port || 80) } : { path }
  const socket = connect({ ...at, onread: { buffer, callback } })
  return socket.on('connect', events.connected).setNoDelay(true)
}
