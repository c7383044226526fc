// From a confirmed slot to rows of blocks, transactions, instructions, account_updates and
// token_transfers. Thread: any (pure); runs in the writer process, called by delivery-rows.ts.
// Texts are those of getBlock: base58 for keys, signatures and instruction data.
import { encodeBase58 } from '../../../solana/base58.ts'
import type { InstructionContent, TransactionContent } from '../../../solana/geyser-content.ts'
import { decodeTransactionInfo } from '../../../solana/geyser-decode.ts'
import { keyText } from '../../../solana/key-text.ts'
import { errText } from '../../../solana/ui-meta.ts'
import { type SlotParcel, unpackAccounts } from '../parcels.ts'
import type { RowBatches } from './batches.ts'
import { TokenBalances, tokenTransfer } from './token-transfer.ts'

/** How `version` tells a transaction of before versions. */
const legacyVersion = -1
/** How `inner_ix` tells an instruction of the message itself. */
const topLevel = -1

export function addSlotRows(parcel: SlotParcel, rows: RowBatches): void {
  const { slot, blockTime, block } = parcel
  for (const info of parcel.transactions)
    addTransaction(decodeTransactionInfo(info), { slot, blockTime }, rows)
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

interface Place {
  readonly slot: number
  readonly blockTime: number
}

function addTransaction(content: TransactionContent, place: Place, rows: RowBatches): void {
  const { message, meta, index } = content
  const { slot, blockTime } = place
  const signature = encodeBase58(content.signatures[0] ?? new Uint8Array(0))
  const keys = [
    ...message.accountKeys,
    ...meta.loadedWritableAddresses,
    ...meta.loadedReadonlyAddresses,
  ].map(keyText)
  const isSuccess = meta.err === null
  rows.add('transactions', [
    slot,
    index,
    signature,
    keys[0] ?? '',
    isSuccess ? 1 : 0,
    isSuccess ? '' : errText(meta.err),
    meta.fee,
    meta.computeUnitsConsumed ?? 0,
    message.versioned ? 0 : legacyVersion,
    blockTime,
  ])
  // Nothing moved in a transaction that failed.
  const balances = isSuccess ? new TokenBalances(meta) : null
  const add = (instruction: InstructionContent, ix: number, innerIx: number) =>
    addInstruction(instruction, { slot, idx: index, ix, innerIx, signature, keys, balances }, rows)
  message.instructions.forEach((instruction, ix) => {
    add(instruction, ix, topLevel)
  })
  for (const group of meta.innerInstructions ?? [])
    group.instructions.forEach((instruction, innerIx) => {
      add(instruction, group.index, innerIx)
    })
}

interface InstructionPlace {
  readonly slot: number
  readonly idx: number
  readonly ix: number
  readonly innerIx: number
  readonly signature: string
  readonly keys: readonly string[]
  /** Null for a transaction that failed. */
  readonly balances: TokenBalances | null
}

function addInstruction(
  instruction: InstructionContent,
  { slot, idx, ix, innerIx, signature, keys, balances }: InstructionPlace,
  rows: RowBatches,
): void {
  const program = keys[instruction.programIdIndex] ?? ''
  const accounts = Array.from(instruction.accounts, (at) => keys[at] ?? '')
  const data = encodeBase58(instruction.data)
  rows.add('instructions', [slot, idx, ix, innerIx, signature, program, accounts, data])
  const moved = balances === null ? null : tokenTransfer(instruction, program, balances)
  if (moved === null) return
  const key = (at: number) => keys[at] ?? ''
  rows.add('token_transfers', [
    slot,
    idx,
    ix,
    signature,
    moved.mintAt === null ? moved.mint : key(moved.mintAt),
    key(moved.sourceAt),
    key(moved.destinationAt),
    key(moved.authorityAt),
    moved.amount,
    moved.decimals,
    innerIx,
  ])
}
