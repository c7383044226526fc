// Checks at start that streams can be sent on directly. Thread: main, once.
// The http2 stream inside a call is not public in the library. A door on loopback, of the same make
// as the real one, and one call to it show whether this version still keeps it where we look.
import { connect } from 'node:http2'
import type { Log } from '../telemetry/log.ts'
import { openGrpcDoor } from './grpc.ts'
import { grpcCode } from './grpc-status.ts'
import { DirectStream } from './grpc-stream.ts'

const path = '/sluice.Probe/Open'
const deadlineMs = 2_000

/** True when calls show their http2 stream; false sends the slow way and says so in the log. */
export async function canSendDirectly(log: Log): Promise<boolean> {
  let isDirect = false
  const door = await openGrpcDoor<null>({
    host: '127.0.0.1',
    port: 0,
    certificates: null,
    messageBytesMax: 1024,
    keepaliveMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    sendsDirectly: true,
    clientAddress: (peer) => peer,
    admit: () => ({ ok: true, caller: null, leave() {} }),
    methods: [
      {
        kind: 'stream',
        path,
        open(stream) {
          isDirect = stream instanceof DirectStream
          stream.end({ code: grpcCode.ok, details: '' })
          return { message() {}, halfClosed() {}, drained() {}, closed() {} }
        },
      },
    ],
    log,
  })
  await callOnce(`http://127.0.0.1:${door.address?.port}`)
  await door.stop()
  if (!isDirect) log.warn('updates are sent one by one: the http2 stream of a call is hidden')
  return isDirect
}

/** Resolves when the call is over, well or not: the answer is what the door saw. */
function callOnce(origin: string): Promise<void> {
  return new Promise((resolve) => {
    const session = connect(origin)
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    const timer = setTimeout(() => session.destroy(), deadlineMs)
    session.on('error', () => {})
    session.on('close', () => {
      clearTimeout(timer)
      resolve()
    })
    stream.on('error', () => {})
    stream.on('close', () => session.close())
    stream.resume()
    stream.end()
  })
}
