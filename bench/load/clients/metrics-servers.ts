// The senders of the metrics load benches: our stream with its endpoint, and the native server
// publishing the same bytes with nothing around it. Thread: main of a process of its own.
import { type Clock, systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { type HttpEndpoint, openHttpEndpoint } from '../../../src/base/transport/http-endpoint.ts'
import { AddressBudget } from '../../../src/customers/quota/address-budget.ts'
import { ActiveBlocks } from '../../../src/products/metrics/active-blocks.ts'
import { Limits } from '../../../src/products/metrics/limits.ts'
import { declareMetricsMeters } from '../../../src/products/metrics/meters.ts'
import { jsonHead } from '../../../src/products/metrics/routes.ts'
import { socketRoute } from '../../../src/products/metrics/session.ts'
import { StreamSockets } from '../../../src/products/metrics/stream-sockets.ts'
import { EventLog } from '../../../src/streams/log/log.ts'
import { serveBench } from '../../../test/testkit/process.ts'

export type SenderKind = 'stream' | 'bare'

export interface Sending {
  /** Time between blocks; 0 sends as fast as the sockets take it. */
  readonly blockMs: number
  readonly seconds: number
  readonly payloadBytes: number
  readonly framesPerTurn: number
}

export interface Sent {
  readonly frames: number
  /** The number of the last. */
  readonly last: number
}

/** A socket with more than this unsent is waited for, so that a flood is paced by its readers. */
const unsentBytesMax = 512 * 1024
const clock: Clock = systemClock

interface Sender {
  readonly endpoint: HttpEndpoint<null>
  /** Returns its number. */
  send(payload: Buffer): number
}

let sender: Sender | null = null
let events: EventLog | null = null

serveBench({ open, send, fill, usage, close })

async function open(kind: SenderKind): Promise<number> {
  sender = kind === 'stream' ? await openStream() : await openBare()
  return sender.endpoint.address.port
}

/** Without a limit: all clients of a bench come from one address. */
const budget = new AddressBudget(
  { workMsPerSecond: 0, workMsBurst: 1, bytesPerSecond: 1, bytesBurst: 1 },
  clock,
)

async function openStream(): Promise<Sender> {
  let next = 0
  const reserve = (count: number) => {
    next += count
    return next - count
  }
  const log = new EventLog({ reserve, clock })
  events = log
  const active = new ActiveBlocks({ finalized: () => {} })
  const stream = {
    log,
    active,
    meters: declareMetricsMeters(new Meters()),
    limits: { unsentBytesMax: 4 * 1024 * 1024, slowMsMax: 30_000 },
    run: 'bench',
  }
  const sockets = new StreamSockets(stream, clock)
  const gate = { lease: () => () => {} }
  const limits = new Limits({ budget, refused: { inc() {} }, clock, head: jsonHead })
  const route = socketRoute('/v1/ws', { stream, sockets, gate, clock, limits, perAddressMax: 0 })
  const endpoint = await endpointWith(route)
  sockets.usePublisher((topic, bytes, isBinary) => endpoint.sockets.publish(topic, bytes, isBinary))
  return { endpoint, send: (payload) => log.append('ContentionData', payload) }
}

/** The same bytes by one publish each, without log, limits or bookkeeping. */
async function openBare(): Promise<Sender> {
  let seq = 0
  const endpoint = await endpointWith({
    path: '/v1/ws',
    inboundBytesMax: 1024,
    unsentBytesMax: 4 * 1024 * 1024,
    pingMs: 30_000,
    silenceMsMax: 60_000,
    perAddressMax: 0,
    upgrade: () => ({ state: null, protocol: '' }),
    open: (socket: { subscribe(topic: string): void }) => socket.subscribe('all'),
    message: () => {},
    close: () => {},
  })
  return {
    endpoint,
    send(payload) {
      const head = `{"seq":${++seq},"ContentionData":`
      const frame = Buffer.concat([Buffer.from(head), payload, Buffer.from('}')])
      endpoint.sockets.publish('all', frame, false)
      return seq
    },
  }
}

// Reason for `never`: the two routes keep different things with a socket.
function endpointWith(route: unknown): Promise<HttpEndpoint<null>> {
  return openHttpEndpoint<null>({
    product: 'bench',
    listen: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    clock,
    log: silentLog,
    http: { routes: [], admit: () => null },
    sockets: [route as never],
  })
}

/** Sends until the time is over. */
async function send({ blockMs, seconds, payloadBytes, framesPerTurn }: Sending): Promise<Sent> {
  const pad = 'x'.repeat(Math.max(0, payloadBytes - 40))
  const endMs = performance.now() + seconds * 1000
  let [frames, last] = [0, 0]
  while (performance.now() < endMs) {
    for (let count = 0; count < framesPerTurn; count++) {
      last = sender!.send(Buffer.from(`{"at":${process.hrtime.bigint()},"pad":"${pad}"}`))
      frames++
    }
    if (blockMs > 0) await new Promise((resolve) => setTimeout(resolve, blockMs))
    else
      do await new Promise((resolve) => setImmediate(resolve))
      while (isBehind())
  }
  return { frames, last }
}

function isBehind(): boolean {
  for (const socket of sender!.endpoint.sockets.open)
    if (socket.unsentBytes > unsentBytesMax) return true
  return false
}

/** Stores frames as the real stream mixes them, for resuming; returns the first and last seq. */
function fill(frames: number) {
  const log = events!
  const contention = Buffer.from(JSON.stringify({ pad: 'x'.repeat(7800) }))
  const small = Buffer.from(JSON.stringify({ pad: 'x'.repeat(230) }))
  const top = Buffer.from(JSON.stringify({ pad: 'x'.repeat(2600) }))
  // Seven frames a block: TPS, four stage moves, the two of the block's end.
  for (let count = 0; count < frames; count++) {
    const turn = count % 7
    if (turn === 0) log.append('TPS', Buffer.from('455'))
    else if (turn < 5) log.append('Gap', small)
    else log.append(turn === 5 ? 'TopAccesses' : 'ContentionData', turn === 5 ? top : contention)
  }
  return { oldest: log.oldestSeq, newest: log.newestSeq, bytes: log.bytes }
}

function usage() {
  const { user, system } = process.cpuUsage()
  return { cpuSecs: (user + system) / 1e6, rssBytes: process.memoryUsage.rss() }
}

async function close(): Promise<void> {
  await sender?.endpoint.stop()
}
