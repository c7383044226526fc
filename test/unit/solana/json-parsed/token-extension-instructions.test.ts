import {
  AccountState,
  createDisableCpiGuardInstruction,
  createDisableRequiredMemoTransfersInstruction,
  createEnableCpiGuardInstruction,
  createEnableRequiredMemoTransfersInstruction,
  createHarvestWithheldTokensToMintInstruction,
  createInitializeDefaultAccountStateInstruction,
  createInitializeGroupMemberPointerInstruction,
  createInitializeGroupPointerInstruction,
  createInitializeInterestBearingMintInstruction,
  createInitializeMetadataPointerInstruction,
  createInitializePausableConfigInstruction,
  createInitializeScaledUiAmountConfigInstruction,
  createInitializeTransferFeeConfigInstruction,
  createInitializeTransferHookInstruction,
  createPauseInstruction,
  createResumeInstruction,
  createSetTransferFeeInstruction,
  createTransferCheckedWithFeeInstruction,
  createUpdateDefaultAccountStateInstruction,
  createUpdateGroupMemberPointerInstruction,
  createUpdateGroupPointerInstruction,
  createUpdateMetadataPointerInstruction,
  createUpdateMultiplierDataInstruction,
  createUpdateTransferHookInstruction,
  createWithdrawWithheldTokensFromAccountsInstruction,
  createWithdrawWithheldTokensFromMintInstruction,
  TOKEN_2022_PROGRAM_ID,
} from '@solana/spl-token'
import { PublicKey } from '@solana/web3.js'
import { describe, expect, it } from 'vitest'
import { type bytes, itShows, key, raw, shownText } from '../../../testkit/instruction-json.ts'

const programId = TOKEN_2022_PROGRAM_ID
const [k1, k2, k3, k4, k5] = [key(1), key(2), key(3), key(4), key(5)]
const multisig = [key(8), key(9)]
const signers = ['k8', 'k9']
const none = PublicKey.default
const fee = { transferFeeBasisPoints: 50, maximumFee: 18446744073709551615n }

