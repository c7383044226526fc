// A connection to geyser.Geyser, of a node or of a gateway: messages in and out as bytes. Thread:
// geyser, and main of the index writer.
// gRPC over an HTTP/2 connection of our own: a call object of @grpc/grpc-js costs ten times the CPU
// per message. The first stream is read in place, calls and further streams are copied. No error
// contains an address or a token.
//
//   subscribe ──► POST /geyser.Geyser/Subscribe, x-token ──► DATA ──► batches ──► listener
//   no byte for 1 s ──► HTTP/2 ping ──► no byte for 3 s ──► timeout, `silent`
import type { Clock } from '../../base/clock.ts'
import { Commitment } from '../../base/commitment.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { BackWriter, ProtoReader } from '../../base/protobuf.ts'
import type { HeaderFields } from './hpack.ts'
import { Http2Connection } from './http2-connection.ts'
import { frameMessage, MessageBatcher, type TakeMessages } from './http2-reader.ts'

/** Time without a byte before a ping, and before the connection times out. */
const pingAfterMs = 1_000
const silenceTimeoutMs = 3_000
const watchEveryMs = 250
/** A timer this late means that our event loop stalled, not that the node is silent. */
const lateMs = 500

const service = '/geyser.Geyser/'
const grpcOk = 0
const grpcUnknown = 2
/** Codes with which a stream is reset that did nothing wrong. */
const harmlessResets: readonly (number | null)[] = [null, 0, 8]

/** How a call or a stream ended: a gRPC status of the node, or a connection failure. */
export interface GeyserEnd {
  readonly kind: 'status' | 'connection' | 'silent' | 'broken'
  /** The gRPC code; 2 (unknown) without a status. */
  readonly code: number
  /** The node's own message; not for customers. */
  readonly details: string
}

interface GeyserListener {
  /** The node accepted the call; an error status may still follow. */
  opened?(): void
  /** That many bytes arrived; called before they are parsed, for exact arrival times. */
  arrived?(bytes: number): void
  /** Whole messages; the listener may keep the bytes. */
  messages: TakeMessages
  /** Called last. */
  ended(end: GeyserEnd): void
}

export interface GeyserStream {
  send(message: Uint8Array): void
  cancel(): void
  /** Stops reading: flow control then holds the node back. */
  pause(): void
  resume(): void
}

export interface GeyserTarget {
  /** URL with scheme http or https. */
  readonly address: string
  /** '' for a node without a token. */
  readonly xToken: string
  /** Of a Unix socket, where it is at one. */
  readonly path?: string
}

export class GeyserClient {
  readonly #connection: Http2Connection
  readonly #headers: readonly (readonly [string, string])[]
  readonly #path: string
  readonly #clock: Clock
  readonly #watcher: NodeJS.Timeout
  readonly #calls = new Set<(end: GeyserEnd) => void>()
  /** Streams that are paused; the whole connection is then. */
  readonly #paused = new Set<number>()
  #receivedMs: number
  #watchedMs: number
  #end: GeyserEnd | null = null

