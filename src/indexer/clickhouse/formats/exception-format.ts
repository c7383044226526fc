// Writes an exception inside the JSON formats, as ClickHouse does it with
// http_write_exception_in_output_format.
import { exceptionText, type QueryError } from '../exceptions.ts'
import type { Format, LayoutName } from './formats.ts'
import { jsonText } from './layouts.ts'

type Write = (exception: string) => string

const line: Write = (text) => `{"exception": ${text}}\n`
const arrayLine: Write = (text) => `[${text}]\n`
const document: Write = (text) =>
  '{\n\t"meta":\n\t[\n\n\t],\n\n\t"data":\n\t[\n\n\t],\n\n\t"rows": 0,\n\n' +
  `\t"exception": ${text}\n}\n`

/** Formats of a row per line: an exception is a row, and may follow others. */
const rows: Readonly<Partial<Record<LayoutName, Write>>> = {
  jsonLines: line,
  jsonStringLines: line,
  jsonProgressLines: line,
  jsonArrays: arrayLine,
  jsonStringArrays: arrayLine,
}
const documents: Readonly<Partial<Record<LayoutName, Write>>> = {
  ...rows,
  json: document,
  jsonStrings: document,
  jsonCompact: document,
  jsonCompactStrings: document,
  jsonObjects: (text) => `{\n\t"exception": ${text}\n}\n`,
}

/** A whole result without rows; null when the format has no form for it. */
export function documentWithException(error: QueryError, format: Format): string | null {
  return written(documents, error, format)
}

/** A row after others; null when the format has no form for it. */
export function rowWithException(error: QueryError, format: Format): string | null {
  return written(rows, error, format)
}

function written(forms: typeof rows, error: QueryError, { writing }: Format): string | null {
  const write = 'rows' in writing ? forms[writing.rows] : undefined
  return write === undefined ? null : write(jsonText(exceptionText(error).trimEnd()))
}
