import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { compileFilters } from '../../../../src/streams/geyser/filter-compile.ts'
import { randomOf } from '../../../testkit/synthetic-solana.ts'

const codec = loadCodec()
const type = codec.root.lookupType('geyser.SubscribeRequest')
const limits = {
  filtersMax: 2,
  accountsMax: 3,
  ownersMax: 1,
  dataSlicesMax: 2,
  cuckooBytesMax: 64,
  any: true,
  accountReject: new Set(['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA']),
  ownerReject: new Set(['11111111111111111111111111111111']),
}
const key = encodeBase58(new Uint8Array(32).fill(9))

function compile(request: object, changed: Partial<typeof limits> = {}) {
  const bytes = type.encode(type.fromObject(request)).finish()
  const read = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)!
  return compileFilters(read, { ...limits, ...changed })
}

function problem(request: object, changed: Partial<typeof limits> = {}): string {
  const outcome = compile(request, changed)
  return outcome.ok ? 'ok' : `${outcome.refusal.kind} ${outcome.refusal.message}`
}

describe('a request', () => {
  it('has ten cuckoo filters of all kinds at most', () => {
    const named = (count: number, filter: object) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`${at}`, filter]))
    const include = { cuckooAccountInclude: { data: Buffer.alloc(8) } }
    const request = (accounts: number) => ({
      accounts: named(accounts, { cuckooAccountsFilter: { data: Buffer.alloc(8) } }),
      transactions: named(2, include),
      transactionsStatus: named(2, include),
      blocks: named(2, include),
    })
    expect(problem(request(4), { filtersMax: 10 })).toBe('ok')
    expect(problem(request(5), { filtersMax: 10 })).toContain('at most 10 cuckoo filters')
  })

  it('of five bytes selects all slots: an entry without a value is an empty filter', () => {
    const read = codec.decode<SubscribeRequest>(
      'geyser.SubscribeRequest',
      Buffer.from('12030a0161', 'hex'),
    )!
    const outcome = compileFilters(read, limits)
    if (!outcome.ok) throw new Error(outcome.refusal.message)
    expect(outcome.value.slots).toMatchObject([{ byCommitment: false, interslot: false }])
    expect(outcome.value.slots[0]?.prefix.toString('hex')).toBe('0a0161')
    expect(outcome.value.commitment).toBe(0)
  })

  it('is refused with the field that is wrong', () => {
    const accounts = (filter: object) => ({ accounts: { a: filter } })
    const state = (...filters: object[]) => accounts({ filters })
    const tx = (filter: object) => ({ transactions: { t: filter } })
    const slice = (offset: number, length: number) => ({ offset, length })
    const table: [object, string][] = [
      [accounts({ account: ['abc'] }), 'accounts["a"].account: "abc" is not a base58 key'],
      [accounts({ account: [key, key, key, key] }), 'accounts["a"].account: at most 3 keys'],
      [accounts({ owner: [key, key] }), 'accounts["a"].owner: at most 1 keys'],
      [
        accounts({ account: ['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'] }),
        'accounts["a"].account: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA" is not allowed',
      ],
      [
        accounts({ owner: ['11111111111111111111111111111111'] }),
        'accounts["a"].owner: "11111111111111111111111111111111" is not allowed',
      ],
      [{ slots: { a: {}, b: {}, c: {} } }, 'slots: at most 2 filters'],
      [{ entry: { ['x'.repeat(129)]: {} } }, "entry: a filter's name is at most 128 bytes"],
      [{ commitment: 3 }, 'commitment: 3 is no commitment level'],
      [state({}), 'accounts["a"].filters: a filter must be set'],
      [state({ memcmp: { offset: 1 } }), 'accounts["a"].filters.memcmp: one of bytes'],
      [state({ memcmp: { base58: '0' } }), 'accounts["a"].filters.memcmp.base58: not base58'],
      [state({ memcmp: { base64: '!' } }), 'accounts["a"].filters.memcmp.base64: not base64'],
      [
        state({ memcmp: { bytes: Buffer.alloc(129) } }),
        'accounts["a"].filters.memcmp: at most 128',
      ],
      [state({ datasize: 1 }, { datasize: 1 }), 'accounts["a"].filters.datasize: may be used once'],
      [state({ tokenAccountState: false }), 'token_account_state: may only be true'],
      [state({ lamports: {} }), 'accounts["a"].filters.lamports: one of eq, ne, lt, gt'],
      [
        state(...Array.from({ length: 5 }, () => ({ tokenAccountState: true }))),
        'accounts["a"].filters: at most 4',
      ],
      [tx({ signature: key }), 'transactions["t"].signature:'],
      [tx({ accountRequired: ['?'] }), 'transactions["t"].account_required: "?"'],
      [tx({ instructions: [{}] }), 'transactions["t"].instructions.program: "" is not'],
      [
        tx({ instructions: [{ program: key, dataPrefix: Buffer.alloc(129) }] }),
        'transactions["t"].instructions.data_prefix: at most 128 bytes',
      ],
      [
        tx({ instructions: Array.from({ length: 65 }, () => ({ program: key })) }),
        'transactions["t"].instructions: at most 64 are allowed',
      ],
      [tx({ tokenAccounts: 7 }), 'transactions["t"].token_accounts: 7 is neither'],
      [
        { transactionsStatus: { s: { accountExclude: ['?'] } } },
        'transactions_status["s"].account_exclude',
      ],
      [{ blocks: { b: { accountInclude: ['?'] } } }, 'blocks["b"].account_include'],
      [
        { accountsDataSlice: [slice(9, 1), slice(1, 1)] },
        'accounts_data_slice: slices must be in ascending order',
      ],
      [
        { accountsDataSlice: [slice(1, 5), slice(5, 1)] },
        'accounts_data_slice: slices must not overlap',
      ],
      [
        { accountsDataSlice: [slice(1, 1), slice(2, 1), slice(3, 1)] },
        'accounts_data_slice: at most 2 slices',
      ],
      [
        accounts({ cuckooAccountsFilter: { data: Buffer.alloc(72) } }),
        'accounts["a"].cuckoo_accounts_filter.data: at most 64 bytes',
      ],
      [
        accounts({ cuckooAccountsFilter: { data: Buffer.alloc(24) } }),
        'the number of buckets must be a power of two',
      ],
      [
        tx({ cuckooAccountInclude: { fingerprintBits: 8 } }),
        'transactions["t"].cuckoo_account_include: only buckets of 4',
      ],
    ]
    for (const [request, text] of table) {
      const told = problem(request)
      expect(told).toContain('invalid failed to create filter: ')
      expect(told).toContain(text)
    }
  })

  it('may be required to have conditions; a signature alone is no condition', () => {
    const strict = { any: false }
    const signature = encodeBase58(new Uint8Array(64).fill(3))
    for (const request of [
      { accounts: { a: {} } },
      { transactions: { t: {} } },
      { transactions: { t: { signature } } },
      { blocks: { b: {} } },
    ]) {
      expect(problem(request, strict)).toContain('a filter without conditions is not allowed')
      expect(problem(request)).toBe('ok')
    }
    expect(problem({ accounts: { a: { owner: [key] } } }, strict)).toBe('ok')
    expect(problem({ transactions: { t: { vote: false } } }, strict)).toBe('ok')
    expect(problem({ slots: { s: {} } }, strict)).toBe('ok')
  })

  it('may name its filters anything, even members of Object', () => {
    const bytes = Buffer.from('120b0a095f5f70726f746f5f5f', 'hex')
    const read = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)!
    const outcome = compileFilters(read, limits)
    expect(outcome.ok && outcome.value.slots[0]?.prefix.subarray(2).toString()).toBe('__proto__')
  })

  it('of random or cut bytes is refused or read, never thrown at', () => {
    const whole = type
      .encode(
        type.fromObject({
          accounts: { a: { account: [key], filters: [{ datasize: 3 }] } },
          transactions: { t: { accountInclude: [key] } },
          fromSlot: 5,
          commitment: 1,
        }),
      )
      .finish()
    const random = randomOf(11)
    for (let round = 0; round < 3_000; round++) {
      const bytes = Buffer.from(whole.subarray(0, Math.floor(random() * (whole.length + 1))))
      const flips = Math.floor(random() * 4)
      for (let flip = 0; flip < flips && bytes.length > 0; flip++)
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
      const read = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)
      if (read !== null) expect(typeof compileFilters(read, limits).ok).toBe('boolean')
    }
  })
})
