// The parser of node:http, as a reference for our own.
import { createRequire } from 'node:module'

interface NativeParser {
  initialize(type: number, resource: object, headerBytesMax: number, lenient: number): void
  execute(bytes: Buffer): number | Error
  finish(): undefined | Error
  [event: number]: ((...args: never[]) => unknown) | undefined
}

interface NativeParserClass {
  new (): NativeParser
  readonly REQUEST: number
  readonly RESPONSE: number
  readonly kOnHeadersComplete: number
  readonly kOnBody: number
  readonly kOnMessageComplete: number
}

// Reason for the cast: the types of Node leave out what node:http is made of.
const { HTTPParser } = createRequire(import.meta.url)('_http_common') as {
  HTTPParser: NativeParserClass
}

export interface NativeMessage {
  /** Of a response; 0 of a request. */
  readonly status: number
  /** Of a request; '' of a response. */
  readonly url: string
  readonly body: string
  readonly isKept: boolean
}

const headerBytesMax = 128 * 1024

/** The whole messages in the bytes, and whether they are followed by nothing that is malformed. */
export function nativeMessages(
  bytes: Buffer,
  kind: 'REQUEST' | 'RESPONSE',
  endsThere = true,
): { readonly messages: readonly NativeMessage[]; readonly isFine: boolean } {
  const parser = new HTTPParser()
  parser.initialize(HTTPParser[kind], {}, headerBytesMax, 0)
  const messages: NativeMessage[] = []
  let now = { status: 0, url: '', isKept: false }
  const body: Buffer[] = []
  parser[HTTPParser.kOnHeadersComplete] = (...args: unknown[]) => {
    now = { status: Number(args[5] ?? 0), url: String(args[4] ?? ''), isKept: args[8] === true }
    return 0
  }
  parser[HTTPParser.kOnBody] = (chunk: Buffer) => {
    body.push(Buffer.from(chunk))
  }
  parser[HTTPParser.kOnMessageComplete] = () => {
    messages.push({ ...now, body: Buffer.concat(body).toString('hex') })
    body.length = 0
  }
  const isRead = typeof parser.execute(bytes) === 'number'
  return { messages, isFine: isRead && !(endsThere && parser.finish() instanceof Error) }
}
