// Parses token transfers from instructions of SPL Token and Token-2022. Thread: any (pure).
// A plain transfer has no mint: it is taken from the transaction's token balances.
//
//   3      transfer                source, destination, authority        amount
//   12     transferChecked         source, mint, destination, authority  amount, decimals
//   26, 1  transferCheckedWithFee  the same (Token-2022)                 amount, decimals, fee
import { keyText } from '../../../solana/key-text.ts'
import { programs } from '../../../solana/programs.ts'
import type { InstructionFacts, TransactionFacts } from './transaction-facts.ts'

const token = keyText(programs.token)
const token2022 = keyText(programs.token2022)
const tag = { transfer: 3, transferChecked: 12, transferFee: 26 } as const
/** Second tag byte, after the tag of the transfer-fee extension. */
const transferCheckedWithFee = 1

/** Fields that end in `At` are indexes into the transaction's keys. */
export interface TokenTransfer {
  readonly sourceAt: number
  readonly destinationAt: number
  readonly authorityAt: number
  /** Index of the mint; null when the instruction has none and `mint` is set instead. */
  readonly mintAt: number | null
  /** The mint from the token balances; '' when they have none. */
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
  const { dataStart, dataEnd } = instruction
  const { bytes } = transaction
  if (dataEnd - dataStart < 9) return null
  if (bytes[dataStart] === tag.transfer) return plain(instruction, transaction)
  if (bytes[dataStart] === tag.transferChecked) return checked(instruction, bytes, dataStart + 1)
  const isWithFee = program === token2022 && bytes[dataStart] === tag.transferFee
  if (!isWithFee || bytes[dataStart + 1] !== transferCheckedWithFee) return null
  return checked(instruction, bytes, dataStart + 2)
}

function plain(
  { accountsStart, accountsEnd, dataStart }: InstructionFacts,
  transaction: TransactionFacts,
): TokenTransfer | null {
  const { bytes } = transaction
  if (accountsEnd - accountsStart < 3) return null
  const sourceAt = bytes[accountsStart]!
  const destinationAt = bytes[accountsStart + 1]!
  const authorityAt = bytes[accountsStart + 2]!
  const { mint = '', decimals = 0 } = transaction.tokenOf(sourceAt, destinationAt) ?? {}
  const amount = bytes.readBigUInt64LE(dataStart + 1)
  return { sourceAt, destinationAt, authorityAt, mintAt: null, mint, amount, decimals }
}

function checked(
  { accountsStart, accountsEnd, dataEnd }: InstructionFacts,
  bytes: Buffer,
  at: number,
): TokenTransfer | null {
  if (accountsEnd - accountsStart < 4 || dataEnd < at + 9) return null
  return {
    sourceAt: bytes[accountsStart]!,
    mintAt: bytes[accountsStart + 1]!,
    destinationAt: bytes[accountsStart + 2]!,
    authorityAt: bytes[accountsStart + 3]!,
    mint: '',
    amount: bytes.readBigUInt64LE(at),
    decimals: bytes[at + 8]!,
  }
}
