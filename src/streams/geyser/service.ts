// geyser.Geyser for callers of type C: unary methods and Subscribe streams.
//
//   unary call -> answer
//   Subscribe  -> Subscriber <- fan-out of the caller's chain (match, frame once)
import type { Clock } from '../../base/clock.ts'
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { refuse } from '../../base/errors.ts'
import type { GrpcMethod, UnaryAnswer } from '../../base/transport/grpc.ts'
import type { GrpcStatus, GrpcStream, StreamEvents } from '../../base/transport/grpc-stream.ts'
import { grpcCode } from '../../base/transport/grpc-stream.ts'
import { blockhashBlocks, type StreamHead } from '../../chain/solana/updates.ts'
import { type Codec, given } from './codec.ts'
import type { ConsumerNames } from './consumer.ts'
import { chainDown, FanOuts, type GrpcChain, noChain, statusOf } from './fan-out.ts'
import type { FilterLimits } from './filter-compile.ts'
import type { GrpcMeters } from './meters.ts'
import { Subscriber } from './subscriber.ts'

interface GeyserDeps<C> {
  readonly codec: Codec
  readonly limits: FilterLimits
  /** Keys that a caller may have in one list of accounts, at most those of `limits`. */
  keysMax(caller: C): number
  readonly backlogBytesMax: number
  /** A ping goes to every stream this often. */
  readonly pingMs: number
  /** The version of the package. */
  readonly version: string
  readonly meters: GrpcMeters
  readonly clock: Clock
  /** The chain that a caller reads; null (no chain) is answered with UNAVAILABLE. */
  chainOf(caller: C): GrpcChain | null
  /** The consumers of a caller; absent or null where there are none. */
  consumersOf?(caller: C): ConsumerNames | null
  /** Counts bytes and updates sent to a caller. */
  meter(caller: C, bytes: number, updates: number): void
  /** Charges credits to a caller; a status when it has too few left. */
  charge(caller: C, credits: number): GrpcStatus | null
  /** Ends the stream when the caller loses access; the returned function releases the lease. */
  lease(caller: C, end: (status: GrpcStatus) => void): () => void
}

export class GeyserService<C> {
  readonly methods: readonly GrpcMethod<C>[]
  readonly #deps: GeyserDeps<C>
  readonly #streams = new Map<Subscriber, GrpcChain>()
  readonly #fanOuts: FanOuts
  readonly #pings: NodeJS.Timeout
  /** What streams are told that are opened while the endpoint drains: nothing follows here. */
  #stopped: GrpcStatus | null = null

