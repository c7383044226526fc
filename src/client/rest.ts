// Client of the REST and JSON-RPC calls of the metrics service. Thread: any; browsers and Node.
// Belongs to `sluice/client`; needs only `fetch`.
import type {
  BlockRow,
  ContentionData,
  Health,
  LifecycleRecord,
  Solana,
  Status,
  TopAccesses,
} from './frames.ts'

/** The subset of `fetch` that is used; any platform's implements it. */
export type Fetch = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: string },
) => Promise<{ readonly status: number; text(): Promise<string> }>

/** An error response: an HTTP status of 400 or more, or a JSON-RPC error. */
export class ServiceError extends Error {
  /** The HTTP status, or the JSON-RPC code (negative). */
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.name = 'ServiceError'
    this.code = code
  }
}

export interface RestOptions {
  /** `http://host:8443` */
  readonly origin: string
  readonly token?: string
  readonly fetch?: Fetch
}

export class MetricsRest {
  readonly #origin: string
  readonly #headers: Record<string, string>
  readonly #fetch: Fetch

  constructor(options: RestOptions) {
    this.#origin = options.origin.replace(/\/+$/, '')
    this.#headers = options.token === undefined ? {} : { 'x-token': options.token }
    this.#fetch = options.fetch ?? platformFetch()
  }

  /** Transactions per second over the last 2.5 blocks. */
  async tps(): Promise<number> {
    const { tps } = await this.#get<{ tps: number }>('/v1/tps')
    return tps
  }

  /** The newest analysis; null before the first block. */
  contention(): Promise<ContentionData | null> {
    return this.#orNull(this.#get('/v1/contention'))
  }

  /** The newest counted keys; null before the first block. */
  topAccesses(): Promise<TopAccesses | null> {
    return this.#orNull(this.#get('/v1/top'))
  }

  /** Scalars of the newest `last` blocks, oldest first; 1 to 3000. */
  async blocks(last = 600): Promise<BlockRow[]> {
    const { blocks } = await this.#get<{ blocks: BlockRow[] }>(`/v1/blocks?last=${last}`)
    return blocks
  }

  /**
   * A ticket for one WebSocket within 30 s, where the service wants a token and the platform
   * cannot send it in a header: append `ticket=<ticket>` to the stream's query.
   */
  async ticket(): Promise<string> {
    const { status, text } = await this.#ask('POST', '/v1/ticket')
    if (status >= 400) throw failure(status, text)
    return (JSON.parse(text) as { ticket: string }).ticket
  }

  status(): Promise<Status> {
    return this.#get('/v1/status')
  }

  /** The nodes and chains of Solana; made at most once a second. */
  solana(): Promise<Solana> {
    return this.#get('/v1/solana')
  }

  lifecycles(): Promise<LifecycleRecord[]> {
    return this.#get('/v1/blocks/lifecycle')
  }

  /** Null for a block that is not tracked. */
  lifecycle(number: number | bigint): Promise<LifecycleRecord | null> {
    return this.#orNull(this.#get(`/v1/blocks/${number}/lifecycle`))
  }

  /** Resolves for an unhealthy service too, as long as its endpoint is open. */
  async health(): Promise<Health> {
    const { status, text } = await this.#ask('GET', '/health')
    if (status !== 200 && status !== 503) throw failure(status, text)
    return (JSON.parse(text) as { result: Health }).result
  }

  /** One JSON-RPC call on POST /. */
  async call(method: string, params: readonly unknown[] = []): Promise<unknown> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const { status, text } = await this.#ask('POST', '/', body)
    if (status >= 400) throw failure(status, text)
    const answer = JSON.parse(text) as {
      result?: unknown
      error?: { code: number; message: string }
    }
    if (answer.error !== undefined) throw new ServiceError(answer.error.code, answer.error.message)
    return answer.result
  }

  async #get<T>(path: string): Promise<T> {
    const { status, text } = await this.#ask('GET', path)
    if (status >= 400) throw failure(status, text)
    return JSON.parse(text) as T
  }

  async #orNull<T>(answer: Promise<T>): Promise<T | null> {
    try {
      return await answer
    } catch (error) {
      if (error instanceof ServiceError && error.code === 404) return null
      throw error
    }
  }

  async #ask(method: string, path: string, body?: string) {
    const headers = { accept: 'application/json', ...this.#headers }
    const response = await this.#fetch(this.#origin + path, {
      method,
      headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body }),
    })
    return { status: response.status, text: await response.text() }
  }
}

function failure(status: number, text: string): ServiceError {
  try {
    const { error } = JSON.parse(text) as { error: string }
    return new ServiceError(status, error)
  } catch {
    return new ServiceError(status, `HTTP ${status}`)
  }
}

function platformFetch(): Fetch {
  // Reason for the cast: the platform's fetch takes more than is used here.
  const found = (globalThis as { fetch?: Fetch }).fetch
  if (found === undefined) throw new Error('this platform has no fetch: pass one as `fetch`')
  return found.bind(globalThis) as Fetch
}