describe('jsonParsed instructions of Token-2022 extensions', () => {
  itShows('spl-token', [
    [
      createInitializeTransferFeeConfigInstruction(k1, k2, k3, 50, fee.maximumFee),
      {
        type: 'initializeTransferFeeConfig',
        info: {
          mint: 'k1',
          transferFeeConfigAuthority: 'k2',
          withdrawWithheldAuthority: 'k3',
          ...fee,
        },
      },
    ],
    [
      createInitializeTransferFeeConfigInstruction(k1, null, null, 50, fee.maximumFee),
      { type: 'initializeTransferFeeConfig', info: { mint: 'k1', ...fee } },
    ],
    [
      createTransferCheckedWithFeeInstruction(k1, k2, k3, k4, 1500n, 3, 20n, multisig),
      {
        type: 'transferCheckedWithFee',
        accounts: 4,
        info: {
          source: 'k1',
          mint: 'k2',
          destination: 'k3',
          multisigAuthority: 'k4',
          signers,
          tokenAmount: { amount: '1500', decimals: 3, uiAmount: 1.5, uiAmountString: '1.5' },
          feeAmount: { amount: '20', decimals: 3, uiAmount: 0.02, uiAmountString: '0.02' },
        },
      },
    ],
    [
      createWithdrawWithheldTokensFromMintInstruction(k1, k2, k3),
      {
        type: 'withdrawWithheldTokensFromMint',
        info: { mint: 'k1', feeRecipient: 'k2', withdrawWithheldAuthority: 'k3' },
      },
    ],
    [
      createWithdrawWithheldTokensFromAccountsInstruction(k1, k2, k3, [], [k4, k5]),
      {
        type: 'withdrawWithheldTokensFromAccounts',
        info: {
          mint: 'k1',
          feeRecipient: 'k2',
          withdrawWithheldAuthority: 'k3',
          sourceAccounts: ['k4', 'k5'],
        },
      },
    ],
    [
      createWithdrawWithheldTokensFromAccountsInstruction(k1, k2, k3, multisig, [k4]),
      {
        type: 'withdrawWithheldTokensFromAccounts',
        accounts: 4,
        info: {
          mint: 'k1',
          feeRecipient: 'k2',
          multisigWithdrawWithheldAuthority: 'k3',
          signers,
          sourceAccounts: ['k4'],
        },
      },
    ],
    [
      createHarvestWithheldTokensToMintInstruction(k1, [k2, k3]),
      {
        type: 'harvestWithheldTokensToMint',
        accounts: 1,
        info: { mint: 'k1', sourceAccounts: ['k2', 'k3'] },
      },
    ],
    [
      createHarvestWithheldTokensToMintInstruction(k1, []),
      { type: 'harvestWithheldTokensToMint', info: { mint: 'k1', sourceAccounts: [] } },
    ],
    [
      createSetTransferFeeInstruction(k1, k2, [], 50, fee.maximumFee),
      { type: 'setTransferFee', info: { mint: 'k1', transferFeeConfigAuthority: 'k2', ...fee } },
    ],
    [
      // The small letter is the validator's.
      createSetTransferFeeInstruction(k1, k2, multisig, 50, fee.maximumFee),
      {
        type: 'setTransferFee',
        accounts: 2,
        info: { mint: 'k1', multisigtransferFeeConfigAuthority: 'k2', signers, ...fee },
      },
    ],
    [
      createInitializeDefaultAccountStateInstruction(k1, AccountState.Frozen),
      {
        type: 'initializeDefaultAccountState',
        isExact: true,
        info: { mint: 'k1', accountState: 'frozen' },
      },
    ],
    [
      createUpdateDefaultAccountStateInstruction(k1, AccountState.Initialized, k2),
      {
        type: 'updateDefaultAccountState',
        isExact: true,
        info: { mint: 'k1', accountState: 'initialized', freezeAuthority: 'k2' },
      },
    ],
    [
      createEnableRequiredMemoTransfersInstruction(k1, k2),
      { type: 'enableRequiredMemoTransfers', info: { account: 'k1', owner: 'k2' } },
    ],
    [
      createDisableRequiredMemoTransfersInstruction(k1, k2, multisig),
      {
        type: 'disableRequiredMemoTransfers',
        accounts: 2,
        info: { account: 'k1', multisigOwner: 'k2', signers },
      },
    ],
    [
      createInitializeInterestBearingMintInstruction(k1, k2, -300),
      {
        type: 'initializeInterestBearingConfig',
        isExact: true,
        info: { mint: 'k1', rateAuthority: 'k2', rate: -300 },
      },
    ],
    [
      createInitializeInterestBearingMintInstruction(k1, none, 300),
      {
        type: 'initializeInterestBearingConfig',
        isExact: true,
        info: { mint: 'k1', rateAuthority: null, rate: 300 },
      },
    ],
    [
      raw(programId, 2, 33, 1, 0xff, 0xff),
      {
        type: 'updateInterestBearingConfigRate',
        isExact: true,
        info: { mint: 'k1', rateAuthority: 'k2', newRate: -1 },
      },
    ],
    [
      createEnableCpiGuardInstruction(k1, k2),
      { type: 'enableCpiGuard', info: { account: 'k1', owner: 'k2' } },
    ],
    [
      createDisableCpiGuardInstruction(k1, k2),
      { type: 'disableCpiGuard', info: { account: 'k1', owner: 'k2' } },
    ],
    [
      createInitializeTransferHookInstruction(k1, k2, k3, programId),
      {
        type: 'initializeTransferHook',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', programId: 'k3' },
      },
    ],
    [
      createUpdateTransferHookInstruction(k1, k2, none),
      { type: 'updateTransferHook', isExact: true, info: { mint: 'k1', authority: 'k2' } },
    ],
    [
      createInitializeMetadataPointerInstruction(k1, k2, k3, programId),
      {
        type: 'initializeMetadataPointer',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', metadataAddress: 'k3' },
      },
    ],
    [
      createInitializeMetadataPointerInstruction(k1, null, null, programId),
      { type: 'initializeMetadataPointer', isExact: true, info: { mint: 'k1' } },
    ],
    [
      createUpdateMetadataPointerInstruction(k1, k2, k3, multisig),
      {
        type: 'updateMetadataPointer',
        accounts: 2,
        isExact: true,
        info: { mint: 'k1', multisigAuthority: 'k2', signers, metadataAddress: 'k3' },
      },
    ],
    [
      createInitializeGroupPointerInstruction(k1, k2, k3),
      {
        type: 'initializeGroupPointer',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', groupAddress: 'k3' },
      },
    ],
    [
      createUpdateGroupPointerInstruction(k1, k2, k3),
      {
        type: 'updateGroupPointer',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', groupAddress: 'k3' },
      },
    ],
    [
      createInitializeGroupMemberPointerInstruction(k1, k2, k3),
      {
        type: 'initializeGroupMemberPointer',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', memberAddress: 'k3' },
      },
    ],
    [
      createUpdateGroupMemberPointerInstruction(k1, k2, k3),
      {
        type: 'updateGroupMemberPointer',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', memberAddress: 'k3' },
      },
    ],
    [
      createInitializeScaledUiAmountConfigInstruction(k1, k2, 1e21),
      {
        type: 'initializeScaledUiAmountConfig',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', multiplier: '1000000000000000000000' },
      },
    ],
    [
      createInitializeScaledUiAmountConfigInstruction(k1, null, 1.25e-7),
      {
        type: 'initializeScaledUiAmountConfig',
        isExact: true,
        info: { mint: 'k1', authority: null, multiplier: '0.000000125' },
      },
    ],
    [
      createUpdateMultiplierDataInstruction(k1, k2, 2, 9n),
      {
        type: 'updateMultiplier',
        isExact: true,
        info: { mint: 'k1', authority: 'k2', newMultiplier: '2', newMultiplierTimestamp: 9 },
      },
    ],
    [
      createInitializePausableConfigInstruction(k1, null),
      {
        type: 'initializePausableConfig',
        isExact: true,
        info: { mint: 'k1', authority: none.toBase58() },
      },
    ],
    [createPauseInstruction(k1, k2), { type: 'pause', info: { mint: 'k1', authority: 'k2' } }],
    [
      createResumeInstruction(k1, k2, multisig),
      {
        type: 'resume',
        accounts: 2,
        info: { mint: 'k1', multisigAuthority: 'k2', signers },
      },
    ],
  ])

  it('leaves raw what agave 4.0 does not know', () => {
    const isRaw = (...data: Parameters<typeof bytes>) =>
      shownText(raw(programId, 4, ...data)).startsWith('{"accounts"')
    // Each extension has a last instruction, and needs a second tag.
    const counts = { 26: 6, 28: 2, 30: 2, 33: 2, 34: 2, 36: 2, 39: 2, 40: 2, 41: 2, 43: 2, 44: 3 }
    for (const [tag, count] of Object.entries(counts)) {
      expect(isRaw(Number(tag), count)).toBe(true)
      expect(isRaw(Number(tag))).toBe(true)
    }
    expect(isRaw(28, 0, 2)).toBe(false)
    expect(isRaw(28, 0, 3)).toBe(true)
  })
})
