// Handles WebSocket handshakes and messages of the endpoint: each becomes a stream client.
// Both are charged to the client's address.
import type { Clock } from '../../base/clock.ts'
import { codesOf, refuse } from '../../base/errors.ts'
import { CLOSE_POLICY, type Reply } from '../../base/transport/reply.ts'
import type { Request } from '../../base/transport/request.ts'
import { offeredProtocols, type Socket, type SocketRoute } from '../../base/transport/websocket.ts'
import type { Gate } from '../../customers/auth/gate.ts'
import type { Encoding } from '../../streams/log/encoded.ts'
import type { EventLog } from '../../streams/log/log.ts'
import { badMessage, type Connect, parseConnect, parseMessage } from './handle.ts'
import type { Limits } from './limits.ts'
import { badRequest, type Caller } from './routes.ts'
import { StreamClient, type StreamParts, type StreamSockets } from './stream-sockets.ts'

/** Limits of the metrics endpoint. */
const inboundBytesMax = 16 * 1024
const pingMs = 30_000
const silenceMsMax = 60_000
/** A gateway that is behind another one has its frames by then, or will not have them soon. */
const cursorWaitMs = 1_000
/** Messages of a client that waits for its cursor. */
const earlyMax = 16

export interface SessionParts {
  readonly stream: StreamParts
  readonly sockets: StreamSockets
  readonly gate: Pick<Gate, 'lease'>
  readonly clock: Clock
  readonly limits: Limits
  readonly perAddressMax: number
}

/** Result of the handshake, kept with its socket. */
interface Session {
  readonly connect: Connect
  readonly encoding: Encoding
  readonly caller: Caller
  client: StreamClient | null
  /** Messages that arrived while the client waits for its cursor. */
  readonly early: { readonly data: Buffer; readonly isBinary: boolean }[]
  isClosed: boolean
  release: (() => void) | null
}

export function socketRoute(path: string, parts: SessionParts): SocketRoute<Caller, Session> {
  const { sockets, stream, limits, perAddressMax } = parts
  return {
    path,
    inboundBytesMax,
    unsentBytesMax: stream.limits.unsentBytesMax,
    pingMs,
    silenceMsMax,
    perAddressMax,
    upgrade: (request, caller) => decide(request, caller, parts),
    open: (socket) => open(socket, parts),
    message: (socket, data, isBinary) => {
      if (limits.message(socket.address, data.length)) answer(socket, sockets, data, isBinary)
      else socket.end(codesOf.exhausted.close, 'this address has used up its budget')
    },
    drain: ({ state }) => {
      if (state.client !== null) sockets.drained(state.client)
    },
    close: ({ state }) => {
      state.isClosed = true
      state.release?.()
      if (state.client !== null) sockets.remove(state.client)
    },
  }
}

function decide(
  request: Request,
  caller: Caller,
  { stream, limits }: SessionParts,
): { state: Session; protocol: string } | Reply | Promise<Reply> {
  // Using the first and ignoring the others might send something other than requested.
  const repeated = ['events', 'resume_from', 'run', 'ticket'].find((name) =>
    request.isRepeated(name),
  )
  const connect =
    repeated === undefined
      ? parseConnect((name) => request.parameter(name))
      : refuse('invalid', 'repeated', `${repeated} is given more than once`)
  if (!connect.ok) {
    stream.meters.refused['bad-request'].inc()
    return badRequest(connect.refusal.message)
  }
  const refused = limits.upgrade(request, greetingOf(connect.value, stream))
  if (refused !== null) return refused
  const packs = offeredProtocols(request).includes('msgpack')
  return {
    state: {
      connect: connect.value,
      encoding: packs ? 'msgpack' : 'json',
      caller,
      client: null,
      early: [],
      isClosed: false,
      release: null,
    },
    protocol: packs ? 'msgpack' : '',
  }
}

/** Estimates what a client is sent before it is live: frames after its cursor, or a snapshot. */
function greetingOf(connect: Connect, { log, active }: StreamParts) {
  const { resumeFrom } = connect
  const missed = resumeFrom === null ? 0 : log.newestSeq - resumeFrom
  const frames = missed > 0 ? Math.min(missed, log.frames) : active.count + connect.kinds.length
  return { frames, bytes: log.frames === 0 ? 0 : frames * (log.bytes / log.frames) }
}

/**
 * A cursor of a gateway that is further waits for its frame before a snapshot is sent. While the
 * shared log cannot be read, the client is sent to another gateway: a snapshot would take it back.
 */
function open(socket: Socket<Session>, parts: SessionParts): void {
  const { connect, early } = socket.state
  const { log } = parts.stream
  const cursor = connect.resumeFrom
  if (cursor === null || !log.mayReach(cursor, connect.run)) return void begin(socket, parts)
  void reach(log, cursor).then((isKnown) => {
    if (socket.state.isClosed) return
    if (!isKnown) {
      socket.end(codesOf.unavailable.close, 'this gateway cannot read the shared log: reconnect')
      return
    }
    begin(socket, parts)
    for (const { data, isBinary } of early.splice(0)) answer(socket, parts.sockets, data, isBinary)
  })
}

/** Waits for the frame of this number; false when it may exist and cannot be read. */
function reach(log: EventLog, cursor: number): Promise<boolean> {
  if (cursor < log.oldestSeq && log.filling !== null)
    return log.filling.then(() => !log.mayReach(cursor, null))
  return new Promise((resolve) => {
    let isRead = false
    const finish = (isKnown: boolean) => {
      clearTimeout(timer)
      endListening()
      resolve(isKnown)
    }
    const timer = setTimeout(() => finish(isRead), cursorWaitMs)
    const endListening = log.listen(({ seq }) => {
      if (seq >= cursor) finish(true)
    })
    log.pull().then(
      () => {
        isRead = true
      },
      () => {},
    )
  })
}

function begin(socket: Socket<Session>, { stream, sockets, gate, clock }: SessionParts): void {
  const { connect, encoding, caller } = socket.state
  const about = { encoding, address: socket.address, connect, nowMs: clock.monotonicMs() }
  const client = new StreamClient(socket, about, stream)
  socket.state.client = client
  sockets.add(client)
  if (caller === null) return
  socket.state.release = gate.lease(caller, 'metrics', socket.address, () =>
    socket.end(CLOSE_POLICY, 'the token is no longer valid'),
  )
}

function answer(
  socket: Socket<Session>,
  sockets: StreamSockets,
  data: Buffer,
  isBinary: boolean,
): void {
  const { client, early } = socket.state
  if (client === null) {
    // The data is the server's own memory, valid during the call only.
    if (early.length < earlyMax) early.push({ data: Buffer.from(data), isBinary })
    return
  }
  const outcome = isBinary ? badMessage('messages are JSON text') : parseMessage(data.toString())
  if (outcome.ok) sockets.setKinds(client, outcome.value)
  else client.sendControl('Error', { code: outcome.refusal.code, message: outcome.refusal.message })
}
