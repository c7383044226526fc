import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Call,
  DEPTH_MAX,
  type Item,
  parseRequest,
} from '../../../../src/base/jsonrpc/parse.ts'
import { slowParse } from '../../../testkit/slow-jsonrpc.ts'

function parse(text: string, itemsMax = 100) {
  return parseRequest(Buffer.from(text), itemsMax)
}

function single(text: string) {
  const parsed = parse(text)
  if (parsed.isBatch) throw new Error(`not single: ${JSON.stringify(parsed)}`)
  return parsed.items[0]!
}

/** A request that is answered with one error under id null. */
function broken(code: number) {
  return { isBatch: false, items: [{ method: null, id: 'null', error: { code } }] }
}

describe('parseRequest', () => {
  it('reads a call with its parameters', () => {
    const item = single('{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"a":1}]}')
    expect(item).toEqual({
      method: 'getSlot',
      params: [{ a: 1 }],
      paramsText: '[{"a":1}]',
      id: '1',
    })
  })

  it.each([
    '1',
    '-0',
    '1.0',
    '1e2',
    '1E+2',
    '18446744073709551615',
    '0.1e-7',
    'null',
    '""',
    '"a b"',
    '"\\u0069d\\n"',
    '"é☃😀"',
    '"} , ] \\" { [ id"',
    '"\\\\"',
  ])('keeps the id %s exactly as written', (id) => {
    for (const text of [
      `{"jsonrpc":"2.0","id":${id},"method":"m"}`,
      ` {\n "method" : "m" ,\t"params":{"id":[{"id":9}]},"id" : ${id}\r\n , "jsonrpc":"2.0" } `,
      `{"id":0,"jsonrpc":"2.0","method":"m","\\u0069d":${id}}`,
    ]) {
      const item = single(text)
      expect([item.method, item.id]).toEqual(['m', id])
    }
  })

  it('takes a call without id as a notification, and null as an id', () => {
    expect(single('{"jsonrpc":"2.0","method":"ping"}').id).toBeNull()
    expect(single('{"jsonrpc":"2.0","method":"ping","id":null}').id).toBe('null')
  })

  it('keeps numbers beyond 2^53 in the text of the parameters', () => {
    const item = single('{"jsonrpc":"2.0","id":1,"method":"m","params":[18446744073709551615]}')
    expect((item as Call).paramsText).toBe('[18446744073709551615]')
  })

  it.each([
    ['{"id":7,"method":"m"}', '7'],
    ['{"jsonrpc":"1.0","id":7,"method":"m"}', '7'],
    ['{"jsonrpc":"2.0","id":"x"}', '"x"'],
    ['{"jsonrpc":"2.0","id":7,"method":5}', '7'],
    ['{"jsonrpc":"2.0","id":7,"method":"m","params":"text"}', '7'],
    ['{"jsonrpc":"2.0","id":7,"method":"m","params":5}', '7'],
    ['{"jsonrpc":"2.0","id":{},"method":"m"}', 'null'],
    ['{"jsonrpc":"2.0","id":[1],"method":"m"}', 'null'],
    ['{"jsonrpc":"2.0","id":true,"method":"m"}', 'null'],
    ['{"__proto__":{"id":7,"jsonrpc":"2.0","method":"m"}}', 'null'],
    ['"text"', 'null'],
    ['5', 'null'],
    ['null', 'null'],
    ['{}', 'null'],
  ])('answers %s with -32600 under the id %s', (text, id) => {
    expect(single(text)).toMatchObject({ method: null, id, error: { code: -32600 } })
  })

  it.each(['', ' ', '{', '{"a":}', '[1,]', 'nul', '{"jsonrpc":"2.0"}x', '\ufeff{}', "{'a':1}"])(
    'answers %j with -32700',
    (text) => {
      expect(parse(text)).toMatchObject(broken(-32700))
    },
  )

  it('answers invalid UTF-8 with -32700', () => {
    const body = Buffer.from('{"jsonrpc":"2.0","id":"\xff","method":"m"}', 'latin1')
    expect(parseRequest(body, 100)).toMatchObject(broken(-32700))
  })

  it('answers nesting beyond the bound with -32700 and takes what is within it', () => {
    const nested = (depth: number) =>
      `{"jsonrpc":"2.0","id":1,"method":"m","params":${'['.repeat(depth)}${']'.repeat(depth)}}`
    expect(parse(nested(10_000))).toMatchObject(broken(-32700))
    expect(parse(nested(DEPTH_MAX))).toMatchObject(broken(-32700))
    expect(single(nested(DEPTH_MAX - 1)).method).toBe('m')
    const inText = `{"jsonrpc":"2.0","id":1,"method":"m","params":["${'['.repeat(1000)}\\""]}`
    expect(single(inText).method).toBe('m')
  })

  it('reads a batch in order, including items that are not calls', () => {
    const parsed = parse(
      '[{"jsonrpc":"2.0","id":1.0,"method":"a"} , 5,\n{"jsonrpc":"2.0","method":"b"},[],"x"]',
    )
    if (!parsed.isBatch) throw new Error('not a batch')
    expect(parsed.items.map(({ method, id }) => [method, id])).toEqual([
      ['a', '1.0'],
      [null, 'null'],
      ['b', null],
      [null, 'null'],
      [null, 'null'],
    ])
  })

  it('refuses an empty batch and one with too many items', () => {
    expect(parse('[]')).toMatchObject(broken(-32600))
    expect(parse('[1,2,3]', 2)).toMatchObject(broken(-32600))
    expect(parse('[1,2]', 2).isBatch).toBe(true)
  })

  it('finds ids as written in any JSON around them', () => {
    const anything = fc.jsonValue({ maxDepth: 3 })
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string(), anything), { maxLength: 6 }),
        anything,
        (pairs, params) => {
          const id = JSON.stringify(JSON.stringify(params))
          const around = pairs
            .filter(([key]) => !['id', 'jsonrpc', 'method', 'params', '__proto__'].includes(key))
            .map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value, null, 1)},`)
          const text = `{${around.join(' ')}"id":${id},"params":[${JSON.stringify(params)}],"jsonrpc":"2.0","method":"m"}`
          const batch = parse(`[${text} , ${text}]`)
          if (!batch.isBatch) throw new Error('not a batch')
          for (const item of [single(text), ...batch.items]) {
            expect(item.id).toBe(id)
            expect((item as Call).paramsText).toBe(`[${JSON.stringify(params)}]`)
          }
        },
      ),
      { numRuns: 300 },
    )
  })

  it('refuses random and truncated bytes without throwing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        parseRequest(Buffer.from(bytes), 10)
      }),
      { numRuns: 500 },
    )
    const whole =
      '[{"jsonrpc":"2.0","id":"a\\"","method":"m","params":[{"x":[1,2.5e3,true,null]}]}]'
    for (let length = 0; length < whole.length; length++)
      expect(parse(whole.slice(0, length))).toMatchObject(broken(-32700))
  })

  it('agrees with the obvious version on valid, unusual and broken texts', () => {
    const scraps = fc.constantFrom(
      ...[
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"',
        '\\',
        ' ',
        '\n',
        '0',
        '1',
        '-',
        '.5',
        'e9',
        'null',
        'true',
      ],
      ...[
        '"jsonrpc"',
        '"2.0"',
        '"\\u0032.0"',
        '"id"',
        '"i\\u0064"',
        '"method"',
        '"params"',
        '"m"',
        '[]',
      ],
      ...[
        '{}',
        '"\\""',
        '"\t"',
        '"é"',
        '01',
        '"__proto__"',
        '"x":1,',
        '"id":7,',
        '"jsonrpc":"2.0",',
      ],
      ...[
        '"method":"m",',
        '"params":[1,{"a":"]"}],',
        '"id":"a",',
        '"id":null',
        '"method":"\\u006d"',
      ],
    )
    const text = fc.array(scraps, { maxLength: 12 }).map((parts) => parts.join(''))
    const wrapped = fc.oneof(
      text,
      text.map((inner) => `{${inner}}`),
      text.map((inner) => `[{${inner}}]`),
    )
    fc.assert(
      fc.property(wrapped, (input) => {
        expect(plain(input)).toEqual(slowParse(input))
      }),
      { numRuns: 3_000 },
    )
  })

  it('agrees with the obvious version on valid texts with one byte changed', () => {
    const lawful =
      '[{"jsonrpc":"2.0","id":"a\\"","method":"m\\n","params":[{"x":[1,2.5e3,true,null]}]},{"id":1}]'
    fc.assert(
      fc.property(fc.nat(lawful.length - 1), fc.nat(126), (at, code) => {
        const input = lawful.slice(0, at) + String.fromCharCode(code) + lawful.slice(at + 1)
        expect(plain(input)).toEqual(slowParse(input))
      }),
      { numRuns: 3_000 },
    )
  })
})

/** What was read, in the terms of the obvious version. */
function plain(text: string) {
  const parsed = parse(text, 1000)
  const [first] = parsed.items
  if (first?.method === null && first.error.code === -32700) return null
  if (!parsed.isBatch && text.trimStart().startsWith('[')) return []
  return parsed.items.map((item: Item) => {
    const id = item.id === null ? undefined : JSON.parse(item.id)
    return item.method === null
      ? { method: null, id }
      : { method: item.method, id, params: item.params }
  })
}
