// Reads how long `sleep` and `sleepEachRow` of a query wait. Thread: main of a query process. Pure.
// DuckDB has no such function: the runner waits before it runs the query, once for each call.
import { type Checked, checked, fail } from '../exceptions.ts'
import { isSymbol, lex, wordOf } from '../sql/lexer.ts'

/** As in ClickHouse. */
const secondsMax = 3

/** Milliseconds. */
export function sleepOf(text: string): Checked<number> {
  if (!/sleep/i.test(text)) return checked(0)
  const tokens = lex(text).filter(({ kind }) => kind !== 'comment')
  let seconds = 0
  for (const [at, token] of tokens.entries()) {
    const name = wordOf(text, token)
    if (name !== 'SLEEP' && name !== 'SLEEPEACHROW') continue
    if (!isSymbol(text, tokens[at + 1], '(')) continue
    const argument = tokens[at + 2]
    if (argument?.kind !== 'number' || !isSymbol(text, tokens[at + 3], ')'))
      return fail('BAD_ARGUMENTS', 'The argument of function sleep must be a constant number')
    const wanted = Number(text.slice(argument.start, argument.end))
    if (wanted > secondsMax)
      return fail(
        'TOO_SLOW',
        `The maximum sleep time is ${secondsMax} seconds. Requested: ${wanted}`,
      )
    seconds += wanted
  }
  return checked(Math.ceil(seconds * 1000))
}
