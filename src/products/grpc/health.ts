// grpc.health.v1: open to load balancers, so without a token. Thread: main. Called by server.ts.
// Serving means: the chain of everybody is there. A dedicated node has no say in it.
import type { GrpcMethod } from '../../transport/grpc.ts'
import { type GrpcStatus, grpcCode } from '../../transport/grpc-status.ts'
import { framePrefixBytes, type GrpcStream } from '../../transport/grpc-stream.ts'
import type { Codec } from './codec.ts'

const serving = 1
const notServing = 2
const serviceUnknown = 3
/** Watchers have no token and so no budget: this is theirs, all together. */
const watchersMax = 100
const service = 'geyser.Geyser'

export class Health {
  readonly #codec: Codec
  readonly #watchers = new Map<GrpcStream, string>()
  readonly #hasChain: () => boolean
  #isStopped = false

  constructor(codec: Codec, hasChain: () => boolean) {
    this.#codec = codec
    this.#hasChain = hasChain
  }

  /** Tells those who watch that the chain is gone or back. */
  changed(): void {
    for (const [stream, name] of this.#watchers) stream.write(this.#frame(this.#statusOf(name)))
  }

  /** Tells everybody that the door is closing, and ends those who watch. */
  stop(status: GrpcStatus): void {
    this.#isStopped = true
    for (const [stream, name] of this.#watchers) {
      stream.write(this.#frame(this.#statusOf(name)))
      stream.end(status)
    }
  }

  methods<C>(): GrpcMethod<C>[] {
    return [
      {
        kind: 'unary',
        path: '/grpc.health.v1.Health/Check',
        answer: (request) => {
          const name = this.#nameIn(request)
          const status = name === null ? serviceUnknown : this.#statusOf(name)
          if (status === serviceUnknown) return { ok: false, status: unknownService }
          return { ok: true, bytes: this.#encode({ status }) }
        },
      },
      {
        kind: 'unary',
        path: '/grpc.health.v1.Health/List',
        answer: () => {
          const status = { status: this.#isServing ? serving : notServing }
          const value = { statuses: { '': status, [service]: status } }
          return { ok: true, bytes: this.#codec.encode('grpc.health.v1.HealthListResponse', value) }
        },
      },
      {
        kind: 'stream',
        path: '/grpc.health.v1.Health/Watch',
        open: (stream) => this.#open(stream),
      },
    ]
  }

  #open(stream: GrpcStream) {
    if (this.#watchers.size >= watchersMax) stream.end(tooManyWatchers)
    return {
      message: (bytes: Buffer) => {
        const name = this.#nameIn(bytes) ?? ''
        this.#watchers.set(stream, name)
        stream.write(this.#frame(this.#statusOf(name)))
      },
      halfClosed() {},
      drained() {},
      closed: () => void this.#watchers.delete(stream),
    }
  }

  get #isServing(): boolean {
    return !this.#isStopped && this.#hasChain()
  }

  #statusOf(name: string): number {
    if (name !== '' && name !== service) return serviceUnknown
    return this.#isServing ? serving : notServing
  }

  #nameIn(bytes: Buffer): string | null {
    const type = 'grpc.health.v1.HealthCheckRequest'
    return this.#codec.decode<{ service: string }>(type, bytes)?.service ?? null
  }

  #encode(value: object): Uint8Array {
    return this.#codec.encode('grpc.health.v1.HealthCheckResponse', value)
  }

  #frame(status: number): Buffer {
    const message = this.#encode({ status })
    const frame = Buffer.alloc(framePrefixBytes + message.length)
    frame.writeUInt32BE(message.length, 1)
    frame.set(message, framePrefixBytes)
    return frame
  }
}

const unknownService: GrpcStatus = { code: grpcCode.notFound, details: 'unknown service' }
const tooManyWatchers: GrpcStatus = {
  code: grpcCode.resourceExhausted,
  details: 'too many watch this door already',
}
