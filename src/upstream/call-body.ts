// The body of a call as it goes to a node: params as written, under an id of ours.
// Thread: any (pure). Called by whoever asks a node: proxy, probes, senders, reads of a set.
// Each call has an HTTP exchange to itself, but a node that answers twice would have its second
// answer taken for that of the next call, which may be another customer's: so the ids of
// customers' calls tell the two apart.
import type { Call } from '../jsonrpc/parse.ts'

const PLAIN_NAME = /^\w+$/
const ID_MAX = 1_000_000_000

/** A number as text, that the call before on the same connection did not have. */
export function newId(): string {
  return String(1 + Math.floor(Math.random() * ID_MAX))
}

export function bodyOf(
  { method, paramsText }: Pick<Call, 'method' | 'paramsText'>,
  id = '1',
): string {
  const name = PLAIN_NAME.test(method) ? `"${method}"` : JSON.stringify(method)
  if (paramsText === '') return `{"jsonrpc":"2.0","id":${id},"method":${name}}`
  return `{"jsonrpc":"2.0","id":${id},"method":${name},"params":${paramsText}}`
}
