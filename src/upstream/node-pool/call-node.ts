// Calls of the service itself to a node: one JSON-RPC call, its reply parsed.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { readText } from '../http-client/http-request.ts'
import type { UpstreamNode } from './upstream-node.ts'
import type { PickOptions, UpstreamSet } from './upstream-set.ts'

const timeoutMs = 5_000
/** Nodes that a read is tried at. */
const readNodesMax = 2

export const unreached = refuse('unavailable', 'upstream', 'the upstream cannot be reached')

export interface RpcReply {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly code?: number; readonly message?: string; readonly data?: unknown }
}

/** Null when no node answered; a read that failed is retried at another node. Never rejects. */
export async function readNodes(
  set: UpstreamSet,
  method: string,
  body: string,
  options: PickOptions = {},
): Promise<RpcReply | null> {
  const exclude: UpstreamNode[] = []
  while (exclude.length < readNodesMax) {
    const node = set.pick(method, { ...options, exclude })
    if (node === null) return null
    const reply = await callNode(node, body)
    if (reply.ok) return reply.value
    exclude.push(node)
  }
  return null
}

/** Sent once. Refused as `unavailable` when there is no reply. Never rejects. */
export async function callNode(
  node: UpstreamNode,
  body: string,
  options: { readonly isSend?: boolean } = {},
): Promise<Outcome<RpcReply>> {
  const response = await node.call(body, { ...options, timeoutMs }).response
  if (!response.ok) return unreached
  const { status } = response
  const text = await readText(response)
  if (status === 429 || status >= 500)
    return refuse('unavailable', 'upstream', `the upstream answered ${status}`)
  try {
    const reply: unknown = JSON.parse(text ?? '')
    // Some nodes return errors with another status; a body that is no JSON object is no reply.
    if (typeof reply === 'object' && reply !== null && isAnswer(node, reply))
      return accept(reply as RpcReply)
  } catch {
    // Refused below.
  }
  return refuse('unavailable', 'upstream', 'the answer of the upstream is not that to the call')
}

/** False for a result under another id than ours, which is that of `bodyOf`. */
export function isAnswer(node: UpstreamNode, { id, result }: RpcReply): boolean {
  if (result === undefined || id === 1) return true
  node.distrust('id')
  return false
}
