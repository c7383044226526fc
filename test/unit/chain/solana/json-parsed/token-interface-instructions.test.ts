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
import { type bytes, itShows, key, raw, shownText } from '../../../../testkit/instruction-json.ts'

const programId = TOKEN_2022_PROGRAM_ID
const [k1, k2, k3, k4, k5] = [key(1), key(2), key(3), key(4), key(5)]

describe('jsonParsed instructions of token metadata and token groups', () => {
  const metadataKeys = { programId, metadata: k1, updateAuthority: k2 }
  const text = { name: 'Grün', symbol: 'G', uri: '' }
  itShows('spl-token', [
    [
      createInitializeInstruction({ ...metadataKeys, mint: k3, mintAuthority: k4, ...text }),
      'initializeTokenMetadata',
      '{metadata:k1,mint:k3,mintAuthority:k4,name:"Grün",symbol:G,updateAuthority:k2,uri:""}',
      { isExact: true },
    ],
    ...['name', 'symbol', 'uri', 'colour'].map(
      (field) =>
        [
          createUpdateFieldInstruction({ ...metadataKeys, field, value: 'v' }),
          'updateTokenMetadataField',
          `{field:${field},metadata:k1,updateAuthority:k2,value:v}`,
          { isExact: true },
        ] as const,
    ),
    [
      createRemoveKeyInstruction({ ...metadataKeys, key: 'colour', idempotent: true }),
      'removeTokenMetadataKey',
      '{idempotent:true,key:colour,metadata:k1,updateAuthority:k2}',
      { isExact: true },
    ],
    [
      createUpdateAuthorityInstruction({
        programId,
        metadata: k1,
        oldAuthority: k2,
        newAuthority: null,
      }),
      'updateTokenMetadataAuthority',
      '{metadata:k1,newAuthority:null,updateAuthority:k2}',
      { isExact: true },
    ],
    [
      createEmitInstruction({ programId, metadata: k1, end: 7n }),
      'emitTokenMetadata',
      '{end:7,metadata:k1}',
      { isExact: true },
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
      'initializeTokenGroup',
      '{group:k1,maxSize:5,mint:k2,mintAuthority:k3,updateAuthority:k4}',
      { isExact: true },
    ],
    [
      createUpdateGroupMaxSizeInstruction({
        programId,
        group: k1,
        updateAuthority: k2,
        maxSize: 5n,
      }),
      'updateTokenGroupMaxSize',
      '{group:k1,maxSize:5,updateAuthority:k2}',
      { isExact: true },
    ],
    [
      createUpdateGroupAuthorityInstruction({
        programId,
        group: k1,
        currentAuthority: k2,
        newAuthority: k3,
      }),
      'updateTokenGroupAuthority',
      '{group:k1,newAuthority:k3,updateAuthority:k2}',
      { isExact: true },
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
      'initializeTokenGroupMember',
      '{group:k4,groupUpdateAuthority:k5,member:k1,memberMint:k2,memberMintAuthority:k3}',
      { isExact: true },
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
