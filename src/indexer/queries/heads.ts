// Heads and bodies of the query program's replies.
import { exceptionText, type QueryError, statusOf } from '../clickhouse/exceptions.ts'
import { documentWithException } from '../clickhouse/formats/exception-format.ts'
import type { Format } from '../clickhouse/formats/formats.ts'
import { commonHeaders, type HeaderLines, plainHeaders, type QueryAnswer } from './protocol.ts'

type WireReply = NonNullable<QueryAnswer['reply']>

export interface ResponseInfo {
  readonly queryId: string
  /** Name and version. */
  readonly engine: string
}

export function resultHeaders(format: Format, info: ResponseInfo): HeaderLines {
  return {
    'content-type': format.contentType,
    'x-clickhouse-format': format.name,
    ...commonHeaders,
    ...infoHeaders(info),
  }
}

export function errorReply(error: QueryError, info: ResponseInfo): WireReply {
  return {
    status: statusOf(error),
    headers: {
      ...plainHeaders,
      ...infoHeaders(info),
      'x-clickhouse-exception-code': String(error.code),
    },
    body: exceptionText(error),
  }
}

/** The exception inside the format; as a text where the format has no form for it. */
export function errorInFormat(error: QueryError, info: ResponseInfo, format: Format): WireReply {
  const body = documentWithException(error, format)
  if (body === null) return errorReply(error, info)
  const code = { 'x-clickhouse-exception-code': String(error.code) }
  return { status: statusOf(error), headers: { ...resultHeaders(format, info), ...code }, body }
}

function infoHeaders({ queryId, engine }: ResponseInfo): HeaderLines {
  return { 'x-clickhouse-query-id': queryId, 'x-sluice-engine': engine }
}
