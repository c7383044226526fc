import { decompress } from 'fzstd'
import { describe, expect, it } from 'vitest'
import {
  filtersTake,
  readAccountFilters,
  tokenFilterProblem,
} from '../../../../src/chain/solana/account-filter.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { programs } from '../../../../src/chain/solana/programs.ts'
import {
  type AccountView,
  sortedAccountText,
  uiAccountText,
} from '../../../../src/chain/solana/ui-account.ts'

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

  it('has its members sorted by name in answers', () => {
    const view = { encoding: 'base64', dataSlice: null } as const
    expect(sortedAccountText(account(Uint8Array.of(1, 2, 3)), view, () => null)).toBe(
      '{"data":["AQID","base64"],"executable":false,"lamports":18446744073709551615,' +
        '"owner":"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",' +
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
    [[{ memcmp: { offset: 0, bytes: '1', encoding: 'binary' } }]],
    [Array.from({ length: 5 }, () => ({ dataSize: 1 }))],
  ])('refuses %j', (value) => {
    expect(readAccountFilters(value)).toMatchObject({ ok: false, refusal: { kind: 'invalid' } })
  })

  it.each([
    [5, 'Invalid params: invalid type: integer `5`, expected a sequence.'],
    [[5], 'Invalid params: invalid type: integer `5`, expected string or map.'],
    [[{}], 'Invalid params: invalid value: map, expected map with a single key.'],
    [[{ memcmp: { bytes: '1' } }], 'Invalid params: missing field `offset`.'],
    [[{ memcmp: { offset: 0 } }], 'Invalid params: missing field `bytes`.'],
    [
      [{ memcmp: { offset: 0, bytes: [256] } }],
      'Invalid params: data did not match any variant of untagged enum DataType.',
    ],
    [
      [{ memcmp: { offset: 0, bytes: '1', encoding: 'hex' } }],
      'Invalid params: unknown variant `hex`, expected one of `base58`, `base64`, `bytes`.',
    ],
    [[{ memcmp: { offset: 0, bytes: '1'.repeat(129) } }], 'Invalid param: DataTooLarge'],
    [[{ memcmp: { offset: 0, bytes: '1'.repeat(176) } }], 'Invalid param: DataTooLarge'],
    [[{ memcmp: { offset: 0, bytes: new Array(129).fill(1) } }], 'Invalid param: DataTooLarge'],
    [
      [{ memcmp: { offset: 0, bytes: '0OIl' } }],
      "Invalid param: Base58DecodeError(InvalidCharacter { character: '0', index: 0 })",
    ],
    [
      [{ memcmp: { offset: 0, bytes: '!', encoding: 'base64' } }],
      'Invalid param: Base64DecodeError(InvalidByte(0, 33))',
    ],
    [new Array(5).fill({ dataSize: 1 }), 'Too many filters provided; max 4'],
  ])('refuses %j as a validator does', (value, message) => {
    expect(readAccountFilters(value)).toMatchObject({ refusal: { message } })
  })

  it('takes text under `encoding: "bytes"` as base58', () => {
    const [filter] = filters([{ memcmp: { offset: 0, bytes: 'A', encoding: 'bytes' } }])
    expect(filter).toEqual({ kind: 'memcmp', offset: 0, bytes: Uint8Array.of(9) })
  })

  it('need whole keys where they name the owner or the mint of token accounts', () => {
    const at = (offset: number, length: number) => ({
      memcmp: { offset, bytes: new Array(length).fill(7) },
    })
    const problem = (list: unknown[], program = programs.token) =>
      tokenFilterProblem(program, filters(list))
    expect(problem([at(32, 2)])).toBe(
      'Incorrect byte length 2 for SPL token owner filter, expected 32',
    )
    expect(problem([at(0, 2)])).toBe(
      'Incorrect byte length 2 for SPL token mint filter, expected 32',
    )
    expect(problem([at(0, 2)], programs.system)).toBeNull()
    expect(problem([at(0, 32), at(32, 32), at(1, 3)])).toBeNull()
    // The owner is enough to find them, so that the mint is not looked at.
    expect(problem([at(0, 2), at(32, 32), { dataSize: 165 }])).toBeNull()
    expect(problem([at(0, 2), at(32, 32), { dataSize: 164 }])).toContain('mint filter')
    const typed = { memcmp: { offset: 165, bytes: [2] } }
    expect(problem([at(0, 2), at(32, 32), typed], programs.token2022)).toBeNull()
    expect(problem([at(0, 2), at(32, 32), typed])).toContain('mint filter')
  })
})
