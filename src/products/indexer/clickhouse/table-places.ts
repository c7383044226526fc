// Finds every place of a query where a table stands. Thread: main (pure).
// Walks the tokens with one frame per parenthesis; in doubt a place counts as one.
import { symbolOf, type Token, wordOf } from '../sql/lexer.ts'

export interface TablePlace {
  /** Index of the first token of the name. */
  readonly at: number
  /** Behind IN. */
  readonly isSet: boolean
}

interface Frame {
  /** `tables`: a comma leads to the next table. */
  clause: 'other' | 'tables'
  /** The next token begins a table. */
  expects: boolean
  /** `extract(DAY FROM x)`: this FROM is no clause. */
  isCall: boolean
}

/** Words that end the list of tables. */
const clauses = new Set(
  (
    'SELECT WHERE PREWHERE GROUP ORDER HAVING LIMIT OFFSET FETCH UNION INTERSECT EXCEPT WINDOW ' +
    'QUALIFY SETTINGS FORMAT INTO WITH'
  ).split(' '),
)
const callsWithFrom = new Set(['EXTRACT', 'TRIM', 'SUBSTRING', 'SUBSTR', 'OVERLAY', 'POSITION'])

export function* tablePlaces(text: string, tokens: readonly Token[]): Iterable<TablePlace> {
  let frame: Frame = { clause: 'other', expects: false, isCall: false }
  const outer: Frame[] = []
  for (const [at, token] of tokens.entries()) {
    const symbol = symbolOf(text, token)
    const word = wordOf(text, token)
    if (frame.expects && symbol !== '(') {
      frame.expects = false
      // `FROM (SELECT …)` was a parenthesis and is no longer waited for here.
      if (word !== 'SELECT' && word !== 'WITH' && word !== 'FROM' && word !== 'EXPLAIN') {
        yield { at, isSet: false }
        continue
      }
    }
    if (symbol === '(') {
      const isCall = callsWithFrom.has(wordOf(text, tokens[at - 1]))
      const inner: Frame = {
        clause: frame.expects ? 'tables' : 'other',
        expects: frame.expects,
        isCall,
      }
      frame.expects = false
      outer.push(frame)
      frame = inner
    } else if (symbol === ')') frame = outer.pop() ?? frame
    else if (symbol === ',') frame.expects = frame.clause === 'tables'
    else if (word === 'IN') yield* setPlace(text, tokens, at + 1)
    else step(frame, { text, tokens, at, word })
  }
}

/** `x IN t` and `x IN (t)`: a name alone is a table, also in parentheses. */
function* setPlace(text: string, tokens: readonly Token[], first: number): Iterable<TablePlace> {
  let at = first
  while (symbolOf(text, tokens[at]) === '(') at++
  if (!isName(tokens[at])) return
  let end = at + 1
  while (symbolOf(text, tokens[end]) === '.') end += 2
  const isAlone = symbolOf(text, tokens[end]) === ')'
  if (at === first || isAlone) yield { at, isSet: true }
}

function step(
  frame: Frame,
  here: {
    readonly text: string
    readonly tokens: readonly Token[]
    readonly at: number
    readonly word: string
  },
): void {
  const { text, tokens, at, word } = here
  const before = wordOf(text, tokens[at - 1])
  if (word === 'FROM' && !frame.isCall) {
    frame.clause = 'tables'
    frame.expects = true
  } else if (word === 'JOIN') {
    // ARRAY JOIN is followed by arrays; so are the commas behind it.
    frame.expects = before !== 'ARRAY'
    frame.clause = before === 'ARRAY' ? 'other' : 'tables'
  } else if (word === 'USING' && symbolOf(text, tokens[at + 1]) !== '(') frame.clause = 'other'
  else if (word === 'DESCRIBE' || word === 'DESC') {
    // As a statement; behind ORDER BY it is a direction.
    if (at === 0) frame.expects = true
  } else if (word === 'TABLE') {
    // `(TABLE x)` where a server knows it; elsewhere it is a column's name.
    const isFirst = symbolOf(text, tokens[at - 1]) === '(' || setWords.has(before)
    frame.expects = isFirst && isName(tokens[at + 1])
  } else if (clauses.has(word)) {
    frame.clause = 'other'
    frame.isCall &&= word !== 'SELECT'
  }
}

const setWords = new Set(['UNION', 'ALL', 'DISTINCT', 'EXCEPT', 'INTERSECT', 'EXPLAIN'])

function isName(token: Token | undefined): boolean {
  return token?.kind === 'word' || token?.kind === 'quoted'
}
