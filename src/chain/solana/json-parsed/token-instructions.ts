// Instructions of the token programs and of associated token accounts for `jsonParsed`.
// Lines of `-` are extensions, whose instructions have a tag of their own.
import { perVersion, type Shapes } from '../version.ts'
import type { InstructionTable, ReadValue } from './instruction-table.ts'
import { instructionTable, oneOf, parseInstruction } from './instruction-table.ts'
import { listOf, type Read, readers } from './layout.ts'
import type { Parsed } from './parsed.ts'

const newMint = 'decimals:u8 mintAuthority:key freezeAuthority:key?'
const plainInstructions = `
  initializeMint            mint rentSysvar  ${newMint}
  initializeAccount         account mint owner rentSysvar
  initializeMultisig        multisig rentSysvar ...signers  m:u8
  transfer                  source destination @authority  amount:string
  approve                   source delegate @owner  amount:string
  revoke                    source @owner
  setAuthority              mint @authority  authorityType:mintAuthority newAuthority:key~
  | setAuthority            account @authority  authorityType:accountAuthority newAuthority:key~
  mintTo                    mint account @mintAuthority  amount:string
  burn                      account mint @authority  amount:string
  closeAccount              account destination @owner
  freezeAccount             account mint @freezeAuthority
  thawAccount               account mint @freezeAuthority
  transferChecked           source mint destination @authority  tokenAmount:tokenAmount
  approveChecked            source mint delegate @owner  tokenAmount:tokenAmount
  mintToChecked             mint account @mintAuthority  tokenAmount:tokenAmount
  burnChecked               account mint @authority  tokenAmount:tokenAmount
  initializeAccount2        account mint rentSysvar  owner:key
  syncNative                account
  initializeAccount3        account mint  owner:key
  initializeMultisig2       multisig ...signers  m:u8
  initializeMint2           mint  ${newMint}
  getAccountDataSize        mint  extensionTypes:anyExtensions
  initializeImmutableOwner  account
  amountToUiAmount          mint  amount:string
  uiAmountToAmount          mint  uiAmount:rest
  initializeMintCloseAuthority  mint  newAuthority:key~
  -
  -
  -
  reallocate                account payer systemProgram @owner  extensionTypes:extensions
  -
  createNativeMint          payer nativeMint systemProgram
  initializeNonTransferableMint  mint
  -
  -
  initializePermanentDelegate  mint  delegate:key
  -
  -
  withdrawExcessLamports    source destination @authority`
const laterInstructions = `
  -
  -
  -
  -
  -
  -
  unwrapLamports            source destination @authority  amount:string?`

const instructionsOf = perVersion(({ tokenBatch }) =>
  tokenBatch
    ? instructionTable(plainInstructions + laterInstructions, enumsOf(' permissionedBurn'))
    : instructionTable(plainInstructions, enumsOf('')),
)

/** Types of fields whose names grow; `newest` are the newest names. */
function enumsOf(newest: string): Readonly<Record<string, ReadValue>> {
  const extensionType = oneOf(
    `uninitialized transferFeeConfig transferFeeAmount mintCloseAuthority confidentialTransferMint
    confidentialTransferAccount defaultAccountState immutableOwner memoTransfer nonTransferable
    interestBearingConfig cpiGuard permanentDelegate nonTransferableAccount transferHook
    transferHookAccount confidentialTransferFeeConfig confidentialTransferFeeAmount metadataPointer
    tokenMetadata groupPointer tokenGroup groupMemberPointer tokenGroupMember confidentialMintBurn
    scaledUiAmount pausable pausableAccount${newest}`,
    readers.u16,
  )
  const extensions: Read = (cursor) =>
    listOf(cursor, Math.ceil(cursor.left / 2), () => extensionType(cursor))
  return {
    extensions,
    /** Omitted when there are none. */
    anyExtensions: (cursor) => (cursor.left === 0 ? undefined : extensions(cursor)),
    mintAuthority: oneOf(
      `mintTokens freezeAccount - - transferFeeConfig withheldWithdraw closeMint interestRate
      permanentDelegate confidentialTransferMint transferHookProgramId confidentialTransferFeeConfig
      metadataPointer groupPointer groupMemberPointer scaledUiAmount pause${newest}`,
      readers.u8,
    ),
  }
}

