import { TOKEN_2022_PROGRAM_ID } from '@solana/spl-token'
import { describe, expect, it } from 'vitest'
import { type bytes, itShows, key, raw, shownText } from '../../../../testkit/instruction-json.ts'

const token = (accounts: number, ...data: Parameters<typeof bytes>) =>
  raw(TOKEN_2022_PROGRAM_ID, accounts, ...data)
const info = (instruction: ReturnType<typeof token>) =>
  JSON.parse(shownText(instruction)).parsed?.info
const elGamal = Buffer.alloc(32, 5)
const noElGamal = Buffer.alloc(32)
const noKey = Buffer.alloc(32)
const ciphertext = Buffer.alloc(36, 6)
const auditor = Buffer.alloc(128, 7)
const base64 = (value: Buffer) => `"${value.toString('base64')}"`
const [elGamalText, noElGamalText, aeText] = [elGamal, noElGamal, ciphertext].map(base64)
const owned = '{account:k1,owner:k2}'
const isExact = true

describe('jsonParsed instructions of confidential transfers', () => {
  itShows('spl-token', [
    [
      token(1, 27, 0, key(2), 1, elGamal),
      'initializeConfidentialTransferMint',
      `{auditorElGamalPubkey:${elGamalText},authority:k2,autoApproveNewAccounts:true,mint:k1}`,
      { isExact },
    ],
    [
      token(1, 27, 0, noKey, 0, noElGamal),
      'initializeConfidentialTransferMint',
      '{auditorElGamalPubkey:null,autoApproveNewAccounts:false,mint:k1}',
      { isExact },
    ],
    [
      token(2, 27, 1, 1, noElGamal),
      'updateConfidentialTransferMint',
      `{auditorElGamalPubkey:null,autoApproveNewAccounts:true,
        confidentialTransferMintAuthority:k2,mint:k1}`,
      { isExact },
    ],
    [
      token(4, 27, 2, ciphertext, 65536n, 0),
      'configureConfidentialTransferAccount',
      `{account:k1,decryptableZeroBalance:${aeText},maximumPendingBalanceCreditCounter:65536,
        mint:k2,owner:k4,proofContextStateAccount:k3,proofInstructionOffset:0}`,
      { isExact },
    ],
    [
      token(3, 27, 3),
      'approveConfidentialTransferAccount',
      '{account:k1,confidentialTransferAuditorAuthority:k3,mint:k2}',
    ],
    [
      token(3, 27, 4, 255),
      'emptyConfidentialTransferAccount',
      '{account:k1,instructionsSysvar:k2,owner:k3,proofInstructionOffset:-1}',
      { isExact },
    ],
    [
      token(4, 27, 5, 9n, 3),
      'depositConfidentialTransfer',
      '{amount:9,decimals:3,destination:k2,mint:k3,owner:k4,source:k1}',
      { isExact },
    ],
    [
      token(6, 27, 6, 9n, 3, ciphertext, 0, 0),
      'withdrawConfidentialTransfer',
      `{amount:9,decimals:3,destination:k2,equalityProofContextStateAccount:k4,
        equalityProofInstructionOffset:0,mint:k3,newDecryptableAvailableBalance:${aeText},
        owner:k6,rangeProofContextStateAccount:k5,rangeProofInstructionOffset:0,source:k1}`,
      { accounts: 5, isExact },
    ],
    [
      token(5, 27, 7, ciphertext, auditor, 1, 2, 3),
      'confidentialTransfer',
      `{ciphertextValidityProofInstructionOffset:2,destination:k3,
        equalityProofInstructionOffset:1,instructionsSysvar:k4,mint:k2,
        newSourceDecryptableAvailableBalance:${aeText},owner:k5,rangeProofInstructionOffset:3,
        source:k1}`,
      { accounts: 4, isExact },
    ],
    [
      token(2, 27, 8, 9n, ciphertext),
      'applyPendingConfidentialTransferBalance',
      `{account:k1,expectedPendingBalanceCreditCounter:9,
        newDecryptableAvailableBalance:${aeText},owner:k2}`,
      { isExact },
    ],
    ...(
      [
        [9, 'enableConfidentialTransferConfidentialCredits'],
        [10, 'disableConfidentialTransferConfidentialCredits'],
        [11, 'enableConfidentialTransferNonConfidentialCredits'],
        [12, 'disableConfidentialTransferNonConfidentialCredits'],
      ] as const
    ).map(([tag, type]) => [token(2, 27, tag), type, owned] as const),
    [
      // The fee's two proofs are in one order in the data and in the other among the accounts.
      token(10, 27, 13, ciphertext, auditor, 0, 1, 2, 0, 5),
      'confidentialTransferWithFee',
      `{destination:k3,equalityProofContextStateAccount:k5,equalityProofInstructionOffset:0,
        feeCiphertextValidityProofContextStateAccount:k7,
        feeCiphertextValidityProofInstructionOffset:0,feeSigmaProofInstructionOffset:2,
        feeSigmaProofRecordAccount:k8,instructionsSysvar:k4,mint:k2,
        newSourceDecryptableAvailableBalance:${aeText},owner:k10,
        rangeProofInstructionOffset:5,rangeProofRecordAccount:k9,source:k1,
        transferAmountCiphertextValidityProofInstructionOffset:1,
        transferAmountCiphertextValidityProofRecordAccount:k6}`,
      { accounts: 4, isExact },
    ],
    [
      token(3, 27, 14),
      'configureConfidentialAccountWithRegistry',
      '{account:k1,mint:k2,registry:k3}',
    ],
  ])

  it('takes further accounts for proofs first and for signers then', () => {
    const configured = (accounts: number, offset: number) =>
      info(token(accounts, 27, 2, ciphertext, 1n, offset))
    expect(configured(6, 0)).toMatchObject({
      proofContextStateAccount: 'k3',
      multisigOwner: 'k4',
      signers: ['k5', 'k6'],
    })
    expect(configured(5, 1)).toMatchObject({
      instructionsSysvar: 'k3',
      recordAccount: 'k4',
      owner: 'k5',
    })
    expect(configured(6, 1)).toMatchObject({ multisigOwner: 'k5', signers: ['k6'] })
    const transferred = (accounts: number, ...offsets: number[]) =>
      info(token(accounts, 27, 7, ciphertext, auditor, ...offsets))
    expect(transferred(4, 1, 1, 1)).toMatchObject({ owner: 'k4' })
    expect(transferred(4, 1, 1, 1)).not.toHaveProperty('instructionsSysvar')
    expect(transferred(9, 0, 0, 0)).toMatchObject({
      equalityProofContextStateAccount: 'k4',
      ciphertextValidityProofContextStateAccount: 'k5',
      rangeProofContextStateAccount: 'k6',
      multisigOwner: 'k7',
      signers: ['k8', 'k9'],
    })
    expect(transferred(7, 0, 3, 0)).toMatchObject({
      instructionsSysvar: 'k4',
      equalityProofContextStateAccount: 'k5',
      ciphertextValidityProofRecordAccount: 'k6',
      owner: 'k7',
    })
  })
})

