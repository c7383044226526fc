import {
  ASSOCIATED_TOKEN_PROGRAM_ID,
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
  NATIVE_MINT_2022,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token'
import { SYSVAR_RENT_PUBKEY, SystemProgram } from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { type bytes, itShows, key, raw, shownText } from '../../../testkit/instruction-json.ts'

const rentSysvar = SYSVAR_RENT_PUBKEY.toBase58()
const systemProgram = SystemProgram.programId.toBase58()
const tokenProgram = TOKEN_PROGRAM_ID.toBase58()
const multisig = [key(8), key(9)]
const signers = ['k8', 'k9']
const tokenAmount = { amount: '1500', decimals: 3, uiAmount: 1.5, uiAmountString: '1.5' }
const token2022 = (accounts: number, ...data: Parameters<typeof bytes>) =>
  raw(TOKEN_2022_PROGRAM_ID, accounts, ...data)
const [k1, k2, k3, k4, k5] = [key(1), key(2), key(3), key(4), key(5)]

describe('jsonParsed instructions of the token programs', () => {
  itShows('spl-token', [
    [
      createInitializeMintInstruction(k1, 6, k2, k3),
      {
        type: 'initializeMint',
        info: {
          mint: 'k1',
          decimals: 6,
          mintAuthority: 'k2',
          rentSysvar,
          freezeAuthority: 'k3',
        },
      },
    ],
    [
      createInitializeAccountInstruction(k1, k2, k3),
      {
        type: 'initializeAccount',
        info: { account: 'k1', mint: 'k2', owner: 'k3', rentSysvar },
      },
    ],
    [
      createInitializeMultisigInstruction(k1, multisig, 2),
      {
        type: 'initializeMultisig',
        accounts: 3,
        info: { multisig: 'k1', rentSysvar, signers, m: 2 },
      },
    ],
    [
      createTransferInstruction(k1, k2, k3, 2n ** 64n - 1n),
      {
        type: 'transfer',
        info: {
          source: 'k1',
          destination: 'k2',
          authority: 'k3',
          amount: '18446744073709551615',
        },
      },
    ],
    [
      createApproveInstruction(k1, k2, k3, 9, multisig),
      {
        type: 'approve',
        accounts: 3,
        info: { source: 'k1', delegate: 'k2', multisigOwner: 'k3', signers, amount: '9' },
      },
    ],
    [createRevokeInstruction(k1, k2), { type: 'revoke', info: { source: 'k1', owner: 'k2' } }],
    [
      createMintToInstruction(k1, k2, k3, 9, multisig),
      {
        type: 'mintTo',
        accounts: 3,
        info: {
          mint: 'k1',
          account: 'k2',
          multisigMintAuthority: 'k3',
          signers,
          amount: '9',
        },
      },
    ],
    [
      createBurnInstruction(k1, k2, k3, 9),
      {
        type: 'burn',
        info: { account: 'k1', mint: 'k2', authority: 'k3', amount: '9' },
      },
    ],
    [
      createCloseAccountInstruction(k1, k2, k3, multisig),
      {
        type: 'closeAccount',
        accounts: 3,
        info: { account: 'k1', destination: 'k2', multisigOwner: 'k3', signers },
      },
    ],
    [
      createFreezeAccountInstruction(k1, k2, k3),
      { type: 'freezeAccount', info: { account: 'k1', mint: 'k2', freezeAuthority: 'k3' } },
    ],
    [
      createThawAccountInstruction(k1, k2, k3, multisig),
      {
        type: 'thawAccount',
        accounts: 3,
        info: { account: 'k1', mint: 'k2', multisigFreezeAuthority: 'k3', signers },
      },
    ],
    [
      createTransferCheckedInstruction(k1, k2, k3, k4, 1500, 3),
      {
        type: 'transferChecked',
        info: { source: 'k1', mint: 'k2', destination: 'k3', authority: 'k4', tokenAmount },
      },
    ],
    [
      createApproveCheckedInstruction(k1, k2, k3, k4, 1500, 3),
      {
        type: 'approveChecked',
        info: { source: 'k1', mint: 'k2', delegate: 'k3', owner: 'k4', tokenAmount },
      },
    ],
    [
      createMintToCheckedInstruction(k1, k2, k3, 1500, 3),
      {
        type: 'mintToChecked',
        info: { mint: 'k1', account: 'k2', mintAuthority: 'k3', tokenAmount },
      },
    ],
    [
      createBurnCheckedInstruction(k1, k2, k3, 1500, 3),
      {
        type: 'burnChecked',
        info: { account: 'k1', mint: 'k2', authority: 'k3', tokenAmount },
      },
    ],
    [
      createInitializeAccount2Instruction(k1, k2, k3),
      {
        type: 'initializeAccount2',
        info: { account: 'k1', mint: 'k2', owner: 'k3', rentSysvar },
      },
    ],
    [createSyncNativeInstruction(k1), { type: 'syncNative', info: { account: 'k1' } }],
    [
      createInitializeAccount3Instruction(k1, k2, k3),
      { type: 'initializeAccount3', info: { account: 'k1', mint: 'k2', owner: 'k3' } },
    ],
    [
      raw(TOKEN_PROGRAM_ID, 3, 19, 1),
      {
        type: 'initializeMultisig2',
        accounts: 2,
        info: { multisig: 'k1', signers: ['k2', 'k3'], m: 1 },
      },
    ],
    [
      createInitializeMint2Instruction(k1, 6, k2, null),
      { type: 'initializeMint2', info: { mint: 'k1', decimals: 6, mintAuthority: 'k2' } },
    ],
    [
      createInitializeImmutableOwnerInstruction(k1, TOKEN_PROGRAM_ID),
      { type: 'initializeImmutableOwner', info: { account: 'k1' } },
    ],
    [
      createAmountToUiAmountInstruction(k1, 9),
      { type: 'amountToUiAmount', info: { mint: 'k1', amount: '9' } },
    ],
    [
      createInitializeMintCloseAuthorityInstruction(k1, k2, TOKEN_2022_PROGRAM_ID),
      { type: 'initializeMintCloseAuthority', info: { mint: 'k1', newAuthority: 'k2' } },
    ],
    [
      token2022(1, 25, 0),
      { type: 'initializeMintCloseAuthority', info: { mint: 'k1', newAuthority: null } },
    ],
    [
      createCreateNativeMintInstruction(k1),
      {
        type: 'createNativeMint',
        info: { payer: 'k1', nativeMint: NATIVE_MINT_2022.toBase58(), systemProgram },
      },
    ],
    [
      createInitializeNonTransferableMintInstruction(k1, TOKEN_2022_PROGRAM_ID),
      { type: 'initializeNonTransferableMint', info: { mint: 'k1' } },
    ],
    [
      createInitializePermanentDelegateInstruction(k1, k2, TOKEN_2022_PROGRAM_ID),
      { type: 'initializePermanentDelegate', info: { mint: 'k1', delegate: 'k2' } },
    ],
    [
      token2022(3, 38),
      {
        type: 'withdrawExcessLamports',
        info: { source: 'k1', destination: 'k2', authority: 'k3' },
      },
    ],
    // What follows the tag is a list up to the end: one more byte is half an element.
    [
      createReallocateInstruction(k1, k2, [ExtensionType.MemoTransfer, ExtensionType.CpiGuard], k3),
      {
        type: 'reallocate',
        isExact: true,
        info: {
          account: 'k1',
          payer: 'k2',
          systemProgram,
          owner: 'k3',
          extensionTypes: ['memoTransfer', 'cpiGuard'],
        },
      },
    ],
    [
      token2022(1, 21, 7, 0, 20, 0, 21, 0, 27, 0),
      {
        type: 'getAccountDataSize',
        isExact: true,
        info: {
          mint: 'k1',
          extensionTypes: ['immutableOwner', 'groupPointer', 'tokenGroup', 'pausableAccount'],
        },
      },
    ],
    [token2022(1, 21), { type: 'getAccountDataSize', isExact: true, info: { mint: 'k1' } }],
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
          {
            type: 'setAuthority',
            info: { mint: 'k1', authority: 'k2', authorityType, newAuthority: 'k3' },
          },
        ] as const,
    ),
    [
      createSetAuthorityInstruction(k1, k2, AuthorityType.AccountOwner, null, multisig),
      {
        type: 'setAuthority',
        accounts: 2,
        info: {
          account: 'k1',
          multisigAuthority: 'k2',
          signers,
          authorityType: 'accountOwner',
          newAuthority: null,
        },
      },
    ],
    [
      createSetAuthorityInstruction(k1, k2, AuthorityType.CloseAccount, k3),
      {
        type: 'setAuthority',
        info: {
          account: 'k1',
          authority: 'k2',
          authorityType: 'closeAccount',
          newAuthority: 'k3',
        },
      },
    ],
  ])

  const associated = {
    source: 'k1',
    account: 'k2',
    wallet: 'k3',
    mint: 'k4',
    systemProgram,
    tokenProgram,
  }
  itShows('spl-associated-token-account', [
    [
      createAssociatedTokenAccountIdempotentInstruction(k1, k2, k3, k4),
      { type: 'createIdempotent', isExact: true, info: associated },
    ],
    [
      createRecoverNestedInstruction(k1, k2, k3, k4, k5, key(6)),
      {
        type: 'recoverNested',
        isExact: true,
        info: {
          nestedSource: 'k1',
          nestedMint: 'k2',
          destination: 'k3',
          nestedOwner: 'k4',
          ownerMint: 'k5',
          wallet: 'k6',
          tokenProgram,
        },
      },
    ],
  ])

  it('shows create of spl-associated-token-account without data or with a 0', () => {
    const instruction = createAssociatedTokenAccountInstruction(k1, k2, k3, k4)
    expect(instruction.data).toHaveLength(0)
    const shown = JSON.parse(shownText(instruction))
    expect(shown).toEqual({
      program: 'spl-associated-token-account',
      programId: ASSOCIATED_TOKEN_PROGRAM_ID.toBase58(),
      parsed: { type: 'create', info: associated },
      stackHeight: 1,
    })
    instruction.data = Buffer.of(0)
    expect(JSON.parse(shownText(instruction))).toEqual(shown)
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
