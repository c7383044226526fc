// HTTP client of one ClickHouse server. Thread: main (queries), writer process (rows).
// Credentials of the URL are sent in headers; neither they nor the URL appear in any message.
import type { Readable } from 'node:stream'
import { Pool } from 'undici'
import { Fault, messageOf } from '../../base/errors.ts'
import type { QueryError } from '../clickhouse/exceptions.ts'
import { readException } from '../clickhouse/server/server-exception.ts'

const keepAliveMs = 8_000
const connectMs = 5_000
const answerMsMax = 60_000
const answerBytesMax = 16 * 1024 * 1024
const errorBytesMax = 256 * 1024

export interface Call {
  /** The statement; with rows it is sent in the URL, else in the body. */
  readonly sql: string
  readonly rows?: string | AsyncIterable<Uint8Array>
  /** URL parameters, in this order: `readonly` last, because it forbids settings after it. */
  readonly params?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Timeout until the first byte of the answer; 0 = none. */
  readonly firstByteMs?: number
}

export type Streamed =
  | { readonly ok: true; readonly body: Readable; readonly tag: string | null }
  | { readonly ok: false; readonly exception: QueryError }

export class ClickhouseClient {
  readonly #pool: Pool
  readonly #path: string
  readonly #headers: Readonly<Record<string, string>>

  constructor(url: string, options: { readonly connections: number }) {
    const { origin, pathname, username, password } = readAddress(url)
    this.#path = pathname
    this.#headers = {
      'x-clickhouse-user': decodeURIComponent(username) || 'default',
      ...(password !== '' && { 'x-clickhouse-key': decodeURIComponent(password) }),
    }
    this.#pool = new Pool(origin, {
      connections: options.connections,
      pipelining: 1,
      keepAliveTimeout: keepAliveMs,
      connect: { timeout: connectMs },
      bodyTimeout: 0,
    })
  }

  /** The whole answer as a string. Rejects with a Fault: a server exception, or unreachable. */
  async run(call: Call): Promise<string> {
    const streamed = await this.stream({ firstByteMs: answerMsMax, ...call })
    if (!streamed.ok) throw faultOf(streamed.exception)
    try {
      return (await collect(streamed.body, answerBytesMax)).toString()
    } catch (error) {
      throw unreachable(error)
    }
  }

  /** Runs a query and returns its rows. */
  async rows<Row>(sql: string, params: Readonly<Record<string, string>> = {}): Promise<Row[]> {
    const text = await this.run({ sql: `${sql} FORMAT JSONEachRow`, params })
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Row)
  }

  /** Streams the answer. Rejects with a Fault when the server is unreachable, or on `signal`. */
  async stream({ sql, rows, params, signal, firstByteMs = 0 }: Call): Promise<Streamed> {
    const search = new URLSearchParams()
    if (rows !== undefined) search.set('query', sql)
    for (const [name, value] of Object.entries(params ?? {})) search.set(name, value)
    const query = search.toString()
    let answer: Awaited<ReturnType<Pool['request']>>
    try {
      answer = await this.#pool.request({
        method: 'POST',
        path: query === '' ? this.#path : `${this.#path}?${query}`,
        headers: this.#headers,
        // Reason for the cast: undici takes any async iterable, and its types do not say so.
        body: (rows ?? sql) as string | Readable,
        headersTimeout: firstByteMs,
        ...(signal !== undefined && { signal }),
      })
    } catch (error) {
      throw unreachable(error)
    }
    const { statusCode, headers, body } = answer
    if (statusCode === 200 && headers['x-clickhouse-exception-code'] === undefined) {
      const tag = headers['x-clickhouse-exception-tag']
      return { ok: true, body, tag: typeof tag === 'string' ? tag : null }
    }
    const text = await collect(body, errorBytesMax).catch(() => Buffer.alloc(0))
    return { ok: false, exception: readException(text.toString(), statusCode) }
  }

  async stop(): Promise<void> {
    await this.#pool.destroy()
  }
}

/** Parses the URL; errors do not quote it, because it may contain a password. */
function readAddress(url: string): URL {
  const wrong = (why: string) => new Fault('clickhouse-address', `indexer.url ${why}`)
  if (!URL.canParse(url)) throw wrong('is not a URL like http://user:password@host:8123')
  const address = new URL(url)
  if (address.protocol !== 'http:' && address.protocol !== 'https:')
    throw wrong('must begin with http:// or https://')
  return address
}

async function collect(body: Readable, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of body as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > bytesMax) throw new Error('the answer is too long')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** Retryable error codes: busy, out of memory, merging, keeper unreachable. */
const retryableCodes: readonly number[] = [
  ...[159, 160, 198, 202, 203, 209, 210, 236, 241, 242, 243, 252, 279, 285, 319, 394, 425, 999],
]

function faultOf({ code, name, message }: QueryError): Fault {
  return new Fault('clickhouse', `ClickHouse answered ${code} ${name}: ${message}`, {
    retryable: retryableCodes.includes(code),
  })
}

function unreachable(error: unknown): Fault {
  if (error instanceof Fault) return error
  // The message of a socket error may contain the address.
  const code = (error as { code?: unknown } | null)?.code
  const why = typeof code === 'string' ? code : messageOf(error).slice(0, 40)
  return new Fault('clickhouse-away', `ClickHouse cannot be reached: ${why}`, { retryable: true })
}
