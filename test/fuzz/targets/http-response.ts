// HTTP/1.1 responses of nodes, beside node:http's own parser.
import { ok } from 'node:assert'
import {
  ResponseParser,
  type ResponseSink,
} from '../../../src/upstream/http-client/http-request.ts'
import { nativeMessages } from '../native-parser.ts'
import { pieces, same, type Target, text } from '../target.ts'

const headEnd = text('\r\n\r\n')
const lastChunk = text('0\r\n\r\n')
const head = 'HTTP/1.1 200 OK\r\n'

export const httpResponse: Target = {
  words: [
    ...['HTTP/1.1 200 OK\r\n', 'HTTP/1.0 404 \r\n', 'HTTP/1.1 100 Continue\r\n\r\n', '\r\n\r\n'],
    ...[
      'Content-Length: ',
      'Transfer-Encoding: chunked\r\n',
      'Connection: close\r\n',
      '\r\n',
      '\n',
    ],
    ...['0\r\n\r\n', ' ;x="y"', 'chunked', ', ', '\t', '\0', '\xa0', ' 204 ', ' 304 ', '\r'],
    ...['connection: keep-alive\r\n', 'content-length:5\r\n', 'ffffffffffff\r\n'],
  ],
  seeds: () => [
    text(`${head}Content-Length: 5\r\nConnection: keep-alive\r\n\r\nhello`),
    text(
      `${head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n`,
    ),
    text('HTTP/1.0 200 OK\r\nServer: x\r\n\r\nuntil the end'),
    text(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n`),
    text('HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'),
    text(`${head}Content-Length: 2\r\n\r\nab${head}Content-Length: 0\r\n\r\n`),
  ],
  run(input) {
    const ours = read([input])
    same(read(pieces(input)), ours, 'in pieces')
    if (ours.state !== 'done') return
    const bytes = input.subarray(0, ours.taken)
    // It takes a tab at the end of a value for a part of it, unlike RFC 9110.
    if (bytes.includes('\t\r')) return
    const theirs = readNative(bytes)
    if (theirs === null) {
      // It takes no tab after a length, and nothing after an interim head that ends the connection.
      const isStrict = bytes.includes('\t') || bytes.includes(' 1')
      ok(isStrict || hasGoodHead(bytes), 'node:http takes the head')
      return
    }
    const { status, body, isReusable } = theirs
    same([ours.status, ours.body], [status, body], 'status and body')
    if (ours.isReusable) ok(isReusable, 'the connection stays open')
    const isBefore = ours.isReusable && readNative(bytes.subarray(0, -1), false) !== null
    ok(!isBefore, 'the response ends at the same byte')
  },
}

/** Whether node:http takes the head with an empty body: it is strict about chunks and trailers. */
function hasGoodHead(bytes: Buffer): boolean {
  for (let at = bytes.indexOf(headEnd); at >= 0; at = bytes.indexOf(headEnd, at + 1))
    if (readNative(Buffer.concat([bytes.subarray(0, at), headEnd, lastChunk])) !== null) return true
  return false
}

interface Response {
  readonly status: number
  readonly body: string
  readonly isReusable: boolean
}

function read(parts: readonly Buffer[]): Response & { state: string; taken: number } {
  const parser = new ResponseParser()
  const body: Buffer[] = []
  let found = 0
  const sink: ResponseSink = {
    isPaused: false,
    head(status) {
      found = status
    },
    data(chunk) {
      body.push(Buffer.from(chunk))
    },
  }
  parser.reset(sink)
  let taken = 0
  for (const part of parts) taken += parser.feed(part)
  parser.finish()
  const { state, isReusable } = parser
  // What was consumed of a broken one is of no use to anyone.
  if (state === 'broken') return { state, taken: 0, status: 0, body: '', isReusable: false }
  return { state, taken, status: found, body: Buffer.concat(body).toString('hex'), isReusable }
}

/** The first final response; null when it is malformed or not whole. */
function readNative(bytes: Buffer, endsThere = true): Response | null {
  const { messages, isFine } = nativeMessages(bytes, 'RESPONSE', endsThere)
  const found = messages.find(({ status }) => status >= 200)
  if (!isFine || found === undefined) return null
  return { status: found.status, body: found.body, isReusable: found.isKept }
}
