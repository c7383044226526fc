// Builds Solana updates: plain fields, and bytes that are encoded here, once.

import { decodeKey } from './base58.ts'
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TokenBalanceContent,
  TransactionContent,
} from './geyser-content.ts'
import {
  encodeAccountUpdate,
  encodeBlockMeta,
  encodeEntry,
  encodeRetraction,
  encodeRewards,
  encodeSlot,
} from './geyser-encode.ts'
import { encodeTransaction, encodeTransactionStatus } from './geyser-transaction.ts'
import type {
  AccountUpdate,
  BlockMetaUpdate,
  EntryUpdate,
  RetractionUpdate,
  SlotStatus,
  SlotUpdate,
  TransactionUpdate,
} from './updates.ts'

/** Where and when something happened. */
export interface Moment {
  readonly slot: number
  readonly createdAtMs: number
}

export function accountUpdate(
  moment: Moment,
  content: AccountContent,
  isStartup = false,
): AccountUpdate {
  // Its data is the body's: an update that is kept for a replay has it once.
  const encoded = encodeAccountUpdate(content, { slot: moment.slot, isStartup })
  return { kind: 'account', ...moment, ...content, isStartup, ...encoded }
}

export function transactionUpdate(moment: Moment, content: TransactionContent): TransactionUpdate {
  const { meta, message, isVote, index } = content
  const signature = content.signatures[0]!
  return {
    kind: 'transaction',
    ...moment,
    signature,
    isVote,
    err: meta.err,
    index,
    keys: [
      ...message.accountKeys,
      ...meta.loadedWritableAddresses,
      ...meta.loadedReadonlyAddresses,
    ],
    tokenOwners: tokenOwnersOf(meta.preTokenBalances, meta.postTokenBalances),
    changedTokenOwners: changedTokenOwnersOf(meta.preTokenBalances, meta.postTokenBalances),
    logs: meta.logMessages,
    ...encodeTransaction(moment.slot, content),
    statusBody: encodeTransactionStatus({
      slot: moment.slot,
      signature,
      isVote,
      index,
      err: meta.err,
    }),
  }
}

export function entryUpdate(moment: Moment, content: EntryContent): EntryUpdate {
  const body = encodeEntry(moment.slot, content)
  return { kind: 'entry', ...moment, index: content.index, body }
}

export function blockMetaUpdate(moment: Moment, content: BlockMetaContent): BlockMetaUpdate {
  const rewards = encodeRewards(content.rewards)
  const body = encodeBlockMeta(moment.slot, content, rewards)
  return { kind: 'blockMeta', ...moment, ...content, rewards, body }
}

export function slotUpdate(
  moment: Moment,
  slot: { parent: number | null; status: SlotStatus; deadError?: string },
): SlotUpdate {
  const { parent, status } = slot
  const deadError = slot.deadError ?? null
  const body = encodeSlot({ slot: moment.slot, parent, status, deadError })
  return { kind: 'slot', ...moment, parent, status, body }
}

export function retractionUpdate(
  moment: Moment,
  retracted: Pick<RetractionUpdate, 'bank' | 'reason' | 'restated'>,
): RetractionUpdate {
  const body = encodeRetraction({ slot: moment.slot, ...retracted })
  return { kind: 'retraction', ...moment, ...retracted, body }
}

/** Owners of the token balances before or after a transaction. */
export function tokenOwnersOf(
  before: readonly TokenBalanceContent[],
  after: readonly TokenBalanceContent[],
): Uint8Array[] {
  return ownersOf([...before, ...after])
}

/** Owners of those whose amount differs between before and after, or that exist on one side. */
export function changedTokenOwnersOf(
  before: readonly TokenBalanceContent[],
  after: readonly TokenBalanceContent[],
): Uint8Array[] {
  const differs = (from: readonly TokenBalanceContent[]) => {
    const amounts = new Map(from.map((balance) => [balance.accountIndex, balance.amount]))
    return (balance: TokenBalanceContent) => amounts.get(balance.accountIndex) !== balance.amount
  }
  return ownersOf([...before.filter(differs(after)), ...after.filter(differs(before))])
}

function ownersOf(balances: readonly TokenBalanceContent[]): Uint8Array[] {
  const owners = new Set(balances.map((balance) => balance.owner))
  return [...owners].map(decodeKey).filter((key) => key !== null)
}
