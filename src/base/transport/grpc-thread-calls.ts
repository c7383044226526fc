// The connections of a gRPC endpoint, in a thread of their own: sockets, TLS, HTTP/2, the library.
// Who may call, and what is answered, is decided on the main thread (grpc-thread.ts).
// Thread: the endpoint's own.
//
//   headers -> 'call' -> decision --refused--> trailers
//                           |
//                           +-- unary   -> 'message', unless it went with the call -> answer
//                           +-- stream  -> 'open', 'message', 'drained' -> writes, end
//   end of a call -> 'ended'
import { Fault, messageOf } from '../errors.ts'
import type { Steps } from '../steps.ts'
import type { Log, LogFields, LogLevel } from '../telemetry/log.ts'
import { Addresses } from './address.ts'
import { followReserve } from './descriptors.ts'
import {
  type Admission,
  type GrpcEndpointOptions,
  type GrpcMethod,
  type GrpcPeer,
  type MethodHead,
  openGrpcEndpoint,
  type UnaryAnswer,
} from './grpc.ts'
import type { GrpcEncoding } from './grpc-encoding.ts'
import { probeGrpcLibrary } from './grpc-probe.ts'
import type { GrpcStatus, GrpcStream, StreamEvents } from './grpc-stream.ts'

/** What the options of an endpoint have besides functions. */
type Settings = Omit<
  GrpcEndpointOptions<never>,
  'clientAddress' | 'isProxy' | 'admit' | 'methods' | 'certificates' | 'log'
>

export interface GrpcThreadData extends Settings {
  readonly trustedProxies: readonly string[]
  readonly certificate: Certificate | null
  readonly methods: readonly MethodHead[]
  /** Headers that the handlers of streams read. */
  readonly headers: readonly string[]
  /** Of the reserve of descriptors. */
  readonly scarcity: Int32Array
  /** The library was probed: without descriptors, as after a restart, that would fail. */
  readonly isProbed: boolean
}

export interface Certificate {
  readonly cert: Uint8Array
  readonly key: Uint8Array
}

/** Of unsent bytes: beyond them the main thread is told once all were taken. */
const highWaterMark = 16 * 1024
/** Written and sent bytes, modulo 2^32; 1 when the main thread waits until all are sent. */
const [writtenWord, sentWord, awaitedWord] = [0, 1, 2]
const streamWords = 3

/** The bytes of a stream, counted in memory that both threads share. */
export class StreamBytes {
  readonly words: Int32Array

  constructor(words: Int32Array = new Int32Array(new SharedArrayBuffer(4 * streamWords))) {
    this.words = words
  }

  get unsent(): number {
    return (Atomics.load(this.words, writtenWord) - Atomics.load(this.words, sentWord)) | 0
  }

  /** On the main thread, before they are posted. False when it is told once all were taken. */
  write(bytes: number): boolean {
    Atomics.add(this.words, writtenWord, bytes)
    const isFull = this.unsent >= highWaterMark
    if (isFull) Atomics.store(this.words, awaitedWord, 1)
    return !isFull
  }

  /** The connection has taken them. True when the main thread waits for that: it has written no
   *  more, which may be under way between the threads. */
  take(bytes: number): boolean {
    Atomics.add(this.words, sentWord, bytes)
    return this.unsent === 0 && Atomics.exchange(this.words, awaitedWord, 0) === 1
  }
}

export type GrpcThreadEvent =
  | {
      readonly kind: 'call'
      readonly id: number
      readonly peer: GrpcPeer
      /** The message of a unary call, if it came with its headers. */
      readonly message: Uint8Array | null
    }
  | { readonly kind: 'message'; readonly id: number; readonly bytes: Uint8Array }
  | {
      readonly kind: 'open'
      readonly id: number
      readonly encoding: GrpcEncoding | null
      readonly headers: Readonly<Record<string, string | undefined>>
      readonly words: Int32Array
    }
  | { readonly kind: 'halfClosed' | 'drained' | 'ended'; readonly id: number }
  | LoggedLine
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'failed'; readonly fault: string; readonly message: string }

interface LoggedLine {
  readonly kind: 'log'
  readonly level: Exclude<LogLevel, 'silent'>
  readonly area: string | null
  readonly msg: string
  readonly fields: LogFields
}

export type Decision =
  | { readonly id: number; readonly kind: 'admitted' | 'taken' }
  | { readonly id: number; readonly kind: 'refused'; readonly status: GrpcStatus }
  | { readonly id: number; readonly kind: 'answered'; readonly answer: UnaryAnswer }

