// Builds the JSON-RPC body of a call to a node: params as written, under an id of ours.
// Each call has an HTTP exchange of its own, but a node that answers twice
// would have its second answer taken for that of the next call, perhaps of another customer: the
// random ids of customers' calls prevent that.
import type { Call } from '../base/jsonrpc/parse.ts'

const PLAIN_NAME = /^\w+$/
const ID_MAX = 1_000_000_000

/** A random number as text. */
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

// Waits for the first good result among several.

/** Resolves to the first value that `isGood` accepts; to null when all came and none was good. */
export function firstGood<T>(
  all: readonly Promise<T>[],
  isGood: (value: T) => boolean,
): Promise<T | null> {
  return new Promise((resolve) => {
    let left = all.length
    for (const one of all)
      void one.then((value) => {
        if (isGood(value)) resolve(value)
        left--
        if (left === 0) resolve(null)
      })
  })
}
