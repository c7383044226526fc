// The JSON-RPC methods of POST /: recent blocks as an Ethereum client asks for them.
// Thread: main. Called by server.ts with parsed requests; no sockets here.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import type { ExecutionBlock, ExecutionView } from '../../chain/ports.ts'
import { answerMessage, batchMessage, errorMessage, type Message } from '../../jsonrpc/build.ts'
import { type Item, parseRequests } from '../../jsonrpc/parse.ts'
import { codesOf } from '../../transport/reply.ts'

export interface RpcParts {
  readonly view: ExecutionView
  readonly version: string
}

type Method = (params: readonly unknown[], parts: RpcParts) => Outcome<unknown>

/** Calls in one batch; more is refused whole with -32600. */
const batchItemsMax = 100
const u64HexDigits = 16
const tags: ReadonlySet<unknown> = new Set(['latest', 'safe', 'finalized', 'earliest'])

const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['eth_getBlockByNumber', blockByNumber],
  ['eth_blockNumber', withoutParams(({ view }) => quantity(view.latestBlock()))],
  ['eth_chainId', withoutParams(({ view }) => quantity(view.chainId()))],
  ['net_version', withoutParams(({ view }) => view.chainId().toString())],
  ['web3_clientVersion', withoutParams(({ version }) => clientVersion(version))],
])

/** Answers a body: one call or a batch. '' when nothing in it wants an answer. Never throws. */
export function answerBody(body: Buffer, parts: RpcParts): Message {
  const parsed = parseRequests(body, batchItemsMax)
  if (parsed.kind === 'broken') return errorMessage('null', parsed.error)
  if (parsed.kind === 'single') return answerItem(parsed.item, parts) ?? ''
  return batchMessage(parsed.items.flatMap((item) => answerItem(item, parts) ?? []))
}

/** Null for a notification: it is carried out in silence, which here means nothing is done. */
function answerItem(item: Item, parts: RpcParts): Message | null {
  if (item.method === null) return errorMessage(item.id, item.error)
  if (item.id === null) return null
  const outcome = callMethod(item.method, item.params, parts)
  if (outcome.ok) return answerMessage(item.id, { kind: 'value', value: outcome.value })
  const { kind, message } = outcome.refusal
  return errorMessage(item.id, { code: codesOf[kind].jsonrpc, message })
}

/** Answers one call. Refusals: `unknown-method`, `invalid` (params). `params` absent is []. */
export function callMethod(method: string, params: unknown, parts: RpcParts): Outcome<unknown> {
  const run = methods.get(method)
  if (run === undefined) return refuse('unknown-method', 'method_not_found', 'Method not found')
  if (params === undefined || params === null) return run([], parts)
  return Array.isArray(params) ? run(params, parts) : invalid('params must be a list')
}

function blockByNumber(params: readonly unknown[], { view }: RpcParts): Outcome<unknown> {
  const [which, full = false] = params
  if (params.length < 1 || params.length > 2)
    return invalid('params are a block number or tag, and whether transactions are full objects')
  if (typeof full !== 'boolean') return invalid('the second param must be true or false')
  const place = parsePlace(which)
  if (!place.ok) return place
  const block = place.value === null ? null : view.block(place.value)
  return accept(block === null ? null : blockObject(block, full))
}

type Place = Parameters<ExecutionView['block']>[0]

/** Null: a good number that no block of ours can have. */
function parsePlace(which: unknown): Outcome<Place | null> {
  if (tags.has(which)) return accept(which as Place)
  if (typeof which !== 'string' || !/^0x(0|[1-9a-f][0-9a-f]*)$/i.test(which))
    return invalid('a block is a hex quantity, latest, safe, finalized or earliest')
  if (which.length > 2 + u64HexDigits) return invalid('the block number is over 64 bits')
  const number = BigInt(which)
  return accept(number > Number.MAX_SAFE_INTEGER ? null : Number(number))
}

function blockObject(block: ExecutionBlock, full: boolean): Record<string, unknown> {
  return {
    ...block.header,
    number: quantity(block.number),
    hash: block.ethHash,
    transactions: full ? block.transactions() : block.transactionHashes,
  }
}

function withoutParams(value: (parts: RpcParts) => unknown): Method {
  return (params, parts) =>
    params.length === 0 ? accept(value(parts)) : invalid('this method takes no params')
}

function invalid(message: string): Outcome<never> {
  return refuse('invalid', 'invalid_params', message)
}

function quantity(value: number | bigint): string {
  return `0x${value.toString(16)}`
}

function clientVersion(version: string): string {
  return `sluice/v${version}/${process.platform}-${process.arch}/node${process.versions.node}`
}
