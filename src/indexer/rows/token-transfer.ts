// Parses token transfers from instructions of SPL Token and Token-2022.
// A plain transfer has no mint: it is taken from the transaction's token balances.
//
//   3      transfer                source, destination, authority        amount
//   12     transferChecked         source, mint, destination, authority  amount, decimals
//   26, 1  transferCheckedWithFee  the same (Token-2022)                 amount, decimals, fee
import { keyText } from '../../chain/solana/key-text.ts'
import { programs } from '../../chain/solana/programs.ts'
import type { InstructionFacts, TransactionFacts } from '../../chain/solana/transaction-facts.ts'

const token = keyText(programs.token)
const token2022 = keyText(programs.token2022)
const tag = { transfer: 3, transferChecked: 12, transferFee: 26 } as const
/** Second tag byte, after the tag of the transfer-fee extension. */
const transferCheckedWithFee = 1

export interface TokenTransfer {
  readonly source: string
  readonly destination: string
  readonly authority: string
  /** '' when neither the instruction nor the token balances have it. */
  readonly mint: string
  readonly amount: bigint
  readonly decimals: number
}

/** Null for anything but a transfer, and for one with too few accounts or too short data. */
export function tokenTransfer(
  instruction: InstructionFacts,
  program: string,
  transaction: TransactionFacts,
): TokenTransfer | null {
  if (program !== token && program !== token2022) return null
  const { accountsStart, accountsEnd, dataStart, dataEnd } = instruction
  const { bytes, keys } = transaction
  const kind = bytes[dataStart]
  const isWithFee = program === token2022 && kind === tag.transferFee
  const hasMint = kind === tag.transferChecked || isWithFee
  if (dataEnd - dataStart < 9 || (kind !== tag.transfer && !hasMint)) return null
  if (isWithFee && bytes[dataStart + 1] !== transferCheckedWithFee) return null
  const amountAt = dataStart + (isWithFee ? 2 : 1)
  const isShort = accountsEnd - accountsStart < (hasMint ? 4 : 3)
  if (isShort || (hasMint && dataEnd < amountAt + 9)) return null
  const key = (at: number) => keys[bytes[accountsStart + at]!] ?? ''
  const amount = bytes.readBigUInt64LE(amountAt)
  if (hasMint)
    return {
      source: key(0),
      mint: key(1),
      destination: key(2),
      authority: key(3),
      amount,
      decimals: bytes[amountAt + 8]!,
    }
  const found = transaction.tokenOf(bytes[accountsStart]!, bytes[accountsStart + 1]!)
  const { mint, decimals } = found ?? { mint: '', decimals: 0 }
  return { source: key(0), destination: key(1), authority: key(2), mint, amount, decimals }
}
