import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ResponseParser } from '../../../../src/upstream/http-client/http-request.ts'

/** The parsed response, from bytes in pieces that end at `cuts`. */
function parse(text: string | Buffer, cuts: readonly number[] = [], isClosed = false) {
  const bytes = Buffer.from(text as string, 'latin1')
  const received = { heads: [] as [number, number][], body: '', isPaused: false }
  const parser = new ResponseParser()
  parser.reset({
    isPaused: false,
    head: (status: number, length: number) => void received.heads.push([status, length]),
    data: (chunk: Buffer) => {
      received.body += chunk.toString('latin1')
    },
  })
  let taken = 0
  const edges = [...new Set([...cuts, bytes.length])].sort((a, b) => a - b)
  let from = 0
  for (const to of edges) {
    taken += parser.feed(Buffer.from(bytes.subarray(from, to)))
    from = to
  }
  if (isClosed) parser.finish()
  return { ...received, state: parser.state, isReusable: parser.isReusable, taken }
}

const answers = {
  length: 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello',
  chunked:
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n',
  interim: 'HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
}

describe('a response', () => {
  for (const [name, text] of Object.entries(answers))
    test(`with ${name} is the same however its bytes are cut`, () => {
      const whole = parse(text)
      expect(whole).toMatchObject({ state: 'done', body: 'hello', isReusable: true })
      expect(whole.heads).toHaveLength(1)
      expect(whole.taken).toBe(text.length)
      for (let at = 1; at < text.length; at++) expect(parse(text, [at])).toEqual(whole)
      expect(
        parse(
          text,
          [...text].map((_, at) => at),
        ),
      ).toEqual(whole)
    })

  test('after endless interim ones, or with endless trailers, is broken', () => {
    const interim = (count: number) => `${'HTTP/1.1 100 Continue\r\n\r\n'.repeat(count)}`
    expect(parse(interim(100) + answers.length)).toMatchObject({ state: 'done', body: 'hello' })
    expect(parse(interim(4000))).toMatchObject({ state: 'broken', heads: [] })
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n'
    expect(parse(`${head}${'A: b\r\n'.repeat(100)}\r\n`).state).toBe('done')
    expect(parse(head + 'A: b\r\n'.repeat(20_000)).state).toBe('broken')
  })

  test('has its status and length, whatever other headers there are', () => {
    const text = 'HTTP/1.1 503 No\r\nX-A:  1 \r\nx-a: 2\r\ncontent-LENGTH:  2 \r\n\r\nno'
    expect(parse(text)).toMatchObject({ state: 'done', heads: [[503, 2]], body: 'no' })
    expect(parse(answers.chunked).heads).toEqual([[200, -1]])
  })

  test('without a length lasts until the connection ends', () => {
    const text = 'HTTP/1.1 200 OK\r\n\r\nhello'
    expect(parse(text)).toMatchObject({ state: 'close', body: 'hello', isReusable: false })
    expect(parse(text, [], true).state).toBe('done')
  })

  test('of 204 and 304 has no body', () => {
    expect(parse('HTTP/1.1 204 No\r\n\r\n').state).toBe('done')
    expect(parse('HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n').state).toBe('done')
  })

  test('states whether the connection stays open', () => {
    const head = (version: string, connection: string) =>
      `HTTP/${version} 200 OK\r\n${connection}Content-Length: 0\r\n\r\n`
    expect(parse(head('1.1', '')).isReusable).toBe(true)
    expect(parse(head('1.1', 'Connection: Close\r\n')).isReusable).toBe(false)
    expect(parse(head('1.1', 'Connection: x, close\r\n')).isReusable).toBe(false)
    expect(parse(head('1.0', '')).isReusable).toBe(false)
    expect(parse(head('1.0', 'Connection: Keep-Alive\r\n')).isReusable).toBe(true)
  })

  test('leaves the bytes that follow it', () => {
    const { taken, state } = parse(`${answers.length}HTTP/1.1`)
    expect(state).toBe('done')
    expect(taken).toBe(answers.length.length)
  })

  test('that ends early is broken', () => {
    for (const text of Object.values(answers))
      for (let at = 0; at < text.length; at++)
        expect(parse(text.slice(0, at), [], true).state).toBe('broken')
  })
})

