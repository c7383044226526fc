// Implements the JSON-RPC methods of POST /: recent blocks for Ethereum clients.
// No sockets here. Answers are built in pieces, so that a large one is built while
// it is sent; the answer of a batch is bounded, a single block is not.
import { accept, codesOf, type Outcome, refuse } from '../../base/errors.ts'
import { errorMessage, type RpcError } from '../../base/jsonrpc/build.ts'
import { type Item, parseRequest } from '../../base/jsonrpc/parse.ts'
import type { BlockText, ExecutionView } from '../../upstream/ports.ts'

export interface RpcParts {
  readonly view: ExecutionView
  readonly version: string
}

/** Result of a method: a value, or the text of a block. */
type Result =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'block'; readonly text: BlockText }

type Method = (params: readonly unknown[], parts: RpcParts) => Outcome<Result>

/** Calls in one batch; more is refused whole with -32600. */
export const batchItemsMax = 100
/** A call that would make a batch's answer longer gets an error; the first block never does. */
export const batchBytesMax = 4 * 1024 * 1024
/** Looking up a block by its stage scans all cached blocks. */
export const callWorkMs = 0.02
/** Approximate length of any other answer. */
const shortBytes = 128
const u64HexDigits = 16
const tags: ReadonlySet<unknown> = new Set(['latest', 'safe', 'finalized', 'earliest'])

const platform = `${process.platform}-${process.arch}/node${process.versions.node}`

/** -32005 is "limit exceeded" in EIP-1474. */
const tooLong: RpcError = {
  code: -32005,
  message: `a batch is answered up to ${batchBytesMax} bytes: send this call by itself`,
}

const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['eth_getBlockByNumber', blockByNumber],
  ['eth_blockNumber', withoutParams(({ view }) => quantity(view.latestBlock()))],
  ['eth_chainId', withoutParams(({ view }) => quantity(view.chainId()))],
  ['net_version', withoutParams(({ view }) => view.chainId().toString())],
  ['web3_clientVersion', withoutParams(({ version }) => `sluice/v${version}/${platform}`)],
])

/** The answer to a body, whose calls are looked up but not encoded yet. */
export interface PreparedAnswer {
  /** Estimated cost of the answer. */
  readonly cost: { readonly workMs: number; readonly bytes: number }
  /** The answer, built piece by piece; empty when only notifications were sent. Throws when a
   *  block that was started is evicted. */
  pieces(): Generator<Uint8Array>
}

/** Reads a body: one call or a batch. Never throws. */
export function readBody(body: Buffer, parts: RpcParts): PreparedAnswer {
  const { isBatch, items } = parseRequest(body, batchItemsMax)
  const calls = items.flatMap((item) => callOf(item, parts) ?? [])
  const bytes = calls.reduce((sum, call) => sum + bytesOf(call), 0)
  return {
    cost: {
      workMs: calls.length * callWorkMs,
      bytes: isBatch ? Math.min(bytes, batchBytesMax) : bytes,
    },
    pieces: () => (isBatch ? batch(calls) : single(calls[0])),
  }
}

/** One call with its outcome: a block's text, or the whole answer. */
interface Call {
  readonly id: string
  readonly text?: BlockText
  readonly message?: string
}

/** Estimated length of its answer. */
function bytesOf({ text }: Call): number {
  return text?.estimatedBytes ?? shortBytes
}

/** Null for a notification: it has no answer, so nothing is done. */
function callOf(item: Item, parts: RpcParts): Call | null {
  if (item.method === null) return failed(item.id, item.error)
  const { id } = item
  if (id === null) return null
  const outcome = callMethod(item.method, item.params, parts)
  if (!outcome.ok) {
    const { kind, message } = outcome.refusal
    return failed(id, { code: codesOf[kind].jsonrpc, message })
  }
  const result = outcome.value
  if (result.kind === 'block') return { id, text: result.text }
  return { id, message: `{"jsonrpc":"2.0","result":${JSON.stringify(result.value)},"id":${id}}` }
}

function failed(id: string, error: RpcError): Call {
  return { id, message: errorMessage(id, error) }
}

function* single(call: Call | undefined): Generator<Uint8Array> {
  if (call !== undefined) yield* piecesOf(call)
}

function* batch(calls: readonly Call[]): Generator<Uint8Array> {
  if (calls.length === 0) return
  let bytes = 0
  let isFirst = true
  for (const [index, call] of calls.entries()) {
    yield Buffer.from(index === 0 ? '[' : ',')
    const fits = bytes + bytesOf(call) <= batchBytesMax || (isFirst && call.text !== undefined)
    if (call.text !== undefined) isFirst = false
    for (const piece of piecesOf(fits ? call : failed(call.id, tooLong))) {
      bytes += piece.length
      yield piece
    }
  }
  yield Buffer.from(']')
}

function* piecesOf({ id, text, message = '' }: Call): Generator<Uint8Array> {
  if (text === undefined) {
    yield Buffer.from(message)
    return
  }
  yield resultOpens
  for (let index = 0; ; index++) {
    const piece = text.piece(index)
    if (piece === null) break
    yield piece
  }
  yield Buffer.from(`,"id":${id}}`)
}

const resultOpens = Buffer.from('{"jsonrpc":"2.0","result":')

/** Answers one call. Refusals: `unknown-method`, `invalid` (params). `params` absent is []. */
function callMethod(method: string, params: unknown, parts: RpcParts): Outcome<Result> {
  const run = methods.get(method)
  if (run === undefined) return refuse('unknown-method', 'method_not_found', 'Method not found')
  if (params === undefined || params === null) return run([], parts)
  return Array.isArray(params) ? run(params, parts) : invalid('params must be a list')
}

function blockByNumber(params: readonly unknown[], { view }: RpcParts): Outcome<Result> {
  const [which, full = false] = params
  if (params.length < 1 || params.length > 2)
    return invalid('params are a block number or tag, and whether transactions are full objects')
  if (typeof full !== 'boolean') return invalid('the second param must be true or false')
  const ref = parseBlockRef(which)
  if (!ref.ok) return ref
  const block = ref.value === null ? null : view.block(ref.value)
  return accept(
    block === null ? { kind: 'value', value: null } : { kind: 'block', text: block.text(full) },
  )
}

type BlockRef = Parameters<ExecutionView['block']>[0]

/** Null: a valid number that no block of ours can have. */
function parseBlockRef(which: unknown): Outcome<BlockRef | null> {
  if (tags.has(which)) return accept(which as BlockRef)
  if (typeof which !== 'string' || !/^0x(0|[1-9a-f][0-9a-f]*)$/i.test(which))
    return invalid('a block is a hex quantity, latest, safe, finalized or earliest')
  if (which.length > 2 + u64HexDigits) return invalid('the block number is over 64 bits')
  const number = BigInt(which)
  return accept(number > Number.MAX_SAFE_INTEGER ? null : Number(number))
}

function withoutParams(value: (parts: RpcParts) => unknown): Method {
  return (params, parts) =>
    params.length === 0
      ? accept({ kind: 'value', value: value(parts) })
      : invalid('this method takes no params')
}

function invalid(message: string): Outcome<never> {
  return refuse('invalid', 'invalid_params', message)
}

function quantity(value: number | bigint): string {
  return `0x${value.toString(16)}`
}
