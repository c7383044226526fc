// A gRPC endpoint whose connections are those of a thread: TLS and HTTP/2, and their garbage, delay
// no other endpoint. Its calls are admitted and answered here, on the main thread.
//
//   thread: sockets, library --events--> admit, answer, open --decisions, writes, ends--> thread
//
// What a turn writes goes in one message, with each run of frames once, whoever gets it; the memory
// of the frames is free from then on. How much a connection has taken is counted in memory that
// both threads share.
import { assert, Fault } from '../errors.ts'
import type { Running } from '../running.ts'
import { DedicatedWorker, type SupervisorDeps } from '../threads/supervisor.ts'
import { descriptorReserve } from './descriptors.ts'
import {
  type Admission,
  type GrpcEndpointOptions,
  type GrpcMethod,
  type GrpcPeer,
  guardedMethods,
} from './grpc.ts'
import type { GrpcEncoding } from './grpc-encoding.ts'
import type { GrpcStatus, GrpcStream, StreamEvents } from './grpc-stream.ts'
import {
  type Certificate,
  type Decision,
  type GrpcThreadBatch,
  type GrpcThreadData,
  type GrpcThreadEvent,
  StreamBytes,
} from './grpc-thread-calls.ts'

export interface GrpcThreadOptions<C>
  extends Omit<GrpcEndpointOptions<C>, 'clientAddress' | 'isProxy' | 'admit' | 'methods'> {
  readonly trustedProxies: readonly string[]
  /** Headers that the handlers of streams read. */
  readonly headers: readonly string[]
  admit(peer: GrpcPeer): Admission<C>
  readonly methods: readonly GrpcMethod<C>[]
}

/**
 * With the usual 48 MB, more than what such a heap may grow by, V8 collects everything more than
 * once a second, 10 ms and longer each time; what sessions leave to a scavenge is little.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 6 }
/** Longer than the thread drains: three seconds for calls, one more for handshakes. */
const stopMsMax = 6_000

/** Opens the endpoint. `stop` drains calls for three seconds, then closes the rest. */
export async function openGrpcThread<C>(
  options: GrpcThreadOptions<C>,
  deps: Omit<SupervisorDeps, 'log'> & { readonly entry?: URL },
): Promise<Running> {
  const { log, certificates } = options
  let fault: Fault | null = null
  const data = { ...dataOf(options) }
  const calls = new ThreadCalls(options, (batch, transfer) => worker?.post(batch, transfer))
  const onMessage = (message: unknown) => {
    // Reason for the cast: the thread posts nothing else.
    // A restarted thread listens on the same port.
    for (const event of message as readonly GrpcThreadEvent[])
      if (event.kind === 'listening') Object.assign(data, { port: event.port, isProbed: true })
      else if (event.kind === 'failed') fault = new Fault(event.fault, event.message)
      else calls.take(event)
  }
  const onExit = () => calls.endAll()
  // Again once a thread has started: it may have begun with the pair before.
  const renew = () => calls.renew(data.certificate)
  const unwatch = certificates?.onChange(() => {
    data.certificate = certificateOf(certificates)
    renew()
  })
  let worker: DedicatedWorker | null = null
  try {
    const given = { data, stopMsMax, resourceLimits, onMessage, onStart: renew, onExit }
    const start = { name: 'grpc', entry: deps.entry ?? 'grpc', ...given }
    worker = await DedicatedWorker.start(start, { ...deps, log })
    renew()
  } catch (error) {
    unwatch?.()
    throw fault ?? error
  }
  const started = worker
  return {
    address: { host: options.host, port: data.port, tls: certificates !== null },
    async stop() {
      unwatch?.()
      calls.flush()
      await started.stop()
    },
  }
}

/** Everything but functions. */
function dataOf<C>(options: GrpcThreadOptions<C>) {
  const { admit: _, methods, certificates, log, ...settings } = options
  const data: GrpcThreadData = {
    ...settings,
    certificate: certificateOf(certificates),
    scarcity: descriptorReserve(log).scarcity,
    isProbed: false,
    methods: methods.map(({ path, kind, requests }) => ({
      path,
      kind,
      ...(requests && { requests }),
    })),
  }
  return data as { -readonly [K in keyof GrpcThreadData]: GrpcThreadData[K] }
}

function certificateOf(pair: Certificate | null): Certificate | null {
  return pair && { cert: Uint8Array.from(pair.cert), key: Uint8Array.from(pair.key) }
}

/** An admitted call. */
interface Call<C> {
  readonly method: GrpcMethod<C>
  readonly caller: C
  leave(): void
  stream: ThreadStream | null
  events: StreamEvents | null
}

type CallEvent = Exclude<GrpcThreadEvent, { kind: 'listening' | 'failed' }>

class ThreadCalls<C> {
  readonly #options: GrpcThreadOptions<C>
  readonly #methods: ReadonlyMap<string, GrpcMethod<C>>
  readonly #outbox: Outbox
  readonly #calls = new Map<number, Call<C>>()

  constructor(options: GrpcThreadOptions<C>, post: Outbox['post']) {
    this.#options = options
    const methods = guardedMethods(options.methods, options.log)
    this.#methods = new Map(methods.map((method) => [method.path, method]))
    this.#outbox = new Outbox(post)
  }

  take(event: CallEvent): void {
    if (event.kind === 'log') {
      const { log } = this.#options
      const { level, area, msg, fields } = event
      const target = area === null ? log : log.area(area)
      target[level](msg, fields)
      return
    }
    if (event.kind === 'call') {
      this.#admit(event)
      return
    }
    const call = this.#calls.get(event.id)
    if (call === undefined) return
    if (event.kind === 'open') this.#open(call, event)
    else if (event.kind === 'message') this.#message(call, event.id, asBuffer(event.bytes))
    else if (event.kind === 'ended') this.#end(event.id, call)
    else call.events?.[event.kind]()
  }

