import { decompress } from 'fzstd'
import { describe, expect, it } from 'vitest'
import { filtersTake, readAccountFilters } from '../../../src/solana/account-filter.ts'
import { encodeBase58 } from '../../../src/solana/base58.ts'
import { programs } from '../../../src/solana/programs.ts'
import { type AccountView, uiAccountText } from '../../../src/solana/ui-account.ts'

const account = (data: Uint8Array) => ({
  pubkey: new Uint8Array(32).fill(3),
  lamports: 2n ** 64n - 1n,
  owner: programs.token,
  executable: false,
  rentEpoch: 2n ** 64n - 1n,
  data,
})
const shown = (data: Uint8Array, view: Partial<AccountView>, parsed: string | null = null) =>
  uiAccountText(account(data), { encoding: 'base64', dataSlice: null, ...view }, () => parsed)

describe('an account as JSON', () => {
  it('has the fields of a validator and keeps every digit of u64', () => {
    expect(shown(Uint8Array.of(1, 2, 3), {})).toBe(
      '{"lamports":18446744073709551615,"data":["AQID","base64"],' +
        '"owner":"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA","executable":false,' +
        '"rentEpoch":18446744073709551615,"space":3}',
    )
  })

  it('shows data in every encoding, base58 only up to 128 bytes', () => {
    const data = Uint8Array.from({ length: 128 }, (_, at) => at)
    const of = (bytes: Uint8Array, encoding: AccountView['encoding']) =>
      JSON.parse(shown(bytes, { encoding })).data
    expect(of(data, 'binary')).toBe(encodeBase58(data))
    expect(of(data, 'base58')).toEqual([encodeBase58(data), 'base58'])
    expect(of(new Uint8Array(129), 'base58')[0]).toBe('error: data too large for bs58 encoding')
    const [packed, name] = of(data, 'base64+zstd')
    expect(name).toBe('base64+zstd')
    expect(Buffer.from(decompress(Buffer.from(packed, 'base64')))).toEqual(Buffer.from(data))
  })

  it('shows parsed data, or base64 where no parser knows it', () => {
    const parsed = '{"program":"x","parsed":{},"space":1}'
    const view = { encoding: 'jsonParsed' } as const
    expect(JSON.parse(shown(Uint8Array.of(1), view, parsed)).data).toEqual(JSON.parse(parsed))
    expect(JSON.parse(shown(Uint8Array.of(1), view)).data).toEqual(['AQ==', 'base64'])
  })

  it('slices the data, also past its end, and shows the full size', () => {
    const data = Uint8Array.of(1, 2, 3, 4)
    const slice = (offset: number, length: number) => {
      const { data: text, space } = JSON.parse(shown(data, { dataSlice: { offset, length } }))
      return [[...Buffer.from(text[0], 'base64')], space]
    }
    expect(slice(1, 2)).toEqual([[2, 3], 4])
    expect(slice(3, 9)).toEqual([[4], 4])
    expect(slice(9, 9)).toEqual([[], 4])
  })
})

describe('filters of program accounts', () => {
  const filters = (value: unknown) => {
    const read = readAccountFilters(value)
    if (!read.ok) throw new Error(read.refusal.message)
    return read.value
  }
  const takes = (value: unknown, data: Uint8Array, owner = programs.token) =>
    filtersTake(filters(value), { owner, data })

  it('match an account that passes every filter', () => {
    const data = Uint8Array.of(9, 8, 7)
    expect(takes(undefined, data)).toBe(true)
    expect(takes([{ dataSize: 3 }, { memcmp: { offset: 1, bytes: [8, 7] } }], data)).toBe(true)
    expect(takes([{ dataSize: 3 }, { memcmp: { offset: 2, bytes: [7, 0] } }], data)).toBe(false)
    const memcmp = { offset: 0, bytes: encodeBase58(Uint8Array.of(9)) }
    expect(takes([{ memcmp }], data)).toBe(true)
    expect(takes([{ memcmp: { offset: 0, bytes: 'CQg=', encoding: 'base64' } }], data)).toBe(true)
    expect(takes([{ dataSize: 4 }], data)).toBe(false)
    const token = new Uint8Array(165)
    token[108] = 1
    expect(takes(['tokenAccountState'], token)).toBe(true)
    expect(takes(['tokenAccountState'], data)).toBe(false)
  })

  it.each([
    [5],
    [[{}]],
    [['x']],
    [[{ memcmp: { offset: -1, bytes: '1' } }]],
    [[{ memcmp: { offset: 0, bytes: '0OIl' } }]],
    [[{ memcmp: { offset: 0, bytes: [256] } }]],
    [[{ memcmp: { offset: 0, bytes: '1'.repeat(129) } }]],
    [[{ memcmp: { offset: 0, bytes: '1', encoding: 'hex' } }]],
    [Array.from({ length: 5 }, () => ({ dataSize: 1 }))],
  ])('refuses %j', (value) => {
    expect(readAccountFilters(value)).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
  })
})
