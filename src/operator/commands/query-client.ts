// Queries the indexer over HTTP, like any ClickHouse client.
// Aborting closes the connection, which is what cancels a query.
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { text as textOf } from 'node:stream/consumers'

export interface QueryTarget {
  readonly url: string
  readonly user: string
  readonly password: string
  readonly token: string
  /** PEM of the authority that signed the server's certificate; null for the system's list. */
  readonly ca: string | null
}

/** An exception of the server: `Code: 62. DB::Exception: …. (SYNTAX_ERROR)`. */
export class QueryFailure extends Error {
  readonly code: number

  constructor(text: string) {
    super(text.trim())
    this.name = 'QueryFailure'
    this.code = Number(/^Code: (\d+)/.exec(text)?.[1] ?? 0)
  }
}

export interface Answer {
  /** The format that the bytes are in, by ClickHouse's name. */
  readonly format: string
  readonly engine: string
  readonly bytes: AsyncIterable<Buffer>
}

/** Upper bound of the exception block that ends a response which failed while streaming. */
const TAIL_BYTES = 32_768

/** Rejects with a QueryFailure, or with the connection's error. */
export async function askIndexer(
  target: QueryTarget,
  sql: string,
  settings: Readonly<Record<string, string>>,
  signal?: AbortSignal,
): Promise<Answer> {
  const response = await send(target, sql, settings, signal)
  const header = (name: string) => String(response.headers[name] ?? '')
  if (response.statusCode !== 200) throw new QueryFailure(await textOf(response))
  const tag = header('x-clickhouse-exception-tag')
  return {
    format: header('x-clickhouse-format'),
    engine: header('x-sluice-engine'),
    bytes: tag === '' ? response : withoutTail(response, tag),
  }
}

function send(
  target: QueryTarget,
  sql: string,
  settings: Readonly<Record<string, string>>,
  signal: AbortSignal | undefined,
): Promise<IncomingMessage> {
  const url = new URL(target.url)
  url.search = new URLSearchParams(settings).toString()
  const pair = Buffer.from(`${target.user}:${target.password}`).toString('base64')
  const options = {
    method: 'POST',
    headers: { authorization: `Basic ${pair}`, 'x-token': target.token },
    ...(signal === undefined ? {} : { signal }),
    ...(target.ca === null ? {} : { ca: target.ca }),
  }
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    request(url, options, resolve).on('error', reject).end(sql)
  })
}

/** Buffers the end of the response until it is known whether it is rows or an exception. */
async function* withoutTail(response: IncomingMessage, tag: string): AsyncGenerator<Buffer> {
  let tail: Buffer = Buffer.alloc(0)
  for await (const part of response) {
    const all: Buffer = Buffer.concat([tail, part])
    const ready = Math.max(0, all.length - TAIL_BYTES)
    if (ready > 0) yield all.subarray(0, ready)
    tail = all.subarray(ready)
  }
  const mark = `\r\n__exception__\r\n${tag}\n`
  const at = tail.lastIndexOf(mark)
  if (at < 0) return yield tail
  yield tail.subarray(0, at)
  const text = tail.subarray(at + mark.length).toString('utf8')
  throw new QueryFailure(text.slice(0, text.lastIndexOf('\n', text.indexOf(tag))))
}
