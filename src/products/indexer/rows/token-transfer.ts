// Reads transfers out of instructions of SPL Token and Token-2022. Thread: any (pure).
// Called by slot-rows.ts. A plain transfer names no mint: the token balances of the outcome do.
//
//   3      transfer                source, destination, authority        amount
//   12     transferChecked         source, mint, destination, authority  amount, decimals
//   26, 1  transferCheckedWithFee  the same (Token-2022)                 amount, decimals, fee
import type { InstructionContent, MetaContent } from '../../../solana/geyser-content.ts'
import { keyText } from '../../../solana/key-text.ts'
import { programs } from '../../../solana/programs.ts'

const token = keyText(programs.token)
const token2022 = keyText(programs.token2022)
const tag = { transfer: 3, transferChecked: 12, transferFee: 26 } as const
/** Below the tag of the transfer-fee extension. */
const transferCheckedWithFee = 1

/** Places are indexes into the transaction's keys. */
export interface TokenTransfer {
  readonly sourceAt: number
  readonly destinationAt: number
  readonly authorityAt: number
  /** Where the instruction names the mint; null when only the balances do. */
  readonly mintAt: number | null
  /** What the balances say; '' when they say nothing. */
  readonly mint: string
  readonly amount: bigint
  readonly decimals: number
}

/** Which token an account holds, by the balances before and after. */
export class TokenBalances {
  readonly #meta: MetaContent

  constructor(meta: MetaContent) {
    this.#meta = meta
  }

  /** Of the first of these accounts that has a balance; null when none has. */
  tokenOf(...accounts: readonly number[]): { mint: string; decimals: number } | null {
    const { preTokenBalances, postTokenBalances } = this.#meta
    for (const index of accounts)
      for (const balances of [preTokenBalances, postTokenBalances])
        for (const balance of balances) if (balance.accountIndex === index) return balance
    return null
  }
}

/** Null for anything but a transfer, and for one whose accounts or data are cut short. */
export function tokenTransfer(
  { accounts, data }: InstructionContent,
  program: string,
  balances: TokenBalances,
): TokenTransfer | null {
  if (program !== token && program !== token2022) return null
  if (data[0] === tag.transfer) return plain(accounts, data, balances)
  if (data[0] === tag.transferChecked) return checked(accounts, data, 1)
  const isWithFee = program === token2022 && data[0] === tag.transferFee
  return isWithFee && data[1] === transferCheckedWithFee ? checked(accounts, data, 2) : null
}

function plain(
  accounts: Uint8Array,
  data: Uint8Array,
  balances: TokenBalances,
): TokenTransfer | null {
  if (accounts.length < 3 || data.length < 9) return null
  const [sourceAt, destinationAt, authorityAt] = accounts as Uint8Array & [number, number, number]
  const known = balances.tokenOf(sourceAt, destinationAt)
  const { mint = '', decimals = 0 } = known ?? {}
  const amount = amountAt(data, 1)
  return { sourceAt, destinationAt, authorityAt, mintAt: null, mint, amount, decimals }
}

function checked(accounts: Uint8Array, data: Uint8Array, at: number): TokenTransfer | null {
  if (accounts.length < 4 || data.length < at + 9) return null
  // Reason for the cast: the length is checked above; a Uint8Array is no tuple to the compiler.
  const [sourceAt, mintAt, destinationAt, authorityAt] = accounts as Uint8Array &
    [number, number, number, number]
  const amount = amountAt(data, at)
  const decimals = data[at + 8]!
  return { sourceAt, destinationAt, authorityAt, mintAt, mint: '', amount, decimals }
}

function amountAt(data: Uint8Array, at: number): bigint {
  return Buffer.from(data.buffer, data.byteOffset, data.length).readBigUInt64LE(at)
}
