// Encodes a transaction with its outcome for geyser, once.
// Field numbers are those of proto/solana-storage.proto.
import { BackWriter } from '../../base/protobuf.ts'
import type {
  InstructionContent,
  MessageContent,
  MetaContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-decode.ts'
import { writeRewards } from './geyser-encode.ts'
import { decimalText } from './token-account.ts'

const writer = new BackWriter()

/** SubscribeUpdateTransaction, and the SubscribeUpdateTransactionInfo inside it. */
export function encodeTransaction(
  slot: number,
  transaction: TransactionContent,
): { body: Buffer; info: Buffer } {
  writer.number(2, slot)
  const afterInfo = writer.mark
  writer.number(5, transaction.index)
  let mark = writer.mark
  writeMeta(transaction.meta)
  writer.wrap(4, mark)
  mark = writer.mark
  writeMessage(transaction.message)
  writer.wrap(2, mark)
  writer.list(1, transaction.signatures)
  writer.wrap(3, mark)
  writer.flag(2, transaction.isVote)
  writer.bytes(1, transaction.signatures[0]!)
  const infoBytes = writer.mark - afterInfo
  writer.wrap(1, afterInfo)
  const body = writer.take()
  const end = body.length - afterInfo
  return { body, info: body.subarray(end - infoBytes, end) }
}

/** SubscribeUpdateTransactionStatus. */
export function encodeTransactionStatus(status: {
  readonly slot: number
  readonly signature: Uint8Array
  readonly isVote: boolean
  readonly index: number
  readonly err: Uint8Array | null
}): Buffer {
  writeError(5, status.err)
  writer.number(4, status.index)
  writer.flag(3, status.isVote)
  writer.bytes(2, status.signature)
  writer.number(1, status.slot)
  return writer.take()
}

function writeMessage(message: MessageContent): void {
  if (message.config !== null) {
    const { priorityFee, computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = message.config
    const mark = writer.mark
    if (heapSize !== null) writer.numberAlways(4, heapSize)
    if (loadedAccountsDataSizeLimit !== null) writer.numberAlways(3, loadedAccountsDataSizeLimit)
    if (computeUnitLimit !== null) writer.numberAlways(2, computeUnitLimit)
    if (priorityFee !== null) writer.bigAlways(1, priorityFee)
    writer.wrap(7, mark)
  }
  writer.messages(6, message.addressTableLookups, (lookup) => {
    writer.bytes(3, lookup.readonlyIndexes)
    writer.bytes(2, lookup.writableIndexes)
    writer.bytes(1, lookup.accountKey)
  })
  writer.flag(5, message.versioned)
  writer.messages(4, message.instructions, writeInstruction)
  writer.bytes(3, message.recentBlockhash)
  writer.list(2, message.accountKeys)
  const mark = writer.mark
  writer.number(3, message.numReadonlyUnsignedAccounts)
  writer.number(2, message.numReadonlySignedAccounts)
  writer.number(1, message.numRequiredSignatures)
  writer.wrap(1, mark)
}

function writeMeta(meta: MetaContent): void {
  if (meta.costUnits !== null) writer.bigAlways(17, meta.costUnits)
  if (meta.computeUnitsConsumed !== null) writer.bigAlways(16, meta.computeUnitsConsumed)
  writer.flag(15, meta.returnData === null)
  if (meta.returnData !== null) {
    const mark = writer.mark
    writer.bytes(2, meta.returnData.data)
    writer.bytes(1, meta.returnData.programId)
    writer.wrap(14, mark)
  }
  writer.list(13, meta.loadedReadonlyAddresses)
  writer.list(12, meta.loadedWritableAddresses)
  writer.flag(11, meta.logMessages === null)
  writer.flag(10, meta.innerInstructions === null)
  writeRewards(writer, 9, meta.rewards)
  writeTokenBalances(8, meta.postTokenBalances)
  writeTokenBalances(7, meta.preTokenBalances)
  const logs = meta.logMessages ?? []
  for (let index = logs.length - 1; index >= 0; index--) writer.stringAlways(6, logs[index]!)
  writer.messages(5, meta.innerInstructions ?? [], (inner) => {
    writer.messages(2, inner.instructions, (instruction) => {
      if (instruction.stackHeight !== undefined) writer.numberAlways(4, instruction.stackHeight)
      writeInstruction(instruction)
    })
    writer.number(1, inner.index)
  })
  writer.packed(4, meta.postBalances)
  writer.packed(3, meta.preBalances)
  writer.big(2, meta.fee)
  writeError(1, meta.err)
}

function writeInstruction(instruction: InstructionContent): void {
  writer.bytes(3, instruction.data)
  writer.bytes(2, instruction.accounts)
  writer.number(1, instruction.programIdIndex)
}

function writeTokenBalances(field: number, balances: readonly TokenBalanceContent[]): void {
  writer.messages(field, balances, (balance) => {
    writer.string(5, balance.programId)
    writer.string(4, balance.owner)
    const amount = writer.mark
    const text = decimalText(balance.amount, balance.decimals)
    writer.string(4, text)
    writer.string(3, balance.amount)
    writer.number(2, balance.decimals)
    writer.double(1, Number(text))
    writer.wrap(3, amount)
    writer.string(2, balance.mint)
    writer.number(1, balance.accountIndex)
  })
}

function writeError(field: number, err: Uint8Array | null): void {
  if (err === null) return
  const mark = writer.mark
  writer.bytes(1, err)
  writer.wrap(field, mark)
}