/** Bytes of the tag of an instruction that several programs share. */
const interfaceTagBytes = 8
const batchTag = 255

export function parsedTokenInstruction(
  accounts: readonly string[],
  data: Uint8Array,
  shapes: Shapes,
): Parsed | null {
  const instructions = instructionsOf(shapes)
  const tag = data[0] ?? instructions.length
  if (tag === batchTag && shapes.tokenBatch) return parsedBatch(accounts, data, shapes)
  const extension = extensionInstructions(shapes).get(tag)
  if (extension !== undefined) {
    const inner = data[1] ?? extension.length
    return parseInstruction(extension[inner], accounts, data, 2)
  }
  if (tag < instructions.length) return parseInstruction(instructions[tag], accounts, data, 1)
  const name = Buffer.from(data.subarray(0, interfaceTagBytes)).toString('hex')
  const shared = interfaceInstructions.get(name)
  return parseInstruction(shared, accounts, data, interfaceTagBytes)
}

/** { accounts u8 | data length u8 | data }…; each instruction takes its accounts off the list. */
function parsedBatch(accounts: readonly string[], data: Uint8Array, shapes: Shapes): Parsed | null {
  if (accounts.length === 0 || accounts.includes('')) return null
  const instructions: Parsed[] = []
  let account = 0
  for (let at = 1; at < data.length; ) {
    const accountEnd = account + data[at]!
    const dataEnd = at + 2 + (data[at + 1] ?? data.length)
    const inner = data.subarray(at + 2, dataEnd)
    if (dataEnd > data.length || accountEnd > accounts.length || inner[0] === batchTag) return null
    const parsed = parsedTokenInstruction(accounts.slice(account, accountEnd), inner, shapes)
    if (parsed === null) return null
    instructions.push(parsed)
    at = dataEnd
    account = accountEnd
  }
  return { info: { instructions }, type: 'batch' }
}

const newAccount = 'source account wallet mint systemProgram tokenProgram'
const associatedInstructions = instructionTable(`
  create            ${newAccount} $
  createIdempotent  ${newAccount} $
  recoverNested     nestedSource nestedMint destination nestedOwner ownerMint wallet \
                    tokenProgram $`)

export function parsedAssociatedInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  return parseInstruction(associatedInstructions[data[0] ?? 0], accounts, data, 1)
}

// Instructions of the extensions of Token-2022 for `jsonParsed`.

const fee = 'transferFeeBasisPoints:u16 maximumFee:u64'
const transferFee = instructionTable(`
  initializeTransferFeeConfig  mint \
    transferFeeConfigAuthority:key? withdrawWithheldAuthority:key? ${fee}
  transferCheckedWithFee  source mint destination @authority \
    tokenAmount:tokenAmount feeAmount:tokenFee
  withdrawWithheldTokensFromMint      mint feeRecipient @withdrawWithheldAuthority
  withdrawWithheldTokensFromAccounts  mint feeRecipient @withdrawWithheldAuthority \
    sourceAccounts:lastAccounts
  harvestWithheldTokensToMint  mint ...sourceAccounts?
  setTransferFee  mint @transferFeeConfigAuthority=multisigtransferFeeConfigAuthority  ${fee}`)

const mintConfig = 'autoApproveNewAccounts:flag auditorElGamalPubkey:elgamalKeyOrNull'
const offset = (proof: string) => `${proof}ProofInstructionOffset:i8`
const sourceBalance = 'newSourceDecryptableAvailableBalance:aeCiphertext _:auditorCiphertexts'
const balance = 'newDecryptableAvailableBalance:aeCiphertext'
const validity = 'CiphertextValidityProof'
const proofs = 'equalityProof,ciphertextValidityProof,rangeProof'
const proofOffsets = ['equality', 'ciphertextValidity', 'range'].map(offset).join(' ')
/** How a line has its proofs: from agave 4.3 on only those that are in an account have one. */
const proofWord = ({ proofContextsOnly }: Shapes) => (proofContextsOnly ? '^' : '%')
const feeProofs = (shapes: Shapes) =>
  shapes.proofContextsOnly
    ? `^equalityProof,transferAmount${validity},feeSigmaProof,fee${validity},rangeProof`
    : `%equalityProof,transferAmount${validity},fee${validity},feeSigmaProof,rangeProof`
