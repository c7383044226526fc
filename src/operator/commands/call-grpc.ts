// Calls a gRPC method for `sluice call`: unary, or a stream of updates.
// Messages are JSON by the fields of proto/geyser.proto, in camelCase; bytes are base64.
//
//   message = 1 byte compressed (0) | 4 bytes length | protobuf
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { type Codec, loadCodec } from '../../streams/geyser/codec.ts'
import { type Answer, CallFailure, type CallRequest } from './call-http.ts'

const headBytes = 5
const defaultService = 'geyser.Geyser'
/** Of the answers to the server's pings: an id that nobody types. */
const answerId = 2 ** 31 - 1
/** Status codes by their number. */
const codes = [
  ...['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND'],
  ...['ALREADY_EXISTS', 'PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION'],
  ...['ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS'],
  'UNAUTHENTICATED',
]

export async function* callGrpc(request: CallRequest): AsyncGenerator<Answer> {
  const codec = loadCodec()
  const method = methodOf(codec, request.method)
  const message = method.encode(request.params ?? {})
  const session = connect(request.url, request.ca === null ? {} : { ca: request.ca })
  const stop = () => session.destroy()
  request.signal.addEventListener('abort', stop)
  try {
    const stream = await open(session, method.path, request.token)
    stream.write(framed(message))
    if (!method.isStream) stream.end()
    for await (const bytes of messagesOf(stream)) {
      const result = method.decode(bytes) as { ping?: unknown; pong?: { id: number } }
      // The server closes a stream that leaves its pings unanswered. It answers in turn, with a
      // pong that the user did not ask for.
      if (result.ping !== undefined) stream.write(framed(method.encode({ ping: { id: answerId } })))
      else if (result.pong?.id !== answerId)
        yield { result, whole: result, isUpdate: method.isStream && result.pong === undefined }
    }
  } finally {
    request.signal.removeEventListener('abort', stop)
    session.destroy()
  }
}

interface Method {
  readonly path: string
  readonly isStream: boolean
  encode(message: unknown): Uint8Array
  decode(bytes: Uint8Array): unknown
}

/** `GetVersion` of geyser.Geyser, or a full name such as `grpc.health.v1.Health/Check`. */
function methodOf({ root }: Codec, name: string): Method {
  const [service, word] = name.includes('/') ? name.split('/') : [defaultService, name]
  try {
    const { methods } = root.lookupService(service!)
    const method = methods[word ?? '']
    if (method === undefined)
      throw new CallFailure(`${service} has no ${word}, but ${Object.keys(methods).join(', ')}`)
    const { requestType, responseType, requestStream = false, responseStream = false } = method
    const parent = root.lookupService(service!)
    const [sent, received] = [parent.lookupType(requestType), parent.lookupType(responseType)]
    return {
      path: `/${service}/${word}`,
      isStream: requestStream || responseStream,
      encode: (message) => sent.encode(sent.fromObject(message as object)).finish(),
      decode: (bytes) =>
        received.toObject(received.decode(bytes), { longs: String, enums: String, bytes: String }),
    }
  } catch (error) {
    if (error instanceof CallFailure) throw error
    throw new CallFailure(`no service "${service}" in proto/`)
  }
}

/** The stream of the call once the server has answered with headers. */
function open(
  session: ClientHttp2Session,
  path: string,
  token: string,
): Promise<ClientHttp2Stream> {
  return new Promise((resolve, reject) => {
    session.once('error', reject)
    session.once('connect', () => {
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        ...(token === '' ? {} : { 'x-token': token }),
      })
      stream.once('error', reject)
      resolve(stream)
    })
  })
}

/** Every message until the end of the stream; throws the status when it is not OK. */
async function* messagesOf(stream: ClientHttp2Stream): AsyncGenerator<Uint8Array> {
  let status: { readonly code: number; readonly message: string } | null = null
  const read = (headers: Readonly<Record<string, unknown>>) => {
    const code = headers['grpc-status']
    if (code === undefined) return
    status = {
      code: Number(code),
      message: decodeURIComponent(String(headers['grpc-message'] ?? '')),
    }
  }
  // A refused call has its status in the only headers that it gets.
  stream.on('response', read)
  stream.on('trailers', read)
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of stream) {
    rest = Buffer.concat([rest, chunk as Buffer])
    while (rest.length >= headBytes) {
      const end = headBytes + rest.readUInt32BE(1)
      if (rest.length < end) break
      yield rest.subarray(headBytes, end)
      rest = rest.subarray(end)
    }
  }
  // Reason for the cast: the listeners above set it.
  const ended = status as { readonly code: number; readonly message: string } | null
  if (ended === null) throw new CallFailure('the connection ended without a status')
  if (ended.code !== 0)
    throw new CallFailure(`${codes[ended.code] ?? ended.code}: ${ended.message}`)
}

function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}
