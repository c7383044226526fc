// Serves grpc.health.v1, which load balancers call without a token.
// SERVING means that the main chain is available; dedicated nodes do not count. Callers are
// unknown, so one request of at most 1 KiB is read per call; admission.ts counts the calls.
import { addressKey } from '../../base/cidr.ts'
import { assert } from '../../base/errors.ts'
import { InFlight } from '../../base/transport/connections.ts'
import type { GrpcMethod } from '../../base/transport/grpc.ts'
import type { GrpcStatus, GrpcStream } from '../../base/transport/grpc-stream.ts'
import { framed, grpcCode } from '../../base/transport/grpc-stream.ts'
import type { Codec } from '../../streams/geyser/codec.ts'

const serving = 1
const notServing = 2
const serviceUnknown = 3
const service = 'geyser.Geyser'
const requests = { messageBytesMax: 1_024, messagesMax: 1, firstMessageMs: 10_000 }
/** A watcher that leaves more unread is ended. */
const unsentBytesMax = 64 * 1_024

export class GrpcHealth {
  readonly #codec: Codec
  readonly #watchers = new Map<GrpcStream, string>()
  readonly #hasChain: () => boolean
  #isStopped = false

  constructor(codec: Codec, hasChain: () => boolean) {
    this.#codec = codec
    this.#hasChain = hasChain
  }

  /** Sends the new status to the watchers after the chain went down or came back. */
  changed(): void {
    for (const [stream, name] of this.#watchers) this.#send(stream, name)
  }

  /** Sends NOT_SERVING to the watchers and ends their streams. */
  stop(status: GrpcStatus): void {
    this.#isStopped = true
    for (const [stream, name] of this.#watchers) {
      this.#send(stream, name)
      stream.end(status)
    }
  }

  methods<C>(): GrpcMethod<C>[] {
    return [
      {
        kind: 'unary',
        path: '/grpc.health.v1.Health/Check',
        requests,
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
        requests,
        answer: () => {
          const status = { status: this.#isServing ? serving : notServing }
          const value = { statuses: { '': status, [service]: status } }
          return { ok: true, bytes: this.#codec.encode('grpc.health.v1.HealthListResponse', value) }
        },
      },
      {
        kind: 'stream',
        path: '/grpc.health.v1.Health/Watch',
        requests,
        open: (stream) => this.#open(stream),
      },
    ]
  }

  #open(stream: GrpcStream) {
    return {
      message: (bytes: Buffer) => {
        const name = this.#nameIn(bytes)
        if (name === null) {
          stream.end(noRequest)
          return
        }
        this.#watchers.set(stream, name)
        this.#send(stream, name)
      },
      halfClosed() {},
      drained() {},
      closed: () => void this.#watchers.delete(stream),
    }
  }

  #send(stream: GrpcStream, name: string): void {
    const status = this.#statusOf(name)
    if (stream.unsentBytes <= unsentBytesMax) stream.write(framed(this.#encode({ status })))
    else {
      this.#watchers.delete(stream)
      stream.end(tooSlow)
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
    // A compressed request may be longer than what was sent.
    if (bytes.length > requests.messageBytesMax) return null
    const type = 'grpc.health.v1.HealthCheckRequest'
    return this.#codec.decode<{ service: string }>(type, bytes)?.service ?? null
  }

  #encode(value: object): Uint8Array {
    return this.#codec.encode('grpc.health.v1.HealthCheckResponse', value)
  }
}

const unknownService: GrpcStatus = { code: grpcCode.notFound, details: 'unknown service' }
const noRequest: GrpcStatus = {
  code: grpcCode.invalidArgument,
  details: 'the message is no HealthCheckRequest',
}
export const tooSlow: GrpcStatus = {
  code: grpcCode.resourceExhausted,
  details: 'the stream reads too slowly',
}

// Counts the open calls of the health service per client address.
// It takes no token, so there is no plan that could bound them.

export class OpenCalls {
  readonly #byAddress: InFlight
  readonly #callsMax: number
  #open = 0

  constructor(limits: { readonly callsPerAddressMax: number; readonly callsMax: number }) {
    this.#byAddress = new InFlight(limits.callsPerAddressMax)
    this.#callsMax = limits.callsMax
  }

  /** False when the address, or all of them together, have as many open as they may. */
  enter(address: string): boolean {
    if (this.#open >= this.#callsMax || !this.#byAddress.enter(addressKey(address))) return false
    this.#open++
    return true
  }

  leave(address: string): void {
    this.#byAddress.leave(addressKey(address))
    this.#open--
    assert(this.#open >= 0, 'an open call is counted once')
  }
}
