// Errors for calls that no node answered. The texts are ours: those of
// sockets contain addresses.
import { type Answer, failure, rpcErrors } from '../../base/jsonrpc/build.ts'

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