/** What the main thread has decided and written in a turn; in this order. */
export interface GrpcThreadBatch {
  readonly decisions: readonly Decision[]
  /** The frames of all writes, each run once. */
  readonly frames: ArrayBuffer
  /** Three numbers a write: id of the call, offset and length of its frames. */
  readonly writes: Float64Array
  readonly ends: readonly { readonly id: number; readonly status: GrpcStatus }[]
  /** A renewed pair. */
  readonly certificate: Certificate | null
}

export type GrpcThreadRequest = GrpcThreadBatch | 'stop'

/** One call that the main thread knows. */
interface Call {
  readonly id: number
  decide(decision: Decision): void
  answer(answer: UnaryAnswer): void
  /** To a message that went with the headers. */
  answered: UnaryAnswer | null
  /** The main thread has taken the last message of a stream. */
  taken(): void
  stream: GrpcStream | null
  bytes: StreamBytes | null
}

type Post = (events: readonly GrpcThreadEvent[]) => void

/** Of a turn: a thousand streams take 10 ms, and other calls are served in between. */
const [sendMsMax, writesPerLook] = [0.5, 4]

export class GrpcThreadCalls {
  readonly #data: GrpcThreadData
  readonly #post: Post
  readonly #calls = new Map<number, Call>()
  readonly #log: Log
  #events: (GrpcThreadEvent | (() => GrpcThreadEvent))[] = []
  /** Of batches, in their order; they hold no more than their streams may have unsent. */
  readonly #sending: Steps<void>[] = []
  #lastId = 0
  /** Paths of the methods that take one message. */
  readonly #unary: ReadonlySet<string>
  #certificate: Certificate | null
  readonly #renewals = new Set<() => void>()
  #stop: () => Promise<void> = async () => {}

  constructor(data: GrpcThreadData, post: Post) {
    this.#data = data
    this.#post = post
    this.#certificate = data.certificate
    const unary = data.methods.filter(({ kind }) => kind === 'unary')
    this.#unary = new Set(unary.map(({ path }) => path))
    this.#log = this.#logOf(null)
  }

