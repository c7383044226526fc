// Answers the unary methods of geyser.Geyser: bytes in, bytes or a status out.
import { Commitment, isCommitment } from '../../base/commitment.ts'
import { refuse } from '../../base/errors.ts'
import type { UnaryAnswer } from '../../base/transport/grpc.ts'
import { blockhashBlocks, type StreamHead } from '../../chain/solana/updates.ts'
import { chainDown, type GrpcChain, noChain, statusOf } from './chain.ts'
import { type Codec, given } from './codec.ts'

/** The revision of yellowstone's .proto that ours is compatible with. */
const protoVersion = '12.6.0'

export interface UnaryDeps {
  readonly codec: Codec
  /** The version of the package. */
  readonly version: string
}

/** `chain` is the caller's, or null. */
export type Answer = (request: Uint8Array, chain: GrpcChain | null) => UnaryAnswer

/** The methods by name. */
export function unaryMethods(deps: UnaryDeps): Readonly<Record<string, Answer>> {
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
      if (!isCommitment(commitment)) return badCommitment(commitment)
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

const noBlock: UnaryAnswer = {
  ok: false,
  status: statusOf(refuse('unavailable', 'no-chain', 'no block is known yet').refusal),
}

const noHeight: UnaryAnswer = {
  ok: false,
  status: statusOf(
    refuse('unavailable', 'no-height', 'the node sends no block heights: ask its JSON-RPC').refusal,
  ),
}

function badRequest(name: string): UnaryAnswer {
  const message = `the message is no ${name}Request`
  return { ok: false, status: statusOf(refuse('invalid', 'bad-request', message).refusal) }
}

function badCommitment(commitment: number): UnaryAnswer {
  const message = `commitment: ${commitment} is no commitment level`
  return { ok: false, status: statusOf(refuse('invalid', 'bad-commitment', message).refusal) }
}
