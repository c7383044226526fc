import { describe, expect, it } from 'vitest'
import { closingOf, openingOf, splitAnswer } from '../../../../src/base/jsonrpc/envelope.ts'

function valueIn(text: string): string | null {
  const split = splitAnswer(text)
  return split === null ? null : (split.isError ? '!' : '') + text.slice(split.start, split.end)
}

/** Values whose own ends look like those of an envelope. */
const values = [
  '5',
  'null',
  '"a,\\"id\\":1}"',
  '{"a":[1,{"b":"}"}],"id":1}',
  '[{"jsonrpc":"2.0","id":1}]',
  '{"error":{"code":1},"result":2}',
]

describe('splitAnswer', () => {
  it('finds the value in every order of members, with spaces and without', () => {
    for (const value of values)
      for (const [before, after] of [
        ['{"jsonrpc":"2.0","result":', ',"id":1}'],
        ['{"jsonrpc":"2.0","result":', ',"id":1}\n'],
        ['{"jsonrpc":"2.0","id":1,"result":', '}'],
        ['{"id":1,"jsonrpc":"2.0","result":', '}\r\n'],
        ['{"result":', ',"id":1,"jsonrpc":"2.0"}'],
        ['\n{ "id" : 1 , "result" : ', ' , "jsonrpc" : "2.0" } '],
        ['{"usage":{"result":9},"id":1,"result":', ',"more":[1,2]}'],
      ])
        expect(valueIn(before + value + after)).toBe(value)
  })

  it('distinguishes an error from a result', () => {
    const error = '{"code":-32602,"message":"no","data":{"id":1}}'
    expect(valueIn(`{"jsonrpc":"2.0","error":${error},"id":1}`)).toBe(`!${error}`)
    expect(valueIn(`{"jsonrpc":"2.0","id":1,"error":${error}}`)).toBe(`!${error}`)
    expect(valueIn(`{"id":1,"result":null,"error":${error}}`)).toBe(`!${error}`)
  })

  it('takes an error that is null for none, in every order of members', () => {
    for (const value of values)
      for (const [before, after] of [
        ['{"jsonrpc":"2.0","error":null,"result":', ',"id":1}'],
        ['{"error":null,"id":1,"result":', '}'],
        ['{"jsonrpc":"2.0","error": null,"result":', ',"id":1}\n'],
        ['{"jsonrpc":"2.0","result":', ',"error":null,"id":1}'],
        ['{"id":1,"result":', ',"error":null}'],
      ] as const) {
        expect(valueIn(before + value + after)).toBe(value)
        const opening = openingOf(`${before}${value.slice(0, 3)}`)
        expect(opening).toEqual({ isError: false, start: before.length })
        expect(closingOf(value + after)).toBe(value.length)
      }
  })

  it('refuses what is not a response to our call', () => {
    for (const text of [
      '',
      '<html></html>',
      '[]',
      '{}',
      '{"jsonrpc":"2.0","result":5}',
      '{"jsonrpc":"2.0","result":5,"id":2}',
      '{"jsonrpc":"2.0","id":"1","result":5}',
      '{"jsonrpc":"2.0","id":1,"result":5',
      '{"jsonrpc":"2.0","result":{"a":1,"id":1}',
      '{"id":1,"result":5}{"id":1}',
      '{"id":1,"result":"5}',
    ])
      expect(valueIn(text)).toBe(null)
  })

  it('refuses the answer to a call of another id', () => {
    for (const [before, after] of [
      ['{"jsonrpc":"2.0","result":', ',"id":12}'],
      ['{"jsonrpc":"2.0","id":12,"result":', '}'],
      ['{"result":', ' , "id" : 12,"jsonrpc":"2.0"}'],
    ] as const) {
      expect(splitAnswer(`${before}5${after}`, '12')).not.toBe(null)
      expect(splitAnswer(`${before}5${after}`, '1')).toBe(null)
      expect(splitAnswer(`${before}5${after}`, '2')).toBe(null)
      if (after !== '}') expect(closingOf(`5${after}`, '12')).toBe(1)
      if (after !== '}') expect(closingOf(`5${after}`, '2')).toBe(-1)
    }
  })

  it('refuses random and truncated bytes without throwing', () => {
    const sample = '{"jsonrpc":"2.0","id":1,"result":{"a":["x",1.5,{"b":null}]}}'
    for (let end = 0; end < sample.length; end++) expect(valueIn(sample.slice(0, end))).toBe(null)
    for (let seed = 1; seed < 2000; seed++) {
      const at = (seed * 7919) % sample.length
      const byte = String.fromCharCode((seed * 31) % 256)
      expect(() => splitAnswer(sample.slice(0, at) + byte + sample.slice(at + 1))).not.toThrow()
    }
  })
})

describe('the ends of a long answer', () => {
  it('shows where the value begins, before its end is known', () => {
    for (const head of [
      '{"jsonrpc":"2.0","result":[{"a":',
      '{"jsonrpc":"2.0","id":1,"result":[',
      '{ "id" : 1, "result" : "aaa',
      '{"usage":{"result":1},"error":{"code',
    ]) {
      const opening = openingOf(head)!
      expect(head.slice(0, opening.start)).toMatch(/"(result|error)"\s*:\s*$/)
      expect(opening.isError).toBe(head.includes('error'))
    }
    for (const head of [
      '',
      '<html>',
      '{"id":1',
      '[{"result":1',
      '{"id":"',
      '{"result',
      '{"id":2,"result":5',
    ])
      expect(openingOf(head)).toBe(null)
  })

  it('finds where the value ends, whatever follows it', () => {
    for (const value of ['…,"id":1}]', '"x"', '1}', '{"jsonrpc":"2.0","id":1}'])
      for (const after of [',"id":1}', ',"id":1}\n', '}', ' }\r\n', ',"id":1,"jsonrpc":"2.0"}'])
        expect((value + after).slice(0, closingOf(value + after))).toBe(value)
    for (const tail of ['', 'abc', '"id":1', ',"id":1}x']) expect(closingOf(tail)).toBe(-1)
  })
})