  /** Listens. Rejects when it cannot; the main thread was then told why. */
  async open(): Promise<void> {
    const { trustedProxies, methods, scarcity, isProbed, ...settings } = this.#data
    followReserve(scarcity)
    const addresses = new Addresses(trustedProxies)
    try {
      if (!isProbed) await probeGrpcLibrary(this.#log)
      const endpoint = await openGrpcEndpoint<Call>({
        ...settings,
        certificates: this.#certificates(),
        clientAddress: (peer, forwarded) => addresses.clientOfText(peer, forwarded),
        isProxy: (peer) => addresses.isProxy(peer),
        showsArrived: true,
        admit: (peer, arrived) => this.#admit(peer, arrived),
        methods: methods.map((method) => this.#method(method)),
        log: this.#log,
      })
      this.#stop = () => endpoint.stop()
      this.#push({ kind: 'listening', port: endpoint.address!.port })
    } catch (error) {
      const fault = error instanceof Fault ? error.kind : 'grpc'
      this.#push({ kind: 'failed', fault, message: messageOf(error) })
      throw error
    } finally {
      this.#flush()
    }
  }

  take(batch: GrpcThreadBatch): void {
    for (const decision of batch.decisions) {
      const call = this.#calls.get(decision.id)
      if (decision.kind === 'answered') call?.answer(decision.answer)
      else if (decision.kind === 'taken') call?.taken()
      else call?.decide(decision)
    }
    if (this.#sending.push(this.#send(batch)) === 1) this.#sendSome()
    if (batch.certificate === null) return
    this.#certificate = batch.certificate
    for (const renew of this.#renewals) renew()
  }

  /** Drains the calls. */
  async stop(): Promise<void> {
    await this.#stop()
    this.#flush()
  }

  #admit(peer: GrpcPeer, arrived: () => Buffer | null): Promise<Admission<Call>> {
    const id = ++this.#lastId
    return new Promise((resolve) => {
      const call: Call = {
        id,
        decide: (decision) => {
          if (decision.kind !== 'refused')
            return resolve({ ok: true, caller: call, leave: () => this.#leave(id) })
          this.#calls.delete(id)
          resolve({ ok: false, status: decision.status })
        },
        answer: (answer) => {
          call.answered = answer
        },
        answered: null,
        taken: () => {},
        stream: null,
        bytes: null,
      }
      this.#calls.set(id, call)
      const isUnary = this.#unary.has(peer.path)
      // Asked when it is sent: what came with the headers has arrived by then.
      this.#push(() => {
        const bytes = arrived()
        const message = isUnary && bytes !== null ? Uint8Array.from(bytes) : null
        return { kind: 'call', id, peer, message }
      })
    })
  }

  #leave(id: number): void {
    this.#calls.delete(id)
    this.#push({ kind: 'ended', id })
  }

  #method({ path, kind, requests }: MethodHead): GrpcMethod<Call, Promise<UnaryAnswer>> {
    const head = { path, ...(requests && { requests }) }
    if (kind === 'stream')
      return { ...head, kind, open: (stream, call) => this.#open(stream, call) }
    return {
      ...head,
      kind,
      answer: async (request, call) =>
        call.answered ??
        new Promise((resolve) => {
          call.answer = resolve
          this.#push({ kind: 'message', id: call.id, bytes: Uint8Array.from(request) })
        }),
    }
  }

  #open(stream: GrpcStream, call: Call): StreamEvents {
    const { id } = call
    const counted = new StreamBytes()
    const headers = Object.fromEntries(
      this.#data.headers.map((name) => [name, stream.header(name)] as const),
    )
    call.stream = stream
    call.bytes = counted
    this.#push({ kind: 'open', id, encoding: stream.encoding, headers, words: counted.words })
    return {
      message: (bytes) =>
        new Promise((resolve) => {
          call.taken = resolve
          this.#push({ kind: 'message', id, bytes: Uint8Array.from(bytes) })
        }),
      halfClosed: () => this.#push({ kind: 'halfClosed', id }),
      // Sent bytes are counted by each write instead: `drain` comes only where one was refused.
      drained() {},
      // It ends with its admission.
      closed() {},
    }
  }

  /** Batches one after the other, each for a moment. */
  readonly #sendSome = (): void => {
    const endMs = performance.now() + sendMsMax
    for (let written = 1; this.#sending.length > 0; written++) {
      if (this.#sending[0]!.next().done === true) this.#sending.shift()
      if (written % writesPerLook === 0 && performance.now() >= endMs) break
    }
    if (this.#sending.length > 0) setImmediate(this.#sendSome)
  };

  *#send({ frames, writes, ends }: GrpcThreadBatch): Steps<void> {
    for (const { id, bytes } of runsOf(frames, writes)) {
      const call = this.#calls.get(id)
      if (call === undefined) continue
      this.#write(call, bytes)
      yield
    }
    for (const { id, status } of ends) this.#calls.get(id)?.stream?.end(status)
  }

  #write({ id, stream, bytes }: Call, frames: Buffer): void {
    stream?.write(frames, () => {
      if (bytes!.take(frames.length)) this.#push({ kind: 'drained', id })
    })
  }

  #certificates(): GrpcEndpointOptions<Call>['certificates'] {
    if (this.#certificate === null) return null
    const pair = () => this.#certificate!
    return {
      get cert() {
        return Buffer.from(pair().cert)
      },
      get key() {
        return Buffer.from(pair().key)
      },
      onChange: (listener) => {
        this.#renewals.add(listener)
        return () => this.#renewals.delete(listener)
      },
    }
  }

  #logOf(area: string | null): Log {
    const line =
      (level: LoggedLine['level']) =>
      (msg: string, fields: LogFields = {}) =>
        this.#push({ kind: 'log', level, area, msg, fields })
    return {
      debug: line('debug'),
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
      area: (name) => this.#logOf(name),
    }
  }

  /** What one poll of the sockets brings goes in one message. */
  #push(event: GrpcThreadEvent | (() => GrpcThreadEvent)): void {
    if (this.#events.push(event) === 1) setImmediate(() => this.#flush())
  }

  #flush(): void {
    const events = this.#events
    this.#events = []
    if (events.length === 0) return
    this.#post(events.map((event) => (typeof event === 'function' ? event() : event)))
  }
}

/**
 * The frames of each write. A run of less than half of the batch has memory of its own: a stream
 * that takes few bytes of each batch, and does not read, would keep all of them.
 */
export function* runsOf(
  frames: ArrayBuffer,
  writes: Float64Array,
): Generator<{ readonly id: number; readonly bytes: Buffer }> {
  const runs = new Map<number, Buffer>()
  for (let index = 0; index < writes.length; index += 3) {
    const [id, offset, length] = [writes[index]!, writes[index + 1]!, writes[index + 2]!]
    let bytes = runs.get(offset)
    if (bytes === undefined) {
      bytes = Buffer.from(frames, offset, length)
      if (length * 2 < frames.byteLength) bytes = copyOf(bytes)
      runs.set(offset, bytes)
    }
    yield { id, bytes }
  }
}

/** Not in the pool of small buffers, where it would keep others. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}
