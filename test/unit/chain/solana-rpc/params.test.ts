import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { Params } from '../../../../src/chain/solana-rpc/params.ts'

const read = (params: unknown, arity = { least: 1, most: 2 }) =>
  new Params({ method: 'm', params, paramsText: '', id: '1' }, arity)

const key = encodeBase58(new Uint8Array(32).fill(9))

describe('Params', () => {
  it('counts arguments', () => {
    expect(read(undefined, { least: 0, most: 1 }).problem).toBeNull()
    expect(read({ a: 1 }).problem?.message).toBe('`params` should be an array')
    expect(read([]).problem?.message).toBe('`params` should have at least 1 argument(s)')
    expect(read([1, 2, 3]).problem).toEqual({
      code: -32602,
      message: 'Invalid parameters: Expected from 1 to 2 parameters.',
      data: '"Got: 3"',
    })
  })

  it('keeps the first problem and stays harmless after it', () => {
    const params = read([5, { minContextSlot: -1 }])
    expect(params.key(0)).toEqual(new Uint8Array(32))
    expect(params.config(1, 'Config').u64('minContextSlot')).toBeNull()
    expect(params.problem?.message).toBe(
      'Invalid params: invalid type: integer `5`, expected a string.',
    )
  })

  it('reads keys, numbers and configs', () => {
    const params = read([
      key,
      { minContextSlot: 7, encoding: 'base64', other: {}, commitment: null },
    ])
    expect(params.key(0)).toEqual(new Uint8Array(32).fill(9))
    const config = params.config(1, 'Config')
    expect(config.u64('minContextSlot')).toBe(7)
    expect(config.choice('encoding', ['base58', 'base64'])).toBe('base64')
    expect([config.text('commitment'), config.flag('absent'), config.raw('toString')]).toEqual([
      null,
      null,
      null,
    ])
    expect(params.problem).toBeNull()
  })

  it.each([
    ['a float', 1.5, 'Invalid params: invalid type: floating point `1.5`, expected u64.'],
    ['a negative', -1, 'Invalid params: invalid value: integer `-1`, expected u64.'],
    ['a text', 'x', 'Invalid params: invalid type: string "x", expected u64.'],
    ['a list', [], 'Invalid params: invalid type: sequence, expected u64.'],
    ['a flag', true, 'Invalid params: invalid type: boolean `true`, expected u64.'],
    ['nothing', null, 'Invalid params: invalid type: null, expected u64.'],
  ])('refuses %s instead of a number', (_, value, message) => {
    const params = read([value])
    params.u64(0)
    expect(params.problem?.message).toBe(message)
  })
})
