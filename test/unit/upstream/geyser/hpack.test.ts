import fc from 'fast-check'
import { expect, it } from 'vitest'
import { encodeHeaders, HeaderDecoder } from '../../../../src/upstream/geyser/hpack.ts'

const decode = (...hex: string[]) => {
  const decoder = new HeaderDecoder()
  return hex.map((text) => {
    const fields = decoder.decode(Buffer.from(text.replaceAll(' ', ''), 'hex'))
    return fields === null ? null : Object.fromEntries(fields)
  })
}

it('decodes the responses of RFC 7541, C.5 and C.6, which fill and empty the table', () => {
  const date = 'Mon, 21 Oct 2013 20:13:21 GMT'
  const first = {
    ':status': '302',
    'cache-control': 'private',
    date,
    location: 'https://www.example.com',
  }
  const second = { ...first, ':status': '307' }
  const plain = [
    `4803333032580770726976617465611d${Buffer.from(date).toString('hex')}6e1768747470733a2f2f7777772e6578616d706c652e636f6d`,
    '4803333037c1c0bf',
  ]
  const coded = [
    '488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3',
    '4883640effc1c0bf',
  ]
  expect(decode(...plain)).toEqual([first, second])
  expect(decode(...coded)).toEqual([first, second])
})

it('refuses indexes, lengths, codes and table sizes that do not exist', () => {
  for (const bad of ['80', 'c0', 'ff', '0000', '0005ab', '40 01 61', '00 81 ff 00', '3fe21f'])
    expect([bad, decode(bad)]).toEqual([bad, [null]])
})

it('refuses a change of the table size after a field', () => {
  expect(decode('20 88')).toEqual([{ ':status': '200' }])
  expect(decode('88 20')).toEqual([null])
})

it('never throws', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      new HeaderDecoder().decode(Buffer.from(bytes))
    }),
  )
})

it('encodes what it decodes', () => {
  const fields = [
    [':path', '/geyser.Geyser/Subscribe'],
    ['x-token', 'ü'.repeat(126)],
    ['long', 'x'.repeat(40_000)],
  ] as const
  const decoded = new HeaderDecoder().decode(encodeHeaders(fields))
  expect([...decoded!]).toEqual(fields.map(([name, value]) => [name, value]))
})
