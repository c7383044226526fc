import { describe, expect, it } from 'vitest'
import { type Call, parseRequest } from '../../../../src/base/jsonrpc/parse.ts'
import { exactParams } from '../../../../src/chain/solana-rpc/params.ts'

function read(params: string): unknown {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"m","params":${params}}`)
  // Reason for the cast: the request is a call.
  return exactParams(parseRequest(body, 1).items[0] as Call)
}

describe('exact params', () => {
  it('keep every digit of integers beyond 2^53, wherever they are', () => {
    expect(
      read('[9223372036854775807,{"a":[-9007199254740993 ],"b":18446744073709551615}]'),
    ).toEqual([9223372036854775807n, { a: [-9007199254740993n], b: 18446744073709551615n }])
  })

  it('are plain numbers up to there', () => {
    expect(read('[9007199254740991,5,-1,1.5]')).toEqual([9007199254740991, 5, -1, 1.5])
    expect(read('[00001]')).toBeUndefined()
  })

  it('leave texts, fractions and exponents alone', () => {
    const texts = '["1234567890123456789","\\"1234567890123456789,","a 9223372036854775807"]'
    expect(read(texts)).toEqual(JSON.parse(texts))
    const floats = '[1.1234567890123456789,12345678901234567890.5,1e10,1E1234567890123456]'
    expect(read(`[9223372036854775807,${floats}]`)).toEqual([
      9223372036854775807n,
      JSON.parse(floats),
    ])
    expect(read(`[${'9'.repeat(50)}]`)).toEqual([Number('9'.repeat(50))])
  })
})
