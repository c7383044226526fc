// Instructions of the token programs and of associated token accounts for `jsonParsed`.
// Lines of `-` are extensions, whose instructions have a tag of their own.
import { instructionTable, parseInstruction } from './instruction-table.ts'
import type { Parsed } from './parsed.ts'
import { extensionInstructions, interfaceInstructions } from './token-extension-instructions.ts'

const newMint = 'decimals:u8 mintAuthority:key freezeAuthority:key?'
const instructions = instructionTable(`
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
  withdrawExcessLamports    source destination @authority`)

/** Bytes of the tag of an instruction that several programs share. */
const interfaceTagBytes = 8

export function parsedTokenInstruction(
  accounts: readonly string[],
  data: Uint8Array,
): Parsed | null {
  const tag = data[0] ?? instructions.length
  const extension = extensionInstructions.get(tag)
  if (extension !== undefined) {
    const inner = data[1] ?? extension.length
    return parseInstruction(extension[inner], accounts, data, 2)
  }
  if (tag < instructions.length) return parseInstruction(instructions[tag], accounts, data, 1)
  const name = Buffer.from(data.subarray(0, interfaceTagBytes)).toString('hex')
  const shared = interfaceInstructions.get(name)
  return parseInstruction(shared, accounts, data, interfaceTagBytes)
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
