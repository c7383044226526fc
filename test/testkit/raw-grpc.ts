// gRPC by hand on node:http2, to send and see what a library hides.
import { type ClientHttp2Session, connect, type SecureClientSessionOptions } from 'node:http2'
import { type Socket, connect as tcpConnect } from 'node:net'
import { Duplex } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import { decompress } from 'fzstd'
import type { GrpcEncoding } from '../../src/base/transport/grpc-encoding.ts'
import { headersFrame } from '../../src/base/transport/grpc-probe.ts'

type Headers = Record<string, string | string[]>
type Pair = readonly [string, string]

/** What a raw HTTP/2 client sees: response headers, and trailers if they came apart. */
export async function rawCall(
  target: string,
  headers: Headers,
  body: Buffer | null = Buffer.from('0000000000', 'hex'),
  appended: readonly Pair[] = [],
): Promise<{ headers: Record<string, unknown>; data: Buffer; trailers: Record<string, unknown> }> {
  const [host, port] = target.split(':') as [string, string]
  const session = connect(`http://${target}`, {
    createConnection: () => appending(tcpConnect(Number(port), host), appended),
  })
  session.on('error', () => {})
  try {
    return await new Promise((resolve, reject) => {
      const stream = session.request(
        { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers', ...headers },
        { endStream: body === null },
      )
      const seen = { headers: {}, data: [] as Buffer[], trailers: {} }
      stream.on('response', (got) => Object.assign(seen.headers, got))
      stream.on('trailers', (got) => Object.assign(seen.trailers, got))
      stream.on('data', (chunk: Buffer) => seen.data.push(chunk))
      stream.on('end', () => resolve({ ...seen, data: Buffer.concat(seen.data) }))
      stream.on('error', reject)
      if (body !== null) stream.end(body)
    })
  } finally {
    session.close()
  }
}

/** A session whose calls come from the given loopback address. */
export function rawSession(
  target: string,
  localAddress = '127.0.0.1',
  settings: SecureClientSessionOptions['settings'] = {},
): ClientHttp2Session {
  const [host, port] = target.split(':') as [string, string]
  const session = connect(`http://${target}`, {
    settings,
    // In megabytes: it is the server's bounds that a test wants to meet.
    maxSessionMemory: 8_192,
    createConnection: () => tcpConnect({ port: Number(port), host, localAddress }),
  })
  session.on('error', () => {})
  return session
}

/** One call of a session: what it was answered, and whether it is over. */
export class RawStream {
  status: number | null = null
  details = ''
  /** The response headers have come. */
  isOpen = false
  isClosed = false
  readonly chunks: Buffer[] = []
  readonly stream

  constructor(session: ClientHttp2Session, path: string, headers: Headers = {}) {
    this.stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    })
    const note = (got: Record<string, unknown>) => {
      if (got['grpc-status'] !== undefined) this.status = Number(got['grpc-status'])
      if (got['grpc-message'] !== undefined) this.details = decodeURI(String(got['grpc-message']))
    }
    this.stream.on('response', (got) => {
      this.isOpen = true
      note(got)
    })
    this.stream.on('trailers', note)
    this.stream.on('data', (chunk: Buffer) => this.chunks.push(chunk))
    this.stream.on('error', () => {})
    this.stream.on('close', () => {
      this.isClosed = true
    })
  }
}

/** A message with its gRPC prefix. */
export function framed(message: Uint8Array, compressed = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = compressed
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Flag and content of each whole message in the bytes, inflated where it is compressed. */
export function messagesIn(
  frames: Buffer,
  encoding: GrpcEncoding | null,
): { readonly flag: number; readonly message: Buffer }[] {
  const messages = []
  for (let at = 0; at + 5 <= frames.length; ) {
    const end = at + 5 + frames.readUInt32BE(at + 1)
    if (end > frames.length) break
    const [flag, bytes] = [frames[at]!, frames.subarray(at + 5, end)]
    messages.push({ flag, message: flag === 0 ? bytes : inflated(bytes, encoding!) })
    at = end
  }
  return messages
}

/** Read by decoders that are not those of the server. */
function inflated(bytes: Buffer, encoding: GrpcEncoding): Buffer {
  return encoding === 'gzip' ? gunzipSync(bytes) : Buffer.from(decompress(bytes))
}

/**
 * Adds header lines to every HEADERS frame that is sent. Node's client refuses to send
 * `authorization` twice, so the second one is written into the frame directly.
 */
function appending(socket: Socket, appended: readonly Pair[]): Duplex {
  if (appended.length === 0) return socket
  const prefaceBytes = 24
  const headBytes = 9
  const headersType = 1
  const literals = headersFrame(1, appended).subarray(headBytes)
  let pending = Buffer.alloc(0)
  let skipped = 0
  const duplex = new Duplex({
    read: () => void socket.resume(),
    write(chunk: Buffer, _encoding, done) {
      pending = Buffer.concat([pending, chunk])
      const out: Buffer[] = []
      if (skipped === 0 && pending.length >= prefaceBytes) {
        skipped = prefaceBytes
        out.push(pending.subarray(0, prefaceBytes))
        pending = pending.subarray(prefaceBytes)
      }
      while (skipped > 0 && pending.length >= headBytes) {
        const length = pending.readUIntBE(0, 3)
        if (pending.length < headBytes + length) break
        const frame = Buffer.from(pending.subarray(0, headBytes + length))
        pending = pending.subarray(headBytes + length)
        if (frame[3] === headersType) frame.writeUIntBE(length + literals.length, 0, 3)
        out.push(frame)
        if (frame[3] === headersType) out.push(literals)
      }
      socket.write(Buffer.concat(out), () => done())
    },
    final: (done) => void socket.end(done),
    destroy(error, done) {
      socket.destroy()
      done(error)
    },
  })
  socket.on('data', (chunk) => duplex.push(chunk))
  socket.on('end', () => duplex.push(null))
  socket.on('error', (error) => duplex.destroy(error))
  return duplex
}
