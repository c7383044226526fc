// Encodes a transaction with its outcome for geyser, once. Thread: any.
// Field numbers are those of proto/solana-storage.proto.
import { BackWriter } from '../base/back-writer.ts'
import type {
  InstructionContent,
  MessageContent,
  MetaContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-content.ts'
import { writeRewards } from './geyser-encode.ts'

const writer = new BackWriter()

/** SubscribeUpdateTransaction, and the SubscribeUpdateTransactionInfo inside it. */
export function encodeTransaction(
  slot: number,
  transaction: TransactionContent,
): { body: Buffer; info: Buffer } {
  writer.number(2, slot)
  const behind = writer.mark
  writer.number(5, transaction.index)
  let mark = writer.mark
  writeMeta(transaction.meta)
  writer.wrap(4, mark)
  mark = writer.mark
  writeMessage(transaction.message)
  writer.wrap(2, mark)
  writeEach(1, transaction.signatures)
  writer.wrap(3, mark)
  writer.flag(2, transaction.isVote)
  writer.bytes(1, transaction.signatures[0]!)
  const infoBytes = writer.mark - behind
  writer.wrap(1, behind)
  const body = writer.take()
  const end = body.length - behind
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
  const lookups = message.addressTableLookups
  for (let index = lookups.length - 1; index >= 0; index--) {
    const lookup = lookups[index]!
    const mark = writer.mark
    writer.bytes(3, lookup.readonlyIndexes)
    writer.bytes(2, lookup.writableIndexes)
    writer.bytes(1, lookup.accountKey)
    writer.wrap(6, mark)
  }
  writer.flag(5, message.versioned)
  for (let index = message.instructions.length - 1; index >= 0; index--) {
    const mark = writer.mark
    writeInstruction(message.instructions[index]!)
    writer.wrap(4, mark)
  }
  writer.bytes(3, message.recentBlockhash)
  writeEach(2, message.accountKeys)
  const mark = writer.mark
  writer.number(3, message.numReadonlyUnsignedAccounts)
  writer.number(2, message.numReadonlySignedAccounts)
  writer.number(1, message.numRequiredSignatures)
  writer.wrap(1, mark)
}

function writeMeta(meta: MetaContent): void {
  if (meta.computeUnitsConsumed !== null) writer.bigAlways(16, meta.computeUnitsConsumed)
  writer.flag(15, meta.returnData === null)
  if (meta.returnData !== null) {
    const mark = writer.mark
    writer.bytes(2, meta.returnData.data)
    writer.bytes(1, meta.returnData.programId)
    writer.wrap(14, mark)
  }
  writeEach(13, meta.loadedReadonlyAddresses)
  writeEach(12, meta.loadedWritableAddresses)
  writer.flag(11, meta.logMessages === null)
  writer.flag(10, meta.innerInstructions === null)
  writeRewards(writer, 9, meta.rewards)
  writeTokenBalances(8, meta.postTokenBalances)
  writeTokenBalances(7, meta.preTokenBalances)
  const logs = meta.logMessages ?? []
  for (let index = logs.length - 1; index >= 0; index--) writer.stringAlways(6, logs[index]!)
  writeInner(meta.innerInstructions ?? [])
  writer.packed(4, meta.postBalances)
  writer.packed(3, meta.preBalances)
  writer.big(2, meta.fee)
  writeError(1, meta.err)
}

function writeInner(inner: NonNullable<MetaContent['innerInstructions']>): void {
  for (let at = inner.length - 1; at >= 0; at--) {
    const group = inner[at]!
    const outer = writer.mark
    for (let index = group.instructions.length - 1; index >= 0; index--) {
      const instruction = group.instructions[index]!
      const mark = writer.mark
      if (instruction.stackHeight !== undefined) writer.numberAlways(4, instruction.stackHeight)
      writeInstruction(instruction)
      writer.wrap(2, mark)
    }
    writer.number(1, group.index)
    writer.wrap(5, outer)
  }
}

function writeInstruction(instruction: InstructionContent): void {
  writer.bytes(3, instruction.data)
  writer.bytes(2, instruction.accounts)
  writer.number(1, instruction.programIdIndex)
}

function writeTokenBalances(field: number, balances: readonly TokenBalanceContent[]): void {
  for (let index = balances.length - 1; index >= 0; index--) {
    const balance = balances[index]!
    const mark = writer.mark
    writer.string(5, balance.programId)
    writer.string(4, balance.owner)
    const amount = writer.mark
    const text = uiAmountText(balance.amount, balance.decimals)
    writer.string(4, text)
    writer.string(3, balance.amount)
    writer.number(2, balance.decimals)
    writer.double(1, Number(text))
    writer.wrap(3, amount)
    writer.string(2, balance.mint)
    writer.number(1, balance.accountIndex)
    writer.wrap(field, mark)
  }
}

/** The amount with its decimal point, trailing zeros cut: 1500000 of 6 decimals is 1.5. */
function uiAmountText(amount: string, decimals: number): string {
  if (decimals === 0) return amount
  const digits = amount.padStart(decimals + 1, '0')
  const fraction = digits.slice(-decimals).replace(/0+$/, '')
  const whole = digits.slice(0, -decimals)
  return fraction === '' ? whole : `${whole}.${fraction}`
}

function writeError(field: number, err: Uint8Array | null): void {
  if (err === null) return
  const mark = writer.mark
  writer.bytes(1, err)
  writer.wrap(field, mark)
}

function writeEach(field: number, values: readonly Uint8Array[]): void {
  for (let index = values.length - 1; index >= 0; index--) writer.bytesAlways(field, values[index]!)
}
