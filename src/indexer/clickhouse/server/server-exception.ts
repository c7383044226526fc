// Parses the exceptions of a ClickHouse server.
//   old   Code: 62, e.displayText() = DB::Exception: Sentence, e.what() = DB::Exception
//   new   Code: 62. DB::Exception: Sentence. (SYNTAX_ERROR) (version 25.8.1.1 (official build))
// Messages for customers contain no host, address, path, user, database or query id of the server.
import { codeOf, exception, type QueryError } from '../exceptions.ts'

const messageCharsMax = 1_000
const head = /Code: (\d+)(?:\.|, e\.displayText\(\) =) \w+::\w*Exception: /

export function readException(text: string, statusCode = 500): QueryError {
  const found = head.exec(text)
  if (found === null) {
    if (statusCode === 401 || statusCode === 403) return customerError(516, 'access was refused')
    if (statusCode === 413) return exception('TOO_MANY_BYTES', 'a proxy refused its length')
    return exception('UNKNOWN_EXCEPTION', `the server answered with status ${statusCode}`)
  }
  const rest = text.slice(found.index + found[0].length)
  const name = /\(([A-Z][A-Z0-9_]+)\)\s*(?:\(version [^\n]*)?\s*$/.exec(rest)
  const sentence = rest
    .replace(/, e\.what\(\) = \w+::[\s\S]*$/, '')
    .replace(/\s*\([A-Z][A-Z0-9_]+\)\s*(?:\(version [^\n]*)?\s*$/, '')
    .replace(/\s*\(version [^\n]*$/, '')
  return customerError(Number(found[1]), sentence, name?.[1])
}

/**
 * The exception after the rows of an answer, and the offset in `end` at which it starts; null when
 * the answer is complete. `end` is the end of the answer.
 */
export function trailingException(
  end: Buffer,
  kind: 'json' | 'text' | 'binary',
  tag: string | null,
): { readonly exception: QueryError; readonly at: number } | null {
  const text = end.toString('latin1')
  const tagged = tag === null ? -1 : text.indexOf(`\r\n__exception__\r\n${tag}`)
  if (tagged >= 0) {
    const block = end.subarray(tagged).toString()
    const closing = block.lastIndexOf(` ${tag}\r\n`)
    const sentence = closing < 0 ? block : block.slice(0, closing).replace(/\n\d+$/, '')
    return { exception: readException(sentence), at: tagged }
  }
  // A complete JSON answer ends with a bracket, an exception never does.
  if (kind === 'json' && /[}\]]\s*$/.test(text)) return null
  const pattern = new RegExp(head, 'g')
  let last: RegExpExecArray | null = null
  for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) last = found
  if (last === null || !/(e\.what\(\) = \w+::\w*Exception|\))\s*$/.test(text)) return null
  // Rows are lines, and so is the exception, except after unfinished JSON.
  if (kind === 'text' && last.index > 0 && text[last.index - 1] !== '\n') return null
  return { exception: readException(end.subarray(last.index).toString()), at: last.index }
}

/** Removes internals. Too many rows are always TOO_MANY_ROWS, however the server reports them. */
function customerError(code: number, sentence: string, name?: string): QueryError {
  const message = withoutInternals(sentence)
  if (code === codeOf.TOO_MANY_ROWS_OR_BYTES && /rows/.test(message) && !/bytes:/.test(message))
    return exception('TOO_MANY_ROWS', message)
  return { code, name: name ?? nameOf.get(code) ?? 'UNKNOWN_EXCEPTION', message }
}

/** Names of codes that only a server has, for servers that do not send them. */
const serverCodes = `
  10 NOT_FOUND_COLUMN_IN_BLOCK 16 NO_SUCH_COLUMN_IN_TABLE
  27 CANNOT_PARSE_INPUT_ASSERTION_FAILED 41 CANNOT_PARSE_DATETIME
  42 NUMBER_OF_ARGUMENTS_DOESNT_MATCH 44 ILLEGAL_COLUMN 49 LOGICAL_ERROR
  63 UNKNOWN_AGGREGATE_FUNCTION 70 CANNOT_CONVERT_TYPE 72 CANNOT_PARSE_NUMBER
  153 ILLEGAL_DIVISION 160 TOO_SLOW 161 TOO_MANY_COLUMNS 162 TOO_DEEP_SUBQUERIES
  167 TOO_DEEP_AST 168 TOO_BIG_AST 179 MULTIPLE_EXPRESSIONS_FOR_ALIAS 184 ILLEGAL_AGGREGATION
  192 UNKNOWN_USER 193 WRONG_PASSWORD 215 NOT_AN_AGGREGATE 252 TOO_MANY_PARTS
  352 AMBIGUOUS_COLUMN_NAME 386 NO_COMMON_TYPE 395 FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
  497 ACCESS_DENIED
`
const nameOf: ReadonlyMap<number, string> = new Map([
  ...Object.entries(codeOf).map(([name, code]) => [code, name] as const),
  ...[...serverCodes.matchAll(/(\d+) (\w+)/g)].map(
    (found) => [Number(found[1]), found[2]!] as const,
  ),
])

function withoutInternals(sentence: string): string {
  return sentence
    .replaceAll(/\b(chain\.)?`?_([a-z][a-z_]*)`?\b/g, '$2')
    .replaceAll(/\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b/g, '…')
    .replaceAll(/\[?\b[0-9a-f]{0,4}(:[0-9a-f]{0,4}){3,7}\]?(:\d+)?/gi, '…')
    .replaceAll(/\blocalhost(:\d+)?\b/g, '…')
    .replaceAll(/(^|[\s'"(=])\/[\w.@~-]+(\/[\w.@~-]*)+/g, '$1…')
    .replaceAll(/sluice-[\w-]+/g, '…')
    .replaceAll(/[\r\n\t]+/g, ' ')
    .trim()
    .slice(0, messageCharsMax)
}
