// Checks at start that the gRPC library still exposes what admission relies on. Thread: main, once.
// Neither the HTTP/2 stream of a call nor the raw headers are public in the library. An endpoint on
// loopback, opened like the real one, gets one call with a repeated `authorization` and a message
// over its limit: the first must be detected, the second must not arrive.
import { connect } from 'node:net'
import { Fault } from '../errors.ts'
import type { Log } from '../telemetry/log.ts'
import { openGrpcEndpoint } from './grpc.ts'
import { grpcCode } from './grpc-stream.ts'

const path = '/sluice.Probe/Open'
const deadlineMs = 30_000

/** Rejects with a fault when repeated headers, streams or messages cannot be controlled. */
export async function probeGrpcLibrary(log: Log): Promise<void> {
  const seen = { repeated: false, stream: false, message: false }
  let over = () => {}
  const closed = new Promise<void>((resolve) => {
    over = resolve
  })
  const endpoint = await openGrpcEndpoint<null>({
    host: '127.0.0.1',
    port: 0,
    certificates: null,
    messageBytesMax: 1,
    keepaliveMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    connectionIdleMs: 60_000,
    connectionsPerAddressMax: 16,
    isProxy: () => false,
    compression: [],
    clientAddress: (peer) => peer,
    admit({ isRepeated }) {
      seen.repeated = isRepeated
      return { ok: true, caller: null, leave() {} }
    },
    methods: [
      {
        kind: 'stream',
        path,
        open(stream) {
          seen.stream = true
          return {
            message() {
              seen.message = true
              stream.end({ code: grpcCode.ok, details: '' })
            },
            halfClosed() {},
            drained() {},
            closed: over,
          }
        },
      },
    ],
    log,
  })
  await callOnce(endpoint.address!.port, closed)
  await endpoint.stop()
  if (seen.repeated && seen.stream && !seen.message) return
  const why = 'grpc: this version of @grpc/grpc-js hides raw headers or streams'
  throw new Fault('grpc-library', why)
}

/** Resolves when the call is over or the deadline has passed. */
async function callOnce(port: number, closed: Promise<void>): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  let timer: NodeJS.Timeout | undefined
  const failed = new Promise<void>((resolve) => {
    socket.on('error', () => resolve())
    socket.on('close', () => resolve())
    timer = setTimeout(resolve, deadlineMs)
  })
  socket.resume()
  socket.write(
    Buffer.concat([
      openingBytes(),
      headersFrame(1, [
        [':method', 'POST'],
        [':scheme', 'http'],
        [':path', path],
        [':authority', '127.0.0.1'],
        ['content-type', 'application/grpc'],
        ['te', 'trailers'],
        ['authorization', 'Bearer a'],
        ['authorization', 'Bearer b'],
      ]),
      frame(frameType.data, 0, 1, Buffer.from([0, 0, 0, 0, 2, 0, 0])),
    ]),
  )
  await Promise.race([closed, failed])
  clearTimeout(timer)
  socket.destroy()
}

// Builds HTTP/2 frames by hand, for what Node's client refuses to send.
// Headers are HPACK literals without indexing or Huffman coding, which every peer must accept.

const frameType = { data: 0, headers: 1, settings: 4 } as const
const endHeaders = 4

/** The first bytes of a client: the preface and empty settings. */
export function openingBytes(): Buffer {
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  return Buffer.concat([preface, frame(frameType.settings, 0, 0, new Uint8Array())])
}

/** The headers of a call; a name may occur twice. */
export function headersFrame(
  streamId: number,
  headers: readonly (readonly [string, string])[],
): Buffer {
  const literals = headers.map(([name, value]) =>
    Buffer.concat([Buffer.from([0]), literal(name), literal(value)]),
  )
  return frame(frameType.headers, endHeaders, streamId, Buffer.concat(literals))
}

function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(streamId, 5)
  return Buffer.concat([head, payload])
}

/** HPACK string: its length in a 7-bit prefix, then the bytes. */
function literal(text: string): Buffer {
  const bytes = Buffer.from(text)
  if (bytes.length < 127) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const length = [127]
  let rest = bytes.length - 127
  for (; rest >= 128; rest >>>= 7) length.push((rest & 127) | 128)
  return Buffer.concat([Buffer.from([...length, rest]), bytes])
}