describe('what is not a response', () => {
  const ok = 'HTTP/1.1 200 OK\r\n'
  const wrong: Readonly<Record<string, string>> = {
    'another protocol': 'SSH-2.0-x\r\n\r\n',
    'another version': 'HTTP/2.0 200 OK\r\n\r\n',
    'a status of two digits': 'HTTP/1.1 20 OK\r\n\r\n',
    'a status below 100': `HTTP/1.1 000\r\n\r\n${ok}Content-Length: 0\r\n\r\n`,
    'an upgrade': 'HTTP/1.1 101 Switching\r\n\r\n',
    'a header without a colon': `${ok}x\r\n\r\n`,
    'a header without a name': `${ok}: x\r\n\r\n`,
    'a folded header': `${ok}A: b\r\n c: d\r\nContent-Length: 0\r\n\r\n`,
    'length and chunks at once': `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n`,
    'an encoding that we did not ask for': `${ok}Transfer-Encoding: gzip, chunked\r\n\r\n`,
    'two lengths': `${ok}Content-Length: 5\r\nContent-Length: 5\r\n\r\n`,
    'a length that is not a number': `${ok}Content-Length: +5\r\n\r\n`,
    'a name that is no token': `${ok}A\x82: b\r\nContent-Length: 0\r\n\r\n`,
    'a line feed in a value': `${ok}A: b\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n`,
    'a zero in a value': `${ok}A: \0\r\nContent-Length: 0\r\n\r\n`,
    'a no-break space before a length': `${ok}Content-Length:\xa00\r\n\r\n`,
    'a no-break space before chunked': `${ok}Transfer-Encoding:\xa0chunked\r\n\r\n`,
    'no body with two ways to end it': 'HTTP/1.1 204 No\r\nContent-Length: x\r\n\r\n',
    'a chunk without a size': `${ok}Transfer-Encoding: chunked\r\n\r\n\r\n`,
    'a size that is not a number': `${ok}Transfer-Encoding: chunked\r\n\r\n0x5\r\n`,
    'a chunk that is longer than its size': `${ok}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n`,
    'a line that ends with a line feed only': `${ok}Transfer-Encoding: chunked\r\n\r\n1\na\r\n`,
    'a head without end': `${ok}A: ${'x'.repeat(70_000)}`,
    'a line without end': `${ok}Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(5_000)}`,
  }
  for (const [name, text] of Object.entries(wrong))
    test(`is broken: ${name}`, () => {
      expect(parse(text).state).toBe('broken')
      expect(parse(text, [20, 40]).state).toBe('broken')
    })

  test('never throws on random bytes', () => {
    const head = fc.constantFrom('', ok, `${ok}Transfer-Encoding: chunked\r\n\r\n`, 'HTTP/1.1 ')
    fc.assert(
      fc.property(head, fc.uint8Array({ maxLength: 200 }), fc.nat(200), (text, noise, cut) => {
        const bytes = Buffer.concat([Buffer.from(text), noise])
        expect(parse(bytes, [cut % (bytes.length + 1)]).taken).toBeLessThanOrEqual(bytes.length)
      }),
    )
  })
})

test('a pause stops within the bytes that are there', () => {
  const sink = {
    isPaused: false,
    body: '',
    head() {},
    data(chunk: Buffer) {
      sink.body += chunk.toString()
      sink.isPaused = true
    },
  }
  const parser = new ResponseParser()
  parser.reset(sink)
  const bytes = Buffer.from(answers.chunked)
  let rest = bytes.subarray(parser.feed(bytes))
  expect(sink.body).toBe('he')
  expect(parser.feed(rest)).toBe(0)
  sink.isPaused = false
  rest = rest.subarray(parser.feed(rest))
  expect(sink.body).toBe('hello')
  sink.isPaused = false
  expect(parser.feed(rest)).toBe(rest.length)
  expect(parser.state).toBe('done')
})
