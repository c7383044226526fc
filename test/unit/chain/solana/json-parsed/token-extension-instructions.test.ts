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
import { type bytes, itShows, key, raw, shownText } from '../../../../testkit/instruction-json.ts'

const programId = TOKEN_2022_PROGRAM_ID
const [k1, k2, k3, k4, k5] = [key(1), key(2), key(3), key(4), key(5)]
const multisig = [key(8), key(9)]
const none = PublicKey.default
const fee = { transferFeeBasisPoints: 50, maximumFee: 18446744073709551615n }

describe('jsonParsed instructions of Token-2022 extensions', () => {
  itShows('spl-token', [
    [
      createInitializeTransferFeeConfigInstruction(k1, k2, k3, 50, fee.maximumFee),
      'initializeTransferFeeConfig',
      `{maximumFee:18446744073709551615,mint:k1,transferFeeBasisPoints:50,
        transferFeeConfigAuthority:k2,withdrawWithheldAuthority:k3}`,
    ],
    [
      createInitializeTransferFeeConfigInstruction(k1, null, null, 50, fee.maximumFee),
      'initializeTransferFeeConfig',
      '{maximumFee:18446744073709551615,mint:k1,transferFeeBasisPoints:50}',
    ],
    [
      createTransferCheckedWithFeeInstruction(k1, k2, k3, k4, 1500n, 3, 20n, multisig),
      'transferCheckedWithFee',
      `{destination:k3,feeAmount:{amount:"20",decimals:3,uiAmount:0.02,
        uiAmountString:"0.02"},mint:k2,multisigAuthority:k4,signers:[k8,k9],source:k1,
        tokenAmount:{amount:"1500",decimals:3,uiAmount:1.5,uiAmountString:"1.5"}}`,
      { accounts: 4 },
    ],
    [
      createWithdrawWithheldTokensFromMintInstruction(k1, k2, k3),
      'withdrawWithheldTokensFromMint',
      '{feeRecipient:k2,mint:k1,withdrawWithheldAuthority:k3}',
    ],
    [
      createWithdrawWithheldTokensFromAccountsInstruction(k1, k2, k3, [], [k4, k5]),
      'withdrawWithheldTokensFromAccounts',
      '{feeRecipient:k2,mint:k1,sourceAccounts:[k4,k5],withdrawWithheldAuthority:k3}',
    ],
    [
      createWithdrawWithheldTokensFromAccountsInstruction(k1, k2, k3, multisig, [k4]),
      'withdrawWithheldTokensFromAccounts',
      `{feeRecipient:k2,mint:k1,multisigWithdrawWithheldAuthority:k3,signers:[k8,k9],
        sourceAccounts:[k4]}`,
      { accounts: 4 },
    ],
    [
      createHarvestWithheldTokensToMintInstruction(k1, [k2, k3]),
      'harvestWithheldTokensToMint',
      '{mint:k1,sourceAccounts:[k2,k3]}',
      { accounts: 1 },
    ],
    [
      createHarvestWithheldTokensToMintInstruction(k1, []),
      'harvestWithheldTokensToMint',
      '{mint:k1,sourceAccounts:[]}',
    ],
    [
      createSetTransferFeeInstruction(k1, k2, [], 50, fee.maximumFee),
      'setTransferFee',
      `{maximumFee:18446744073709551615,mint:k1,transferFeeBasisPoints:50,
        transferFeeConfigAuthority:k2}`,
    ],
    [
      // The small letter is the validator's.
      createSetTransferFeeInstruction(k1, k2, multisig, 50, fee.maximumFee),
      'setTransferFee',
      `{maximumFee:18446744073709551615,mint:k1,multisigtransferFeeConfigAuthority:k2,
        signers:[k8,k9],transferFeeBasisPoints:50}`,
      { accounts: 2 },
    ],
    [
      createInitializeDefaultAccountStateInstruction(k1, AccountState.Frozen),
      'initializeDefaultAccountState',
      '{accountState:frozen,mint:k1}',
      { isExact: true },
    ],
    [
      createUpdateDefaultAccountStateInstruction(k1, AccountState.Initialized, k2),
      'updateDefaultAccountState',
      '{accountState:initialized,freezeAuthority:k2,mint:k1}',
      { isExact: true },
    ],
    [
      createEnableRequiredMemoTransfersInstruction(k1, k2),
      'enableRequiredMemoTransfers',
      '{account:k1,owner:k2}',
    ],
    [
      createDisableRequiredMemoTransfersInstruction(k1, k2, multisig),
      'disableRequiredMemoTransfers',
      '{account:k1,multisigOwner:k2,signers:[k8,k9]}',
      { accounts: 2 },
    ],
    [
      createInitializeInterestBearingMintInstruction(k1, k2, -300),
      'initializeInterestBearingConfig',
      '{mint:k1,rate:-300,rateAuthority:k2}',
      { isExact: true },
    ],
    [
      createInitializeInterestBearingMintInstruction(k1, none, 300),
      'initializeInterestBearingConfig',
      '{mint:k1,rate:300,rateAuthority:null}',
      { isExact: true },
    ],
    [
      raw(programId, 2, 33, 1, 0xff, 0xff),
      'updateInterestBearingConfigRate',
      '{mint:k1,newRate:-1,rateAuthority:k2}',
      { isExact: true },
    ],
    [createEnableCpiGuardInstruction(k1, k2), 'enableCpiGuard', '{account:k1,owner:k2}'],
    [createDisableCpiGuardInstruction(k1, k2), 'disableCpiGuard', '{account:k1,owner:k2}'],
    [
      createInitializeTransferHookInstruction(k1, k2, k3, programId),
      'initializeTransferHook',
      '{authority:k2,mint:k1,programId:k3}',
      { isExact: true },
    ],
    [
      createUpdateTransferHookInstruction(k1, k2, none),
      'updateTransferHook',
      '{authority:k2,mint:k1}',
      { isExact: true },
    ],
    [
      createInitializeMetadataPointerInstruction(k1, k2, k3, programId),
      'initializeMetadataPointer',
      '{authority:k2,metadataAddress:k3,mint:k1}',
      { isExact: true },
    ],
    [
      createInitializeMetadataPointerInstruction(k1, null, null, programId),
      'initializeMetadataPointer',
      '{mint:k1}',
      { isExact: true },
    ],
    [
      createUpdateMetadataPointerInstruction(k1, k2, k3, multisig),
      'updateMetadataPointer',
      '{metadataAddress:k3,mint:k1,multisigAuthority:k2,signers:[k8,k9]}',
      { accounts: 2, isExact: true },
    ],
    [
      createInitializeGroupPointerInstruction(k1, k2, k3),
      'initializeGroupPointer',
      '{authority:k2,groupAddress:k3,mint:k1}',
      { isExact: true },
    ],
    [
      createUpdateGroupPointerInstruction(k1, k2, k3),
      'updateGroupPointer',
      '{authority:k2,groupAddress:k3,mint:k1}',
      { isExact: true },
    ],
    [
      createInitializeGroupMemberPointerInstruction(k1, k2, k3),
      'initializeGroupMemberPointer',
      '{authority:k2,memberAddress:k3,mint:k1}',
      { isExact: true },
    ],
    [
      createUpdateGroupMemberPointerInstruction(k1, k2, k3),
      'updateGroupMemberPointer',
      '{authority:k2,memberAddress:k3,mint:k1}',
      { isExact: true },
    ],
    [
      createInitializeScaledUiAmountConfigInstruction(k1, k2, 1e21),
      'initializeScaledUiAmountConfig',
      '{authority:k2,mint:k1,multiplier:"1000000000000000000000"}',
      { isExact: true },
    ],
    [
      createInitializeScaledUiAmountConfigInstruction(k1, null, 1.25e-7),
      'initializeScaledUiAmountConfig',
      '{authority:null,mint:k1,multiplier:"0.000000125"}',
      { isExact: true },
    ],
    [
      createUpdateMultiplierDataInstruction(k1, k2, 2, 9n),
      'updateMultiplier',
      '{authority:k2,mint:k1,newMultiplier:"2",newMultiplierTimestamp:9}',
      { isExact: true },
    ],
    [
      createInitializePausableConfigInstruction(k1, null),
      'initializePausableConfig',
      '{authority:systemProgram,mint:k1}',
      { isExact: true },
    ],
    [createPauseInstruction(k1, k2), 'pause', '{authority:k2,mint:k1}'],
    [
      createResumeInstruction(k1, k2, multisig),
      'resume',
      '{mint:k1,multisigAuthority:k2,signers:[k8,k9]}',
      { accounts: 2 },
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
