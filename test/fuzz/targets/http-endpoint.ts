// HTTP framing at the endpoints: requests over a real socket, beside node:http's own parser.
import { ok } from 'node:assert'
import { once } from 'node:events'
import { connect } from 'node:net'
import { systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { openHttpEndpoint } from '../../../src/base/transport/http-endpoint.ts'
import { jsonHead, Reply } from '../../../src/base/transport/reply.ts'
import type { Request } from '../../../src/base/transport/request.ts'
import { nativeMessages } from '../native-parser.ts'
import { type Target, text } from '../target.ts'

/** What reached a handler, in order; no body where the route reads none. */
let handled: { readonly url: string; readonly body: string | null }[] = []

const handle = ({ method, path, query }: Request, bytes: Buffer) => {
  const body = method === 'POST' ? bytes.toString('hex') : null
  handled.push({ url: query === '' ? path : `${path}?${query}`, body })
  return new Reply(200, jsonHead, '{}')
}

const endpoint = await openHttpEndpoint<null>({
  product: 'test',
  listen: { host: '127.0.0.1', port: 0 },
  tls: null,
  trustedProxies: [],
  clock: systemClock,
  log: silentLog,
  http: {
    admit: () => null,
    wants: ['accept'],
    routes: [
      { verb: 'GET', path: '/*', handle },
      { verb: 'POST', path: '/*', bodyBytesMax: 1000, handle },
    ],
  },
})

export const httpEndpoint: Target = {
  words: [
    ...['GET / HTTP/1.1\r\n', 'POST /a HTTP/1.1\r\n', 'Host: x\r\n', '\r\n\r\n', '\r\n', '\n', ' '],
    ...['Content-Length: 5\r\n', 'Content-Length: ', 'Transfer-Encoding: chunked\r\n', '0\r\n\r\n'],
    ...[
      'transfer-encoding: identity\r\n',
      '5\r\nhello\r\n',
      'a;b=c\r\n',
      '\t',
      '\0',
      '+',
      '0x5',
      'HTTP/1.0',
    ],
    ...[
      'Connection: close\r\n',
      'Expect: 100-continue\r\n',
      'Connection: Upgrade\r\n',
      ': ',
      ',',
      '\r',
    ],
  ],
  seeds: () => [
    text('GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n'),
    text(
      'POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: x\r\n\r\n',
    ),
    text('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'),
    text('POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'),
  ],
  async run(input) {
    handled = []
    const socket = connect({ host: '127.0.0.1', port: endpoint.address.port })
    socket.on('error', () => {})
    socket.resume()
    socket.end(input)
    await once(socket, 'close')
    const { messages, isFine } = nativeMessages(input, 'REQUEST')
    let from = 0
    for (const { url, body } of handled) {
      const at = messages.findIndex(
        (one, index) => index >= from && (body ?? one.body) === one.body && isAt(one.url, url),
      )
      // What only one of the two refuses is no other request to anyone.
      if (at < 0 && !isFine) return
      ok(at >= 0, `a request to ${JSON.stringify(url)} that node:http does not see`)
      from = at + 1
    }
  },
  stop: () => endpoint.stop(),
}

function isAt(theirs: string, ours: string): boolean {
  return theirs === ours || theirs === `${ours}?` || !theirs.startsWith('/')
}
