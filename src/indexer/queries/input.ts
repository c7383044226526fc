// Reads a query from a request: URL parameters, ClickHouse's headers, and the body.
// The query is in `query=`, in the body, or starts in the first and continues in the second.
import { isUtf8 } from 'node:buffer'
import { type Coding, codingNamed } from '../../base/transport/request.ts'
import { databaseOf } from '../catalogue.ts'
import { type Checked, checked, fail, shownName } from '../clickhouse/exceptions.ts'
import type { Setting } from '../clickhouse/sql/reading.ts'
import type { Database } from '../tables.ts'
import { bodyBytesMax, type QueryRequest } from './protocol.ts'

export interface QueryInput {
  readonly text: string
  /** Values of `{name:Type}` parameters. */
  readonly parameters: ReadonlyMap<string, string>
  readonly settings: readonly Setting[]
  /** '' when the caller sets none. */
  readonly queryId: string
  readonly format: string
  /** Of table names without one. */
  readonly database: Database
}

/** What is read of a request before its body. */
type RequestHead = Omit<QueryRequest, 'body' | 'ticket' | 'subscription' | 'plan'>

/** As ClickHouse's `max_query_size`. */
const QUERY_BYTES_MAX = 262_144
const PARAMETERS_MAX = 1_000
const PARTS_MAX = 1_000
const QUERY_ID = /^[\x21-\x7e]{1,128}$/

export function readUrl(request: RequestHead): Checked<QueryInput> {
  const parameters = new Map<string, string>()
  const own = new Map<string, string>()
  const settings = new Map<string, string>()
  let count = 0
  for (const [name, value] of new URLSearchParams(request.url)) {
    if (++count > PARAMETERS_MAX) return fail('BAD_ARGUMENTS', 'the URL has too many parameters')
    const into = name.startsWith('param_') ? parameters : ownNames.has(name) ? own : settings
    const key = into === parameters ? name.slice('param_'.length) : name
    if (into.has(key)) return fail('BAD_ARGUMENTS', 'a parameter of the URL is given twice')
    into.set(key, value)
  }
  if (own.has('role')) return fail('UNKNOWN_ROLE', 'there are no roles')
  const named = own.get('database') ?? request.database
  const database = databaseOf(named)
  if (database === null)
    return fail(
      'UNKNOWN_DATABASE',
      `Database ${shownName(named)} does not exist; tables are in chain`,
    )
  const queryId = own.get('query_id') ?? ''
  if (queryId !== '' && !QUERY_ID.test(queryId))
    return fail('BAD_ARGUMENTS', 'a query_id is 1 to 128 visible ASCII characters')
  // The query id is stored in `usage` and sent to engines and back.
  if (request.isIdSecret)
    return fail('BAD_ARGUMENTS', 'a query_id may contain no token and no password; choose another')
  const format = own.get('default_format') ?? request.format
  const text = own.get('query') ?? ''
  return checked({ text, parameters, settings: [...settings], queryId, format, database })
}

const ownNames = new Set(['query', 'database', 'query_id', 'default_format', 'role'])

/** Adds the body. */
export async function withBody(
  input: QueryInput,
  request: QueryRequest,
): Promise<Checked<QueryInput>> {
  const { body } = request
  let bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  const coding = codingNamed(request.contentEncoding)
  if (coding !== null) {
    const whole = await decompress(coding, bytes)
    if (whole === null)
      return fail('CANNOT_PARSE_TEXT', `the body is no ${coding.name}, or too long`)
    bytes = whole
  }
  if (!isUtf8(bytes)) return fail('SYNTAX_ERROR', 'the query is not UTF-8')
  const text = bytes.toString('utf8')
  if (!isMultipart(request.contentType)) return joined(input, text, input.parameters)
  const parts = readMultipart(text, request.contentType)
  if (parts === null) return fail('BAD_ARGUMENTS', 'the multipart body cannot be read')
  const parameters = new Map(input.parameters)
  for (const [name, value] of parts)
    if (name.startsWith('param_')) parameters.set(name.slice('param_'.length), value)
  return joined(input, parts.get('query') ?? '', parameters)
}

function joined(
  input: QueryInput,
  body: string,
  parameters: ReadonlyMap<string, string>,
): Checked<QueryInput> {
  const text = input.text === '' || body === '' ? input.text + body : `${input.text}\n${body}`
  if (text.length > QUERY_BYTES_MAX)
    return fail('SYNTAX_ERROR', `a query has at most ${QUERY_BYTES_MAX} characters`)
  return checked({ ...input, text, parameters })
}

function isMultipart(contentType: string): boolean {
  return /^multipart\/form-data\b/i.test(contentType)
}

async function decompress(coding: Coding, bytes: Buffer): Promise<Buffer | null> {
  try {
    return await coding.decode(bytes, { maxOutputLength: bodyBytesMax })
  } catch {
    return null
  }
}

/**
 * Values of multipart/form-data by name, in which clients send parameters too long for a URL; null
 * when the body is not a valid form. Files and other headers in it are ignored.
 */
function readMultipart(body: string, contentType: string): ReadonlyMap<string, string> | null {
  const found = /;\s*boundary=(?:"([^"]{1,100})"|([^;\s]{1,100}))/i.exec(contentType)
  const boundary = found?.[1] ?? found?.[2]
  if (boundary === undefined) return null
  // A line break is prepended, so that the first boundary is like the others.
  const parts = `\r\n${body}`.split(`\r\n--${boundary}`)
  if (parts.length > PARTS_MAX || !parts.at(-1)?.startsWith('--')) return null
  const values = new Map<string, string>()
  for (const part of parts.slice(1, -1)) {
    const end = part.indexOf('\r\n\r\n')
    const name = /^content-disposition:[^\r\n]*;\s*name="([^"]*)"/im.exec(part.slice(0, end))?.[1]
    if (end < 0 || name === undefined || values.has(name)) return null
    values.set(name, part.slice(end + 4))
  }
  return values
}