  /** Connects at once; calls wait until it is connected. */
  constructor(target: GeyserTarget, clock: Clock) {
    const address = new URL(target.address)
    this.#clock = clock
    this.#receivedMs = clock.monotonicMs()
    this.#watchedMs = this.#receivedMs
    this.#path = address.pathname.replace(/\/$/, '')
    this.#headers = [
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
      ['user-agent', 'sluice'],
      ...(target.xToken === '' ? [] : [['x-token', target.xToken] as const]),
    ]
    const events = {
      connected: () => this.#received(),
      received: () => this.#received(),
      goneAway: () => this.#close({ ...lost, details: 'GOAWAY' }),
      closed: (code: string) => this.#close({ ...lost, details: code }),
    }
    this.#connection = new Http2Connection(address, events, target.path)
    this.#watcher = setInterval(() => this.#watch(), watchEveryMs).unref()
  }

  /** A unary call. Refusals: `unavailable`, with the GeyserEnd as data. Never rejects. */
  call(method: string, request: Uint8Array, timeoutMs: number): Promise<Outcome<Uint8Array>> {
    return new Promise((resolve) => {
      let answer: Uint8Array | null = null
      const timer = setTimeout(() => {
        stream.cancel()
        resolve(notAnswered({ ...lost, kind: 'silent' }))
      }, timeoutMs)
      const stream = this.subscribe(
        request,
        {
          messages: (bytes, [start, end]) => {
            answer = bytes.subarray(start, end)
          },
          ended: (end) => {
            clearTimeout(timer)
            const isAnswered = end.kind === 'status' && end.code === grpcOk && answer !== null
            resolve(isAnswered ? accept(answer!) : notAnswered(end))
          },
        },
        method,
        true,
      )
    })
  }

  /** Opens a stream with its first request; `method` of another service is its whole path. */
  subscribe(
    request: Uint8Array,
    listener: GeyserListener,
    method = 'Subscribe',
    isLast = false,
  ): GeyserStream {
    if (this.#end !== null) {
      const end = this.#end
      setImmediate(() => listener.ended(end))
      return { send() {}, cancel() {}, pause() {}, resume() {} }
    }
    const finish = once((end: GeyserEnd) => {
      this.#calls.delete(finish)
      this.#resume(stream)
      this.#connection.reset(stream)
      listener.ended(end)
    })
    this.#calls.add(finish)
    const path = this.#path + (method.startsWith('/') ? method : service + method)
    const headers = [[':path', path] as const, ...this.#headers]
    const stream = this.#open(headers, listener, finish, isLast)
    this.#connection.send(stream, frameMessage(request))
    if (isLast) this.#connection.endSending(stream)
    return {
      send: (message) => this.#connection.send(stream, frameMessage(message)),
      cancel: () => {
        this.#calls.delete(finish)
        finish.isDone = true
        this.#resume(stream)
        this.#connection.reset(stream)
      },
      pause: () => {
        this.#paused.add(stream)
        this.#connection.pause()
      },
      resume: () => this.#resume(stream),
    }
  }

  /** Measures the round trip of an HTTP/2 ping; not called without an answer. */
  ping(take: (roundTripMs: number) => void): void {
    this.#connection.ping(take)
  }

  /** Ends all calls and streams. */
  close(): void {
    this.#close(lost)
  }

  #open(
    headers: readonly (readonly [string, string])[],
    listener: GeyserListener,
    finish: Finish,
    isUnary: boolean,
  ): number {
    const messages: TakeMessages = (bytes, offsets) => {
      if (!finish.isDone) listener.messages(bytes, offsets)
    }
    const batcher = new MessageBatcher(messages)
    let status: GeyserEnd | null = null
    return this.#connection.open(
      headers,
      {
        headers: (fields) => {
          const isFirst = fields.has(':status')
          // An interim response of a proxy: the response follows.
          if (fields.get(':status')?.startsWith('1')) return
          if (fields.has('grpc-status')) status = statusEnd(fields)
          else if (isFirst && fields.get(':status') !== '200')
            finish({ ...lost, details: `HTTP ${fields.get(':status')}` })
          else if (isFirst && !finish.isDone) listener.opened?.()
        },
        data: (bytes) => {
          if (finish.isDone) return
          listener.arrived?.(bytes.length)
          if (!batcher.push(bytes)) finish(malformed)
          else batcher.flush()
        },
        ended: (code) => {
          const reset = { ...lost, details: `reset with code ${code}` }
          finish(status ?? (harmlessResets.includes(code) ? lost : reset))
        },
      },
      isUnary
        ? null
        : {
            arrived: (bytes) => listener.arrived?.(bytes),
            messages,
            malformed: () => finish(malformed),
          },
    )
  }

  #resume(stream: number): void {
    this.#paused.delete(stream)
    if (this.#paused.size === 0) this.#connection.resume()
  }

  #received(): void {
    this.#receivedMs = this.#clock.monotonicMs()
  }

  #watch(): void {
    const nowMs = this.#clock.monotonicMs()
    // After a stall of our event loop, socket data is read only after this timer.
    const isLate = nowMs - this.#watchedMs > watchEveryMs + lateMs
    if (isLate || this.#paused.size > 0) this.#receivedMs = nowMs
    this.#watchedMs = nowMs
    const quietMs = nowMs - this.#receivedMs
    if (quietMs >= silenceTimeoutMs) this.#close({ ...lost, kind: 'silent' })
    else if (quietMs >= pingAfterMs) this.#connection.ping(() => {})
  }

  #close(end: GeyserEnd): void {
    if (this.#end !== null) return
    this.#end = end
    clearInterval(this.#watcher)
    for (const finish of [...this.#calls]) finish(end)
    this.#connection.destroy()
  }
}

type Finish = ((end: GeyserEnd) => void) & { isDone: boolean }

/** A callback that runs once. */
function once(run: (end: GeyserEnd) => void): Finish {
  const finish: Finish = Object.assign(
    (end: GeyserEnd) => {
      if (finish.isDone) return
      finish.isDone = true
      run(end)
    },
    { isDone: false },
  )
  return finish
}

export const lost: GeyserEnd = { kind: 'connection', code: grpcUnknown, details: '' }
const malformed: GeyserEnd = {
  kind: 'broken',
  code: grpcUnknown,
  details: 'malformed gRPC messages',
}

export function notAnswered(end: GeyserEnd): Outcome<never> {
  return refuse('unavailable', 'upstream', 'the node did not answer', { data: end })
}

function statusEnd(fields: HeaderFields): GeyserEnd {
  const code = Number(fields.get('grpc-status'))
  const details = decoded(fields.get('grpc-message') ?? '')
  return { kind: 'status', code: Number.isInteger(code) ? code : grpcUnknown, details }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

// Builds requests to a node's geyser.Geyser and parses its unary responses.
// Field numbers are those of proto/geyser.proto.

const field = {
  accounts: 1,
  slots: 2,
  transactions: 3,
  blocksMeta: 5,
  commitment: 6,
  entry: 8,
  ping: 9,
  fromSlot: 11,
} as const
const filterName = 's'

/**
 * Subscribes to accounts, transactions, block metas and slot statuses, by default at `processed`
 * and with entries: higher commitments follow from the statuses and blocks from their content, so
 * that the node sends nothing twice.
 */
export function subscribeRequest(
  fromSlot: number | null,
  commitment: Commitment = Commitment.processed,
): Uint8Array {
  const writer = new BackWriter()
  if (fromSlot !== null) writer.numberAlways(field.fromSlot, fromSlot)
  if (commitment === Commitment.processed) writeFilter(writer, field.entry)
  writer.numberAlways(field.commitment, commitment)
  writeFilter(writer, field.blocksMeta)
  writeFilter(writer, field.transactions)
  writeFilter(writer, field.slots, () => {
    // interslot_updates.
    writer.flag(2, true)
  })
  writeFilter(writer, field.accounts)
  return writer.take()
}

/** SubscribeRequest with only a ping: changes no filter. */
export function pingRequest(id: number): Uint8Array {
  const writer = new BackWriter()
  writer.number(1, id)
  writer.wrap(field.ping, 0)
  return writer.take()
}

/** The first slot that a node can replay (SubscribeReplayInfoResponse); null without replay. */
export function firstAvailableIn(answer: Uint8Array): number | null {
  return firstField(answer)?.number ?? null
}

/** Asks for the newest confirmed slot. */
export const confirmedSlotRequest: Uint8Array = Uint8Array.of(1 << 3, Commitment.confirmed)

/** From a GetSlotResponse. */
export function slotIn(answer: Uint8Array): number {
  return firstField(answer)?.number ?? 0
}

/** Asks for the newest finalized block. */
export const latestBlockhashRequest: Uint8Array = Uint8Array.of(1 << 3, Commitment.finalized)

/** From a GetLatestBlockhashResponse. */
export function blockIn(answer: Uint8Array): { readonly slot: number; readonly blockhash: string } {
  const reader = new ProtoReader(answer)
  let slot = 0
  let blockhash = ''
  while (reader.next()) {
    if (reader.field === 1) slot = reader.number
    if (reader.field === 2) blockhash = reader.text
  }
  return { slot, blockhash }
}

/** The validator's version out of the JSON of a GetVersionResponse; '' when absent. */
export function solanaVersionIn(answer: Uint8Array): string {
  const text = firstField(answer)?.text ?? ''
  return /"solana"\s*:\s*"([\w.+-]{1,64})"/.exec(text)?.[1] ?? ''
}

/** At its field 1; null without one. */
function firstField(answer: Uint8Array): ProtoReader | null {
  const reader = new ProtoReader(answer)
  while (reader.next()) if (reader.field === 1) return reader
  return null
}

/** A map entry: the filter's name, and the filter, written even when it is empty. */
function writeFilter(writer: BackWriter, map: number, write: () => void = () => {}): void {
  const entry = writer.mark
  const value = writer.mark
  write()
  writer.wrap(2, value)
  writer.string(1, filterName)
  writer.wrap(map, entry)
}
