// Encodes the bodies of geyser updates, once each.
// Field numbers are those of proto/geyser.proto; fields are written last first, see protobuf.ts.
import { BackWriter } from '../../base/protobuf.ts'
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  RewardContent,
} from './geyser-decode.ts'
import { type RetractionReason, retractionReasons } from './updates.ts'

// Every function here is synchronous, so one writer serves all.
const writer = new BackWriter()

/** SubscribeUpdateAccountInfo; `data` replaces the account's own. */
export function encodeAccountInfo(account: AccountContent, data = account.data): Buffer {
  writeAccountInfo(account, data)
  return writer.take()
}

/** Returns the mark before the data. */
function writeAccountInfo(account: AccountContent, data: Uint8Array): number {
  if (account.txnSignature !== null) writer.bytesAlways(8, account.txnSignature)
  writer.big(7, account.writeVersion)
  const afterData = writer.mark
  writer.bytes(6, data)
  writer.big(5, account.rentEpoch)
  writer.flag(4, account.executable)
  writer.bytes(3, account.owner)
  writer.big(2, account.lamports)
  writer.bytes(1, account.pubkey)
  return afterData
}

/** SubscribeUpdateAccount of an account, with views of its info and of its data. */
export function encodeAccountUpdate(
  account: AccountContent,
  at: { slot: number; isStartup: boolean },
): { body: Buffer; info: Buffer; data: Buffer } {
  writer.flag(3, at.isStartup)
  writer.number(2, at.slot)
  const afterInfo = writer.mark
  const afterData = writeAccountInfo(account, account.data)
  const infoBytes = writer.mark - afterInfo
  writer.wrap(1, afterInfo)
  const body = writer.take()
  const [infoEnd, dataEnd] = [body.length - afterInfo, body.length - afterData]
  return {
    body,
    info: body.subarray(infoEnd - infoBytes, infoEnd),
    data: body.subarray(dataEnd - account.data.length, dataEnd),
  }
}

/** SubscribeUpdateAccount around an encoded SubscribeUpdateAccountInfo. */
export function encodeAccount(
  info: Uint8Array,
  at: { slot: number; isStartup: boolean },
): { body: Buffer; info: Buffer } {
  writer.flag(3, at.isStartup)
  writer.number(2, at.slot)
  const afterInfo = writer.mark
  writer.bytesAlways(1, info)
  const body = writer.take()
  const end = body.length - afterInfo
  return { body, info: body.subarray(end - info.length, end) }
}

/** SubscribeUpdateEntry. */
export function encodeEntry(slot: number, entry: EntryContent): Buffer {
  writer.number(6, entry.startingTransactionIndex)
  writer.number(5, entry.executedTransactionCount)
  writer.bytes(4, entry.hash)
  writer.number(3, entry.numHashes)
  writer.number(2, entry.index)
  writer.number(1, slot)
  return writer.take()
}

/** SubscribeUpdateSlot. */
export function encodeSlot(slot: {
  slot: number
  parent: number | null
  status: number
  deadError: string | null
}): Buffer {
  if (slot.deadError !== null) writer.stringAlways(4, slot.deadError)
  writer.number(3, slot.status)
  if (slot.parent !== null) writer.numberAlways(2, slot.parent)
  writer.number(1, slot.slot)
  return writer.take()
}

/** SubscribeUpdateRetraction. */
export function encodeRetraction(retracted: {
  slot: number
  bank: number
  reason: RetractionReason
}): Buffer {
  writer.number(3, retractionReasons.indexOf(retracted.reason) + 1)
  writer.number(2, retracted.bank)
  writer.number(1, retracted.slot)
  return writer.take()
}

/** solana.storage.ConfirmedBlock.Rewards. */
export function encodeRewards(rewards: readonly RewardContent[]): Buffer {
  writeRewards(writer, 1, rewards)
  return writer.take()
}

/** SubscribeUpdateBlockMeta; `rewards` are encoded Rewards. */
export function encodeBlockMeta(slot: number, meta: BlockMetaContent, rewards: Uint8Array): Buffer {
  writer.number(9, meta.entriesCount)
  writer.number(8, meta.executedTransactionCount)
  writer.string(7, meta.parentBlockhash)
  writer.number(6, meta.parentSlot)
  writeBlockHead(slot, meta, rewards)
  return writer.take()
}

/** SubscribeUpdateBlock, spliced from encoded messages. */
export function encodeBlock(block: {
  slot: number
  meta: Omit<BlockMetaContent, 'rewards'>
  rewards: Uint8Array
  updatedAccountCount: number
  transactions: readonly Uint8Array[]
  accounts: readonly Uint8Array[]
  entries: readonly Uint8Array[]
}): Buffer {
  writer.list(13, block.entries)
  writer.number(12, block.meta.entriesCount)
  writer.list(11, block.accounts)
  writer.number(10, block.updatedAccountCount)
  writer.number(9, block.meta.executedTransactionCount)
  writer.string(8, block.meta.parentBlockhash)
  writer.number(7, block.meta.parentSlot)
  writer.list(6, block.transactions)
  writeBlockHead(block.slot, block.meta, block.rewards)
  return writer.take()
}

export function writeRewards(
  out: BackWriter,
  field: number,
  rewards: readonly RewardContent[],
): void {
  out.messages(field, rewards, (reward) => {
    out.string(6, reward.commissionBps)
    out.string(5, reward.commission)
    out.number(4, reward.rewardType)
    out.big(3, reward.postBalance)
    out.big(2, reward.lamports)
    out.string(1, reward.pubkey)
  })
}

/** The fields whose numbers are the same in a block and its meta. */
function writeBlockHead(
  slot: number,
  meta: Omit<BlockMetaContent, 'rewards'>,
  rewards: Uint8Array,
): void {
  if (meta.blockHeight !== null) {
    const mark = writer.mark
    writer.number(1, meta.blockHeight)
    writer.wrap(5, mark)
  }
  if (meta.blockTime !== null) {
    const mark = writer.mark
    writer.big(1, BigInt(meta.blockTime))
    writer.wrap(4, mark)
  }
  writer.bytesAlways(3, rewards)
  writer.string(2, meta.blockhash)
  writer.number(1, slot)
}
