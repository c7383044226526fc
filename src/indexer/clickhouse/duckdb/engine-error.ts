// Maps DuckDB errors to ClickHouse error codes. Thread: main of a query process. Pure.
// Removes internals from messages: paths, catalogs, traces of the engine.
import type { QueryError } from '../exceptions.ts'

interface DuckdbError {
  readonly exception_type: string
  readonly exception_message: string
}

/** Maps an error that DuckDB reports as JSON (`errors_as_json`) or, in the parser, partly so. */
export function engineError(message: string): QueryError {
  const error = parseError(message)
  const text = cleaned(error.exception_message)
  for (const [type, pattern, code, name] of rules)
    if (error.exception_type === type && pattern.test(text))
      return { code, name, message: text.replace(thrown, "$1: while executing 'FUNCTION throwIf'") }
  return { code: 1002, name: 'UNKNOWN_EXCEPTION', message: 'the engine could not run this query' }
}

const any = /^/
/** The mark of `throwIf` in query-database.ts. */
const thrown = /^throwIf: (.*)$/s
type Rule = readonly [type: string, pattern: RegExp, code: number, name: string]

/** The first matching rule applies. */
const rules: readonly Rule[] = [
  ['Parser', any, 62, 'SYNTAX_ERROR'],
  ['Catalog', /^Table with name/, 60, 'UNKNOWN_TABLE'],
  ['Catalog', /Function with name/, 46, 'UNKNOWN_FUNCTION'],
  ['Catalog', /Type with name/, 50, 'UNKNOWN_TYPE'],
  ['Catalog', any, 60, 'UNKNOWN_TABLE'],
  ['Binder', /^Referenced table/, 47, 'UNKNOWN_IDENTIFIER'],
  ['Binder', /column .*(not found|does not (exist|have))/i, 47, 'UNKNOWN_IDENTIFIER'],
  ['Binder', /does not have a column/, 47, 'UNKNOWN_IDENTIFIER'],
  ['Binder', /^Ambiguous/, 207, 'AMBIGUOUS_IDENTIFIER'],
  ['Binder', /GROUP BY/, 215, 'NOT_AN_AGGREGATE'],
  ['Binder', /aggregate|window/i, 184, 'ILLEGAL_AGGREGATION'],
  ['Binder', /^No function matches/, 43, 'ILLEGAL_TYPE_OF_ARGUMENT'],
  ['Binder', /Macro .*(argument|parameter)/i, 42, 'NUMBER_OF_ARGUMENTS_DOESNT_MATCH'],
  ['Binder', /^Cannot (compare|combine|mix)|type/i, 53, 'TYPE_MISMATCH'],
  ['Binder', any, 36, 'BAD_ARGUMENTS'],
  ['Conversion', /^Could not convert string/i, 6, 'CANNOT_PARSE_TEXT'],
  ['Conversion', any, 53, 'TYPE_MISMATCH'],
  ['Mismatch Type', any, 53, 'TYPE_MISMATCH'],
  ['Out of Range', any, 321, 'VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE'],
  ['Out of Memory', any, 241, 'MEMORY_LIMIT_EXCEEDED'],
  ['Invalid Input', /^not answered here/, 48, 'NOT_IMPLEMENTED'],
  ['Invalid Input', /^Cannot parse/, 6, 'CANNOT_PARSE_TEXT'],
  ['Invalid Input', /^Unknown element .* for enum/s, 691, 'UNKNOWN_ELEMENT_OF_ENUM'],
  ['Invalid Input', /^throwIf: /, 395, 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'],
  ['Invalid Input', any, 36, 'BAD_ARGUMENTS'],
  ['Not implemented', any, 48, 'NOT_IMPLEMENTED'],
  ['Permission', any, 164, 'READONLY'],
  ['Expression', any, 36, 'BAD_ARGUMENTS'],
  ['Invalid type', any, 53, 'TYPE_MISMATCH'],
  ['Syntax', any, 62, 'SYNTAX_ERROR'],
  ['Constraint', any, 36, 'BAD_ARGUMENTS'],
]

const memoryMessage = 'the query needs more memory than it may have'

function parseError(message: string): DuckdbError {
  const start = message.indexOf('{"exception_type"')
  if (start !== -1) {
    try {
      const error = JSON.parse(message.slice(start)) as DuckdbError
      return error.exception_type === 'Out of Memory'
        ? { ...error, exception_message: memoryMessage }
        : error
    } catch {
      // Truncated or garbled JSON: handled like a plain message.
    }
  }
  // The form of messages of Node or of the parser.
  const form = /^([A-Za-z ]+) Error: (.*)$/s.exec(message)
  if (form?.[1] === 'Out of Memory' || /bad.?alloc|string longer than/i.test(message))
    return { exception_type: 'Out of Memory', exception_message: memoryMessage }
  return { exception_type: form?.[1] ?? '', exception_message: form?.[2] ?? '' }
}

const messageCharsMax = 500

function cleaned(message: string): string {
  return (
    message.split(/\n\s*(?:Did you mean|Candidate functions|LINE |Possible solutions)/)[0] ?? ''
  )
    .replaceAll(/"?(?:\/[\w.-]+){2,}\/?"?/g, 'a file')
    .replaceAll(/\b(?:seg|tail)_\d[\w]*\./g, '')
    .replaceAll('system_.', 'system.')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, messageCharsMax)
}