  constructor(deps: GeyserDeps<C>) {
    this.#deps = deps
    this.#fanOuts = new FanOuts(deps.meters, (chain) => {
      if (chain.isUp()) return
      for (const [subscriber, own] of this.#streams)
        if (own === chain) subscriber.end('unavailable', chainDown)
    })
    deps.meters.backlog.bytes = () => {
      let bytes = 0
      for (const subscriber of this.#streams.keys()) bytes += subscriber.backlogBytes
      return bytes
    }
    this.methods = [
      ...this.#unary(),
      stream('Subscribe', (call, caller) => this.#subscribe(call, caller)),
      stream('SubscribeDeshred', (call) => this.#refuse(call, comingSoon)),
    ]
    this.#pings = setInterval(() => {
      for (const subscriber of this.#streams.keys()) subscriber.ping()
    }, deps.pingMs).unref()
  }

  stop(status: GrpcStatus): void {
    clearInterval(this.#pings)
    this.#stopped = status
    this.endStreams(status)
    this.#fanOuts.stop()
  }

  endStreams(status: GrpcStatus): void {
    for (const subscriber of this.#streams.keys()) subscriber.end('shutdown', status)
  }

  #unary(): GrpcMethod<C>[] {
    const { codec, version, chainOf, meter } = this.#deps
    return Object.entries(unaryMethods({ codec, version })).map(([name, answer]) => ({
      kind: 'unary',
      path: `/geyser.Geyser/${name}`,
      answer(request, caller) {
        const answered = answer(request, chainOf(caller))
        if (answered.ok) meter(caller, answered.bytes.length, 0)
        return answered
      },
    }))
  }

  #subscribe(call: GrpcStream, caller: C): StreamEvents {
    const { codec, limits, keysMax, backlogBytesMax, clock, meters, meter, charge } = this.#deps
    const chain = this.#deps.chainOf(caller)
    if (this.#stopped !== null) return this.#refuse(call, this.#stopped)
    if (chain === null) return this.#refuse(call, noChain)
    if (!chain.isUp()) return this.#refuse(call, chainDown)
    const streams = this.#streams
    const subscriber = new Subscriber(call, {
      hub: chain.hub,
      streamLog: chain.streamLog ?? null,
      published: chain.published ?? null,
      consumers: this.#deps.consumersOf?.(caller) ?? null,
      fanOut: this.#fanOuts.of(chain),
      codec,
      limits: () => ({ ...limits, accountsMax: Math.min(limits.accountsMax, keysMax(caller)) }),
      backlogBytesMax,
      clock,
      meters,
      meter: (bytes, updates) => meter(caller, bytes, updates),
      charge: (credits) => charge(caller, credits),
      ended() {
        release()
        streams.delete(subscriber)
        meters.streams.set(streams.size)
      },
    })
    const release = this.#deps.lease(caller, (status) => subscriber.end('token', status))
    streams.set(subscriber, chain)
    meters.streams.set(streams.size)
    return subscriber
  }

  /** Ends the stream with a status, before any message. */
  #refuse(call: GrpcStream, status: GrpcStatus): StreamEvents {
    this.#deps.meters.ended.unavailable.inc()
    call.end(status)
    return { message() {}, halfClosed() {}, drained() {}, closed() {} }
  }
}

function stream<C>(
  name: string,
  open: (stream: GrpcStream, caller: C) => StreamEvents,
): GrpcMethod<C> {
  return { kind: 'stream', path: `/geyser.Geyser/${name}`, open }
}

const comingSoon: GrpcStatus = { code: grpcCode.unimplemented, details: 'coming soon' }

// Answers the unary methods of geyser.Geyser: bytes in, bytes or a status out.

/** The revision of yellowstone's .proto that ours is compatible with. */
const protoVersion = '12.6.0'

/** `chain` is the caller's, or null. */
type Answer = (request: Uint8Array, chain: GrpcChain | null) => UnaryAnswer

/** The methods by name. */
export function unaryMethods(
  deps: Pick<GeyserDeps<never>, 'codec' | 'version'>,
): Readonly<Record<string, Answer>> {
  const { codec } = deps
  const reply = (type: string, value: object): UnaryAnswer => ({
    ok: true,
    bytes: codec.encode(`geyser.${type}`, value),
  })
  /** Decodes, finds the head at the requested commitment, answers; null without a height. */
  const atHead =
    (name: string, answer: (head: StreamHead, asked: HeadCall) => object | null): Answer =>
    (bytes, chain) => {
      const request = codec.decode<HeadRequest>(`geyser.${name}Request`, bytes)
      if (request === null) return badRequest(name)
      const commitment = given(request, 'commitment') ?? Commitment.processed
      if (!isCommitment(commitment)) {
        const message = `commitment: ${commitment} is no commitment level`
        return refused('invalid', 'bad-commitment', message)
      }
      if (chain === null || !chain.isUp()) return unavailable(chain)
      const head = chain.heads.at(commitment)
      if (head === null) return noBlock
      const value = answer(head, { request, commitment, chain })
      return value === null ? noHeight : reply(`${name}Response`, value)
    }
  return {
    GetVersion: (_, chain) =>
      reply('GetVersionResponse', { version: versionText(deps.version, chain) }),
    Ping(bytes) {
      const request = codec.decode<{ count: number }>('geyser.PingRequest', bytes)
      if (request === null) return badRequest('Ping')
      return reply('PongResponse', { count: request.count })
    },
    SubscribeReplayInfo(_, chain) {
      if (chain === null || !chain.isUp()) return unavailable(chain)
      const firstAvailable = (chain.streamLog ?? chain.hub).oldestSlot
      return reply('SubscribeReplayInfoResponse', firstAvailable === null ? {} : { firstAvailable })
    },
    GetSlot: atHead('GetSlot', ({ slot }) => ({ slot })),
    GetBlockHeight: atHead('GetBlockHeight', ({ blockHeight }) =>
      blockHeight === null ? null : { blockHeight },
    ),
    GetLatestBlockhash: atHead('GetLatestBlockhash', ({ slot, blockhash, blockHeight }) =>
      blockHeight === null
        ? null
        : { slot, blockhash, lastValidBlockHeight: blockHeight + blockhashBlocks },
    ),
    IsBlockhashValid: atHead('IsBlockhashValid', ({ slot }, { request, commitment, chain }) => {
      const valid = chain.heads.isBlockhashValid(request.blockhash ?? '', commitment)
      return valid === null ? null : { slot, valid }
    }),
  }
}

interface HeadCall {
  readonly request: HeadRequest
  readonly commitment: Commitment
  readonly chain: GrpcChain
}

interface HeadRequest {
  readonly commitment?: number
  readonly blockhash?: string
}

/**
 * GetVersion returns JSON; `solana` is the version of the caller's validator, and the fields of a
 * validator's build are empty.
 */
function versionText(version: string, chain: GrpcChain | null): string {
  const solana = chain?.solanaVersion() ?? ''
  const build = { git: '', rustc: '', buildts: '' }
  return JSON.stringify({
    version: { package: 'sluice', version, proto: protoVersion, solana, ...build },
    extra: { hostname: '' },
  })
}

function unavailable(chain: GrpcChain | null): UnaryAnswer {
  return { ok: false, status: chain === null ? noChain : chainDown }
}

function refused(...why: Parameters<typeof refuse>): UnaryAnswer {
  return { ok: false, status: statusOf(refuse(...why).refusal) }
}

const noBlock = refused('unavailable', 'no-chain', 'no block is known yet')
const heightless = 'the node sends no block heights: ask its JSON-RPC'
const noHeight = refused('unavailable', 'no-height', heightless)

function badRequest(name: string): UnaryAnswer {
  return refused('invalid', 'bad-request', `the message is no ${name}Request`)
}