/** Accounts of deposits and withdrawals before the proofs. */
const moved = ({ confidentialAccount }: Shapes) =>
  confidentialAccount ? 'account mint' : 'source destination mint'

const confidentialTransfer = (shapes: Shapes) =>
  instructionTable(`
  initializeConfidentialTransferMint  mint  authority:nonZeroKey ${mintConfig} $
  updateConfidentialTransferMint  mint confidentialTransferMintAuthority  ${mintConfig} $
  configureConfidentialTransferAccount \
    account mint ${proofWord(shapes)}proof=recordAccount @owner \
    decryptableZeroBalance:aeCiphertext maximumPendingBalanceCreditCounter:u64 \
    proofInstructionOffset:i8 $
  approveConfidentialTransferAccount  account mint confidentialTransferAuditorAuthority
  emptyConfidentialTransferAccount  account ${proofWord(shapes)}proof=recordAccount @owner \
    proofInstructionOffset:i8 $
  depositConfidentialTransfer  ${moved(shapes)} @owner  amount:u64 decimals:u8 $
  withdrawConfidentialTransfer \
    ${moved(shapes)} ${proofWord(shapes)}equalityProof,rangeProof @owner \
    amount:u64 decimals:u8 ${balance} ${offset('equality')} ${offset('range')} $
  confidentialTransfer  source mint destination ${proofWord(shapes)}${proofs}? @owner \
    ${sourceBalance} ${proofOffsets} $
  applyPendingConfidentialTransferBalance  account @owner \
    expectedPendingBalanceCreditCounter:u64 ${balance} $
  enableConfidentialTransferConfidentialCredits      account @owner
  disableConfidentialTransferConfidentialCredits     account @owner
  enableConfidentialTransferNonConfidentialCredits   account @owner
  disableConfidentialTransferNonConfidentialCredits  account @owner
  confidentialTransferWithFee  source mint destination ${feeProofs(shapes)}? @owner \
    ${sourceBalance} ${offset('equality')} ${offset('transferAmountCiphertextValidity')} \
    ${offset('feeSigma')} ${offset('feeCiphertextValidity')} ${offset('range')} $
  configureConfidentialAccountWithRegistry  account mint registry`)

const withdrawn = `proofInstructionOffset:i8 ${balance}`
const confidentialTransferFee = (shapes: Shapes) =>
  instructionTable(`
  initializeConfidentialTransferFeeConfig  mint \
    authority:nonZeroKey withdrawWithheldAuthorityElGamalPubkey:elgamalKey $
  withdrawWithheldConfidentialTransferTokensFromMint \
    mint feeRecipient ${proofWord(shapes)}proof=recordAccount @withdrawWithheldAuthority \
    ${withdrawn} $
  withdrawWithheldConfidentialTransferTokensFromAccounts \
    mint feeRecipient ${proofWord(shapes)}proof=proofAccount @withdrawWithheldAuthority \
    sourceAccounts:lastAccounts ${withdrawn} $
  harvestWithheldConfidentialTransferTokensToMint  mint ...sourceAccounts?
  enableConfidentialTransferFeeHarvestToMint   account @owner
  disableConfidentialTransferFeeHarvestToMint  account @owner`)

const rotate = 'rotateConfidentialMintBurnSupplyElGamalPubkey'
const rotated = 'newSupplyElGamalPubkey:elgamalKey proofInstructionOffset:i8'
const burnData = `${balance} _:auditorCiphertexts ${proofOffsets} $`
const confidentialMintBurn = (shapes: Shapes) =>
  instructionTable(`
  initializeConfidentialMintBurnMint  mint \
    supplyElGamalPubkey:elgamalKey decryptableSupply:aeCiphertext $
  ${
    shapes.proofContextsOnly
      ? `${rotate}  mint ^proof @owner  ${rotated} $`
      : `${rotate}  mint proofAccount @owner  ${rotated}=0 $
  | ${rotate}  mint instructionsSysvar @owner  ${rotated} $`
  }
  updateConfidentialMintBurnDecryptableSupply  mint @owner  newDecryptableSupply:aeCiphertext $
  confidentialMint  destination mint ${proofWord(shapes)}${proofs}? @owner \
    newDecryptableSupply:aeCiphertext _:auditorCiphertexts ${proofOffsets} $
  confidentialBurn  destination mint ${proofWord(shapes)}${proofs}? @owner  ${burnData}
  applyPendingBurn  mint @owner`)

