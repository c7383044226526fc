import { TOKEN_2022_PROGRAM_ID } from '@solana/spl-token'
import { describe, expect, it } from 'vitest'
import { type bytes, itShows, key, raw, shownText } from '../../../testkit/instruction-json.ts'

const token = (accounts: number, ...data: Parameters<typeof bytes>) =>
  raw(TOKEN_2022_PROGRAM_ID, accounts, ...data)
const info = (instruction: ReturnType<typeof token>) =>
  JSON.parse(shownText(instruction)).parsed?.info
const elGamal = Buffer.alloc(32, 5)
const noElGamal = Buffer.alloc(32)
const noKey = Buffer.alloc(32)
const ciphertext = Buffer.alloc(36, 6)
const auditor = Buffer.alloc(128, 7)
const elGamalText = elGamal.toString('base64')
const text = ciphertext.toString('base64')
const owned = { account: 'k1', owner: 'k2' }
const isExact = true

describe('jsonParsed instructions of confidential transfers', () => {
  itShows('spl-token', [
    [
      token(1, 27, 0, key(2), 1, elGamal),
      {
        type: 'initializeConfidentialTransferMint',
        isExact,
        info: {
          mint: 'k1',
          authority: 'k2',
          autoApproveNewAccounts: true,
          auditorElGamalPubkey: elGamalText,
        },
      },
    ],
    [
      token(1, 27, 0, noKey, 0, noElGamal),
      {
        type: 'initializeConfidentialTransferMint',
        isExact,
        info: { mint: 'k1', autoApproveNewAccounts: false, auditorElGamalPubkey: null },
      },
    ],
    [
      token(2, 27, 1, 1, noElGamal),
      {
        type: 'updateConfidentialTransferMint',
        isExact,
        info: {
          mint: 'k1',
          confidentialTransferMintAuthority: 'k2',
          autoApproveNewAccounts: true,
          auditorElGamalPubkey: null,
        },
      },
    ],
    [
      token(4, 27, 2, ciphertext, 65536n, 0),
      {
        type: 'configureConfidentialTransferAccount',
        isExact,
        info: {
          account: 'k1',
          mint: 'k2',
          proofContextStateAccount: 'k3',
          owner: 'k4',
          decryptableZeroBalance: text,
          maximumPendingBalanceCreditCounter: 65536,
          proofInstructionOffset: 0,
        },
      },
    ],
    [
      token(3, 27, 3),
      {
        type: 'approveConfidentialTransferAccount',
        info: { account: 'k1', mint: 'k2', confidentialTransferAuditorAuthority: 'k3' },
      },
    ],
    [
      token(3, 27, 4, 255),
      {
        type: 'emptyConfidentialTransferAccount',
        isExact,
        info: {
          account: 'k1',
          instructionsSysvar: 'k2',
          owner: 'k3',
          proofInstructionOffset: -1,
        },
      },
    ],
    [
      token(4, 27, 5, 9n, 3),
      {
        type: 'depositConfidentialTransfer',
        isExact,
        info: {
          source: 'k1',
          destination: 'k2',
          mint: 'k3',
          owner: 'k4',
          amount: 9,
          decimals: 3,
        },
      },
    ],
    [
      token(6, 27, 6, 9n, 3, ciphertext, 0, 0),
      {
        type: 'withdrawConfidentialTransfer',
        accounts: 5,
        isExact,
        info: {
          source: 'k1',
          destination: 'k2',
          mint: 'k3',
          equalityProofContextStateAccount: 'k4',
          rangeProofContextStateAccount: 'k5',
          owner: 'k6',
          amount: 9,
          decimals: 3,
          newDecryptableAvailableBalance: text,
          equalityProofInstructionOffset: 0,
          rangeProofInstructionOffset: 0,
        },
      },
    ],
    [
      token(5, 27, 7, ciphertext, auditor, 1, 2, 3),
      {
        type: 'confidentialTransfer',
        accounts: 4,
        isExact,
        info: {
          source: 'k1',
          mint: 'k2',
          destination: 'k3',
          instructionsSysvar: 'k4',
          owner: 'k5',
          newSourceDecryptableAvailableBalance: text,
          equalityProofInstructionOffset: 1,
          ciphertextValidityProofInstructionOffset: 2,
          rangeProofInstructionOffset: 3,
        },
      },
    ],
    [
      token(2, 27, 8, 9n, ciphertext),
      {
        type: 'applyPendingConfidentialTransferBalance',
        isExact,
        info: {
          ...owned,
          newDecryptableAvailableBalance: text,
          expectedPendingBalanceCreditCounter: 9,
        },
      },
    ],
    ...(
      [
        [9, 'enableConfidentialTransferConfidentialCredits'],
        [10, 'disableConfidentialTransferConfidentialCredits'],
        [11, 'enableConfidentialTransferNonConfidentialCredits'],
        [12, 'disableConfidentialTransferNonConfidentialCredits'],
      ] as const
    ).map(([tag, type]) => [token(2, 27, tag), { type, info: owned }] as const),
    [
      // The fee's two proofs are in one order in the data and in the other among the accounts.
      token(10, 27, 13, ciphertext, auditor, 0, 1, 2, 0, 5),
      {
        type: 'confidentialTransferWithFee',
        accounts: 4,
        isExact,
        info: {
          source: 'k1',
          mint: 'k2',
          destination: 'k3',
          instructionsSysvar: 'k4',
          equalityProofContextStateAccount: 'k5',
          transferAmountCiphertextValidityProofRecordAccount: 'k6',
          feeCiphertextValidityProofContextStateAccount: 'k7',
          feeSigmaProofRecordAccount: 'k8',
          rangeProofRecordAccount: 'k9',
          owner: 'k10',
          newSourceDecryptableAvailableBalance: text,
          equalityProofInstructionOffset: 0,
          transferAmountCiphertextValidityProofInstructionOffset: 1,
          feeSigmaProofInstructionOffset: 2,
          feeCiphertextValidityProofInstructionOffset: 0,
          rangeProofInstructionOffset: 5,
        },
      },
    ],
    [
      token(3, 27, 14),
      {
        type: 'configureConfidentialAccountWithRegistry',
        info: { account: 'k1', mint: 'k2', registry: 'k3' },
      },
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
  const withdrawn = { mint: 'k1', feeRecipient: 'k2', newDecryptableAvailableBalance: text }
  itShows('spl-token', [
    [
      token(1, 37, 0, noKey, elGamal),
      {
        type: 'initializeConfidentialTransferFeeConfig',
        isExact,
        info: { mint: 'k1', withdrawWithheldAuthorityElGamalPubkey: elGamalText },
      },
    ],
    [
      token(1, 37, 0, key(2), noElGamal),
      {
        type: 'initializeConfidentialTransferFeeConfig',
        isExact,
        info: {
          mint: 'k1',
          authority: 'k2',
          withdrawWithheldAuthorityElGamalPubkey: noElGamal.toString('base64'),
        },
      },
    ],
    [
      token(5, 37, 1, 1, ciphertext),
      {
        type: 'withdrawWithheldConfidentialTransferTokensFromMint',
        accounts: 4,
        isExact,
        info: {
          ...withdrawn,
          instructionsSysvar: 'k3',
          recordAccount: 'k4',
          withdrawWithheldAuthority: 'k5',
          proofInstructionOffset: 1,
        },
      },
    ],
    [
      token(6, 37, 2, 2, 0, ciphertext),
      {
        type: 'withdrawWithheldConfidentialTransferTokensFromAccounts',
        isExact,
        info: {
          ...withdrawn,
          proofContextStateAccount: 'k3',
          withdrawWithheldAuthority: 'k4',
          sourceAccounts: ['k5', 'k6'],
          proofInstructionOffset: 0,
        },
      },
    ],
    [
      token(7, 37, 2, 2, 1, ciphertext),
      {
        type: 'withdrawWithheldConfidentialTransferTokensFromAccounts',
        accounts: 6,
        isExact,
        info: {
          ...withdrawn,
          instructionsSysvar: 'k3',
          proofAccount: 'k4',
          withdrawWithheldAuthority: 'k5',
          sourceAccounts: ['k6', 'k7'],
          proofInstructionOffset: 1,
        },
      },
    ],
    [
      token(2, 37, 3),
      {
        type: 'harvestWithheldConfidentialTransferTokensToMint',
        accounts: 1,
        info: { mint: 'k1', sourceAccounts: ['k2'] },
      },
    ],
    [token(2, 37, 4), { type: 'enableConfidentialTransferFeeHarvestToMint', info: owned }],
    [token(2, 37, 5), { type: 'disableConfidentialTransferFeeHarvestToMint', info: owned }],
  ])
})

describe('jsonParsed instructions of confidential mints and burns', () => {
  const offsets = {
    equalityProofInstructionOffset: 0,
    ciphertextValidityProofInstructionOffset: 0,
    rangeProofInstructionOffset: 1,
  }
  const rotated = { mint: 'k1', newSupplyElGamalPubkey: elGamalText }
  itShows('spl-token', [
    [
      token(1, 42, 0, elGamal, ciphertext),
      {
        type: 'initializeConfidentialMintBurnMint',
        isExact,
        info: { mint: 'k1', supplyElGamalPubkey: elGamalText, decryptableSupply: text },
      },
    ],
    [
      token(3, 42, 1, elGamal, 0),
      {
        type: 'rotateConfidentialMintBurnSupplyElGamalPubkey',
        isExact,
        info: { ...rotated, proofAccount: 'k2', owner: 'k3', proofInstructionOffset: 0 },
      },
    ],
    [
      token(5, 42, 1, elGamal, 1),
      {
        type: 'rotateConfidentialMintBurnSupplyElGamalPubkey',
        accounts: 3,
        isExact,
        info: {
          ...rotated,
          instructionsSysvar: 'k2',
          multisigOwner: 'k3',
          signers: ['k4', 'k5'],
          proofInstructionOffset: 1,
        },
      },
    ],
    [
      token(2, 42, 2, ciphertext),
      {
        type: 'updateConfidentialMintBurnDecryptableSupply',
        isExact,
        info: { mint: 'k1', owner: 'k2', newDecryptableSupply: text },
      },
    ],
    [
      token(5, 42, 3, ciphertext, auditor, 0, 0, 1),
      {
        type: 'confidentialMint',
        accounts: 3,
        isExact,
        info: {
          destination: 'k1',
          mint: 'k2',
          instructionsSysvar: 'k3',
          equalityProofContextStateAccount: 'k4',
          owner: 'k5',
          newDecryptableSupply: text,
          ...offsets,
        },
      },
    ],
    [
      token(3, 42, 4, ciphertext, auditor, 0, 0, 1),
      {
        type: 'confidentialBurn',
        isExact,
        info: {
          destination: 'k1',
          mint: 'k2',
          owner: 'k3',
          newDecryptableAvailableBalance: text,
          ...offsets,
        },
      },
    ],
    [token(2, 42, 5), { type: 'applyPendingBurn', info: { mint: 'k1', owner: 'k2' } }],
  ])
})
