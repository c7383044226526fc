// Parses instructions of the token programs and of associated token accounts for `jsonParsed`.
// Thread: any (pure). Tags above 24 are extensions of Token-2022 and stay undecoded.
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import { uiTokenAmount } from '../token-amount.ts'
import type { Parsed } from './parsed.ts'

type Accounts = readonly string[]
type Read = (accounts: Accounts, cursor: Cursor) => unknown

const authorityTypes = [
  'mintTokens',
  'freezeAccount',
  'accountOwner',
  'closeAccount',
  'transferFeeConfig',
  'withheldWithdraw',
  'closeMint',
  'interestRate',
  'permanentDelegate',
  'confidentialTransferMint',
  'transferHookProgramId',
  'confidentialTransferFeeConfig',
  'metadataPointer',
]

/** One signer, or a multisig with its signers: the field names differ. */
function signedBy(accounts: Accounts, index: number, [one, many]: readonly [string, string]) {
  return accounts.length > index + 1
    ? { [many]: accounts[index], signers: accounts.slice(index + 1) }
    : { [one]: accounts[index] }
}

const authority = ['authority', 'multisigAuthority'] as const
const owner = ['owner', 'multisigOwner'] as const
const mintAuthority = ['mintAuthority', 'multisigMintAuthority'] as const
const freezeAuthority = ['freezeAuthority', 'multisigFreezeAuthority'] as const

function amountOf(cursor: Cursor) {
  return String(cursor.u64())
}

function checkedAmount(cursor: Cursor) {
  const amount = cursor.u64()
  return uiTokenAmount(amount, cursor.u8())
}

function mintFacts(mint: string | undefined, cursor: Cursor) {
  const decimals = cursor.u8()
  const holder = keyText(cursor.key())
  const freezer = cursor.u8() === 1 ? keyText(cursor.key()) : undefined
  return { decimals, freezeAuthority: freezer, mint, mintAuthority: holder }
}

/** By tag (u8): name, accounts it must have, and how to read it. */
const instructions: readonly (readonly [type: string, accounts: number, read: Read])[] = [
  ['initializeMint', 2, ([mint, rentSysvar], c) => ({ ...mintFacts(mint, c), rentSysvar })],
  [
    'initializeAccount',
    4,
    ([account, mint, holder, rentSysvar]) => ({ account, mint, owner: holder, rentSysvar }),
  ],
  [
    'initializeMultisig',
    3,
    ([multisig, rentSysvar, ...signers], c) => ({ m: c.u8(), multisig, rentSysvar, signers }),
  ],
  [
    'transfer',
    3,
    (a, c) => ({
      amount: amountOf(c),
      destination: a[1],
      source: a[0],
      ...signedBy(a, 2, authority),
    }),
  ],
  [
    'approve',
    3,
    (a, c) => ({ amount: amountOf(c), delegate: a[1], source: a[0], ...signedBy(a, 2, owner) }),
  ],
  ['revoke', 2, (a) => ({ source: a[0], ...signedBy(a, 1, owner) })],
  ['setAuthority', 2, readSetAuthority],
  [
    'mintTo',
    3,
    (a, c) => ({
      account: a[1],
      amount: amountOf(c),
      mint: a[0],
      ...signedBy(a, 2, mintAuthority),
    }),
  ],
  [
    'burn',
    3,
    (a, c) => ({ account: a[0], amount: amountOf(c), mint: a[1], ...signedBy(a, 2, authority) }),
  ],
  ['closeAccount', 3, (a) => ({ account: a[0], destination: a[1], ...signedBy(a, 2, owner) })],
  ['freezeAccount', 3, (a) => ({ account: a[0], mint: a[1], ...signedBy(a, 2, freezeAuthority) })],
  ['thawAccount', 3, (a) => ({ account: a[0], mint: a[1], ...signedBy(a, 2, freezeAuthority) })],
  [
    'transferChecked',
    4,
    (a, c) => ({
      destination: a[2],
      mint: a[1],
      source: a[0],
      tokenAmount: checkedAmount(c),
      ...signedBy(a, 3, authority),
    }),
  ],
  [
    'approveChecked',
    4,
    (a, c) => ({
      delegate: a[2],
      mint: a[1],
      source: a[0],
      tokenAmount: checkedAmount(c),
      ...signedBy(a, 3, owner),
    }),
  ],
  [
    'mintToChecked',
    3,
    (a, c) => ({
      account: a[1],
      mint: a[0],
      tokenAmount: checkedAmount(c),
      ...signedBy(a, 2, mintAuthority),
    }),
  ],
  [
    'burnChecked',
    3,
    (a, c) => ({
      account: a[0],
      mint: a[1],
      tokenAmount: checkedAmount(c),
      ...signedBy(a, 2, authority),
    }),
  ],
  [
    'initializeAccount2',
    3,
    ([account, mint, rentSysvar], c) => ({ account, mint, owner: keyText(c.key()), rentSysvar }),
  ],
  ['syncNative', 1, ([account]) => ({ account })],
  ['initializeAccount3', 2, ([account, mint], c) => ({ account, mint, owner: keyText(c.key()) })],
  ['initializeMultisig2', 2, ([multisig, ...signers], c) => ({ m: c.u8(), multisig, signers })],
  ['initializeMint2', 1, ([mint], c) => mintFacts(mint, c)],
  ['getAccountDataSize', 1, ([mint]) => ({ mint })],
  ['initializeImmutableOwner', 1, ([account]) => ({ account })],
  ['amountToUiAmount', 1, ([mint], c) => ({ amount: amountOf(c), mint })],
  [
    'uiAmountToAmount',
    1,
    ([mint], c) => ({ mint, uiAmount: Buffer.from(c.bytes(c.left)).toString('utf8') }),
  ],
]

export function parsedTokenInstruction(accounts: Accounts, data: Uint8Array): Parsed | null {
  const cursor = new Cursor(data)
  const found = instructions[cursor.u8()]
  if (found === undefined || cursor.isShort) return null
  const [type, accountsLeast, read] = found
  if (accounts.length < accountsLeast) return null
  const info = read(accounts, cursor)
  return cursor.isShort ? null : { info, type }
}

/** The kind of authority decides whether it is set on a mint or on an account. */
function readSetAuthority(accounts: Accounts, cursor: Cursor): unknown {
  const kind = cursor.u8()
  const isOfAccount = kind === 2 || kind === 3
  return {
    authorityType: authorityTypes[kind] ?? null,
    [isOfAccount ? 'account' : 'mint']: accounts[0],
    newAuthority: cursor.u8() === 1 ? keyText(cursor.key()) : null,
    ...signedBy(accounts, 1, authority),
  }
}

const associatedTypes = ['create', 'createIdempotent', 'recoverNested']

export function parsedAssociatedInstruction(accounts: Accounts, data: Uint8Array): Parsed | null {
  const type = associatedTypes[data[0] ?? 0]
  if (type === undefined) return null
  if (type !== 'recoverNested') {
    if (accounts.length < 6) return null
    const [source, account, wallet, mint, systemProgram, tokenProgram] = accounts
    return { info: { account, mint, source, systemProgram, tokenProgram, wallet }, type }
  }
  if (accounts.length < 7) return null
  const [nestedSource, nestedMint, destination, nestedOwner, ownerMint, wallet, tokenProgram] =
    accounts
  const info = {
    destination,
    nestedMint,
    nestedOwner,
    nestedSource,
    ownerMint,
    tokenProgram,
    wallet,
  }
  return { info, type }
}
