// Every extension of Token-2022: exact bytes in, the validator's JSON out; malformed bytes beside.
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { jsonText } from '../../../../../src/base/json-text.ts'
import { encodeBase58 } from '../../../../../src/chain/solana/base58.ts'
import { parsedAccount } from '../../../../../src/chain/solana/json-parsed/accounts.ts'
import { programs } from '../../../../../src/chain/solana/programs.ts'
import { oldestShapes } from '../../../../../src/chain/solana/version.ts'

type Where = 'mint' | 'account'

const key = (fill: number) => Buffer.alloc(32, fill)
const zero = Buffer.alloc(32)
const [a, b] = [encodeBase58(key(1)), encodeBase58(key(2))]
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const [cipher, cipher2, cipher3] = [5, 6, 7].map((fill) => Buffer.alloc(64, fill)) as [
  Buffer,
  Buffer,
  Buffer,
]
const ae = Buffer.alloc(36, 8)

const u64 = (value: bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
const i64 = (value: bigint) => u64(BigInt.asUintN(64, value))
const u16 = (value: number) => Buffer.from([value & 0xff, (value >> 8) & 0xff])
const f64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return bytes
}
const text = (value: string) => {
  const bytes = Buffer.from(value)
  return Buffer.concat([u16(bytes.length), u16(0), bytes])
}
const entry = (type: number, bytes: Uint8Array) =>
  Buffer.concat([u16(type), u16(bytes.length), bytes])

const mintBase = Buffer.alloc(82)
mintBase[44] = 2
mintBase[45] = 1
const accountBase = Buffer.alloc(165)
accountBase[108] = 1

function account(where: Where, ...tail: Uint8Array[]): Buffer {
  const base = Buffer.alloc(166)
  base.set(where === 'mint' ? mintBase : accountBase)
  base[165] = where === 'mint' ? 1 : 2
  return Buffer.concat([base, ...tail])
}

const plainMint = { owner: programs.token2022, data: mintBase }
const owner = programs.token2022
const parsed = (data: Uint8Array) =>
  parsedAccount({ pubkey: key(9), owner, data }, () => plainMint, oldestShapes)

function extensionsOf(data: Uint8Array): unknown {
  const shown = JSON.parse(jsonText(parsed(data)))
  return shown.parsed.info.extensions
}

const fee = Buffer.concat([u64(3n), u64(2n ** 63n), u16(250)])
const shownFee = { epoch: 3, maximumFee: 2 ** 63, transferFeeBasisPoints: 250 }

const extensions: [number, Where, string, Uint8Array[], unknown][] = [
  [
    1,
    'mint',
    'transferFeeConfig',
    [key(1), zero, u64(7n), fee, fee],
    {
      transferFeeConfigAuthority: a,
      withdrawWithheldAuthority: null,
      withheldAmount: 7,
      olderTransferFee: shownFee,
      newerTransferFee: shownFee,
    },
  ],
  [2, 'account', 'transferFeeAmount', [u64(9n)], { withheldAmount: 9 }],
  [3, 'mint', 'mintCloseAuthority', [key(1)], { closeAuthority: a }],
  [
    4,
    'mint',
    'confidentialTransferMint',
    [key(1), Buffer.of(1), zero],
    { authority: a, autoApproveNewAccounts: true, auditorElgamalPubkey: null },
  ],
  [
    5,
    'account',
    'confidentialTransferAccount',
    [
      Buffer.of(1),
      key(2),
      cipher,
      cipher2,
      cipher3,
      ae,
      Buffer.of(0, 1),
      u64(1n),
      u64(65536n),
      u64(3n),
      u64(4n),
    ],
    {
      approved: true,
      elgamalPubkey: base64(key(2)),
      pendingBalanceLo: base64(cipher),
      pendingBalanceHi: base64(cipher2),
      availableBalance: base64(cipher3),
      decryptableAvailableBalance: base64(ae),
      allowConfidentialCredits: false,
      allowNonConfidentialCredits: true,
      pendingBalanceCreditCounter: 1,
      maximumPendingBalanceCreditCounter: 65536,
      expectedPendingBalanceCreditCounter: 3,
      actualPendingBalanceCreditCounter: 4,
    },
  ],
  [6, 'mint', 'defaultAccountState', [Buffer.of(2)], { accountState: 'frozen' }],
  [7, 'account', 'immutableOwner', [], undefined],
  [8, 'account', 'memoTransfer', [Buffer.of(1)], { requireIncomingTransferMemos: true }],
  [9, 'mint', 'nonTransferable', [], undefined],
  [
    10,
    'mint',
    'interestBearingConfig',
    [zero, i64(-5n), u16(0xffff), i64(1_700_000_000n), u16(30_000)],
    {
      rateAuthority: null,
      initializationTimestamp: -5,
      preUpdateAverageRate: -1,
      lastUpdateTimestamp: 1_700_000_000,
      currentRate: 30_000,
    },
  ],
  [11, 'account', 'cpiGuard', [Buffer.of(0)], { lockCpi: false }],
  [12, 'mint', 'permanentDelegate', [zero], { delegate: null }],
  [13, 'account', 'nonTransferableAccount', [], undefined],
  [14, 'mint', 'transferHook', [key(1), key(2)], { authority: a, programId: b }],
  [15, 'account', 'transferHookAccount', [Buffer.of(7)], { transferring: true }],
  [
    16,
    'mint',
    'confidentialTransferFeeConfig',
    [key(1), zero, Buffer.of(1), cipher],
    {
      authority: a,
      withdrawWithheldAuthorityElgamalPubkey: base64(zero),
      harvestToMintEnabled: true,
      withheldAmount: base64(cipher),
    },
  ],
  [17, 'account', 'confidentialTransferFeeAmount', [cipher], { withheldAmount: base64(cipher) }],
  [18, 'mint', 'metadataPointer', [zero, key(2)], { authority: null, metadataAddress: b }],
  [
    19,
    'mint',
    'tokenMetadata',
    [
      zero,
      key(2),
      text('Überzug'),
      text('U'),
      text(''),
      Buffer.of(2, 0, 0, 0),
      text('k'),
      text('v'),
      text('x'),
      text('"y"'),
    ],
    {
      updateAuthority: null,
      mint: b,
      name: 'Überzug',
      symbol: 'U',
      uri: '',
      additionalMetadata: [
        ['k', 'v'],
        ['x', '"y"'],
      ],
    },
  ],
  [20, 'mint', 'groupPointer', [key(1), key(2)], { authority: a, groupAddress: b }],
  [
    21,
    'mint',
    'tokenGroup',
    [key(1), key(2), u64(3n), u64(4n)],
    { updateAuthority: a, mint: b, size: 3, maxSize: 4 },
  ],
  [22, 'mint', 'groupMemberPointer', [key(1), zero], { authority: a, memberAddress: null }],
  [
    23,
    'mint',
    'tokenGroupMember',
    [key(1), key(2), u64(5n)],
    { mint: a, group: b, memberNumber: 5 },
  ],
  [
    24,
    'mint',
    'confidentialMintBurn',
    [cipher, ae, key(1), cipher2],
    {
      confidentialSupply: base64(cipher),
      decryptableSupply: base64(ae),
      supplyElgamalPubkey: base64(key(1)),
      pendingBurn: base64(cipher2),
    },
  ],
  [
    25,
    'mint',
    'scaledUiAmountConfig',
    [zero, f64(1), i64(-1n), f64(2.5)],
    {
      authority: null,
      multiplier: '1',
      newMultiplierEffectiveTimestamp: -1,
      newMultiplier: '2.5',
    },
  ],
  [26, 'mint', 'pausableConfig', [key(1), Buffer.of(1)], { authority: a, paused: true }],
  [27, 'account', 'pausableAccount', [], undefined],
]

