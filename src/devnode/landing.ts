// Turns the VM's outcome into the meta and the account versions of the ledger. Thread: main of the
// devnode. The ledger has the state before the transaction: each lands right after its execution.
import { encodeBase58, isSameKey, keyOf } from '../chain/solana/base58.ts'
import type { MetaContent, TokenBalanceContent } from '../chain/solana/geyser-decode.ts'
import { isTokenProgram, readMint, readTokenAccount } from '../chain/solana/token-account.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import { encodeTransactionError } from '../chain/solana/transaction-error.ts'
import type { Fee } from './fee.ts'
import type { LedgerAccount } from './ledger/ledger.ts'
import type { LedgerState } from './ledger/state.ts'
import type { Executed, VmAccount } from './svm.ts'

type Read = (pubkey: Uint8Array) => { owner: Uint8Array; data: Uint8Array; lamports: bigint } | null

const empty = new Uint8Array(0)

/** The outcome as meta. `layout` is the parsed transaction; the ledger does not have it yet. */
export function metaOf(
  layout: TransactionLayout,
  outcome: {
    readonly executed: Executed
    /** Static keys, then what the VM loaded. */
    readonly keys: readonly Uint8Array[]
    readonly fee: Fee
    readonly ledger: LedgerState
  },
): MetaContent {
  const { executed, keys, fee, ledger } = outcome
  const before: Read = (pubkey) => ledger.newestAccount(pubkey)
  const written = new Map(executed.accounts.map((account) => [keyOf(account.pubkey), account]))
  const after: Read = (pubkey) => written.get(keyOf(pubkey)) ?? before(pubkey)
  const hasTokens = keys.some(isTokenProgram)
  const programs = new Set(layout.programIndex.subarray(0, layout.instructionCount))
  const tokens = (read: Read) => (hasTokens ? tokenBalances(keys, programs, read) : [])
  return {
    err: executed.err === null ? null : encodeTransactionError(executed.err),
    fee: fee.lamports,
    preBalances: keys.map((key) => before(key)?.lamports ?? 0n),
    postBalances: keys.map((key) => after(key)?.lamports ?? 0n),
    innerInstructions: executed.inner,
    logMessages: executed.logs,
    preTokenBalances: tokens(before),
    postTokenBalances: tokens(after),
    rewards: [],
    loadedWritableAddresses: executed.loadedWritable,
    loadedReadonlyAddresses: executed.loadedReadonly,
    returnData: executed.returnData,
    computeUnitsConsumed: executed.units,
    costUnits: costUnitsOf(layout, fee, executed),
  }
}

/** A version for the ledger. Bytes that did not change are shared with the older version. */
export function versionOf(
  account: VmAccount,
  at: { readonly slot: number; readonly ledger: LedgerState },
): LedgerAccount {
  const before = at.ledger.newestAccount(account.pubkey)
  return {
    // A copy: the key may be a view of the transaction's bytes.
    pubkey: before?.pubkey ?? new Uint8Array(account.pubkey),
    lamports: account.lamports,
    owner: kept(before?.owner, account.owner),
    executable: account.executable,
    rentEpoch: account.rentEpoch,
    data: account.lamports === 0n ? empty : kept(before?.data, account.data),
    slot: at.slot,
    writeVersion: at.ledger.nextWriteVersion(),
  }
}

function kept(before: Uint8Array | undefined, after: Uint8Array): Uint8Array {
  if (after.length === 0) return empty
  return before !== undefined && isSameKey(before, after) ? before : new Uint8Array(after)
}

function tokenBalances(
  keys: readonly Uint8Array[],
  programs: ReadonlySet<number>,
  read: Read,
): TokenBalanceContent[] {
  const balances: TokenBalanceContent[] = []
  keys.forEach((key, accountIndex) => {
    if (programs.has(accountIndex)) return
    const account = read(key)
    if (account === null || account.lamports === 0n) return
    const token = readTokenAccount(account.owner, account.data)
    if (token === null) return
    const mintAccount = read(token.mint)
    const mint = mintAccount === null ? null : readMint(mintAccount.owner, mintAccount.data)
    if (mint === null || !isSameKey(mintAccount!.owner, account.owner)) return
    balances.push({
      accountIndex,
      mint: encodeBase58(token.mint),
      owner: encodeBase58(token.owner),
      programId: encodeBase58(account.owner),
      amount: String(token.amount),
      decimals: mint.decimals,
    })
  })
  return balances
}

// Computes what a transaction costs its block, in compute units (`costUnits`), as agave's cost
// model does for a transaction that landed.

const unitsPerSignature = 720n
const unitsPerWriteLock = 300n
/** Of ed25519, secp256k1, secp256r1. */
const unitsPerPrecompileSignature = [2_400n, 6_690n, 4_800n] as const
const instructionBytesPerUnit = 4
const pageBytes = 32 * 1024
const unitsPerPage = 8n

/** `units`: those it consumed. `loadedBytes`: of the accounts it loaded. */
export function costUnitsOf(
  layout: TransactionLayout,
  fee: Fee,
  ran: { readonly units: bigint; readonly loadedBytes: number },
): bigint {
  const { keyCount, loadedWritable, readonlySigned, readonlyUnsigned } = layout
  // Requested locks count, also those that the runtime demotes.
  const writeLocks = keyCount + loadedWritable - readonlySigned - readonlyUnsigned
  let signatures = BigInt(layout.requiredSignatures) * unitsPerSignature
  fee.precompileSignatures.forEach((count, kind) => {
    signatures += BigInt(count) * unitsPerPrecompileSignature[kind]!
  })
  return (
    signatures +
    BigInt(writeLocks) * unitsPerWriteLock +
    BigInt(Math.floor(fee.instructionBytes / instructionBytesPerUnit)) +
    ran.units +
    BigInt(Math.ceil(ran.loadedBytes / pageBytes)) * unitsPerPage
  )
}