describe('jsonParsed instructions of confidential transfer fees', () => {
  itShows('spl-token', [
    [
      token(1, 37, 0, noKey, elGamal),
      'initializeConfidentialTransferFeeConfig',
      `{mint:k1,withdrawWithheldAuthorityElGamalPubkey:${elGamalText}}`,
      { isExact },
    ],
    [
      token(1, 37, 0, key(2), noElGamal),
      'initializeConfidentialTransferFeeConfig',
      `{authority:k2,mint:k1,withdrawWithheldAuthorityElGamalPubkey:${noElGamalText}}`,
      { isExact },
    ],
    [
      token(5, 37, 1, 1, ciphertext),
      'withdrawWithheldConfidentialTransferTokensFromMint',
      `{feeRecipient:k2,instructionsSysvar:k3,mint:k1,
        newDecryptableAvailableBalance:${aeText},proofInstructionOffset:1,recordAccount:k4,
        withdrawWithheldAuthority:k5}`,
      { accounts: 4, isExact },
    ],
    [
      token(6, 37, 2, 2, 0, ciphertext),
      'withdrawWithheldConfidentialTransferTokensFromAccounts',
      `{feeRecipient:k2,mint:k1,newDecryptableAvailableBalance:${aeText},
        proofContextStateAccount:k3,proofInstructionOffset:0,sourceAccounts:[k5,k6],
        withdrawWithheldAuthority:k4}`,
      { isExact },
    ],
    [
      token(7, 37, 2, 2, 1, ciphertext),
      'withdrawWithheldConfidentialTransferTokensFromAccounts',
      `{feeRecipient:k2,instructionsSysvar:k3,mint:k1,
        newDecryptableAvailableBalance:${aeText},proofAccount:k4,proofInstructionOffset:1,
        sourceAccounts:[k6,k7],withdrawWithheldAuthority:k5}`,
      { accounts: 6, isExact },
    ],
    [
      token(2, 37, 3),
      'harvestWithheldConfidentialTransferTokensToMint',
      '{mint:k1,sourceAccounts:[k2]}',
      { accounts: 1 },
    ],
    [token(2, 37, 4), 'enableConfidentialTransferFeeHarvestToMint', '{account:k1,owner:k2}'],
    [token(2, 37, 5), 'disableConfidentialTransferFeeHarvestToMint', '{account:k1,owner:k2}'],
  ])
})