const permissioned = 'account mint permissionedBurnAuthority @authority'
const permissionedBurn = (shapes: Shapes) =>
  instructionTable(`
  initializePermissionedBurnConfig  mint  authority:key $
  permissionedBurn         ${permissioned}  amount:string $
  permissionedBurnChecked  ${permissioned}  tokenAmount:tokenAmount $
  permissionedConfidentialBurn  account mint ${proofWord(shapes).repeat(2)}${proofs}? \
    permissionedBurnAuthority @authority  ${burnData}`)

const defaultAccountState = instructionTable(`
  initializeDefaultAccountState  mint  accountState:accountState $
  updateDefaultAccountState      mint @freezeAuthority  accountState:accountState $`)

const memoTransfer = instructionTable(`
  enableRequiredMemoTransfers   account @owner
  disableRequiredMemoTransfers  account @owner`)

const interestBearing = instructionTable(`
  initializeInterestBearingConfig  mint  rateAuthority:keyOrNull rate:i16 $
  updateInterestBearingConfigRate  mint @rateAuthority  newRate:i16 $`)

const cpiGuard = instructionTable(`
  enableCpiGuard   account @owner
  disableCpiGuard  account @owner`)

/** Extensions that hold an authority and the address of something else. */
const pointer = (name: string, address: string) =>
  instructionTable(`
  initialize${name}  mint  authority:nonZeroKey ${address}:nonZeroKey $
  update${name}      mint @authority  ${address}:nonZeroKey $`)

const scaledUiAmount = instructionTable(`
  initializeScaledUiAmountConfig  mint  authority:keyOrNull multiplier:floatText $
  updateMultiplier  mint @authority  newMultiplier:floatText newMultiplierTimestamp:i64 $`)

const pausable = instructionTable(`
  initializePausableConfig  mint  authority:key $
  pause   mint @authority
  resume  mint @authority`)

/** By the tag of the extension. */
const extensionInstructions = perVersion(
  (shapes): ReadonlyMap<number, InstructionTable> =>
    new Map([
      [26, transferFee],
      [27, confidentialTransfer(shapes)],
      [28, defaultAccountState],
      [30, memoTransfer],
      [33, interestBearing],
      [34, cpiGuard],
      [36, pointer('TransferHook', 'programId')],
      [37, confidentialTransferFee(shapes)],
      [39, pointer('MetadataPointer', 'metadataAddress')],
      [40, pointer('GroupPointer', 'groupAddress')],
      [41, pointer('GroupMemberPointer', 'memberAddress')],
      [42, confidentialMintBurn(shapes)],
      [43, scaledUiAmount],
      [44, pausable],
      ...(shapes.tokenBatch ? [[46, permissionedBurn(shapes)] as const] : []),
    ]),
)

const metadata = 'metadata updateAuthority'
const interfaces: Readonly<Record<string, string>> = {
  d2e11ea258b84d8d: `initializeTokenMetadata ${metadata} mint mintAuthority \
    name:shortText symbol:shortText uri:shortText $`,
  dde9312db5cadcc8: `updateTokenMetadataField ${metadata}  field:metadataField value:shortText $`,
  ea122038598d25b5: `removeTokenMetadataKey ${metadata}  idempotent:bool key:shortText $`,
  d7e4a6e45464567b: `updateTokenMetadataAuthority ${metadata}  newAuthority:keyOrNull $`,
  faa6b4fa0d0cb846: 'emitTokenMetadata metadata  start:u64? end:u64? $',
  '79716c2736330004': `initializeTokenGroup group mint mintAuthority \
    updateAuthority:keyOrNull maxSize:u64 $`,
  '6c25ab8ff81e126e': 'updateTokenGroupMaxSize group updateAuthority  maxSize:u64 $',
  a1695801edddd8cb:
    'updateTokenGroupAuthority group updateAuthority \
    newAuthority:keyOrNull $',
  '9820deb0dfed7486':
    'initializeTokenGroupMember \
    member memberMint memberMintAuthority group groupUpdateAuthority $',
}

/** Token metadata and groups, by the 8 bytes of their tags. */
export const interfaceInstructions: ReadonlyMap<string, InstructionTable[number]> = new Map(
  Object.entries(interfaces).map(([tag, line]) => [tag, instructionTable(line)[0]!]),
)
