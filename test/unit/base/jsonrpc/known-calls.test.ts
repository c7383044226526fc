import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KnownCalls, parseCall, parseRequest } from '../../../../src/base/jsonrpc/parse.ts'

const shapes = [
  (id: string, rest: string) => `{"jsonrpc":"2.0","id":${id},"method":"getSlot"${rest}}`,
  (id: string, rest: string) => `{"id":${id},"jsonrpc":"2.0","method":"getSlot"${rest}}`,
  (id: string, rest: string) => `{"method":"getSlot","jsonrpc":"2.0"${rest},"id":${id}}`,
]
const rests = ['', ',"params":[{"commitment":"confirmed"}]', ',"params":[",\\"id\\":7}"]']

/** Counts how often the strict parser is asked. */
function counting() {
  let count = 0
  const known = new KnownCalls((text) => {
    count++
    return parseCall(text)
  })
  return { known, strict: () => count }
}

describe('calls that are known', () => {
  it.each(shapes)('are found under every id from the third time on (%#)', (shape) => {
    for (const rest of rests) {
      const { known, strict } = counting()
      expect(known.find(shape('1', rest))).toBeNull()
      for (const id of ['2', '"a b"', '0', '18446744073709551615', '"4f-5"', '""']) {
        expect(known.find(shape(id, rest))).toEqual(parseCall(shape(id, rest)))
        expect(parseCall(shape(id, rest))?.id).toBe(id)
      }
      expect(strict()).toBe(1)
    }
  })

  it('are read by the strict parser when their id is anything but plain', () => {
    const ids = ['-1', '01', '1.5', '1e2', 'null', 'true', '[1]', '{}', '"\\u0041"', '"é"', '"', '']
    for (const shape of shapes)
      for (const id of [...ids, `"${'x'.repeat(70)}"`, '9'.repeat(70)]) {
        const { known } = counting()
        for (let count = 0; count < 3; count++) expect(known.find(shape(id, ''))).toBeNull()
      }
  })

  it('are not taken for a text with a second id, or one that is no call', () => {
    const texts = [
      '{"jsonrpc":"2.0","id":1,"method":"m","id":1}',
      '{"jsonrpc":"2.0","id":1,"method":"m","\\u0069d":1}',
      '{"id":1,"jsonrpc":"2.0","method":"m","id":2}',
      '{"id":1,"jsonrpc":"2.0","method":"m","params":{"a":1,"id":1}',
      '{"jsonrpc":"2.0","method":"m","params":{"a":1,"id":1}',
      '{"jsonrpc":"2.0","method":"m","params":[{"a":1,"id":1}',
      '{"jsonrpc":"1.0","id":1,"method":"m"}',
      '{"jsonrpc":"2.0","id":1,"method":7}',
      '{"jsonrpc":"2.0","id":1,"method":"m"}}',
      '{"jsonrpc":"2.0","id":1,"method":"m","params":[1,]}',
    ]
    for (const text of texts) {
      const { known } = counting()
      for (let count = 0; count < 3; count++) expect([text, known.find(text)]).toEqual([text, null])
    }
  })

  it('are what the strict parser makes of any text, before and after they are known', () => {
    const known = new KnownCalls(parseCall)
    const piece = fc.constantFrom(
      ...['{', '}', '"jsonrpc":"2.0"', '"id":', ',', '1', '"x"', '"method":"m"', '"params":[]'],
      ...['"params":{"id":1}', ' ', '"id":1', ',"id":', '[', ']', '\\', '"', 'null', '0', '1.0'],
    )
    const text = fc.array(piece, { maxLength: 14 }).map((pieces) => pieces.join(''))
    const opened = fc.tuple(fc.constantFrom('', '{"jsonrpc":"2.0","id":', '{"id":'), text)
    fc.assert(
      fc.property(opened, ([opening, rest]) => {
        const body = Buffer.from(opening + rest)
        const strict = parseRequest(body, 10)
        for (let count = 0; count < 3; count++)
          expect(parseRequest(body, 10, known)).toEqual(strict)
      }),
      { numRuns: 2_000 },
    )
  })

  it('are bounded: more of them than fit are read again', () => {
    const { known, strict } = counting()
    const ask = (number: number) => known.find(shapes[0]!('1', `,"params":[${number}]`))
    for (let number = 0; number < 5_000; number++) {
      ask(number)
      expect(ask(number)).not.toBeNull()
    }
    const before = strict()
    ask(0)
    expect(ask(0)).not.toBeNull()
    expect(strict()).toBe(before + 1)
    expect(known.find(shapes[0]!('1', `,"params":["${'x'.repeat(600)}"]`))).toBeNull()
  })
})