describe('an extension in jsonParsed', () => {
  it.each(extensions)('%i of a %s is %s', (type, where, extension, parts, state) => {
    const bytes = Buffer.concat(parts)
    const shown = extensionsOf(account(where, entry(type, bytes)))
    expect(shown).toEqual([state === undefined ? { extension } : { extension, state }])
  })

  it.each(extensions.filter(([, , , , state]) => state !== undefined))(
    '%i of a %s (%s) is unparseable with another length and in the other kind of account',
    (type, where, extension, parts) => {
      const bytes = Buffer.concat(parts)
      const other = where === 'mint' ? 'account' : 'mint'
      const unparseable = [{ extension: 'unparseableExtension' }]
      expect(extensionsOf(account(where, entry(type, bytes.subarray(1))))).toEqual(unparseable)
      expect(extensionsOf(account(other, entry(type, bytes)))).toEqual(unparseable)
      const longer = extensionsOf(account(where, entry(type, Buffer.concat([bytes, zero]))))
      if (extension === 'tokenMetadata') expect(longer).toMatchObject([{ extension }])
      else expect(longer).toEqual(unparseable)
    },
  )

  it.each([
    [1e21, '1000000000000000000000'],
    [1.5e23, '150000000000000000000000'],
    [1e-7, '0.0000001'],
    [-2.5e-8, '-0.000000025'],
    [Number.POSITIVE_INFINITY, 'inf'],
    [Number.NaN, 'NaN'],
  ])('writes the multiplier %d without an exponent', (multiplier, shown) => {
    const bytes = Buffer.concat([zero, f64(multiplier), i64(0n), f64(multiplier)])
    expect(extensionsOf(account('mint', entry(25, bytes)))).toMatchObject([
      { state: { multiplier: shown, newMultiplier: shown } },
    ])
  })

  it('is unparseable when a text of the metadata is not UTF-8', () => {
    const name = Buffer.from([1, 0, 0, 0, 0xff])
    const bytes = Buffer.concat([zero, key(2), name, text(''), text(''), Buffer.alloc(4)])
    expect(extensionsOf(account('mint', entry(19, bytes)))).toEqual([
      { extension: 'unparseableExtension' },
    ])
  })
})

describe('the list of extensions', () => {
  const known = entry(7, Buffer.alloc(0))

  it('ends at type 0, and at a single byte', () => {
    const one = [{ extension: 'immutableOwner' }]
    expect(extensionsOf(account('account', known, Buffer.alloc(40)))).toEqual(one)
    expect(extensionsOf(account('account', known, Buffer.of(9)))).toEqual(one)
  })

  it.each([
    ['an unknown type', Buffer.concat([known, entry(28, Buffer.alloc(32))])],
    ['a length that is cut off', Buffer.concat([known, Buffer.of(8, 0, 1)])],
    ['a value that is cut off', Buffer.concat([known, entry(8, Buffer.of(1)).subarray(0, 4)])],
    ['no entry', Buffer.alloc(8)],
  ])('is left out with %s', (_, tail) => {
    expect(extensionsOf(account('account', tail))).toBeUndefined()
  })

  it('never throws on noise, whose accounts stay whole accounts', () => {
    for (let round = 0; round < 2_000; round++) {
      const where = round % 2 === 0 ? 'mint' : 'account'
      const bytes = randomBytes(round % 300)
      const tail = round % 3 === 0 ? bytes : entry(1 + (round % 27), bytes)
      const data = account(where, tail)
      if (data.length !== 355) expect(parsed(data)?.parsed.type).toBe(where)
    }
  })
})