describe('jsonParsed instructions of confidential mints and burns', () => {
  itShows('spl-token', [
    [
      token(1, 42, 0, elGamal, ciphertext),
      'initializeConfidentialMintBurnMint',
      `{decryptableSupply:${aeText},mint:k1,supplyElGamalPubkey:${elGamalText}}`,
      { isExact },
    ],
    [
      token(3, 42, 1, elGamal, 0),
      'rotateConfidentialMintBurnSupplyElGamalPubkey',
      `{mint:k1,newSupplyElGamalPubkey:${elGamalText},owner:k3,proofAccount:k2,
        proofInstructionOffset:0}`,
      { isExact },
    ],
    [
      token(5, 42, 1, elGamal, 1),
      'rotateConfidentialMintBurnSupplyElGamalPubkey',
      `{instructionsSysvar:k2,mint:k1,multisigOwner:k3,newSupplyElGamalPubkey:${elGamalText},
        proofInstructionOffset:1,signers:[k4,k5]}`,
      { accounts: 3, isExact },
    ],
    [
      token(2, 42, 2, ciphertext),
      'updateConfidentialMintBurnDecryptableSupply',
      `{mint:k1,newDecryptableSupply:${aeText},owner:k2}`,
      { isExact },
    ],
    [
      token(5, 42, 3, ciphertext, auditor, 0, 0, 1),
      'confidentialMint',
      `{ciphertextValidityProofInstructionOffset:0,destination:k1,
        equalityProofContextStateAccount:k4,equalityProofInstructionOffset:0,
        instructionsSysvar:k3,mint:k2,newDecryptableSupply:${aeText},owner:k5,
        rangeProofInstructionOffset:1}`,
      { accounts: 3, isExact },
    ],
    [
      token(3, 42, 4, ciphertext, auditor, 0, 0, 1),
      'confidentialBurn',
      `{ciphertextValidityProofInstructionOffset:0,destination:k1,
        equalityProofInstructionOffset:0,mint:k2,newDecryptableAvailableBalance:${aeText},
        owner:k3,rangeProofInstructionOffset:1}`,
      { isExact },
    ],
    [token(2, 42, 5), 'applyPendingBurn', '{mint:k1,owner:k2}'],
  ])
})
