// Rows of the index as plain objects, and a slow, obvious way to make them from decoded content.
import { getBase58Codec } from '@solana/kit'
import type {
  InstructionContent,
  TransactionContent,
} from '../../src/chain/solana/geyser-decode.ts'
import { decodeTransactionError } from '../../src/chain/solana/transaction-error.ts'
import type { Cell, RowBatch } from '../../src/indexer/engine.ts'
import { type TableName, tables } from '../../src/indexer/tables.ts'

const base58 = getBase58Codec()

export type Row = Readonly<Record<string, Cell>>
export type RowsByTable = Partial<Record<TableName, Row[]>>

export function rowsOf(batches: readonly RowBatch[]): RowsByTable {
  const found: RowsByTable = {}
  for (const { table, count, columns } of batches) {
    const names = Object.keys(tables[table].columns)
    found[table] = Array.from({ length: count }, (_, at) =>
      Object.fromEntries(names.map((name, column) => [name, columns[column]![at]!])),
    )
  }
  return found
}

/** By an independent base58, field by field. */
export function slowTransactionRows(content: TransactionContent, slot: number, blockTime: number) {
  const { message, meta, index } = content
  const keys = [
    ...message.accountKeys,
    ...meta.loadedWritableAddresses,
    ...meta.loadedReadonlyAddresses,
  ].map((key) => base58.decode(key))
  const signature = base58.decode(content.signatures[0]!)
  const transaction: Row = {
    slot,
    idx: index,
    signature,
    fee_payer: keys[0]!,
    success: meta.err === null ? 1 : 0,
    err: meta.err === null ? '' : JSON.stringify(decodeTransactionError(meta.err)),
    fee: Number(meta.fee),
    compute_units: Number(meta.computeUnitsConsumed ?? 0),
    version: message.config !== null ? 1 : message.versioned ? 0 : -1,
    block_time: blockTime,
  }
  const row = (instruction: InstructionContent, ix: number, inner_ix: number): Row => ({
    slot,
    idx: index,
    ix,
    inner_ix,
    signature,
    program: keys[instruction.programIdIndex]!,
    accounts: [...instruction.accounts].map((at) => keys[at]!),
    data: base58.decode(instruction.data),
    block_time: blockTime,
  })
  const instructions = message.instructions.map((one, ix) => row(one, ix, -1))
  for (const group of meta.innerInstructions ?? [])
    instructions.push(...group.instructions.map((one, place) => row(one, group.index, place)))
  return { transaction, instructions }
}
