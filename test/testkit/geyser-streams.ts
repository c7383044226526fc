// Streams of a hub in process, whose readers take everything at once.
import { systemClock } from '../../src/base/clock.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { GrpcStream } from '../../src/base/transport/grpc-stream.ts'
import { loadCodec } from '../../src/streams/geyser/codec.ts'
import { FanOut } from '../../src/streams/geyser/fan-out.ts'
import type { FilterLimits } from '../../src/streams/geyser/filter-compile.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../src/streams/geyser/meters.ts'
import { Subscriber } from '../../src/streams/geyser/subscriber.ts'
import { limits as plainLimits } from './filter-limits.ts'

export const codec = loadCodec()
const type = codec.root.lookupType('geyser.SubscribeRequest')
const updateType = codec.root.lookupType('geyser.SubscribeUpdate')

/** As far as tests read it; numbers of 64 bits are texts. */
export interface ReadUpdate {
  readonly filters: readonly string[]
  readonly account?: { readonly slot: string; readonly account: { readonly data: Uint8Array } }
  readonly transaction?: ReadTransaction
  readonly transactionStatus?: { readonly signature: Uint8Array; readonly blockTime?: string }
}

export interface ReadTransaction {
  readonly slot: string
  readonly blockTime?: string
  readonly transaction: { readonly signature: Uint8Array; readonly index: string }
  readonly accountStates: readonly {
    readonly pubkey: Uint8Array
    readonly before?: ReadState
    readonly after?: ReadState
    readonly isBeforeUnknown?: boolean
  }[]
}

interface ReadState {
  readonly pubkey: Uint8Array
  readonly lamports: string
  readonly data: Uint8Array
}

export class GeyserStage {
  readonly hub = openSolanaHub({ replaySlots: 1_000, replayBytesMax: 1e9 })
  readonly meters = declareGrpcMeters(new Meters())
  readonly fanOut = new FanOut(this.hub, this.meters)
  readonly #limits: FilterLimits

  constructor(limits: FilterLimits = plainLimits) {
    this.#limits = limits
  }

  open(request: object, headers: Readonly<Record<string, string>> = {}): StageStream {
    const stream = new StageStream(headers)
    const { hub, fanOut, meters } = this
    stream.subscriber = new Subscriber(stream, {
      ...{ hub, fanOut, meters, codec, streamLog: null, clock: systemClock },
      limits: () => this.#limits,
      backlogBytesMax: 1e9,
      meter() {},
      charge: () => null,
      ended() {},
    })
    stream.send(request)
    return stream
  }
}

export class StageStream implements GrpcStream {
  readonly encoding = null
  readonly unsentBytes = 0
  readonly #frames: Buffer[] = []
  readonly #headers: Readonly<Record<string, string>>
  subscriber!: Subscriber
  ended: string | null = null

  constructor(headers: Readonly<Record<string, string>>) {
    this.#headers = headers
  }

  send(request: object): void {
    this.subscriber.message(Buffer.from(type.encode(type.fromObject(request)).finish()))
  }

  bytes(): Buffer {
    return Buffer.concat(this.#frames)
  }

  updates(): ReadUpdate[] {
    const bytes = this.bytes()
    const read: ReadUpdate[] = []
    for (let at = 0; at < bytes.length; ) {
      const end = at + 5 + bytes.readUInt32BE(at + 1)
      const update = updateType.decode(bytes.subarray(at + 5, end))
      // Reason for the cast: the type has the fields that are named there.
      read.push(updateType.toObject(update, { longs: String, arrays: true }) as ReadUpdate)
      at = end
    }
    return read
  }

  header(name: string): string | undefined {
    return this.#headers[name]
  }

  write(bytes: Buffer, sent?: () => void): boolean {
    this.#frames.push(Buffer.from(bytes))
    sent?.()
    return true
  }

  end({ details }: { readonly details: string }): void {
    this.ended = details
  }
}

/** Replays take turns of the event loop. */
export async function turns(count = 64): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}
