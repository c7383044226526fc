import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseConnect, parseMessage, parseU64 } from '../../../../src/products/metrics/handle.ts'
import { streamKinds } from '../../../../src/streams/log/encoded.ts'

const connect = (query: string) => {
  const parameters = new URLSearchParams(query)
  return parseConnect((name) => parameters.get(name))
}

describe('connecting', () => {
  test('subscribes to all four kinds by default', () => {
    expect(connect('')).toEqual({
      ok: true,
      value: { kinds: streamKinds, resumeFrom: null, run: null },
    })
  })

  test('parses events, resume_from and run', () => {
    expect(connect('events=Lifecycle,TPS,TPS&resume_from=42&run=abc')).toEqual({
      ok: true,
      value: { kinds: ['Lifecycle', 'TPS'], resumeFrom: 42, run: 'abc' },
    })
  })

  test.each(['', '-1', '1e30', '18446744073709551616', 'abc', ' 1', '0x10', '1.0'])(
    'refuses resume_from=%j',
    (cursor) => {
      const outcome = connect(new URLSearchParams({ resume_from: cursor }).toString())
      expect(outcome).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
    },
  )

  test.each(['0', '9007199254740993', '18446744073709551615'])('takes resume_from=%s', (cursor) => {
    expect(connect(`resume_from=${cursor}`)).toMatchObject({ ok: true })
  })

  test.each([
    ['events=', 'empty_subscribe'],
    ['events=TPS,', 'unknown_kind'],
    ['events=tps', 'unknown_kind'],
    ['events=Gap', 'unknown_kind'],
    ['events=TPS,Blocks', 'unknown_kind'],
  ])('refuses %s with %s, never "all" by accident', (query, code) => {
    expect(connect(query)).toMatchObject({ ok: false, refusal: { code } })
  })
})

describe('messages', () => {
  test.each([
    ['{"subscribe":["TPS"]}', ['TPS']],
    ['{"subscribe":{"events":["TPS","ContentionData"]}}', ['TPS', 'ContentionData']],
    ['{"subscribe":["TPS","TPS"]}', ['TPS']],
  ])('takes %s', (text, kinds) => {
    expect(parseMessage(text)).toEqual({ ok: true, value: kinds })
  })

  test.each([
    ['', 'bad_message'],
    ['{', 'bad_message'],
    ['null', 'bad_message'],
    ['[]', 'bad_message'],
    ['"subscribe"', 'bad_message'],
    ['{"unsubscribe":["TPS"]}', 'bad_message'],
    ['{"subscribe":"TPS"}', 'bad_message'],
    ['{"subscribe":null}', 'bad_message'],
    ['{"subscribe":{}}', 'bad_message'],
    ['{"subscribe":{"events":["TPS"],"filters":[]}}', 'bad_message'],
    ['{"subscribe":[]}', 'empty_subscribe'],
    ['{"subscribe":{"events":[]}}', 'empty_subscribe'],
    ['{"subscribe":["Nope"]}', 'unknown_kind'],
    ['{"subscribe":[1]}', 'unknown_kind'],
    ['{"subscribe":["__proto__"]}', 'unknown_kind'],
  ])('answers %j with %s', (text, code) => {
    expect(parseMessage(text)).toMatchObject({ ok: false, refusal: { code } })
  })

  test('never throws, whatever is sent', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.json().map((json) => `{"subscribe":${json}}`),
        ),
        (text) => {
          const outcome = parseMessage(text)
          if (outcome.ok) expect(outcome.value.length).toBeGreaterThan(0)
        },
      ),
    )
  })
})

describe('u64 in paths', () => {
  test.each([
    ['0', 0n],
    ['007', 7n],
    ['9007199254740993', 9007199254740993n],
    ['18446744073709551615', 18446744073709551615n],
    ['18446744073709551616', null],
    ['-1', null],
    ['1e30', null],
    ['abc', null],
    ['', null],
    ['1'.repeat(21), null],
  ])('reads %s as %s', (text, value) => {
    expect(parseU64(text)).toBe(value)
  })
})
