import {
  createEmitInstruction,
  createInitializeGroupInstruction,
  createInitializeInstruction,
  createInitializeMemberInstruction,
  createRemoveKeyInstruction,
  createUpdateAuthorityInstruction,
  createUpdateFieldInstruction,
  createUpdateGroupAuthorityInstruction,
  createUpdateGroupMaxSizeInstruction,
  TOKEN_2022_PROGRAM_ID,
} from '@solana/spl-token'
import { describe, expect, it } from 'vitest'
import { type bytes, itShows, key, raw, shownText } from '../../../testkit/instruction-json.ts'

const programId = TOKEN_2022_PROGRAM_ID
const [k1, k2, k3, k4, k5] = [key(1), key(2), key(3), key(4), key(5)]

describe('jsonParsed instructions of token metadata and token groups', () => {
  const metadata = { metadata: 'k1', updateAuthority: 'k2' }
  const metadataKeys = { programId, metadata: k1, updateAuthority: k2 }
  const text = { name: 'Grün', symbol: 'G', uri: '' }
  itShows('spl-token', [
    [
      createInitializeInstruction({ ...metadataKeys, mint: k3, mintAuthority: k4, ...text }),
      {
        type: 'initializeTokenMetadata',
        isExact: true,
        info: { ...metadata, mint: 'k3', mintAuthority: 'k4', ...text },
      },
    ],
    ...['name', 'symbol', 'uri', 'colour'].map(
      (field) =>
        [
          createUpdateFieldInstruction({ ...metadataKeys, field, value: 'v' }),
          {
            type: 'updateTokenMetadataField',
            isExact: true,
            info: { ...metadata, field, value: 'v' },
          },
        ] as const,
    ),
    [
      createRemoveKeyInstruction({ ...metadataKeys, key: 'colour', idempotent: true }),
      {
        type: 'removeTokenMetadataKey',
        isExact: true,
        info: { ...metadata, key: 'colour', idempotent: true },
      },
    ],
    [
      createUpdateAuthorityInstruction({
        programId,
        metadata: k1,
        oldAuthority: k2,
        newAuthority: null,
      }),
      {
        type: 'updateTokenMetadataAuthority',
        isExact: true,
        info: { ...metadata, newAuthority: null },
      },
    ],
    [
      createEmitInstruction({ programId, metadata: k1, end: 7n }),
      { type: 'emitTokenMetadata', isExact: true, info: { metadata: 'k1', end: 7 } },
    ],
    [
      createInitializeGroupInstruction({
        programId,
        group: k1,
        mint: k2,
        mintAuthority: k3,
        updateAuthority: k4,
        maxSize: 5n,
      }),
      {
        type: 'initializeTokenGroup',
        isExact: true,
        info: {
          group: 'k1',
          mint: 'k2',
          mintAuthority: 'k3',
          updateAuthority: 'k4',
          maxSize: 5,
        },
      },
    ],
    [
      createUpdateGroupMaxSizeInstruction({
        programId,
        group: k1,
        updateAuthority: k2,
        maxSize: 5n,
      }),
      {
        type: 'updateTokenGroupMaxSize',
        isExact: true,
        info: { group: 'k1', updateAuthority: 'k2', maxSize: 5 },
      },
    ],
    [
      createUpdateGroupAuthorityInstruction({
        programId,
        group: k1,
        currentAuthority: k2,
        newAuthority: k3,
      }),
      {
        type: 'updateTokenGroupAuthority',
        isExact: true,
        info: { group: 'k1', updateAuthority: 'k2', newAuthority: 'k3' },
      },
    ],
    [
      createInitializeMemberInstruction({
        programId,
        member: k1,
        memberMint: k2,
        memberMintAuthority: k3,
        group: k4,
        groupUpdateAuthority: k5,
      }),
      {
        type: 'initializeTokenGroupMember',
        isExact: true,
        info: {
          member: 'k1',
          memberMint: 'k2',
          memberMintAuthority: 'k3',
          group: 'k4',
          groupUpdateAuthority: 'k5',
        },
      },
    ],
  ])

  it('leaves raw what has another tag or malformed data', () => {
    const isRaw = (...data: Parameters<typeof bytes>) =>
      shownText(raw(programId, 4, ...data)).startsWith('{"accounts"')
    // A first byte that fits, and seven that do not.
    expect(isRaw(210, 225, 30, 162, 88, 184, 77, 142)).toBe(true)
    const removal = createRemoveKeyInstruction({ ...metadataKeys, key: '', idempotent: false })
    expect(isRaw(removal.data)).toBe(false)
    removal.data[8] = 2
    expect(isRaw(removal.data)).toBe(true)
  })
})
