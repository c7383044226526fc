// The body of a call as it goes to a node: the customer's params as written, under an id of ours.
// Thread: any (pure). Called by read.ts and send.ts. Each call has an HTTP exchange to itself, so
// one id serves all.
import type { Call } from '../../../jsonrpc/parse.ts'

const PLAIN_NAME = /^\w+$/

export function bodyOf({ method, paramsText }: Call): string {
  const name = PLAIN_NAME.test(method) ? `"${method}"` : JSON.stringify(method)
  if (paramsText === '') return `{"jsonrpc":"2.0","id":1,"method":${name}}`
  return `{"jsonrpc":"2.0","id":1,"method":${name},"params":${paramsText}}`
}
