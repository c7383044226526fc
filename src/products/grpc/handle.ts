// Answers the unary methods of geyser.Geyser: bytes in, bytes or a status out. Thread: main.
// Called by server.ts. No sockets; the streams are subscriber.ts.
import { refuse } from '../../base/errors.ts'
import type { Commitment } from '../../chain/ports.ts'
import type { UnaryAnswer } from '../../transport/grpc.ts'
import { statusOf } from './admission.ts'
import { type Codec, given } from './codec.ts'
import { blockhashBlocks, type Head, type Heads } from './heads.ts'

/** The revision of yellowstone's .proto that ours is compatible with. */
const protoVersion = '12.6.0'

export interface ChainState {
  readonly heads: Heads
  oldestSlot(): number | null
}

export interface UnaryDeps {
  readonly codec: Codec
  readonly version: string
  /** Null while no chain is attached. */
  readonly chain: ChainState | null
}

export type Answer = (request: Uint8Array) => UnaryAnswer

/** The methods by name. */
export function unaryMethods(deps: UnaryDeps): Readonly<Record<string, Answer>> {
  const { codec, chain } = deps
  const reply = (type: string, value: object): UnaryAnswer => ({
    ok: true,
    bytes: codec.encode(`geyser.${type}`, value),
  })
  const version = reply('GetVersionResponse', { version: versionText(deps.version) })
  /** Decodes, finds the head at the commitment asked for, answers. */
  const atHead =
    (
      name: string,
      answer: (head: Head, request: HeadRequest, level: Commitment) => object,
    ): Answer =>
    (bytes) => {
      const request = codec.decode<HeadRequest>(`geyser.${name}Request`, bytes)
      if (request === null) return badRequest(name)
      const level = given(request, 'commitment') ?? 0
      if (level !== 0 && level !== 1 && level !== 2) return badCommitment(level)
      const head = chain?.heads.at(level) ?? null
      if (head === null) return noBlock
      return reply(`${name}Response`, answer(head, request, level))
    }
  return {
    GetVersion: () => version,
    Ping(bytes) {
      const request = codec.decode<{ count: number }>('geyser.PingRequest', bytes)
      if (request === null) return badRequest('Ping')
      return reply('PongResponse', { count: request.count })
    },
    SubscribeReplayInfo() {
      if (chain === null) return noBlock
      const firstAvailable = chain.oldestSlot()
      return reply('SubscribeReplayInfoResponse', firstAvailable === null ? {} : { firstAvailable })
    },
    GetSlot: atHead('GetSlot', ({ slot }) => ({ slot })),
    GetBlockHeight: atHead('GetBlockHeight', ({ blockHeight }) => ({ blockHeight })),
    GetLatestBlockhash: atHead('GetLatestBlockhash', ({ slot, blockhash, blockHeight }) => ({
      slot,
      blockhash,
      lastValidBlockHeight: blockHeight + blockhashBlocks,
    })),
    IsBlockhashValid: atHead('IsBlockhashValid', ({ slot }, { blockhash }, level) => ({
      slot,
      valid: chain?.heads.isValid(blockhash ?? '', level) ?? false,
    })),
  }
}

interface HeadRequest {
  readonly commitment?: number
  readonly blockhash?: string
}

/** What GetVersion tells is JSON; fields of a validator's build that we have none of are empty. */
function versionText(version: string): string {
  const build = { git: '', rustc: '', buildts: '' }
  return JSON.stringify({
    version: { package: 'sluice', version, proto: protoVersion, solana: '', ...build },
    extra: { hostname: '' },
  })
}

const noBlock: UnaryAnswer = {
  ok: false,
  status: statusOf(refuse('unavailable', 'no-chain', 'no block is known yet').refusal),
}

function badRequest(name: string): UnaryAnswer {
  const message = `the message is no ${name}Request`
  return { ok: false, status: statusOf(refuse('invalid', 'bad-request', message).refusal) }
}

function badCommitment(level: number): UnaryAnswer {
  const message = `commitment: ${level} is no commitment level`
  return { ok: false, status: statusOf(refuse('invalid', 'bad-commitment', message).refusal) }
}
