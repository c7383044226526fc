// HTTP/1.1 on one connection: a request that was encoded before the run, a parsed response.
// Thread: load.
import type { Protocol, Session, SessionEvents } from './connection-driver.ts'
import type { DriverTarget } from './driver.ts'
import { AnswerParser, rpcErrorOf } from './http-answer.ts'
import type { Prepared } from './wire.ts'

/** A response longer than this ends the connection. */
const answerBytesMax = 64 * 1024 * 1024

export const httpProtocol: Protocol = (target, wire) => {
  const requests = target.calls.map((call) => wire.prepare(encodeRequest(target, call)))
  const parser = new AnswerParser()
  // The indexer answers in the format of the query, never in JSON-RPC.
  const options = { requests, parser, checksRpc: target.kind !== 'indexer' }
  return (events) => new HttpSession(events, options)
}

interface HttpOptions {
  readonly requests: readonly Prepared[]
  readonly parser: AnswerParser
  readonly checksRpc: boolean
}

class HttpSession implements Session {
  readonly #events: SessionEvents
  readonly #options: HttpOptions
  /** Bytes of a response that is not complete. */
  #rest: Buffer | null = null

  constructor(events: SessionEvents, options: HttpOptions) {
    this.#events = events
    this.#options = options
  }

  opened(): void {
    this.#events.ready()
  }

  send(call: number): void {
    this.#events.connection().send(this.#options.requests[call]!)
  }

  read(bytes: Buffer, count: number): void {
    const rest = this.#rest
    this.#rest = null
    const whole = rest === null ? bytes : Buffer.concat([rest, bytes.subarray(0, count)])
    const to = rest === null ? count : whole.length
    const answer = this.#options.parser.parse(whole, to)
    if (answer === null && to <= answerBytesMax) {
      // A copy: the connection reads into the same buffer again.
      this.#rest = rest === null ? Buffer.from(bytes.subarray(0, to)) : whole
      return
    }
    if (answer === null || answer === 'bad') {
      this.#events.fail('not an HTTP/1.1 server')
      return
    }
    const { status, isLast, policy, bodyAt, end } = answer
    if (policy !== undefined) this.#events.limited(policy)
    let code = ''
    if (status !== 200) code = `HTTP ${status}`
    else if (this.#options.checksRpc) code = rpcErrorOf(whole, bodyAt, end) ?? ''
    if (isLast) this.#events.fail(code)
    else {
      this.#events.done(code)
      this.#events.ready()
    }
  }
}

/** The bytes of a request: POST of a body, or GET of a path for a metrics call without a body. */
export function encodeRequest(
  target: Pick<DriverTarget, 'kind' | 'url' | 'token'>,
  call: string,
): Buffer {
  const url = new URL(target.url)
  const isGet = target.kind === 'metrics' && call.startsWith('/')
  const path = isGet ? call : `${url.pathname}${url.search}`
  const body = Buffer.from(isGet ? '' : call)
  const lines = [
    `${isGet ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    `host: ${url.host}`,
    'accept: */*',
    ...(target.token === null ? [] : [`x-token: ${target.token}`]),
    ...basicOf(url),
    ...(isGet ? [] : [`content-type: ${typeOf(target.kind)}`, `content-length: ${body.length}`]),
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body])
}

function typeOf(kind: string): string {
  return kind === 'indexer' ? 'text/plain' : 'application/json'
}

/** Credentials of `http://name:password@host` go into the header that the indexer reads. */
function basicOf({ username, password }: URL): string[] {
  if (username === '') return []
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return [`authorization: Basic ${Buffer.from(pair).toString('base64')}`]
}
