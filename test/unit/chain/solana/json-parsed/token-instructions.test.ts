import {
  AuthorityType,
  createAmountToUiAmountInstruction,
  createApproveCheckedInstruction,
  createApproveInstruction,
  createAssociatedTokenAccountIdempotentInstruction,
  createAssociatedTokenAccountInstruction,
  createBurnCheckedInstruction,
  createBurnInstruction,
  createCloseAccountInstruction,
  createCreateNativeMintInstruction,
  createFreezeAccountInstruction,
  createInitializeAccount2Instruction,
  createInitializeAccount3Instruction,
  createInitializeAccountInstruction,
  createInitializeImmutableOwnerInstruction,
  createInitializeMint2Instruction,
  createInitializeMintCloseAuthorityInstruction,
  createInitializeMintInstruction,
  createInitializeMultisigInstruction,
  createInitializeNonTransferableMintInstruction,
  createInitializePermanentDelegateInstruction,
  createMintToCheckedInstruction,
  createMintToInstruction,
  createReallocateInstruction,
  createRecoverNestedInstruction,
  createRevokeInstruction,
  createSetAuthorityInstruction,
  createSyncNativeInstruction,
  createThawAccountInstruction,
  createTransferCheckedInstruction,
  createTransferInstruction,
  createUiAmountToAmountInstruction,
  ExtensionType,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token'
import { describe, expect, it } from 'vitest'
import { type bytes, itShows, key, raw, shownText } from '../../../../testkit/instruction-json.ts'

const multisig = [key(8), key(9)]
const token2022 = (accounts: number, ...data: Parameters<typeof bytes>) =>
  raw(TOKEN_2022_PROGRAM_ID, accounts, ...data)
const [k1, k2, k3, k4, k5] = [key(1), key(2), key(3), key(4), key(5)]

describe('jsonParsed instructions of the token programs', () => {
  itShows('spl-token', [
    [
      createInitializeMintInstruction(k1, 6, k2, k3),
      'initializeMint',
      '{decimals:6,freezeAuthority:k3,mint:k1,mintAuthority:k2,rentSysvar:rent}',
    ],
    [
      createInitializeAccountInstruction(k1, k2, k3),
      'initializeAccount',
      '{account:k1,mint:k2,owner:k3,rentSysvar:rent}',
    ],
    [
      createInitializeMultisigInstruction(k1, multisig, 2),
      'initializeMultisig',
      '{m:2,multisig:k1,rentSysvar:rent,signers:[k8,k9]}',
      { accounts: 3 },
    ],
    [
      createTransferInstruction(k1, k2, k3, 2n ** 64n - 1n),
      'transfer',
      '{amount:"18446744073709551615",authority:k3,destination:k2,source:k1}',
    ],
    [
      createApproveInstruction(k1, k2, k3, 9, multisig),
      'approve',
      '{amount:"9",delegate:k2,multisigOwner:k3,signers:[k8,k9],source:k1}',
      { accounts: 3 },
    ],
    [createRevokeInstruction(k1, k2), 'revoke', '{owner:k2,source:k1}'],
    [
      createMintToInstruction(k1, k2, k3, 9, multisig),
      'mintTo',
      '{account:k2,amount:"9",mint:k1,multisigMintAuthority:k3,signers:[k8,k9]}',
      { accounts: 3 },
    ],
    [createBurnInstruction(k1, k2, k3, 9), 'burn', '{account:k1,amount:"9",authority:k3,mint:k2}'],
    [
      createCloseAccountInstruction(k1, k2, k3, multisig),
      'closeAccount',
      '{account:k1,destination:k2,multisigOwner:k3,signers:[k8,k9]}',
      { accounts: 3 },
    ],
    [
      createFreezeAccountInstruction(k1, k2, k3),
      'freezeAccount',
      '{account:k1,freezeAuthority:k3,mint:k2}',
    ],
    [
      createThawAccountInstruction(k1, k2, k3, multisig),
      'thawAccount',
      '{account:k1,mint:k2,multisigFreezeAuthority:k3,signers:[k8,k9]}',
      { accounts: 3 },
    ],
    [
      createTransferCheckedInstruction(k1, k2, k3, k4, 1500, 3),
      'transferChecked',
      `{authority:k4,destination:k3,mint:k2,source:k1,tokenAmount:{amount:"1500",
        decimals:3,uiAmount:1.5,uiAmountString:"1.5"}}`,
    ],
    [
      createApproveCheckedInstruction(k1, k2, k3, k4, 1500, 3),
      'approveChecked',
      `{delegate:k3,mint:k2,owner:k4,source:k1,tokenAmount:{amount:"1500",decimals:3,
        uiAmount:1.5,uiAmountString:"1.5"}}`,
    ],
    [
      createMintToCheckedInstruction(k1, k2, k3, 1500, 3),
      'mintToChecked',
      `{account:k2,mint:k1,mintAuthority:k3,tokenAmount:{amount:"1500",decimals:3,
        uiAmount:1.5,uiAmountString:"1.5"}}`,
    ],
    [
      createBurnCheckedInstruction(k1, k2, k3, 1500, 3),
      'burnChecked',
      `{account:k1,authority:k3,mint:k2,tokenAmount:{amount:"1500",decimals:3,uiAmount:1.5,
        uiAmountString:"1.5"}}`,
    ],
    [
      createInitializeAccount2Instruction(k1, k2, k3),
      'initializeAccount2',
      '{account:k1,mint:k2,owner:k3,rentSysvar:rent}',
    ],
    [createSyncNativeInstruction(k1), 'syncNative', '{account:k1}'],
    [
      createInitializeAccount3Instruction(k1, k2, k3),
      'initializeAccount3',
      '{account:k1,mint:k2,owner:k3}',
    ],
    [
      raw(TOKEN_PROGRAM_ID, 3, 19, 1),
      'initializeMultisig2',
      '{m:1,multisig:k1,signers:[k2,k3]}',
      { accounts: 2 },
    ],
    [
      createInitializeMint2Instruction(k1, 6, k2, null),
      'initializeMint2',
      '{decimals:6,mint:k1,mintAuthority:k2}',
    ],
    [
      createInitializeImmutableOwnerInstruction(k1, TOKEN_PROGRAM_ID),
      'initializeImmutableOwner',
      '{account:k1}',
    ],
    [createAmountToUiAmountInstruction(k1, 9), 'amountToUiAmount', '{amount:"9",mint:k1}'],
    [
      createInitializeMintCloseAuthorityInstruction(k1, k2, TOKEN_2022_PROGRAM_ID),
      'initializeMintCloseAuthority',
      '{mint:k1,newAuthority:k2}',
    ],
    [token2022(1, 25, 0), 'initializeMintCloseAuthority', '{mint:k1,newAuthority:null}'],
    [
      createCreateNativeMintInstruction(k1),
      'createNativeMint',
      `{nativeMint:"9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXejP",payer:k1,
        systemProgram:systemProgram}`,
    ],
    [
      createInitializeNonTransferableMintInstruction(k1, TOKEN_2022_PROGRAM_ID),
      'initializeNonTransferableMint',
      '{mint:k1}',
    ],
    [
      createInitializePermanentDelegateInstruction(k1, k2, TOKEN_2022_PROGRAM_ID),
      'initializePermanentDelegate',
      '{delegate:k2,mint:k1}',
    ],
    [token2022(3, 38), 'withdrawExcessLamports', '{authority:k3,destination:k2,source:k1}'],
    // What follows the tag is a list up to the end: one more byte is half an element.
    [
      createReallocateInstruction(k1, k2, [ExtensionType.MemoTransfer, ExtensionType.CpiGuard], k3),
      'reallocate',
      `{account:k1,extensionTypes:[memoTransfer,cpiGuard],owner:k3,payer:k2,
        systemProgram:systemProgram}`,
      { isExact: true },
    ],
    [
      token2022(1, 21, 7, 0, 20, 0, 21, 0, 27, 0),
      'getAccountDataSize',
      '{extensionTypes:[immutableOwner,groupPointer,tokenGroup,pausableAccount],mint:k1}',
      { isExact: true },
    ],
    [token2022(1, 21), 'getAccountDataSize', '{mint:k1}', { isExact: true }],
  ])

  const authorities = {
    mintTokens: AuthorityType.MintTokens,
    freezeAccount: AuthorityType.FreezeAccount,
    transferFeeConfig: AuthorityType.TransferFeeConfig,
    withheldWithdraw: AuthorityType.WithheldWithdraw,
    closeMint: AuthorityType.CloseMint,
    interestRate: AuthorityType.InterestRate,
    permanentDelegate: AuthorityType.PermanentDelegate,
    confidentialTransferMint: AuthorityType.ConfidentialTransferMint,
    transferHookProgramId: AuthorityType.TransferHookProgramId,
    confidentialTransferFeeConfig: AuthorityType.ConfidentialTransferFeeConfig,
    metadataPointer: AuthorityType.MetadataPointer,
    groupPointer: AuthorityType.GroupPointer,
    groupMemberPointer: AuthorityType.GroupMemberPointer,
    scaledUiAmount: AuthorityType.ScaledUiAmountConfig,
    pause: AuthorityType.PausableConfig,
  }
  itShows('spl-token', [
    ...Object.entries(authorities).map(
      ([authorityType, kind]) =>
        [
          createSetAuthorityInstruction(k1, k2, kind, k3),
          'setAuthority',
          `{authority:k2,authorityType:${authorityType},mint:k1,newAuthority:k3}`,
        ] as const,
    ),
    [
      createSetAuthorityInstruction(k1, k2, AuthorityType.AccountOwner, null, multisig),
      'setAuthority',
      `{account:k1,authorityType:accountOwner,multisigAuthority:k2,newAuthority:null,
        signers:[k8,k9]}`,
      { accounts: 2 },
    ],
    [
      createSetAuthorityInstruction(k1, k2, AuthorityType.CloseAccount, k3),
      'setAuthority',
      '{account:k1,authority:k2,authorityType:closeAccount,newAuthority:k3}',
    ],
  ])

  itShows('spl-associated-token-account', [
    [
      createAssociatedTokenAccountIdempotentInstruction(k1, k2, k3, k4),
      'createIdempotent',
      `{account:k2,mint:k4,source:k1,systemProgram:systemProgram,tokenProgram:tokenProgram,
        wallet:k3}`,
      { isExact: true },
    ],
    [
      createRecoverNestedInstruction(k1, k2, k3, k4, k5, key(6)),
      'recoverNested',
      `{destination:k3,nestedMint:k2,nestedOwner:k4,nestedSource:k1,ownerMint:k5,
        tokenProgram:tokenProgram,wallet:k6}`,
      { isExact: true },
    ],
  ])

  it('shows create of spl-associated-token-account without data or with a 0', () => {
    const instruction = createAssociatedTokenAccountInstruction(k1, k2, k3, k4)
    expect(instruction.data).toHaveLength(0)
    const { parsed } = JSON.parse(shownText(instruction))
    expect(parsed).toEqual({
      type: 'create',
      info: {
        source: 'k1',
        account: 'k2',
        wallet: 'k3',
        mint: 'k4',
        systemProgram: 'systemProgram',
        tokenProgram: 'tokenProgram',
      },
    })
    instruction.data = Buffer.of(0)
    expect(JSON.parse(shownText(instruction)).parsed).toEqual(parsed)
    instruction.data = Buffer.of(0, 0)
    expect(shownText(instruction)).toMatch(/^{"accounts"/)
  })

  it('shows uiAmountToAmount of spl-token, whose text goes to the end of the data', () => {
    const instruction = createUiAmountToAmountInstruction(k1, '1.5')
    expect(shownText(instruction)).toContain(
      '{"info":{"mint":"k1","uiAmount":"1.5"},"type":"uiAmountToAmount"}',
    )
    instruction.data = Buffer.of(24, 0xc3, 0x28)
    expect(shownText(instruction)).toMatch(/^{"accounts"/)
  })

  it('leaves raw what agave 4.0 does not know', () => {
    const isRaw = (...data: Parameters<typeof bytes>) =>
      shownText(token2022(3, ...data)).startsWith('{"accounts"')
    expect(isRaw(21, 7, 0)).toBe(false)
    expect(isRaw(21, 28, 0)).toBe(true)
    expect(isRaw(6, 16, 0)).toBe(false)
    // An authority, an option and a tag beyond the last.
    expect(isRaw(6, 17, 0)).toBe(true)
    expect(isRaw(6, 0, 2, key(1))).toBe(true)
    expect(isRaw(45)).toBe(true)
    expect(isRaw()).toBe(true)
  })
})
