// Reads how long `sleep` and `sleepEachRow` of a query wait. Thread: main of a query process. Pure.
// DuckDB has no such function: the runner waits before it runs the query, once for each call.
import { type Checked, checked, fail } from '../exceptions.ts'
import { numberOf } from './bounds.ts'
import { nodesOf } from './syntax-tree.ts'

/** As in ClickHouse. */
const secondsMax = 3

/** Milliseconds. */
export function sleepOf(tree: unknown): Checked<number> {
  let seconds = 0
  for (const { function_name: name, children } of nodesOf(tree)) {
    if (!/^sleep(eachrow)?$/i.test(String(name))) continue
    const [argument] = (children ?? []) as readonly Parameters<typeof numberOf>[0][]
    const wanted = argument === undefined ? null : numberOf(argument)
    if (wanted === null || wanted < 0)
      return fail('BAD_ARGUMENTS', `The argument of function ${String(name)} must be constant`)
    if (wanted > secondsMax)
      return fail(
        'TOO_SLOW',
        `The maximum sleep time is ${secondsMax} seconds. Requested: ${wanted}`,
      )
    seconds += wanted
  }
  return checked(Math.ceil(seconds * 1000))
}
