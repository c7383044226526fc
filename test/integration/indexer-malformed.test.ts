// The indexer's endpoint against what no client sends: raw bytes, and queries made of noise. Afterwards
// it must still answer a good one, which every test checks.
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { IndexerStage } from '../testkit/indexer-stage.ts'
import { type RawAnswer, sendRaw } from '../testkit/raw-http.ts'

const deadlineMs = 30_000
const stage = new IndexerStage()
const good = 'SELECT rows 1'

beforeAll(() => stage.open())
afterAll(() => stage.bundle.dispose())
afterEach(async () => {
  expect((await send(post(good))).body).toContain('row 0')
})

function head(lines: readonly string[], target = '/'): string {
  const own = Object.entries(stage.credentials).map(([name, value]) => `${name}: ${value}`)
  return `POST ${target} HTTP/1.1\r\nhost: x\r\n${[...own, ...lines].join('\r\n')}\r\n\r\n`
}

function post(body: string | Buffer, lines: readonly string[] = [], target = '/'): Buffer {
  const bytes = Buffer.from(body)
  const length = `content-length: ${bytes.length}`
  return Buffer.concat([Buffer.from(head([...lines, length], target)), bytes])
}

function send(bytes: string | Buffer): Promise<RawAnswer> {
  return sendRaw(stage.port, bytes, { deadlineMs })
}

/** An error answer, or a close without one; never silence, never success. */
function expectRefused(answer: RawAnswer): void {
  expect(answer.tookMs).toBeLessThan(deadlineMs)
  expect(answer.isClosed || answer.status >= 400).toBe(true)
  expect(answer.status === 0 || answer.status >= 400).toBe(true)
}

describe('malformed HTTP at the indexer', () => {
  it('answers no body at all as an empty query', async () => {
    for (const bytes of [head([]), head(['content-length: 0'])])
      expect((await send(bytes)).body).toMatch(/^Code: 62\./)
  })

  it('refuses ambiguous framing', async () => {
    for (const lines of [
      ['content-length: 13', 'transfer-encoding: chunked'],
      ['content-length: 13', 'content-length: 14'],
      ['content-length: 1x'],
      ['content-length: -1'],
      ['transfer-encoding: gzip'],
      ['transfer-encoding: gzip, chunked'],
    ])
      expectRefused(await send(`${head(lines)}${good}`))
  })

  it('answers a slow body with 408, and too long ones with 413, stated or chunked', async () => {
    const slow = send(`${head(['content-length: 45'])}{`)
    const long = 'x'.repeat(1_100_000)
    expect((await send(post(long))).status).toBe(413)
    const chunked = `${head(['transfer-encoding: chunked'])}10c8e0\r\n${long}\r\n0\r\n\r\n`
    expect((await send(chunked)).status).toBe(413)
    expect((await slow).status).toBe(408)
    expect((await slow).body).toMatch(/^Code: 209\..*\(SOCKET_TIMEOUT\)\n$/)
  })

  it('refuses too many headers, and targets that are none', async () => {
    const many = Array.from({ length: 70 }, (_, index) => `h${index}: x`)
    expect((await send(head([...many, 'content-length: 0']))).status).toBe(431)
    for (const target of ['*', '/../etc', '//', '/?%', '/%00', 'x'])
      expectRefused(await send(post('', [], target)))
  })

  it('takes no header out of a query id, and no second request out of a body', async () => {
    const split = await send(post(good, [], '/?query_id=a%0d%0ax-evil:%201'))
    expect([split.status, /^x-evil/im.test(split.text)]).toEqual([400, false])
    const inside = `GET /?query=SELECT%201 HTTP/1.1\r\nhost: x\r\n\r\n`
    expect((await send(post(inside))).body).toMatch(/^Code: 62\./)
  })

  it('refuses bodies whose coding or form is broken', async () => {
    const gzip = ['content-encoding: gzip']
    const whole = gzipSync(good)
    for (const body of [good, whole.subarray(0, 10), Buffer.alloc(0), gzipSync(Buffer.alloc(9e6))])
      expectRefused(await send(post(body, gzip)))
    const form = ['content-type: multipart/form-data; boundary=b']
    for (const body of ['', good, '--b\r\n', '--b\r\nx\r\n\r\n--b--', `--b--${good}`])
      expectRefused(await send(post(body, form)))
    expectRefused(await send(post(good, ['content-type: multipart/form-data'])))
  })

  it('answers queries of noise with a syntax error or sends them on, and never breaks', async () => {
    const noise = fc.string({ unit: fc.constantFrom(...`'"\`$-/*#\\ \n;(){}:=,SELECTFORMAT1é`) })
    await fc.assert(
      fc.asyncProperty(noise, fc.boolean(), async (text, isSelect) => {
        const answer = await stage.ask({ body: isSelect ? `SELECT ${text}` : text })
        expect([200, 400, 403]).toContain(answer.status)
        expect(answer.status === 200 || answer.text.startsWith('Code: ')).toBe(true)
      }),
      { numRuns: 150 },
    )
  })

  it('takes any parameters of a URL without breaking', async () => {
    const names = ['query', 'param_a', 'query_id', 'database', 'default_format', 'compress', 'a']
    const pairs = fc.array(fc.tuple(fc.constantFrom(...names), fc.string()), { maxLength: 5 })
    await fc.assert(
      fc.asyncProperty(pairs, async (given) => {
        const parameters = new URLSearchParams(given)
        const answer = await fetch(`${stage.url}/?${parameters}`, {
          method: 'POST',
          headers: stage.credentials,
          body: 'SELECT {a:String}',
        })
        expect(answer.status).toBeLessThan(502)
        expect(answer.status).not.toBe(500)
        await answer.text()
      }),
      { numRuns: 150 },
    )
  })

  it('survives clients that leave at any byte', async () => {
    const whole = post('SELECT rows 5000')
    for (let length = 1; length < whole.length; length += 7)
      await new Promise<void>((resolve) => {
        const socket = connect(stage.port, '127.0.0.1', () => {
          socket.write(whole.subarray(0, length), () => socket.resetAndDestroy())
        })
        socket.on('close', () => resolve())
        socket.on('error', () => {})
      })
  })
})
