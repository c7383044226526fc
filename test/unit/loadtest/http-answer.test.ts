import { describe, expect, test } from 'vitest'
import { AnswerParser, rpcErrorOf } from '../../../src/loadtest/http-answer.ts'
import { encodeRequest } from '../../../src/loadtest/socket-session.ts'

function parse(text: string, extra = 0) {
  const bytes = Buffer.from(`${text}${'#'.repeat(extra)}`)
  return new AnswerParser().parse(bytes, bytes.length - extra)
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello'
const chunked =
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwiki\r\n3;x=y\r\nped\r\n0\r\n\r\n'

describe('the response parser of the load generator', () => {
  test('finds the end by length and by chunks', () => {
    expect(parse(ok)).toEqual({ status: 200, isLast: false, bodyAt: 47, end: 52 })
    expect(parse(chunked)).toMatchObject({ status: 200, end: chunked.length })
    expect(parse('HTTP/1.1 204 No Content\r\n\r\n')).toMatchObject({ status: 204, end: 27 })
  })

  test.each([ok, chunked])('takes no beginning of a response for the whole', (text) => {
    for (let length = 0; length < text.length; length += 1)
      expect(parse(text.slice(0, length), 40)).toBe(null)
  })

  test('sees status and close, also after an equal head', () => {
    const parser = new AnswerParser()
    const closing = Buffer.from('HTTP/1.1 429 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
    for (const _ of [1, 2])
      expect(parser.parse(closing, closing.length)).toMatchObject({ status: 429, isLast: true })
    const good = Buffer.from(ok)
    expect(parser.parse(good, good.length)).toMatchObject({ status: 200, isLast: false })
  })

  test('has the policy of a refusal for a limit, and of nothing else', () => {
    const head = 'Ratelimit-Policy: "credits";q=200;w=2\r\nContent-Length: 0\r\n\r\n'
    const policy = '"credits";q=200;w=2'
    expect(parse(`HTTP/1.1 429 Too Many\r\n${head}`)).toMatchObject({ status: 429, policy })
    expect(parse(`HTTP/1.1 200 OK\r\n${head}`)).not.toHaveProperty('policy')
  })

  test('refuses bytes that are no response, and heads without an end', () => {
    expect(parse('SSH-2.0-x\r\n\r\n')).toBe('bad')
    expect(parse('HTTP/1.1 200 OK\r\nDate: x\r\n\r\nuntil close')).toBe('bad')
    expect(parse('x'.repeat(20_000))).toBe('bad')
  })

  test('names a JSON-RPC error and no other occurrence of the word', () => {
    const code = (body: string) => rpcErrorOf(Buffer.from(`${body}"error"`), 0, body.length)
    expect(code('{"jsonrpc":"2.0","result":1,"id":1}')).toBe(null)
    expect(code('{"jsonrpc":"2.0","error":{"code":-32005,"message":"x"},"id":1}')).toBe(
      'rpc -32005',
    )
    expect(code('{"result":{"value":{"error":null,"log":"\\"error\\""}},"id":1}')).toBe(null)
    expect(code('[{"result":1},{"error":{"code":5}}]')).toBe('rpc 5')
    expect(code('{"error":"broken')).toBe('bad JSON')
  })
})

describe('the requests of the load generator', () => {
  test('carry token, credentials and length', () => {
    const text = encodeRequest(
      { kind: 'rpc', url: 'http://u:p%40@h:1/x?y=z', token: 'slu_t' },
      '{"é":1}',
    ).toString()
    expect(text).toBe(
      'POST /x?y=z HTTP/1.1\r\nhost: h:1\r\naccept: */*\r\nx-token: slu_t\r\n' +
        `authorization: Basic ${Buffer.from('u:p@').toString('base64')}\r\n` +
        'content-type: application/json\r\ncontent-length: 8\r\n\r\n{"é":1}',
    )
  })

  test('are GET for a path of the metrics service', () => {
    const target = { kind: 'metrics', url: 'http://h:1', token: null }
    expect(encodeRequest(target, '/v1/status').toString()).toBe(
      'GET /v1/status HTTP/1.1\r\nhost: h:1\r\naccept: */*\r\n\r\n',
    )
  })
})