  renew(certificate: Certificate | null): void {
    this.#outbox.renew(certificate)
  }

  flush(): void {
    this.#outbox.flush()
  }

  /** The thread is gone, and all of its connections. */
  endAll(): void {
    for (const [id, call] of [...this.#calls]) this.#end(id, call)
    this.#outbox.clear()
  }

  #admit({ id, peer, message }: CallEvent & { kind: 'call' }): void {
    const admission = this.#options.admit(peer)
    if (!admission.ok) {
      this.#outbox.decide({ id, kind: 'refused', status: admission.status })
      return
    }
    const { caller, leave } = admission
    const method = this.#methods.get(peer.path)!
    const call: Call<C> = { method, caller, leave, stream: null, events: null }
    this.#calls.set(id, call)
    this.#outbox.decide({ id, kind: 'admitted' })
    // Else its size is refused when it is read.
    const { messageBytesMax } = { ...this.#options, ...method.requests }
    if (message !== null && message.length <= messageBytesMax)
      this.#message(call, id, asBuffer(message))
  }

  #open(call: Call<C>, { id, encoding, headers, words }: CallEvent & { kind: 'open' }): void {
    const { method } = call
    assert(method.kind === 'stream', 'a stream is opened by a streaming method')
    call.stream = new ThreadStream({ id, encoding, headers, words }, this.#outbox)
    call.events = method.open(call.stream, call.caller)
  }

  #message({ method, caller, events }: Call<C>, id: number, bytes: Buffer): void {
    if (method.kind === 'stream') {
      events?.message(bytes)
      this.#outbox.decide({ id, kind: 'taken' })
    } else this.#outbox.decide({ id, kind: 'answered', answer: method.answer(bytes, caller) })
  }

  #end(id: number, call: Call<C>): void {
    this.#calls.delete(id)
    call.stream?.close()
    call.events?.closed()
    call.leave()
  }
}

/** The stream of a call, whose connection is the thread's. */
class ThreadStream implements GrpcStream {
  readonly encoding: GrpcEncoding | null
  readonly #of: Omit<CallEvent & { kind: 'open' }, 'kind'>
  readonly #outbox: Outbox
  readonly #bytes: StreamBytes
  #isOver = false

  constructor(of: Omit<CallEvent & { kind: 'open' }, 'kind'>, outbox: Outbox) {
    this.encoding = of.encoding
    this.#of = of
    this.#outbox = outbox
    this.#bytes = new StreamBytes(of.words)
  }

  header(name: string): string | undefined {
    return this.#of.headers[name]
  }

  get unsentBytes(): number {
    return this.#bytes.unsent
  }

  write(frames: Buffer, sent?: () => void): boolean {
    // A run of no bytes would have the offset of the next one.
    if (this.#isOver || frames.length === 0) return true
    const isTaken = this.#bytes.write(frames.length)
    this.#outbox.write(this.#of.id, frames, sent)
    return isTaken
  }

  end(status: GrpcStatus): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#outbox.end(this.#of.id, status)
  }

  /** The call is over. */
  close(): void {
    this.#isOver = true
  }
}

/** More are posted before the turn ends. The bytes of a block, which all of its streams share, do
 *  not end a batch: each would get a copy of its own. */
const batchBytesMax = 8 * 1024 * 1024

/** What goes to the thread at the end of the present callback. */
export class Outbox {
  readonly post: (batch: GrpcThreadBatch, transfer: readonly ArrayBuffer[]) => void
  #decisions: Decision[] = []
  #writes: number[] = []
  /** Where each run of frames will be. */
  #offsets = new Map<Buffer, number>()
  #bytes = 0
  #sent: (() => void)[] = []
  #ends: { id: number; status: GrpcStatus }[] = []
  #certificate: Certificate | null = null
  #isScheduled = false

  constructor(post: Outbox['post']) {
    this.post = post
  }

  decide(decision: Decision): void {
    this.#decisions.push(decision)
    this.#schedule()
  }

  write(id: number, frames: Buffer, sent: (() => void) | undefined): void {
    let offset = this.#offsets.get(frames)
    if (offset === undefined) {
      if (this.#bytes + frames.length > batchBytesMax) this.flush()
      offset = this.#bytes
      this.#offsets.set(frames, offset)
      this.#bytes += frames.length
    }
    this.#writes.push(id, offset, frames.length)
    if (sent !== undefined) this.#sent.push(sent)
    this.#schedule()
  }

  end(id: number, status: GrpcStatus): void {
    this.#ends.push({ id, status })
    this.#schedule()
  }

  renew(certificate: Certificate | null): void {
    this.#certificate = certificate
    this.#schedule()
  }

  clear(): void {
    this.#decisions = []
    this.#writes = []
    this.#offsets = new Map()
    this.#bytes = 0
    this.#sent = []
    this.#ends = []
    this.#certificate = null
  }

  flush(): void {
    const frames = Buffer.allocUnsafeSlow(this.#bytes)
    for (const [run, offset] of this.#offsets) frames.set(run, offset)
    const batch: GrpcThreadBatch = {
      decisions: this.#decisions,
      frames: frames.buffer as ArrayBuffer,
      writes: Float64Array.from(this.#writes),
      ends: this.#ends,
      certificate: this.#certificate,
    }
    const sent = this.#sent
    this.clear()
    this.post(batch, [batch.frames, batch.writes.buffer as ArrayBuffer])
    // Copied: their memory may be used again.
    for (const release of sent) release()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    queueMicrotask(() => {
      this.#isScheduled = false
      this.flush()
    })
  }
}

/** Of memory that is nobody else's. */
function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
