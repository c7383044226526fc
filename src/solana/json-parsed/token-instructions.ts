// Parses instructions of the token programs and of associated token accounts for `jsonParsed`.
// Thread: any (pure). Tags above 24 are extensions of Token-2022 and stay undecoded.
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { instructionTable, parseInstruction } from './instruction-table.ts'
import type { Parsed } from './parsed.ts'

const newMint = 'decimals:u8 mintAuthority:key freezeAuthority:optionalKey'
const instructions = instructionTable(`
  initializeMint            mint rentSysvar  ${newMint}
  initializeAccount         account mint owner rentSysvar
  initializeMultisig        multisig rentSysvar ...signers  m:u8
  transfer                  source destination @authority  amount:string
  approve                   source delegate @owner  amount:string
  revoke                    source @owner
  setAuthority              _ @authority
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
  getAccountDataSize        mint
  initializeImmutableOwner  account
  amountToUiAmount          mint  amount:string
  uiAmountToAmount          mint  uiAmount:rest`)

export function parsedTokenInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  const cursor = new Cursor(data)
  const tag = cursor.u8()
  if (cursor.isShort) return null
  const parsed = parseInstruction(instructions[tag], accounts, cursor)
  return parsed?.type === 'setAuthority' ? withAuthority(parsed, accounts[0]!, cursor) : parsed
}

const authorityTypes = `mintTokens freezeAccount accountOwner closeAccount transferFeeConfig
  withheldWithdraw closeMint interestRate permanentDelegate confidentialTransferMint
  transferHookProgramId confidentialTransferFeeConfig metadataPointer`.split(/\s+/)

/** The kind of authority decides whether it is set on a mint or on an account. */
function withAuthority(parsed: Parsed, owned: string, cursor: Cursor): Parsed | null {
  const kind = cursor.u8()
  const newAuthority = cursor.u8() === 1 ? keyText(cursor.key()) : null
  if (cursor.isShort) return null
  const owner = kind === 2 || kind === 3 ? 'account' : 'mint'
  const authorityType = authorityTypes[kind] ?? null
  // Reason for the cast: the table's instructions have an object.
  const info = { ...(parsed.info as object), authorityType, [owner]: owned, newAuthority }
  return { ...parsed, info }
}

const associatedInstructions = instructionTable(`
  create            source account wallet mint systemProgram tokenProgram
  createIdempotent  source account wallet mint systemProgram tokenProgram
  recoverNested     nestedSource nestedMint destination nestedOwner ownerMint wallet tokenProgram`)

export function parsedAssociatedInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  return parseInstruction(associatedInstructions[data[0] ?? 0], accounts, new Cursor(data))
}
