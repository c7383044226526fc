// Malformed or hostile HTTP: an error or a close, and the server stays up.
import { connect } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Bundle } from '../testkit/bundle.ts'
import { type RawAnswer, sendRaw } from '../testkit/raw-http.ts'
import { hangMs } from '../testkit/until.ts'

let bundle: Bundle
let port = 0
let token = ''
const deadlineMs = hangMs

beforeAll(async () => {
  bundle = new Bundle()
  port = (await bundle.openRpc()).port
  token = bundle.issue().token
})

afterAll(() => bundle.dispose())

const health = '{"jsonrpc":"2.0","id":1,"method":"getHealth"}'

function head(lines: readonly string[]): string {
  const all = ['host: a', `x-token: ${token}`, 'content-type: application/json', ...lines]
  return `POST / HTTP/1.1\r\n${all.join('\r\n')}\r\n\r\n`
}

function post(body: string | Buffer): Buffer {
  const bytes = Buffer.from(body)
  return Buffer.concat([Buffer.from(head([`content-length: ${bytes.length}`])), bytes])
}

function send(bytes: string | Buffer): Promise<RawAnswer> {
  return sendRaw(port, bytes, { deadlineMs })
}

/** An error answer, or a close without one; never silence, never success. */
function expectRefused(answer: RawAnswer): void {
  expect(answer.isClosed || answer.status >= 400).toBe(true)
  expect(answer.status === 0 || answer.status >= 400).toBe(true)
}

afterEach(async () => {
  expect((await send(post(health))).body).toContain('"result":"ok"')
})

describe.concurrent('malformed HTTP', () => {
  it('answers a request without a body with -32700', async () => {
    expect((await send(head([]))).body).toContain('-32700')
    expect((await send(head(['content-length: 0']))).body).toContain('-32700')
  })

  it('answers 60 kB with 413, stated or chunked', async () => {
    expect((await send(post('x'.repeat(60_000)))).status).toBe(413)
    const chunked = `${head(['transfer-encoding: chunked'])}ea60\r\n${'x'.repeat(60_000)}\r\n0\r\n\r\n`
    expect((await send(chunked)).status).toBe(413)
  })

  it('answers a slow body with 408 after 10 s and closes, whether it drips or stops', async () => {
    const drip = sendRaw(port, head(['content-length: 45']), {
      deadlineMs,
      later: { parts: [...health.slice(0, 40)], everyMs: 500 },
    })
    const stop = send(`${head(['content-length: 45'])}{`)
    for (const answer of await Promise.all([drip, stop])) {
      expect(answer.status).toBe(408)
      expect(answer.tookMs).toBeGreaterThan(9_900)
    }
  })

  it('refuses ambiguous framing', async () => {
    for (const lines of [
      ['content-length: 45', 'transfer-encoding: chunked'],
      ['transfer-encoding: chunked', 'content-length: 45'],
      ['content-length: 45', 'content-length: 46'],
      ['content-length: 45', 'content-length: 45'],
      ['content-length: 4x'],
      ['content-length: -1'],
      ['content-length: 99999999999999999999'],
      ['transfer-encoding: gzip'],
      ['transfer-encoding: gzip, chunked'],
      ['transfer-encoding: chunked', 'transfer-encoding: chunked'],
    ])
      expectRefused(await send(`${head(lines)}${health}`))
  })

  it('refuses 200 headers, 70 headers and 20 kB of headers', async () => {
    const many = (count: number) => Array.from({ length: count }, (_, index) => `h${index}: x`)
    const answers = await Promise.all([
      send(head([...many(200), 'content-length: 0'])),
      send(head([...many(70), 'content-length: 0'])),
      send(head([`h: ${'x'.repeat(20_000)}`, 'content-length: 0'])),
    ])
    for (const answer of answers) expectRefused(answer)
    expect(answers[1]!.status).toBe(431)
  })

  it('answers invalid UTF-8, broken JSON and nesting of 10,000 with -32700', async () => {
    const invalid = Buffer.from('{"jsonrpc":"2.0","id":"\xff\xfe","method":"getHealth"}', 'latin1')
    const nested = `{"jsonrpc":"2.0","id":1,"method":"getHealth","params":${'['.repeat(10_000)}${']'.repeat(10_000)}}`
    for (const body of [invalid, '{"jsonrpc":', '{]', nested, '['.repeat(10_000)])
      expect((await send(post(body))).body).toContain('-32700')
  })

  it('refuses bytes that are not HTTP, and a client that sends nothing', async () => {
    const noise = Buffer.from(Array.from({ length: 600 }, (_, index) => (index * 31) % 256))
    const answers = await Promise.all([
      send('GET / HTTP/1.0\r\n\r\n'),
      send('\r\n\r\n\r\n'),
      send(noise),
      send('POST / HTTP/1.1\r\nhost'),
      send('POST / HTTP/1.1\r\n folded: header\r\n\r\n'),
    ])
    for (const answer of answers) expectRefused(answer)
  })

  it('survives clients that disconnect at any byte', async () => {
    const whole = post(health)
    for (let length = 1; length < whole.length; length += 7)
      await new Promise<void>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => {
          socket.write(whole.subarray(0, length), () => socket.resetAndDestroy())
        })
        socket.on('close', () => resolve())
        socket.on('error', () => {})
      })
  })
})
