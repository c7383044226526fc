// What a customer is told when no node answered. Thread: any (constants). In our words: those of a
// connection name addresses.
import { type Answer, failure } from '../../jsonrpc/build.ts'

// -32005 is what Solana's own nodes say, and what clients know to retry.
const UNHEALTHY = -32005
const data = { numSlotsBehind: null }

/** No node of the set is there, or none that was asked answered. */
export const unhealthy: Answer = failure({ code: UNHEALTHY, message: 'Node is unhealthy', data })

/** The time for a read, all tries together, is over. */
export const tooSlow: Answer = failure({
  code: UNHEALTHY,
  message: 'Node is unhealthy: no answer in time',
  data,
})

/** The one try of a send was broken off; nobody knows what the node did with it. */
export const sendUnknown: Answer = failure({
  code: UNHEALTHY,
  message: 'Node is unhealthy: it gave no answer, the transaction may have been taken',
  data,
})

/** Errors by which a node says that another one may know better. */
export const elsewhere: ReadonlySet<number> = new Set([
  -32004, // block not available
  -32005, // node unhealthy
  -32014, // block status not yet available
  -32016, // minimum context slot not reached
])
