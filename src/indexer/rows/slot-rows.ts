// Converts a confirmed slot into rows of blocks, transactions, instructions, account_updates and
// token_transfers. Runs in the writer process.
// Strings are encoded as in getBlock: base58 for keys, signatures and instruction data.
import { encodeBase58 } from '../../chain/solana/base58.ts'
import { keyText } from '../../chain/solana/key-text.ts'
import { type InstructionFacts, TransactionFacts } from '../../chain/solana/transaction-facts.ts'
import { errText } from '../../chain/solana/ui-meta.ts'
import { type SlotParcel, unpackAccounts } from '../parcels.ts'
import type { RowBatches } from './batches.ts'
import { tokenTransfer } from './token-transfer.ts'

export function addSlotRows(parcel: SlotParcel, rows: RowBatches): void {
  const { slot, blockTime, block } = parcel
  for (const info of parcel.transactions)
    addTransaction(new TransactionFacts(info), { slot, blockTime }, rows)
  for (const account of unpackAccounts(parcel.accounts))
    rows.add('account_updates', [
      slot,
      account.index,
      keyText(account.pubkey),
      keyText(account.owner),
      account.lamports,
      account.dataBytes,
      account.writeVersion,
    ])
  if (block === null) return
  const { parentSlot, blockhash, height, txCount } = block
  rows.add('blocks', [slot, parentSlot, blockhash, height, blockTime, txCount])
}

interface SlotInfo {
  readonly slot: number
  readonly blockTime: number
}

function addTransaction(transaction: TransactionFacts, info: SlotInfo, rows: RowBatches): void {
  const { index, signature, keys, err } = transaction
  const { slot, blockTime } = info
  rows.add('transactions', [
    slot,
    index,
    signature,
    keys[0] ?? '',
    err === null ? 1 : 0,
    err === null ? '' : errText(err),
    transaction.fee,
    transaction.computeUnits,
    transaction.version,
    blockTime,
  ])
  for (const instruction of transaction.instructions)
    addInstruction(instruction, transaction, slot, rows)
}

function addInstruction(
  instruction: InstructionFacts,
  transaction: TransactionFacts,
  slot: number,
  rows: RowBatches,
): void {
  const { ix, innerIx, accountsStart, accountsEnd, dataStart, dataEnd } = instruction
  const { index, signature, bytes, keys } = transaction
  const program = keys[instruction.programAt] ?? ''
  const accounts: string[] = []
  for (let at = accountsStart; at < accountsEnd; at++) accounts.push(keys[bytes[at]!] ?? '')
  const data = encodeBase58(bytes, dataStart, dataEnd)
  rows.add('instructions', [slot, index, ix, innerIx, signature, program, accounts, data])
  // A failed transaction transfers nothing.
  const moved = transaction.err === null ? tokenTransfer(instruction, program, transaction) : null
  if (moved === null) return
  const { mint, source, destination, authority, amount, decimals } = moved
  const cells = [signature, mint, source, destination, authority, amount, decimals, innerIx]
  rows.add('token_transfers', [slot, index, ix, ...cells])
}
