// A call that changes something: sent to one node once, or to every node once with `broadcast`;
// never retried, hedged or shared.
import { type Answer, failure, rpcErrors } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { bodyOf, firstGood, newId } from '../call-body.ts'
import type { UpstreamNode } from '../node-pool/upstream-node.ts'
import type { UpstreamSet } from '../node-pool/upstream-set.ts'
import { answerOf } from './answer.ts'
import type { ProxyTally } from './meters.ts'

/** Only this is broadcast: a cluster executes a transaction once, an airdrop each time. */
const BROADCAST = 'sendTransaction'

export async function send(call: Call, set: UpstreamSet, tally: ProxyTally): Promise<Answer> {
  const { method } = call
  const nodes = nodesFor(method, set)
  if (nodes.length === 0) return set.serves(method) ? unhealthy : failure(rpcErrors.unknownMethod)
  const id = newId()
  const body = bodyOf(call, id)
  const { timeoutMs } = set.section
  const sends = nodes.map(async (node): Promise<Answer> => {
    const response = await node.call(body, { timeoutMs, isSend: true }).response
    if (!response.ok) return response.isSent ? sendUnknown : unhealthy
    const answer = await answerOf(response, id, node, tally)
    if (answer === 'status') return unhealthy
    return answer === 'garbage' ? sendUnknown : answer
  })
  const accepted = await firstGood(sends, ({ kind }) => kind !== 'error')
  if (accepted !== null) return accepted
  // A node's own error is worth more than ours.
  const answers = await Promise.all(sends)
  const refusal = answers.find((answer) => answer !== unhealthy && answer !== sendUnknown)
  return refusal ?? (answers.includes(sendUnknown) ? sendUnknown : unhealthy)
}

function nodesFor(method: string, set: UpstreamSet): readonly UpstreamNode[] {
  if (set.section.broadcast && method === BROADCAST) return set.all(method)
  const node = set.pick(method, { isSend: true })
  return node === null ? [] : [node]
}

// Errors for calls that no node answered. The texts are ours: those of
// sockets contain addresses.

const { nodeUnhealthy } = rpcErrors

/** No node of the set is up, or none of those that were tried answered. */
export const unhealthy: Answer = failure(nodeUnhealthy)

/** The time for a read, all tries together, is over. */
export const tooSlow: Answer = failure({
  ...nodeUnhealthy,
  message: 'Node is unhealthy: no answer in time',
})

/** The only try of a send broke off; what the node did with it is unknown. */
export const sendUnknown: Answer = failure({
  ...nodeUnhealthy,
  message: 'Node is unhealthy: it gave no answer, the transaction may have been taken',
})

/** Error codes of a node after which a read fails over to another one. */
export const failoverCodes: ReadonlySet<number> = new Set([
  -32004, // block not available
  -32005, // node unhealthy
  -32014, // block status not yet available
  -32016, // minimum context slot not reached
])
